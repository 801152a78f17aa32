"""The operations of a model in plain torch: the yardstick, differentiable, on any machine.

Tensors are (num_tokens, …) unless an operation says otherwise; nothing is changed but the cache in `append`.

May import: reference, torch.
"""

import torch
import torch.nn.functional as F

from ..reference import sampling


def embedding(ids, table, positions=None, position_table=None):
    """table[ids], and position_table[positions] added: (num_tokens, hidden_size)."""
    x = F.embedding(ids, table)
    return x if positions is None else x + F.embedding(positions, position_table)


def layer_norm(x, weight, bias, eps):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension."""
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def rms_norm(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension."""
    return F.rms_norm(x, weight.shape, weight, eps)


def add_rms_norm(x, residual, weight, eps):
    """(rms_norm(residual + x), residual + x)."""
    total = residual + x
    return rms_norm(total, weight, eps), total


def linear(x, weight, bias=None):
    """x weight^T + bias; weight (out, in)."""
    return F.linear(x, weight, bias)


def packed_linear(x, weight, bias=None):
    """x weight^T + bias; weight a Packed, made dense first."""
    return F.linear(x, weight.dense(), bias)


def gelu(x):
    """GELU by tanh, as GPT-2 was trained with."""
    return F.gelu(x, approximate="tanh")


def swiglu(gate_up):
    """silu(gate) * up; the two are the halves of the last dimension."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def rope(q, k, positions, cos_sin):
    """q and k turned by their positions, pairs (i, i + head_dim / 2).

    q (num_tokens, num_heads, head_dim), k (num_tokens, num_kv_heads, head_dim); cos_sin (max_positions, head_dim)
    float32: cosines, then sines
    """
    cos, sin = cos_sin[positions][:, None].chunk(2, dim=-1)
    return _turned(q, cos, sin), _turned(k, cos, sin)


def _turned(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def append(k, v, k_cache, v_cache, slots):
    """Write k and v (num_tokens, num_kv_heads, head_dim) into their slots of a cache; a negative slot is left out.

    k_cache, v_cache : (num_slots, num_kv_heads, head_dim); the last slot is nobody's, and takes what is left out:
    a mask would make the host wait for the number of tokens
    """
    slots = torch.where(slots < 0, len(k_cache) - 1, slots)
    k_cache[slots], v_cache[slots] = k, v


def attention(q, k, v):
    """Causal attention: q (batch_size, num_heads, seq_len, head_dim), k and v with num_kv_heads; out like q."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def naive_attention(q, k, v):
    """`attention` with all scores in memory: what a first program does."""
    group, seq_len = q.shape[1] // k.shape[1], q.shape[2]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    later = torch.ones(seq_len, seq_len, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1, dtype=torch.float32).to(v.dtype) @ v


def decode(q, k, v, seq_lens, longest):
    """Attention of one query a sequence over its first seq_lens keys.

    q (batch_size, num_heads, head_dim), k and v (batch_size, capacity, num_kv_heads, head_dim); longest: int, not below
    any of seq_lens; out like q
    """
    k, v = (x[:, :longest].transpose(1, 2) for x in (k, v))
    visible = torch.arange(longest, device=q.device) < seq_lens[:, None]
    mask = visible[:, None, None]
    gqa = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q[:, :, None], k, v, attn_mask=mask, enable_gqa=gqa)[:, :, 0]


def sample(logits, temperature, noise, top_k=None, top_p=None, min_p=None, out=None):
    """A token of every row from given noise, by its definition in float64; arguments as `ops.sampling.sample`."""
    kept = sampling.kept_probabilities(logits, temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    tokens = sampling.sample(kept, noise)
    return tokens if out is None else out.copy_(tokens)


def greedy(logits, out=None):
    """The first of the largest logits of every row, int64."""
    return torch.argmax(logits, -1, out=out)


def cross_entropy(logits, targets):
    """Mean loss over the rows, float32."""
    return F.cross_entropy(logits.float(), targets)
