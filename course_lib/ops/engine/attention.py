"""The engine: buffers that outlive a step, the plan that fills them, the launch that reads them.

May import: errors, ops._foundation, ops._paged_checks, buffers, schedule, torch.
"""

import torch

from ...errors import ShapeError, UnsupportedError
from .._foundation.checks import positive_scale, require_capability, require_hopper, require_rows
from .._foundation.launch import all_ran, cuda_launch
from .._foundation.sizes import ELEMENTS, HEAD_DIMS
from .._foundation.splits import slots
from .._paged_checks import BYTES, pool, quantised_pool
from .buffers import Buffers, packed_masks
from .schedule import make_schedule
from .twins import plan_twins, require_twin

STEM, QUANTISED, WGMMA = "engine/01_work_list", "engine/02_quantised_kv", "engine/04_wgmma_rows"
PRODUCTS = {"mma": STEM, "wgmma": WGMMA}
BLOCKS_PER_SM = 2
MAX_GROUP = 64
NUM_WARPS, NUM_STAGES, BLOCK_ROWS = 4, 3, 128  # of the kernels
BLOCK_N = {64: 64, 128: 32}  # head_dim -> keys of a tile with many rows
PLANNED, SCRATCH = ("block_table", "items", "first_items", "token_parts"), ("part_out", "part_lse", "counters")


