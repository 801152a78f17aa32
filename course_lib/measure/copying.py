"""A model of two attention layers that learns to copy, to compare two implementations of attention in training.

May import: torch inside functions.
"""

SYMBOLS, PERIOD, WIDTH, HEADS, BATCH = 8, 6, 32, 2, 32


def copy_task_losses(attend, num_steps=160):
    """Train on sequences of which the second half repeats the first, always from the same seed.

    Parameters
    ----------
    attend : function of q, k, v (batch, heads, length, width of a head), contiguous, causal; returns the like of q
    num_steps : int

    Returns
    -------
    losses : list of float, nats per predicted symbol of the second half, one a step
    """
    import torch

    torch.manual_seed(0)
    embed, layers, head, position = _model(torch)
    parameters = [position, *(weight for part in (embed, *layers, head) for weight in part.parameters())]
    optimiser, losses = torch.optim.Adam(parameters, lr=5e-3), []
    for _ in range(num_steps):
        word = torch.randint(SYMBOLS, (BATCH, PERIOD))
        tokens = torch.cat([word, word], 1)
        x = embed(tokens[:, :-1]) + position
        for layer in layers:
            x = x + _mix(layer, x, attend)
        logits = head(x)[:, PERIOD - 1 :]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, PERIOD:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def _model(torch):
    """(embedding, layers of norm, q k v and output, head, position)."""
    linear, norm = torch.nn.Linear, torch.nn.LayerNorm
    embed = torch.nn.Embedding(SYMBOLS, WIDTH)
    layers = [
        torch.nn.ModuleDict({"norm": norm(WIDTH), "qkv": linear(WIDTH, 3 * WIDTH), "out": linear(WIDTH, WIDTH)})
        for _ in range(2)
    ]
    head = torch.nn.Sequential(norm(WIDTH), linear(WIDTH, SYMBOLS))
    return embed, layers, head, torch.nn.Parameter(0.1 * torch.randn(2 * PERIOD - 1, WIDTH))


def _mix(layer, x, attend):
    """One layer without its residual: q, k and v of each head, attention, output."""
    heads = layer["qkv"](layer["norm"](x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    mixed = attend(*(part.contiguous() for part in heads))
    return layer["out"](mixed.transpose(1, 2).flatten(2))
