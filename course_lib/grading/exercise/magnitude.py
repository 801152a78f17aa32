"""The largest score that a case's oracle reads: what the tolerance of a softmax depends on.

Every function here looks only at values that the contract lets an answer use. Values past the end of a sequence, in an
unused page or in a split without keys are poison: they would make the tolerance as large as themselves.

May import: reference.attention, torch.
"""

import torch

from ...reference import attention


def largest(*tensors):
    """Largest finite magnitude in the tensors, a float; 0 when there is none."""
    finite = [tensor[torch.isfinite(tensor)].abs() for tensor in tensors]
    return max((part.max().item() for part in finite if part.numel()), default=0.0)


def of_inputs(*names):
    """(case, inputs) -> the largest score, for exercises whose inputs are scores, maxima or log-sum-exps."""
    return lambda _case, inputs: largest(*(inputs[name] for name in names))


def of_pairs(q, k, *, causal=False, softmax_scale=None):
    """Largest scaled score of the queries q (..., num_heads, seq_len_q, head_dim) with the keys k, in float64."""
    return largest(attention.rounded_scores(q.double(), k.double(), causal=causal, softmax_scale=softmax_scale))


def of_attention(*, causal=None):
    """(case, inputs) -> the largest score of all queries with the keys they see, by the case's options "scale" and,
    where `causal` is None, "causal".
    """

    def found(case, inputs):
        masked = case.options.get("causal", False) if causal is None else causal
        scale = case.options.get("scale")
        return of_pairs(inputs["q"], inputs["k"], causal=bool(masked), softmax_scale=scale)

    return found