class AttentionEngine:
    """Attention of any mix of prefill, append and decode over pages, in one launch.

    Parameters
    ----------
    num_heads, num_kv_heads, head_dim : int; head_dim 64 or 128, num_heads a multiple of num_kv_heads, at most 64 times
    dtype : torch.float16 or torch.bfloat16, of q and out
    kv_dtype : None: the pools have `dtype`; torch.int8 or torch.float8_e4m3fn: `run` is given their scales
    layout : "NHD", pools (num_pages, page_size, num_kv_heads, head_dim), or "HND"
    causal : bool; token t of the n new ones of a request with N keys sees the keys up to t + N - n
    window_left : int or None; of these it sees its own and the last `window_left` before it
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``
    score_mod : str or None, an expression in CUDA C++ of float `score` (times softmax_scale), int `head`, `query` and
        `key` (positions in the request) and `parameters`: what the softmax takes in its place. It may call
        ``soft_cap(score, cap)``: cap tanh(score / cap)
    parameters : tensor or None, float32, contiguous: what `score_mod` reads
    sinks : tensor or None, (num_heads,), float32: a score without a value that takes part in each row's softmax
    custom_mask : bool; `plan` is given masks
    deterministic : bool; a request's bits do not depend on its batch. Without it, its keys are cut as balance asks
    products : "mma", or "wgmma" for items with many rows: compute capability 9.0, and no `kv_dtype`
    language : "cuda", or "triton": a program an item and a launch that merges, whose grids follow the plan; without
        score_mod, custom_mask, kv_dtype
    num_blocks : int or None, blocks of the launch; default 2 an SM
    device : torch.device

    Attributes
    ----------
    schedule : Schedule of the last `plan`, or None

    Raises
    ------
    UnsupportedError  sizes, dtypes or a layout that the kernel does not take
    """

    _tiles = {}  # of make_schedule: other tiles than this kernel's

    def __init__(
        self, num_heads, num_kv_heads, head_dim, *, dtype=torch.bfloat16, kv_dtype=None, layout="NHD", causal=True,
        window_left=None, softmax_scale=None, score_mod=None, parameters=None, sinks=None, custom_mask=False,
        deterministic=False, products="mma", language="cuda", num_blocks=None, device="cpu",
    ):  # fmt: skip
        _require_sizes(num_heads, num_kv_heads, head_dim, dtype, kv_dtype, window_left)
        like = torch.empty(1, head_dim, dtype=dtype, device=device)
        require_capability(like, "the engine needs")
        self._stem, self.language = _stem(products, kv_dtype, like), language
        require_twin(
            language, kv_dtype=kv_dtype, score_mod=score_mod, custom_mask=custom_mask, wgmma=products == "wgmma"
        )
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, head_dim
        self.dtype, self.kv_dtype, self.layout, self.group = dtype, kv_dtype, layout, num_heads // num_kv_heads
        self.causal, self.window_left, self.deterministic = causal, window_left, deterministic
        self.score_mod, self.parameters, self.sinks, self.custom_mask = score_mod, parameters, sinks, custom_mask
        self.softmax_scale = positive_scale(like, softmax_scale)
        self.num_blocks = num_blocks or slots(like, BLOCKS_PER_SM)
        self.schedule, self._buffers = None, Buffers(like.device)

    def plan(self, cu_seqlens_q, seq_lens, block_table, *, shared=(), masks=None):
        """Plan a batch; every `run` until the next plan uses it, and so do launches that a graph has captured.

        Parameters
        ----------
        cu_seqlens_q : tensor or list, (batch_size + 1,): where the new tokens of each request begin
        seq_lens : tensor or list, (batch_size,): keys of each request, its new tokens included
        block_table : tensor, (batch_size, max_pages), int32: physical page of each ``page_size`` keys
        shared : sequence of (first request, end request, num_keys): neighbours whose first keys are the same pages;
            these are then read once for all of them
        masks : list of bool tensors, (new tokens, keys) of each request, or None; True: the key is visible

        Returns
        -------
        schedule : Schedule

        Raises
        ------
        ShapeError        lengths, pages or masks that do not belong together
        UnsupportedError  shared keys beside a window, a score_mod or masks; a captured buffer that would have to grow
        """
        cu_seqlens_q, seq_lens = _on_host(cu_seqlens_q), _on_host(seq_lens)
        self._require_plan(seq_lens, block_table, shared, masks)
        self.schedule = schedule = make_schedule(
            cu_seqlens_q, seq_lens, num_kv_heads=self.num_kv_heads, group=self.group, num_blocks=self.num_blocks,
            causal=self.causal, window_left=self.window_left, shared=shared, deterministic=self.deterministic,
            **self._tiles,
        )  # fmt: skip
        self._num_tokens, self._longest = int(cu_seqlens_q[-1]), max(seq_lens, default=0)
        self._max_pages = block_table.shape[1]
        for name in ("items", "first_items", "token_parts"):
            self._buffers.fill(name, torch.from_numpy(getattr(schedule, name)).reshape(-1))
        self._buffers.fill("block_table", block_table.reshape(-1))
        if masks is not None:
            self._buffers.fill("mask_bits", packed_masks(masks, cu_seqlens_q, seq_lens))
        rows = schedule.num_parts * self.num_heads
        self._buffers.grow("part_out", rows * self.head_dim, torch.float32)
        self._buffers.grow("part_lse", rows, torch.float32)
        self._buffers.grow("counters", self._num_tokens * self.num_kv_heads, torch.int32)
        return schedule

    @property
    def addresses(self):
        """Where the buffers lie that plans fill and launches use: one that a graph has captured needs them there."""
        return tuple(None if x is None else x.data_ptr() for x in self._buffers.named((*PLANNED, *SCRATCH)))

    def run(self, q, k_pages, v_pages, k_scales=None, v_scales=None):
        """Attention of the planned batch.

        Parameters
        ----------
        q : tensor, (total_q, num_heads, head_dim): the new tokens of all requests, one request after the other
        k_pages, v_pages : tensors, pools of the engine's layout, which hold the new tokens already
        k_scales, v_scales : tensors, (num_pages, page_size, num_kv_heads) in either layout, float32, the same strides,
            or None without a `kv_dtype`; a number of a pool denotes itself times its scale (strides of 0 are welcome)

        Returns
        -------
        out : tensor, shape and dtype of `q`, contiguous; zero for a row that sees nothing
        lse : tensor, (total_q, num_heads), float32, natural log, sinks included; -inf for a row that sees nothing

        Raises
        ------
        ShapeError  no plan yet, or tensors that do not fit it
        """
        return all_ran(self.launch(q, k_pages, v_pages, k_scales, v_scales))

    def launch(self, q, k_pages, v_pages, k_scales=None, v_scales=None):
        """The launch that `run` would make, with fresh outputs (out, lse), not yet run."""
        pools = (k_pages, v_pages) if self.kv_dtype is None else (k_pages, v_pages, k_scales, v_scales)
        strides, page_size = self._require_run(q, pools)
        out, lse = torch.empty(q.shape, dtype=q.dtype, device=q.device), q.new_empty(q.shape[:2], dtype=torch.float32)
        window = -1 if self.window_left is None else self.window_left
        if self.language == "triton":
            return self._twins(
                q, pools, (out, lse), page_size, (*strides, self.softmax_scale, int(self.causal), window)
            )
        planned, scratch, bits = (self._buffers.named(names) for names in (PLANNED, SCRATCH, ("mask_bits",)))
        arguments = (
            q, *pools, *planned, out, lse, *scratch, self.parameters, *bits, self.sinks, self.num_heads, page_size,
            self._max_pages, *q.stride()[:2], *strides, self.softmax_scale, int(self.causal), window,
        )  # fmt: skip
        return cuda_launch(
            self._stem, (self.num_blocks,), 32 * NUM_WARPS, arguments, (out, lse),
            defines=self._defines(), shared_bytes=self._shared_bytes(),
        )  # fmt: skip

    def _twins(self, q, pools, outputs, page_size, scalars):
        table, items, parts = self._buffers.named(("block_table", "items", "token_parts"))
        return plan_twins(
            (q, *pools, table, items, parts), outputs, self._buffers.named(SCRATCH[:2]), self.sinks,
            len(self.schedule.items), (self.num_heads, page_size, self._max_pages), (*q.stride()[:2], *scalars),
            self.group,
        )  # fmt: skip

    def _defines(self):
        defines = {"HEAD_DIM": self.head_dim, "ELEMENT": ELEMENTS[self.dtype], "GROUP": self.group}
        defines |= {"CUSTOM_MASK": 1} if self.custom_mask else {}
        defines |= {"KV": BYTES[self.kv_dtype]} if self.kv_dtype else {}
        return defines | ({"SCORE_MOD": f"({self.score_mod})"} if self.score_mod else {})

    def _shared_bytes(self):
        """Of a block: Q and two stages of K and V, or the rings of its warps; a key of one byte has two scales."""
        key_bytes = 4 * self.head_dim if self.kv_dtype is None else 2 * self.head_dim + 8
        tile_keys = 16 if self.kv_dtype is None else 32
        rows = 2 * BLOCK_ROWS * self.head_dim + 2 * BLOCK_N[self.head_dim] * key_bytes
        return max(rows, NUM_WARPS * NUM_STAGES * tile_keys * key_bytes)

    def _require_plan(self, seq_lens, block_table, shared, masks):
        if shared and (self.window_left is not None or self.score_mod or self.custom_mask):
            raise UnsupportedError(
                "shared keys are seen by every token as they are: no window, score_mod or custom_mask with them."
            )
        if block_table.ndim != 2 or block_table.shape[0] != len(seq_lens) or block_table.dtype != torch.int32:
            raise ShapeError(
                f"block_table is {block_table.dtype} {tuple(block_table.shape)}; "
                f"expected int32 ({len(seq_lens)}, max_pages)."
            )
        if (masks is None) == self.custom_mask:
            came = "missing" if masks is None else "given"
            raise ShapeError(f"masks are {came}; the engine has custom_mask={self.custom_mask}.")

    def _require_run(self, q, pools):
        """(strides of the pools, page_size) after every check."""
        if self.schedule is None:
            raise ShapeError("the engine has no plan; call plan(cu_seqlens_q, seq_lens, block_table) first.")
        strides, page_size, num_kv_heads = self._require_pools(pools)
        k_pages = pools[0]
        wanted = (self._num_tokens, self.num_heads, self.head_dim)
        if q.shape != wanted or q.dtype != self.dtype:
            raise ShapeError(f"q is {q.dtype} {tuple(q.shape)}; the plan asks for {self.dtype} {wanted}.")
        if (num_kv_heads, k_pages.shape[-1]) != (self.num_kv_heads, self.head_dim):
            raise ShapeError(
                f"the pools have {num_kv_heads} heads of {k_pages.shape[-1]}; "
                f"the engine has {self.num_kv_heads} of {self.head_dim}."
            )
        require_rows("q", q, k_pages if self.kv_dtype is None else q)
        self._require_room(page_size)
        return strides, page_size

    def _require_room(self, page_size):
        room = self._max_pages * page_size
        if self._longest > room:
            raise ShapeError(
                f"a request has {self._longest} keys, and {self._max_pages} pages of {page_size} hold {room}."
            )

    def _require_pools(self, pools):
        """(strides of the pools and of their scales, page_size, num_kv_heads) after every check."""
        if self.kv_dtype is None:
            return pool(*pools, self.layout)
        missing = [name for name, x in zip(("k_scales", "v_scales"), pools[2:], strict=True) if x is None]
        if missing or pools[0].dtype != self.kv_dtype:
            came = f"{' and '.join(missing)} missing" if missing else f"pools of {pools[0].dtype}"
            raise ShapeError(
                f"the engine has kv_dtype={self.kv_dtype}: expected such pools and their scales, not {came}."
            )
        strides, page_size, num_kv_heads = quantised_pool(*pools, self.layout)
        return (*strides, *pools[2].stride()), page_size, num_kv_heads


