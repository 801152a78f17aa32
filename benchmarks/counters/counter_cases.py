"""The launches whose memory counters are compared: SIMT machine against Nsight Compute.

One list for both sides, so that they cannot drift: read_counters.py launches these on a GPU under ncu, and
tests/simt/test_counters_h200.py profiles the same on the SIMT machine.
"""

from dataclasses import dataclass, field, replace

import torch

from course_lib.ops.examples.inputs import direct, heads, random
from course_lib.ops.examples.micro_kernels import copies, divergent_rows, tiles


@dataclass(frozen=True)
class Case:
    """One launch.

    Attributes
    ----------
    name : str, the row's key in tests/simt/data
    path, kernel : str, under kernels_cu
    grid, block : int or tuple
    make : callable giving the arguments as CPU tensors and numbers, outputs included
    defines : dict
    differs : dict of counter to reason; every other counter must be equal on both sides, these must not be
    """

    name: str
    path: str
    kernel: str
    grid: object
    block: object
    make: object
    defines: dict = field(default_factory=dict)
    differs: dict = field(default_factory=dict)

    def launch(self, device):
        """The Launch of course_lib.ops, its tensors on "cuda" or "cpu", not yet run."""
        stem = self.path.removesuffix(".cu")
        launch = direct(device, stem, self.grid, self.block, self.make, self.defines, self.kernel)
        return replace(launch, outputs=())  # none of them counts as unwritten


@dataclass(frozen=True)
class Planned:
    """One launch as a launcher of course_lib.ops plans it.

    Attributes
    ----------
    name, kernel, differs : as in Case
    plan : function of "cuda" or "cpu" that gives the Launch
    """

    name: str
    kernel: str
    plan: object
    differs: dict = field(default_factory=dict)

    def launch(self, device):
        """The Launch, its tensors on "cuda" or "cpu", not yet run."""
        return self.plan(device)


def _rows(num_rows, num_cols, dtype=torch.float32, lse=False):
    """Arguments (x, out, num_rows, num_cols) of a softmax."""

    def make():
        x = torch.randn(num_rows, num_cols, generator=torch.Generator().manual_seed(3)).to(dtype)
        return x, torch.zeros(num_rows) if lse else torch.zeros_like(x), num_rows, num_cols

    return make


def _masked(batch_size, seq_len_q, seq_len_kv, lengths):
    """Arguments of the masked softmax."""

    def make():
        scores = torch.randn(batch_size, seq_len_q, seq_len_kv, generator=torch.Generator().manual_seed(3))
        return (
            scores,
            torch.tensor(lengths, dtype=torch.int32),
            torch.zeros_like(scores),
            torch.zeros(batch_size, seq_len_q),
            seq_len_q,
            seq_len_kv,
        )

    return make


def _indexed(pattern, width, dtype, num_out):
    """Arguments (x, index, out) of a read through a table."""

    def make():
        index = torch.tensor([pattern(lane) for lane in range(32)], dtype=torch.int32)
        return torch.arange(128 * width).to(dtype), index, torch.zeros(num_out * width, dtype=dtype)

    return make


# which element of shared memory each lane reads
PATTERNS = {
    "own": lambda lane: lane,
    "same": lambda lane: 5,
    "reversed": lambda lane: 31 - lane,
    "pairs": lambda lane: lane // 2,  # lanes 2k and 2k + 1 read the same
    "across_pairs": lambda lane: lane // 4 * 2 + lane % 2,  # lanes k and k + 2 read the same
    "fours": lambda lane: lane // 4,
    "eights": lambda lane: lane // 8,
    "halves": lambda lane: lane // 16,
    "alternating": lambda lane: lane % 2,
    "repeat_4": lambda lane: lane % 4,
    "repeat_8": lambda lane: lane % 8,
    "repeat_16": lambda lane: lane % 16,
    "swapped_halves": lambda lane: lane ^ 16,
    "stride_2": lambda lane: 2 * lane,
    "stride_4": lambda lane: 4 * lane,
    "stride_2_pairs": lambda lane: lane // 2 * 2,
    "stride_8_pairs": lambda lane: lane // 2 * 8,
    "pairs_in_one_half": lambda lane: lane // 2 if lane < 16 else lane,
    "pairs_then_across": lambda lane: lane // 2 if lane < 16 else 16 + lane // 4 * 2 + lane % 2,
    "pairs_in_one_quarter": lambda lane: lane // 2 if lane < 8 else lane,
    "one_odd_lane": lambda lane: 9 if lane == 31 else 5,
    "scattered": lambda lane: lane * 37 % 128,
    "random": lambda lane: (lane * lane * 29 + 11 * lane + 7) % 101,
}
ELEMENTS = {
    "short": (1, torch.int16),
    "float": (1, torch.float32),
    "float2": (2, torch.float32),
    "float4": (4, torch.float32),
}
DISTINCT = (
    "own",
    "reversed",
    "swapped_halves",
    "stride_2",
    "stride_4",
    "scattered",
)  # no element twice: may be written


