"""What a tied model and its usual mistakes give, in float64.

May import: torch.
"""

import torch
import torch.nn.functional as F

FACTS = (
    "model", "optimiser", "file", "equal head", "other head", "file exact", "file kept", "loaded",
    "file kept by the loaded", "dict kept",
)  # fmt: skip


def body(x, inner):
    """What lies between embedding and head."""
    return x + torch.tanh(x @ inner)


def tied(ids, table, inner, head):
    """Logits of the right model; `head` is the table, or what a mistake has in its place."""
    return body(F.embedding(ids, table), inner) @ head.T


class Steps:
    """AdamW over some tensors, each as often as it is listed."""

    def __init__(self, parameters, learning_rate, weight_decay):
        self.rate, self.decay, self.number = learning_rate, weight_decay, 0
        self.states = [(x, torch.zeros_like(x), torch.zeros_like(x)) for x in parameters]

    @torch.no_grad()
    def step(self):
        """Change each tensor by its gradient; the second turn of one that is listed twice finds no gradient."""
        self.number += 1
        for x, mean, square in self.states:
            if x.grad is None:
                continue
            mean.lerp_(x.grad, 0.1)
            square.lerp_(x.grad.square(), 0.05)
            root = (square / (1 - 0.95**self.number)).sqrt() + 0.001
            x.mul_(1 - self.rate * self.decay)
            x.sub_(self.rate * mean / (1 - 0.9**self.number) / root)
            x.grad = None


def _leaf(x):
    return x.detach().clone().requires_grad_()


def _train(tensors, t, numbers, forward, stepped, decay, scale):
    """(gradient of the table in the first step); the tensors of a model are changed."""
    table, inner, head = tensors
    rate, weight_decay, num_steps = (numbers[name] for name in ("learning_rate", "weight_decay", "num_steps"))
    listed = {"table": [table], "inner": [inner], "head": [head] if head.is_leaf and head is not table else []}
    own = Steps([x for name in stepped for x in listed[name] if x.requires_grad], rate, decay * weight_decay)
    first = None
    for _ in range(num_steps):
        for x in tensors:
            x.grad = None
        loss = F.cross_entropy(forward(t["ids"], *tensors).flatten(0, 1), t["targets"].flatten(), reduction="sum")
        loss.backward()
        if table.grad is not None:
            table.grad *= scale
        first = first if first is not None else (torch.zeros_like(table) if table.grad is None else table.grad.clone())
        own.step()
    return first


def outcome(t, numbers, forward=tied, *, kind="table", stepped=("table", "inner", "head"), decay=1.0, scale=1.0):
    """The outputs but the facts; each option is one mistake.

    kind : what the head is: the "table", a "copy", "alias" (another parameter on its memory) or "stale": no parameter
    stepped : what the optimiser has
    decay, scale : factors of the weight decay and of the table's gradient
    """

    def made(table, inner):
        table, inner = _leaf(table), _leaf(inner)
        heads = {"table": table, "copy": _leaf(table), "alias": table.detach().requires_grad_(),
                 "stale": table.detach().clone()}  # fmt: skip
        return table, inner, heads[kind]

    tensors = made(t["table"].double(), t["inner"].double())
    logits = forward(t["ids"], *tensors).detach().clone()
    gradient = _train(tensors, t, numbers, forward, stepped, decay, scale)
    trained = forward(t["ids"], *tensors).detach().clone()
    again = made(*tensors[:2])
    _train(again, t, numbers, forward, stepped, decay, scale)
    resumed = forward(t["ids"], *again).detach().clone()
    return {"logits": logits, "gradient": gradient, "trained": trained, "resumed": resumed}


def lost(logits):
    """What float32 would lose of the logits of the first place, times 2^24, and 1: never all 0."""
    first = logits[0, 0]
    return 1.0 + (first - first.float().double()) * 2.0**24


def right_facts(t):
    """The facts of a right answer, int64, in the order of FACTS."""
    numbers = t["table"].numel() + t["inner"].numel()
    return torch.tensor([numbers, numbers, numbers, 1, 0, 1, 1, numbers, 1, 1])
