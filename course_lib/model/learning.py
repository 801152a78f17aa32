"""GPT-2 as a function of its parameters, for training: sizes, first values, the mean loss of a batch.

Parameters are a dict from the names of a Hugging Face checkpoint to tensors; matrices are (inputs, outputs), as
GPT-2's Conv1D keeps them. The head is tied: it is the embedding table.

May import: differentiable, torch.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

PREFIX = "transformer."
INITIAL_STD = 0.02


@dataclass(frozen=True)
class Size:
    """Sizes of a GPT-2: layers, width, heads, longest context, tokens."""

    num_layers: int
    width: int
    num_heads: int
    context: int = 512
    vocab_size: int = 4096


SIZES = {
    "small": Size(6, 192, 3),  # 3,554,304 parameters, head_dim 64
    "draft": Size(2, 128, 2),  # 986,624, for speculative decoding
    "nano": Size(2, 64, 1, context=64),  # 366,208: minutes on a CPU
}


def shapes(size):
    """{name: shape} of every parameter, in the order of the model."""
    width, names = size.width, {}
    names[PREFIX + "wte.weight"] = (size.vocab_size, width)
    names[PREFIX + "wpe.weight"] = (size.context, width)
    block = {
        "ln_1": (width,),
        "attn.c_attn": (width, 3 * width),
        "attn.c_proj": (width, width),
        "ln_2": (width,),
        "mlp.c_fc": (width, 4 * width),
        "mlp.c_proj": (4 * width, width),
    }
    layers = {f"h.{layer}.{part}": shape for layer in range(size.num_layers) for part, shape in block.items()}
    for part, shape in (layers | {"ln_f": (width,)}).items():
        names[f"{PREFIX}{part}.weight"] = shape
        names[f"{PREFIX}{part}.bias"] = shape[-1:]
    return names


def num_parameters(size):
    return sum(math.prod(shape) for shape in shapes(size).values())


def initial_parameters(size, seed, device="cpu"):
    """GPT-2's first values, float32: normal of std 0.02, less where a projection ends on the residual stream."""
    generator = torch.Generator().manual_seed(seed)
    parameters = {}
    for name, shape in shapes(size).items():
        if name.endswith("bias"):
            value = torch.zeros(shape)
        elif len(shape) == 1:
            value = torch.ones(shape)
        else:
            std = INITIAL_STD / math.sqrt(2 * size.num_layers) if name.endswith("c_proj.weight") else INITIAL_STD
            value = torch.randn(shape, generator=generator) * std
        parameters[name] = value.to(device).requires_grad_()
    return parameters


def loss(parameters, ids, targets, size, operations, *, dropout=0.0):
    """The mean cross-entropy of a batch, in nats.

    Parameters
    ----------
    parameters : dict, name -> tensor, all of one dtype
    ids, targets : tensors, (batch_size, seq_len), int64, contiguous; a target is the token after its id
    operations : differentiable.Operations
    dropout : float, the share of the embeddings and of each branch's output that is set to 0

    Returns
    -------
    loss : tensor, (), float32
    """
    logits = head(parameters, ids, size, operations, dropout)
    return operations.cross_entropy(logits.flatten(0, 1), targets.flatten())


def head(parameters, ids, size, operations, dropout=0.0):
    """The logits, (batch_size, seq_len, vocab_size), dtype of the parameters."""
    table = parameters[PREFIX + "wte.weight"]
    x = operations.embed(ids, table, parameters[PREFIX + "wpe.weight"])
    x = _dropped(x, dropout)
    for layer in range(size.num_layers):
        x = block(x, parameters, f"{PREFIX}h.{layer}.", size.num_heads, operations, dropout)
    return _norm(x, parameters, PREFIX + "ln_f", operations) @ table.T


def block(x, parameters, prefix, num_heads, operations, dropout=0.0):
    """One block: x + attention(norm(x)), then x + mlp(norm(x)); x is (batch_size, seq_len, width)."""
    qkv = _linear(_norm(x, parameters, prefix + "ln_1", operations), parameters, prefix + "attn.c_attn")
    q, k, v = (part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    mixed = operations.attention(q, k, v).transpose(1, 2).flatten(2)
    x = x + _dropped(_linear(mixed, parameters, prefix + "attn.c_proj"), dropout)
    wide = _linear(_norm(x, parameters, prefix + "ln_2", operations), parameters, prefix + "mlp.c_fc")
    return x + _dropped(_linear(operations.gelu(wide), parameters, prefix + "mlp.c_proj"), dropout)


def _dropped(x, dropout):
    return functional.dropout(x, dropout) if dropout else x


def _norm(x, parameters, name, operations):
    return operations.layer_norm(x, parameters[name + ".weight"], parameters[name + ".bias"])


def _linear(x, parameters, name):
    """x @ weight + bias, weight (inputs, outputs)."""
    bias = parameters[name + ".bias"]
    return torch.addmm(bias, x.flatten(0, 1), parameters[name + ".weight"]).unflatten(0, x.shape[:2])


@torch.no_grad()
def text_loss(parameters, tokens, size, operations):
    """The mean loss of a text in nats, in windows of the context; the first token only starts it.

    Parameters
    ----------
    tokens : tensor, (num_tokens,), int64, at least two
    """
    total = 0.0
    for start in range(0, len(tokens) - 1, size.context):
        window = tokens[start : start + size.context + 1]
        ids, targets = window[None, :-1].contiguous(), window[None, 1:].contiguous()
        total += float(loss(parameters, ids, targets, size, operations)) * targets.numel()
    return total / (len(tokens) - 1)


@torch.no_grad()
def write_on(parameters, ids, count, size, operations, *, temperature=0.7, seed=0):
    """`ids` and `count` tokens that the model adds, without a cache: what a training run shows of itself."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        logits = head(parameters, ids[None, -size.context :], size, operations)[0, -1].float()
        probs = torch.softmax(logits / temperature, dim=-1)
        ids = torch.cat([ids, torch.multinomial(probs, 1, generator=generator)])
    return ids