def _index_cases(name, path, kernel, num_out, patterns):
    """One case for every element type and pattern."""
    return [
        Case(
            f"{name}_{element}_{pattern}",
            path,
            kernel,
            1,
            32,
            _indexed(PATTERNS[pattern], width, dtype, num_out),
            {"ELEMENT": element},
        )
        for element, (width, dtype) in ELEMENTS.items()
        for pattern in patterns
    ]


_INDEXED = [
    *_index_cases("shared_index", "access/08_shared_index.cu", "shared_index_kernel", 32, PATTERNS),
    *_index_cases("global_index", "access/09_global_index.cu", "global_index_kernel", 128, DISTINCT),
]
N = 1024  # 8 blocks of 128 threads, or 32 blocks of one warp
_STRIDES = [
    Case(
        f"global_stride_{stride}",
        "access/01_global_stride.cu",
        "global_stride_kernel",
        8,
        128,
        copies(N, factor=stride),
        {"STRIDE": stride},
    )
    for stride in (1, 2, 4, 8, 32)
]
_SHARED = [
    Case(
        f"shared_stride_{stride}",
        "access/04_shared_stride.cu",
        "shared_stride_kernel",
        32,
        32,
        tiles(32),
        {"STRIDE": stride},
    )
    for stride in (1, 2, 4, 32, 33)
]
# what the compiler changes between the source and the machine code, said where it shows
UNROLLED = "the loop is unrolled; lanes with a round fewer go through the remainder, and one request becomes several"
SPLIT = f"{UNROLLED}; a sector that two of them touch counts twice"
PREDICATED = "the branch is a predicate: every warp issues the instruction, also those without a lane that takes part"
WIDENED = "four scalar loads of neighbouring numbers become one 128-bit load"
_LOOPS = {"global_load_requests": UNROLLED, "global_store_requests": UNROLLED}
_TREE = {"shared_load_requests": PREDICATED, "shared_store_requests": PREDICATED}
_WIDE = {"shared_load_requests": WIDENED, "shared_load_wavefronts": WIDENED}


def _chapter(name, path, kernel, grid, block, make, differs, defines=None):
    """A kernel of a chapter: `differs` says which counters the compiler changes, and why."""
    return Case(name, path, kernel, grid, block, make, defines or {}, differs)


def _softmax(stem, kernel, grid, defines, whole, ragged, **options):
    """Two cases: 1024 columns, where all lanes do the same rounds, and 1000, where some do one fewer."""
    path = f"softmax/{stem}.cu"
    return [
        _chapter(f"{stem}_1024", path, kernel, grid, 128, _rows(8, 1024, **options), whole, defines),
        _chapter(f"{stem}_1000", path, kernel, grid, 128, _rows(8, 1000, **options), ragged, defines),
    ]


_BLOCK = {"BLOCK": 128}
_HALF = {"dtype": torch.float16, "lse": True}
_LSE_SPLIT = {"global_load_requests": UNROLLED, "global_load_sectors": SPLIT}
_MASKED_SPLIT = {**_LOOPS, "global_load_sectors": SPLIT, "global_store_sectors": SPLIT}
_CHAPTER_03 = [
    *_softmax("01_three_pass", "three_pass_softmax_kernel", 8, _BLOCK, _TREE, _TREE | _LOOPS),
    *_softmax("02_online", "online_softmax_kernel", 8, _BLOCK, _WIDE, _WIDE | _LOOPS),
    *_softmax("03_online_warp", "online_softmax_warp_kernel", 2, {}, {}, _LOOPS),
    *_softmax("04_log_sum_exp", "log_sum_exp_kernel", 8, _BLOCK, _TREE, _TREE | _LSE_SPLIT, **_HALF),
    _chapter(
        "05_masked_128", "softmax/05_masked.cu", "masked_softmax_kernel", (1, 2), 32, _masked(2, 1, 128, [128, 128]), {}
    ),
    _chapter(
        "05_masked_100",
        "softmax/05_masked.cu",
        "masked_softmax_kernel",
        (19, 2),
        32,
        _masked(2, 19, 100, [100, 37]),
        _MASKED_SPLIT,
    ),
]


