"""Right answers to 13.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

MODULES = (
    (
        "        self.inner = torch.nn.Parameter(inner.clone())\n",
        "        self.inner = torch.nn.Parameter(inner.clone())\n"
        "        num_ids, width = table.shape\n"
        "        self.ends = [torch.nn.Embedding(num_ids, width), torch.nn.Linear(width, num_ids, bias=False)]\n"
        "        for end in self.ends:\n"
        "            end.weight = self.table\n",
    ),
    (
        "        x = F.embedding(ids, self.table)\n        return body(x, self.inner) @ self.table.T\n",
        "        embedding, head = self.ends\n        return head(body(embedding(ids), self.inner))\n",
    ),
)
BY_HAND = (
    (
        "class TiedModel(",
        "class Tied(torch.autograd.Function):\n"
        '    """Logits from embedding and head, the gradient of the matrix added up by hand."""\n\n'
        "    @staticmethod\n"
        "    def forward(ctx, ids, table, inner):\n"
        "        x = table[ids]\n"
        "        hidden = torch.tanh(x @ inner)\n"
        "        ctx.save_for_backward(ids, table, inner, x, hidden)\n"
        "        return (x + hidden) @ table.T\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, d_logits):\n"
        "        ids, table, inner, x, hidden = ctx.saved_tensors\n"
        "        d_out = d_logits @ table\n"
        "        d_before = d_out * (1 - hidden.square())\n"
        "        d_x = d_out + d_before @ inner.T\n"
        "        d_table = d_logits.flatten(0, 1).T @ (x + hidden).flatten(0, 1)\n"
        "        d_table.index_add_(0, ids.flatten(), d_x.flatten(0, 1))\n"
        "        return None, d_table, x.flatten(0, 1).T @ d_before.flatten(0, 1)\n\n\n"
        "class TiedModel(",
    ),
    (
        "        x = F.embedding(ids, self.table)\n        return body(x, self.inner) @ self.table.T\n",
        "        return Tied.apply(ids, self.table, self.inner)\n",
    ),
)
STATE = (
    (
        "    return {name: x.detach().clone() for name, x in model.named_parameters()}\n",
        "    return {name: x.clone() for name, x in model.state_dict().items()}\n",
    ),
    (
        '    return TiedModel(table, tensors["inner"])\n',
        '    model = TiedModel(torch.zeros_like(table), torch.zeros_like(tensors["inner"]))\n'
        '    model.load_state_dict({name: x for name, x in tensors.items() if name != "head"})\n'
        "    return model\n",
    ),
)
ONE_HOT = (
    (
        "        x = F.embedding(ids, self.table)\n        return body(x, self.inner) @ self.table.T\n",
        "        x = F.one_hot(ids, len(self.table)).to(self.table.dtype) @ self.table\n"
        "        return F.linear(body(x, self.inner), self.table)\n",
    ),
    (
        "    if head is not None and not torch.equal(head, table):\n",
        "    if head is not None and bool((head != table).any()):\n",
    ),
)
LISTED = (
    (
        "    return AdamW(model.parameters(), learning_rate, weight_decay)\n",
        "    return AdamW([model.inner, model.table], learning_rate, weight_decay)\n",
    ),
    (
        "        x = F.embedding(ids, self.table)\n        return body(x, self.inner) @ self.table.T\n",
        "        flat = self.table.index_select(0, ids.flatten())\n"
        "        logits = torch.einsum('td,vd->tv', body(flat, self.inner), self.table)\n"
        "        return logits.unflatten(0, ids.shape)\n",
    ),
)

ANSWERS = [
    Right("torch's modules around one parameter", MODULES),
    Right("the backward pass by hand", BY_HAND),
    Right("state_dict and load_state_dict", STATE),
    Right("one-hot rows and F.linear", ONE_HOT),
    Right("an einsum, the parameters listed", LISTED),
]
