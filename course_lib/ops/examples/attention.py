"""37 queries, 53 keys, grouped heads, causal: the unfused steps and FlashAttention-1 with its backward pass."""

from functools import partial

from .. import attention as unfused
from .. import flash_attention_1 as ops
from .. import flash_attention_1_backward as backward_ops
from . import Example, of_steps
from .inputs import heads, random


def examples(device):
    grouped, plain = (heads(device, head_dim=40, num_kv_heads=kv_heads) for kv_heads in (2, 4))
    for variant in unfused.VARIANTS:
        simple = variant == "03_row_in_block"  # no mask, no grouped heads
        inputs = plain if simple else grouped
        yield from of_steps("attention", (variant,), unfused.plan, inputs, causal=not simple)
    for case, head_dim in (("", 24), ("head_dim 64", 64)):
        tensors = heads(device, head_dim=head_dim)
        for variant in ops.VARIANTS:
            masked = variant != "07_flash_attention_1_rows"
            yield from of_steps("attention", (variant,), ops.plan, tensors, case=case, causal=masked)
        for language in ("cuda", "triton"):
            yield Example(backward_ops.STEM, language, partial(_backward, tensors, language), case)


def _backward(tensors, language):
    out, lse = ops.flash_attention_1(*tensors, causal=True)
    d_out = random(out.device, *out.shape, seed=3)
    return backward_ops.plan(*tensors, out, lse, d_out, causal=True, language=language)
