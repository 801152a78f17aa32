import torch
import torch.nn.functional as F


class AdamW:
    """AdamW with the rates 0.9 and 0.95 over a list of tensors. Given."""

    def __init__(self, parameters, learning_rate, weight_decay):
        self.parameters, self.steps = list(parameters), 0
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.means, self.squares = ([torch.zeros_like(x) for x in self.parameters] for _ in range(2))

    @torch.no_grad()
    def step(self):
        """Change each parameter by its gradient, and clear that."""
        self.steps += 1
        for x, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            if x.grad is None:
                continue
            mean.lerp_(x.grad, 0.1)
            square.lerp_(x.grad.square(), 0.05)
            root = (square / (1 - 0.95**self.steps)).sqrt() + 0.001
            x.mul_(1 - self.learning_rate * self.weight_decay)
            x.sub_(self.learning_rate * mean / (1 - 0.9**self.steps) / root)
            x.grad = None


def body(x, inner):
    """What lies between embedding and head: x (…, hidden_size), inner (hidden_size, hidden_size). Given."""
    return x + torch.tanh(x @ inner)


class TiedModel(torch.nn.Module):
    """Embedding, body and head; table (vocab_size, hidden_size) is the matrix of both ends."""

    def __init__(self, table, inner):
        super().__init__()
        ### BEGIN SOLUTION
        self.table = torch.nn.Parameter(table.clone())
        self.inner = torch.nn.Parameter(inner.clone())
        ### END SOLUTION

    def forward(self, ids):
        """Logits (batch_size, seq_len, vocab_size) of ids (batch_size, seq_len)."""
        ### BEGIN SOLUTION
        x = F.embedding(ids, self.table)
        return body(x, self.inner) @ self.table.T
        ### END SOLUTION


def optimiser(model, learning_rate, weight_decay):
    """The AdamW that trains the model."""
    ### BEGIN SOLUTION
    return AdamW(model.parameters(), learning_rate, weight_decay)
    ### END SOLUTION


def saved(model):
    """What a file of the model holds: name -> tensor."""
    ### BEGIN SOLUTION
    return {name: x.detach().clone() for name, x in model.named_parameters()}
    ### END SOLUTION


def loaded(tensors):
    """The TiedModel of a file, which may have a head of its own."""
    ### BEGIN SOLUTION
    table, head = tensors["table"], tensors.get("head")
    if head is not None and not torch.equal(head, table):
        raise ValueError("the head of this file is not its table: it is no tied model")
    return TiedModel(table, tensors["inner"])
    ### END SOLUTION


def train(model, own, ids, targets, num_steps):
    """The gradient of the table in the first of some steps. Given."""
    first = None
    for _ in range(num_steps):
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="sum")
        loss.backward()
        gradients = [x.grad for name, x in model.named_parameters() if name == "table" and x.grad is not None]
        first = first if first is not None else (gradients or [torch.zeros_like(model.table)])[0].clone()
        own.step()
    return first


def is_taken(file):
    """Whether `loaded` takes a file. Given."""
    try:
        loaded(file)
    except ValueError:
        return False
    return True


def count(tensors):
    """Numbers in some tensors. Given."""
    return sum(x.numel() for x in tensors)


def examine(table, inner, ids, targets, other, learning_rate, weight_decay, num_steps):
    """(logits, gradient, trained, resumed, lost, facts) of a model. Given: the judge reads it.

    logits, gradient : before the first step, the gradient of the table
    trained, resumed : logits after `num_steps` steps, and after as many more of the model that was loaded from the file
    lost             : what float32 would lose of the logits of the first place, times 2^24, and 1
    """
    model = TiedModel(table, inner)
    logits, own = model(ids).detach().clone(), optimiser(model, learning_rate, weight_decay)
    gradient = train(model, own, ids, targets, num_steps)
    trained, file = model(ids).detach().clone(), saved(model)
    facts = [count(model.parameters()), count(own.parameters), count(file.values())]
    kept = {name: file[name].clone() for name in ("table", "inner")}
    tied = kept | {"head": kept["table"].clone()}
    facts += [is_taken(tied), is_taken(kept | {"head": kept["table"] + other})]
    facts.append(all(torch.equal(kept[name], x) for name, x in model.named_parameters() if name in kept))
    train(model, own, ids, targets, 1)
    facts.append(all(torch.equal(kept[name], file[name]) for name in kept))
    file = {name: x.clone() for name, x in kept.items()}
    again = loaded(file)
    train(again, optimiser(again, learning_rate, weight_decay), ids, targets, num_steps)
    facts += [count(again.parameters()), all(torch.equal(kept[name], file[name]) for name in kept), "head" in tied]
    lost = 1.0 + (logits[0, 0] - logits[0, 0].float()) * 2.0**24
    numbers = (logits, gradient, trained, again(ids).detach(), lost)
    return *(x.float() for x in numbers), torch.tensor([int(fact) for fact in facts])