def _require_sizes(num_heads, num_kv_heads, head_dim, dtype, kv_dtype, window_left):
    if kv_dtype is not None and kv_dtype not in BYTES:
        raise UnsupportedError(f"kv_dtype={kv_dtype}; expected None (as dtype), torch.int8 or torch.float8_e4m3fn.")
    if head_dim not in HEAD_DIMS or dtype not in ELEMENTS:
        raise UnsupportedError(f"head_dim={head_dim}, {dtype}; the engine takes 64 or 128, float16 or bfloat16.")
    if num_heads % num_kv_heads or num_heads // num_kv_heads > MAX_GROUP:
        raise UnsupportedError(
            f"num_heads={num_heads}, num_kv_heads={num_kv_heads}; expected a multiple, at most {MAX_GROUP} times."
        )
    if window_left is not None and window_left < 0:
        raise UnsupportedError(
            f"window_left={window_left}; expected None, or how many keys before its own a token sees."
        )


def _stem(products, kv_dtype, like):
    """The kernel of an engine."""
    if products not in PRODUCTS or (kv_dtype is not None and products != "mma"):
        raise UnsupportedError(
            f'products="{products}", kv_dtype={kv_dtype}; expected "mma", or "wgmma" without a kv_dtype.'
        )
    if products == "wgmma":
        require_hopper(like, 'products="wgmma"')
    return PRODUCTS[products] if kv_dtype is None else QUANTISED


def _on_host(lengths):
    return lengths.tolist() if isinstance(lengths, torch.Tensor) else [int(length) for length in lengths]
