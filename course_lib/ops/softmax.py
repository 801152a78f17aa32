"""Launchers of the softmax family: validate shapes, pick grid and block, call the CUDA kernel or its Triton twin.

May import: errors, cuda, triton, triton_kernels, torch. Grid and block are written here and nowhere else.
"""

from dataclasses import dataclass
from typing import Any

import torch

from ..errors import ShapeError, UnsupportedError

BLOCK = 128  # threads that share one row in 01, 02 and 04
WARPS_PER_BLOCK = 4  # rows of one block in 03
BLOCK_N = 1024  # columns that a Triton program reads at once
VARIANTS = ("01_three_pass", "02_online", "03_online_warp", "04_log_sum_exp", "05_masked")
_ENTRIES = {
    "01_three_pass": "three_pass_softmax_kernel",
    "02_online": "online_softmax_kernel",
    "03_online_warp": "online_softmax_warp_kernel",
    "04_log_sum_exp": "log_sum_exp_kernel",
    "05_masked": "masked_softmax_kernel",
}


@dataclass(frozen=True)
class Launch:
    """Everything that one launch needs, for either twin.

    ``run()`` launches where the course runs (GPU or CPU); ``profile()`` and ``traffic()`` count on the CPU.
    """

    language: str  # "cuda" | "triton"
    function: Any  # course_lib.cuda.Kernel or a Triton function
    grid: tuple[int, ...]
    block: int  # threads of a block; 0 for Triton
    arguments: tuple[Any, ...]
    constants: dict[str, Any]  # compile-time constants of the Triton twin
    outputs: tuple[torch.Tensor, ...]
    shared_bytes: int = 0  # dynamic shared memory of a block

    def run(self):
        if self.language == "cuda":
            self.function(self.grid, self.block, *self.arguments, shared_bytes=self.shared_bytes)
        else:
            self.function[self.grid](*self.arguments, **self.constants)

    def profile(self, schedule="forward"):
        if self.language == "cuda":
            return self.function.profile(
                self.grid,
                self.block,
                *self.arguments,
                shared_bytes=self.shared_bytes,
                schedule=schedule,
                outputs=self.outputs,
            )
        from ..triton import profile_triton

        return profile_triton(self.function, self.grid, *self.arguments, schedule=schedule, **self.constants)

    def traffic(self):
        """(bytes read, bytes written) in global memory, as counted on the CPU."""
        report = self.profile()
        if self.language == "cuda":
            return report.global_load.bytes, report.global_store.bytes
        return report.load.bytes, report.store.bytes


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
    out : tensor, shape and dtype of `x`; zero for a row of -inf

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
    lse : tensor, (num_rows,), float32, natural log; -inf for a row of -inf

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
    launch = plan(scores, seq_lens_kv, variant="05_masked", language=language)
    launch.run()
    return launch.outputs


def plan(x, seq_lens_kv=None, *, variant="02_online", language="cuda"):
    """The launch that `softmax`, `log_sum_exp` or `masked_softmax` would make, with fresh outputs, not yet run.

    Returns
    -------
    launch : Launch; ``launch.profile()`` counts its traffic, ``launch.run()`` executes it
    """
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    if language not in ("cuda", "triton"):
        raise UnsupportedError(f'language={language!r} is unknown; choose "cuda" or "triton".')
    if variant == "05_masked":
        return _plan_masked(x, seq_lens_kv, language)
    _require(x, "x", 2, torch.float16 if variant == "04_log_sum_exp" else torch.float32)
    num_rows, num_cols = x.shape
    out = x.new_empty(num_rows, dtype=torch.float32) if variant == "04_log_sum_exp" else torch.empty_like(x)
    rows_per_block = WARPS_PER_BLOCK if variant == "03_online_warp" and language == "cuda" else 1
    grid = (-(-num_rows // rows_per_block),)
    return _launch(variant, language, grid, BLOCK, (x, out, num_rows, num_cols), (out,), num_cols)


def _plan_masked(scores, seq_lens_kv, language):
    """05_masked: one warp a row, grid (seq_len_q, batch_size)."""
    _require(scores, "scores", 3, torch.float32)
    batch_size, seq_len_q, seq_len_kv = scores.shape
    if seq_lens_kv is None or seq_lens_kv.shape != (batch_size,) or seq_lens_kv.dtype != torch.int32:
        got = "nothing" if seq_lens_kv is None else f"{tuple(seq_lens_kv.shape)}, {seq_lens_kv.dtype}"
        raise ShapeError(f"seq_lens_kv must be ({batch_size},), torch.int32: one length a batch entry; got {got}.")
    if ((seq_lens_kv < 0) | (seq_lens_kv > seq_len_kv)).any():
        raise ShapeError(f"seq_lens_kv holds {seq_lens_kv.tolist()}; lengths lie in 0 .. seq_len_kv={seq_len_kv}.")
    out, lse = torch.empty_like(scores), scores.new_empty(batch_size, seq_len_q)
    arguments = (scores, seq_lens_kv, out, lse, seq_len_q, seq_len_kv)
    return _launch("05_masked", language, (seq_len_q, batch_size), 32, arguments, (out, lse), seq_len_kv)


def _launch(variant, language, grid, block, arguments, outputs, num_cols):
    if language == "cuda":
        from .. import cuda

        fixed = variant in ("03_online_warp", "05_masked")  # no BLOCK in these files
        kernel = cuda.load(f"softmax/{variant}.cu", _ENTRIES[variant], defines={} if fixed else {"BLOCK": block})
        return Launch("cuda", kernel, grid, block, arguments, {}, outputs)
    from ..triton_kernels import load

    constants = {"BLOCK_N": min(BLOCK_N, 1 << max(num_cols - 1, 15).bit_length())}
    return Launch("triton", load(f"softmax/{variant}"), grid, 0, arguments, constants, outputs)


def row_bytes(num_floats):
    """Dynamic shared memory for a row of float32: whole 16-byte words, since ptxas reads the end of a row in such."""
    return 16 * -(-num_floats // 4)


def _require(tensor, name, ndim, dtype):
    """The common contract of the family, as sentences."""
    if tensor.ndim != ndim:
        raise ShapeError(f"{name} has {tensor.ndim} dimensions {tuple(tensor.shape)}; this kernel takes {ndim}.")
    if tensor.numel() == 0:
        raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; every dimension must be at least 1.")
    if tensor.dtype != dtype:
        raise ShapeError(f"{name} is {tensor.dtype}; this kernel takes {dtype}. Convert it with {name}.to({dtype}).")
    if not tensor.is_contiguous():
        raise ShapeError(f"{name} is not contiguous (strides {tensor.stride()}); pass {name}.contiguous().")
