"""The course's attention under the interface of the transformers library: ``attn_implementation="course_attention"``.

    register_with_transformers()
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="course_attention")

The name may not contain "flash": transformers 5 then looks for the package flash-attn. transformers is imported by
`register_with_transformers` alone; `attend` needs torch only.

May import: errors, operators.attention, torch.
"""

import torch

from ..errors import UnsupportedError
from .attention import flash_attention

NAME = "course_attention"


def register_with_transformers(name=NAME):
    """Make the course's attention known to transformers under `name`, with the masks that it takes.

    Raises
    ------
    ImportError  transformers is not installed: pip install transformers
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, padding_mask)


def attend(
    module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, position_bias=None,
    sliding_window=None, softcap=None, s_aux=None, **_,
):  # fmt: skip
    """Attention as transformers calls it.

    Parameters
    ----------
    module : torch.nn.Module, whose `is_causal` counts where the argument is None
    query : tensor, (batch_size, num_heads, seq_len_q, head_dim)
    key, value : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim)
    attention_mask : tensor, (batch_size, seq_len_kv), nonzero where a token is real, or None: all are
    scaling : float or None, dimensionless; None: ``head_dim**-0.5``

    Returns
    -------
    out : tensor, (batch_size, seq_len_q, num_heads, head_dim); zero where the query is padding
    weights : None; this attention never stores them

    Raises
    ------
    UnsupportedError  dropout, a bias, a window, a soft cap or sinks
    """
    asked = {"position_bias": position_bias, "sliding_window": sliding_window, "softcap": softcap, "s_aux": s_aux}
    unknown = [name for name, value in asked.items() if value is not None] + ["dropout"] * (dropout > 0)
    if unknown:
        raise UnsupportedError(
            f'course_attention has no {", ".join(unknown)}; load the model with attn_implementation="sdpa".'
        )
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if attention_mask is None:
        out = flash_attention(query, key, value, causal, scaling)[0]
    else:
        out = _padded(query, key, value, attention_mask.bool(), causal, scaling)
    return out.transpose(1, 2).contiguous(), None


def _padded(q, k, v, is_real, causal, scale):
    """Row by row over its real tokens; the queries are the last of the keys' positions."""
    if is_real.ndim != 2:
        raise UnsupportedError(
            f"course_attention takes a mask of (batch_size, seq_len_kv); it got {tuple(is_real.shape)}. "
            "register_with_transformers() asks transformers for that form."
        )
    out = torch.zeros_like(q)
    for row, keys in enumerate(is_real):
        queries = keys[-q.shape[2] :]
        tensors = (q[row : row + 1, :, queries], k[row : row + 1, :, keys], v[row : row + 1, :, keys])
        out[row, :, queries] = flash_attention(*tensors, causal, scale)[0][0]
    return out


def padding_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, attention_mask=None, **_):
    """The mask that `attend` takes: (batch_size, kv_length), or None where no token is padding.

    Raises
    ------
    UnsupportedError  a cache with more places than tokens
    """
    if kv_length > q_offset + q_length - kv_offset:
        raise UnsupportedError(
            f"the cache has {kv_length} places and {q_offset + q_length - kv_offset} tokens; "
            "course_attention reads all of a cache: use a dynamic one."
        )
    if attention_mask is None:
        return None
    is_real = attention_mask[:, kv_offset : kv_offset + kv_length].bool()
    return None if bool(is_real.all()) else is_real
