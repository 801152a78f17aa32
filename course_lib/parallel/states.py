"""Attention over some of the keys as a state (out, lse), and the merge of two states into that over all of them.

    lse = log(exp(lse_a) + exp(lse_b))        out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b

May import: parallel.merge_kernel inside a function, torch.
"""

import torch


def merge(out_a, lse_a, out_b, lse_b):
    """The state over the keys of both, as new tensors; a row without keys has out 0 and lse -inf.

    out_a, out_b : (..., seq_len, head_dim); lse_a, lse_b : (..., seq_len), natural log
    """
    lse = torch.logaddexp(lse_a, lse_b)
    finite = lse.masked_fill(lse.isneginf(), 0.0)  # never -inf minus -inf
    weight_a, weight_b = (torch.exp(x - finite)[..., None] for x in (lse_a, lse_b))
    return (weight_a * out_a + weight_b * out_b).to(out_a.dtype), lse


def merge_into(out, lse, part, part_lse):
    """Replace a state by its merge with a part: `merge` in place, on a GPU one fused launch.

    out : (batch_size, num_heads, seq_len, head_dim), rows contiguous; float32, or the dtype of `part`
    lse : (batch_size, num_heads, seq_len); both may be views of some of the rows
    """
    if out.is_cuda:
        from .merge_kernel import launch

        launch(out, lse, part, part_lse)
        return
    merged, merged_lse = merge(out, lse, part, part_lse)
    out.copy_(merged)
    lse.copy_(merged_lse)