def _matmul(variant, differs):
    """128 x 128 times 128 x 256: whole tiles of every step."""

    def plan(device):
        from course_lib.ops import matmul

        dtype = torch.float32 if variant[:2] < "06" else torch.float16
        a, b = random(device, 128, 128, dtype=dtype), random(device, 128, 256, dtype=dtype, seed=1)
        return matmul.plan_matmul(a, b, variant=variant)

    return Planned(f"matmul_{variant}", "matmul_kernel", plan, differs)


def _heads(device, seq_len, head_dim, dtype=torch.float32):
    """q, k, v of two query heads that share one head of k and v."""
    return heads(device, dtype, seq_len, seq_len, head_dim, num_heads=2, num_kv_heads=1)


def _flash_attention_1(differs):
    def plan(device):
        from course_lib.ops import flash_attention_1

        return flash_attention_1.plan(*_heads(device, 128, 64))

    return Planned("flash_attention_1", "flash_attention_1_kernel", plan, differs)


def _flash_attention_2(variant, head_dim, differs):
    """Two tiles of queries: whole tiles of every step."""

    def plan(device):
        from course_lib.ops import flash_attention_2

        dtype = torch.float32 if variant == "01_loop_order" else torch.float16
        return flash_attention_2.plan(*_heads(device, 256, head_dim, dtype), variant=variant)

    return Planned(f"flash_attention_2_{variant}_d{head_dim}", "flash_attention_2_kernel", plan, differs)


EMPTY_LOADS = "ptxas puts three loads that no lane takes part in before a run of cp.async; each counts as a request"
FRAGMENTS = "load_matrix_sync is two ldmatrix on the card; the machine reads its fragments number by number"
STRAY = "not explained: a few wavefronts in ten thousand, not the same number at every reading"
MOST_STRAY = 64
PREFETCH = "the copy of a tile beyond the end is a predicate, so its instruction is issued by every warp"
UNSEEN = "Nsight Compute leaves out the wavefronts of copies that stand under a predicate"
_STRAY = {"shared_load_wavefronts": STRAY, "shared_load_conflicts": STRAY}
_ABSENT = {"shared_load_requests": EMPTY_LOADS}
_TUNED = _ABSENT | {"shared_store_requests": PREFETCH, "shared_store_wavefronts": UNSEEN}
_TILES = [
    _matmul("01_naive", {}),
    _matmul("02_coalesced", {}),
    _matmul("03_shared_tile", _WIDE),
    _matmul("04_register_tile", _WIDE),
    _matmul("05_vectorised", {}),
    _matmul("06_wmma", {"shared_load_requests": FRAGMENTS, "shared_load_conflicts": FRAGMENTS}),
    _matmul("07_mma", {}),
    _matmul("08_pipelined", _ABSENT | _STRAY),
    _flash_attention_1(_WIDE | {"shared_load_conflicts": STRAY}),
    _flash_attention_2("01_loop_order", 64, _WIDE),
    _flash_attention_2("01_loop_order", 128, _WIDE | {"shared_load_conflicts": STRAY}),
    *(
        _flash_attention_2(variant, head_dim, differs)
        for variant, differs in (
            ("02_mma", {}),
            ("03_swizzled", {}),
            ("04_pipelined", _ABSENT),
            ("10_heavy_first", _TUNED),
        )
        for head_dim in (64, 128)
    ),
]
CASES = [
    *_STRIDES,
    Case(
        "global_stride_1_tail",
        "access/01_global_stride.cu",
        "global_stride_kernel",
        8,
        128,
        copies(N - 21),
        {"STRIDE": 1},
    ),
    Case(
        "global_offset_1",
        "access/02_global_offset.cu",
        "global_offset_kernel",
        8,
        128,
        copies(N, extra=1),
        {"OFFSET": 1},
    ),
    Case("global_float4", "access/03_global_vector.cu", "global_vector_kernel", 8, 128, copies(N, width=4)),
    *_SHARED,
    Case("shared_broadcast", "access/05_shared_broadcast.cu", "shared_broadcast_kernel", 32, 32, tiles(32)),
    Case("shared_float2", "access/06_shared_vector.cu", "shared_float2_kernel", 32, 32, tiles(32, width=2)),
    Case("shared_float4", "access/06_shared_vector.cu", "shared_float4_kernel", 32, 32, tiles(32, width=4)),
    Case(
        "divergent_rows",
        "access/07_divergent_rows.cu",
        "divergent_rows_kernel",
        4,
        32,
        divergent_rows,
    ),
    *_INDEXED,
    *_CHAPTER_03,
    *_TILES,
]
