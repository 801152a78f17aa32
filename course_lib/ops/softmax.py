"""Launchers of the softmax family: validate shapes, pick grid and block, call the CUDA kernel or its Triton twin.

May import: errors, cuda.steps, ops._foundation, torch. Grid and block are written here and nowhere else.
"""

import torch

from ..cuda.steps import names
from ..errors import ShapeError
from ._foundation.checks import require_step, require_tensor
from ._foundation.launch import all_ran, cuda_launch, triton_launch
from ._foundation.sizes import ceil_div, power_of_two
from ._foundation.typed import typed

BLOCK = 128  # threads that share one row in 01, 02 and 04
WARPS_PER_BLOCK = 4  # rows of one block in 03
BLOCK_N = 1024  # columns that a Triton program reads at once
VARIANTS = names("softmax")
ROW_VARIANTS = names("softmax", without=("log_sum_exp", "masked"))  # a softmax of every row


def softmax(x, *, variant="02_online", language="cuda"):
    """Softmax of every row, one launch.

    Parameters
    ----------
    x : tensor, (num_rows, num_cols), float32, contiguous; -inf marks a masked score
    variant : "01_three_pass" (reads x three times), "02_online" (twice, a block a row) or
        "03_online_warp" (twice, a warp a row)
    language : "cuda" or "triton"

    Returns
    -------
    out : tensor, shape and dtype of `x`; zero for a row of -inf, NaN for a row with a NaN or +inf, as torch gives it

    Raises
    ------
    ShapeError        `x` is not 2-D, contiguous float32 with at least one row and one column
    UnsupportedError  no such variant or language
    """
    launch = plan(x, variant=variant, language=language)
    launch.run()
    return launch.outputs[0]


def log_sum_exp(x, *, language="cuda"):
    """log(sum(exp(x))) of every row, natural log, one launch of 04_log_sum_exp.

    Parameters
    ----------
    x : tensor, (num_rows, num_cols), float16, contiguous; -inf marks a masked score

    Returns
    -------
    lse : tensor, (num_rows,), float32, natural log; -inf for a row of -inf, NaN for a row with a NaN

    Raises
    ------
    ShapeError  `x` is not 2-D, contiguous float16 with at least one row and one column
    """
    launch = plan(x, variant="04_log_sum_exp", language=language)
    launch.run()
    return launch.outputs[0]


def masked_softmax(scores, seq_lens_kv, *, language="cuda"):
    """Softmax and log-sum-exp under a length mask and a causal mask, one launch of 05_masked.

    Parameters
    ----------
    scores : tensor, (batch_size, seq_len_q, seq_len_kv), float32, contiguous
    seq_lens_kv : tensor, (batch_size,), int32: valid keys of each sequence, 0 to seq_len_kv
        causal is bottom-right aligned to the valid keys; seq_len_q=2, seq_lens_kv=3, seq_len_kv=5 keeps
            1 1 0 0 0
            1 1 1 0 0

    Returns
    -------
    out : tensor like `scores`; 0 where masked, 0 for a row without keys
    lse : tensor, (batch_size, seq_len_q), float32, natural log; -inf for a row without keys

    Raises
    ------
    ShapeError  wrong dimensions, dtype or layout; a length outside 0 .. seq_len_kv
    """
    return all_ran(plan(scores, seq_lens_kv, variant="05_masked", language=language))


@typed
def plan(x, seq_lens_kv=None, *, variant="02_online", language="cuda"):
    """The launch that `softmax`, `log_sum_exp` or `masked_softmax` would make, with fresh outputs, not yet run.

    Returns
    -------
    launch : Launch; ``launch.profile()`` counts its traffic, ``launch.run()`` executes it
    """
    require_step("softmax", variant, VARIANTS, language)
    if variant == "05_masked":
        return _plan_masked(x, seq_lens_kv, language)
    require_tensor(x, "x", 2, torch.float16 if variant == "04_log_sum_exp" else torch.float32)
    num_rows, num_cols = x.shape
    out = x.new_empty(num_rows, dtype=torch.float32) if variant == "04_log_sum_exp" else torch.empty_like(x)
    rows_per_block = WARPS_PER_BLOCK if variant == "03_online_warp" and language == "cuda" else 1
    grid = (ceil_div(num_rows, rows_per_block),)
    return _launch(variant, language, grid, BLOCK, (x, out, num_rows, num_cols), (out,), num_cols)


def _plan_masked(scores, seq_lens_kv, language):
    """05_masked: one warp a row, grid (seq_len_q, batch_size)."""
    require_tensor(scores, "scores", 3, torch.float32)
    batch_size, seq_len_q, seq_len_kv = scores.shape
    if seq_lens_kv is None or seq_lens_kv.shape != (batch_size,) or seq_lens_kv.dtype != torch.int32:
        got = "nothing" if seq_lens_kv is None else f"{tuple(seq_lens_kv.shape)}, {seq_lens_kv.dtype}"
        raise ShapeError(f"seq_lens_kv must be ({batch_size},), torch.int32: one length a batch entry; got {got}.")
    require_tensor(seq_lens_kv, "seq_lens_kv", 1, torch.int32)
    if ((seq_lens_kv < 0) | (seq_lens_kv > seq_len_kv)).any():
        raise ShapeError(f"seq_lens_kv holds {seq_lens_kv.tolist()}; lengths lie in 0 .. seq_len_kv={seq_len_kv}.")
    out, lse = torch.empty_like(scores), scores.new_empty(batch_size, seq_len_q)
    arguments = (scores, seq_lens_kv, out, lse, seq_len_q, seq_len_kv)
    return _launch("05_masked", language, (seq_len_q, batch_size), 32, arguments, (out, lse), seq_len_kv)


def _launch(variant, language, grid, block, arguments, outputs, num_cols):
    stem = f"softmax/{variant}"
    if language == "cuda":
        return cuda_launch(stem, grid, block, arguments, outputs, defines={"BLOCK": block})
    return triton_launch(stem, grid, arguments, {"BLOCK_N": min(BLOCK_N, power_of_two(num_cols))}, outputs)
