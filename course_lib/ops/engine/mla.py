"""Multi-head latent attention in absorbed form: the engine over pages that hold one latent and one rope key a token.

    q_mla = absorbed_query(q_nope, q_rope, w_uk)         # (total_q, num_heads, 576)
    engine = MlaEngine(num_heads)
    engine.plan(cu_seqlens_q, seq_lens, block_table)
    latents, lse = engine.run(q_mla, pages)              # (total_q, num_heads, 512)
    out = values_of_latents(latents, w_uv)               # (total_q, num_heads, 128)

May import: errors, ops._foundation, attention, buffers, torch.
"""

import torch

from ...errors import ShapeError, UnsupportedError
from .._foundation.checks import positive_scale, require_capability, require_rows
from .._foundation.launch import all_ran, cuda_launch
from .._foundation.sizes import ELEMENTS
from .._foundation.splits import slots
from .attention import PLANNED, SCRATCH, AttentionEngine
from .buffers import Buffers

MLA = "engine/03_mla"
LATENT_DIM, ROPE_DIM, NOPE_DIM = 512, 64, 128
ROW_DIM = LATENT_DIM + ROPE_DIM
BLOCK_ROWS, BLOCK_N, NUM_THREADS = 64, 32, 256  # of the kernel


def absorbed_query(q_nope, q_rope, w_uk):
    """The query that meets a latent and a rope key: W_UK^T q_nope, then q_rope.

    Parameters
    ----------
    q_nope : tensor, (total_q, num_heads, 128)
    q_rope : tensor, (total_q, num_heads, 64), rotated
    w_uk : tensor, (num_heads, 128, 512): a head's key without rope is ``w_uk[head] @ latent``

    Returns
    -------
    q : tensor, (total_q, num_heads, 576)
    """
    return torch.cat([torch.einsum("thd,hdc->thc", q_nope, w_uk), q_rope], -1)


def values_of_latents(latents, w_uv):
    """Each head's sum of values, (total_q, num_heads, 128), from its sum of latents; w_uv (num_heads, 128, 512)."""
    return torch.einsum("thc,hdc->thd", latents, w_uv)


class MlaEngine(AttentionEngine):
    """Multi-head latent attention of any mix of decode and append over pages of latents, in one launch.

    Parameters
    ----------
    num_heads : int, up to 64, or a multiple of 64
    dtype : torch.float16 or torch.bfloat16
    softmax_scale : float above 0, dimensionless; default 192**-0.5, a head's query having 128 + 64 numbers unabsorbed
    causal, deterministic, num_blocks, device : as in `AttentionEngine`; num_blocks is 1 an SM by default

    Attributes
    ----------
    schedule : Schedule of the last `plan`, or None; its KV heads are groups of up to 64 heads, which read the same rows

    Raises
    ------
    UnsupportedError  a number of heads or a dtype that the kernel does not take
    """

    _tiles = {"block_rows": BLOCK_ROWS, "narrow": False}
    window_left = score_mod = kv_dtype = None
    custom_mask = False

    def __init__(
        self, num_heads, *, dtype=torch.bfloat16, softmax_scale=None, causal=True, deterministic=False, num_blocks=None,
        device="cpu",
    ):  # fmt: skip
        if dtype not in ELEMENTS or not (0 < num_heads <= BLOCK_ROWS or num_heads % BLOCK_ROWS == 0):
            raise UnsupportedError(
                f"num_heads={num_heads}, {dtype}; expected up to 64 or a multiple of 64, float16 or bfloat16."
            )
        like = torch.empty(1, NOPE_DIM + ROPE_DIM, dtype=dtype, device=device)
        require_capability(like, "the engine needs")
        self.num_heads, self.group, self.head_dim, self.dtype = num_heads, min(num_heads, 64), LATENT_DIM, dtype
        self.num_kv_heads = num_heads // self.group
        self.causal, self.deterministic = causal, deterministic
        self.softmax_scale = positive_scale(like, softmax_scale)
        self.num_blocks = num_blocks or slots(like, 1)
        self.schedule, self._buffers = None, Buffers(like.device)

    def run(self, q, pages):
        """Attention of the planned batch.

        Parameters
        ----------
        q : tensor, (total_q, num_heads, 576), as `absorbed_query` gives it
        pages : tensor, (num_pages, page_size, 576): a token's latent, then its rotated rope key, of
            the new tokens too

        Returns
        -------
        latents : tensor, (total_q, num_heads, 512), dtype of `q`, contiguous; zero for a row that sees nothing
        lse : tensor, (total_q, num_heads), float32, natural log; -inf for a row that sees nothing

        Raises
        ------
        ShapeError  no plan yet, or tensors that do not fit it
        """
        return all_ran(self.launch(q, pages))

    def launch(self, q, pages):
        """The launch that `run` would make, with fresh outputs (latents, lse), not yet run."""
        self._require_tensors(q, pages)
        out = torch.empty(*q.shape[:2], LATENT_DIM, dtype=q.dtype, device=q.device)
        lse = q.new_empty(q.shape[:2], dtype=torch.float32)
        planned, scratch = (self._buffers.named(names) for names in (PLANNED, SCRATCH))
        arguments = (
            q, pages, *planned, out, lse, *scratch, self.num_heads, pages.shape[1], self._max_pages, *q.stride()[:2],
            *pages.stride()[:2], self.softmax_scale, int(self.causal),
        )  # fmt: skip
        return cuda_launch(
            MLA, (self.num_blocks,), NUM_THREADS, arguments, (out, lse),
            defines={"ELEMENT": ELEMENTS[self.dtype], "GROUP": self.group},
            shared_bytes=2 * (ROW_DIM * (BLOCK_ROWS + 2 * BLOCK_N) + BLOCK_ROWS * BLOCK_N),
        )  # fmt: skip

    def _require_tensors(self, q, pages):
        if self.schedule is None:
            raise ShapeError("the engine has no plan; call plan(cu_seqlens_q, seq_lens, block_table) first.")
        wanted = (self._num_tokens, self.num_heads, ROW_DIM)
        if q.shape != wanted or q.dtype != self.dtype:
            raise ShapeError(f"q is {q.dtype} {tuple(q.shape)}; the plan asks for {self.dtype} {wanted}.")
        if pages.ndim != 3 or pages.shape[-1] != ROW_DIM or pages.numel() == 0:
            raise ShapeError(f"pages are {tuple(pages.shape)}; expected (num_pages, page_size, {ROW_DIM}).")
        require_rows("pages", pages, q)
        require_rows("q", q, pages)
        self._require_room(pages.shape[1])
