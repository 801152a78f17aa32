"""Chapter 04 keeps its cells short, and its pictures show what the kernels do: fragments, order of the tiles, bytes."""

import math
import re
from statistics import median

import pytest
import torch

from course_lib import cuda, measure, viz
from course_lib.book.chapters import read_chapter
from course_lib.grading.subjects.matmul import cases as matmul_cases
from course_lib.ops import matmul as ops
from course_lib.ops.fragments import record_fragments


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / "04_tiled_matrix_product.md")


def test_cells_and_quotes_of_the_lecture_are_short(chapter):
    lengths = [len(cell.source.splitlines()) for cell in chapter.part("lecture") if cell.kind == "code"]
    assert max(lengths) <= 15 and median(lengths) <= 10, lengths
    text = "\n".join(cell.source for cell in chapter.part("lecture") if cell.kind == "markdown")
    pieces = re.findall(r"^```(?:c\+\+|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(pieces) >= 12 and max(len(piece.splitlines()) for piece in pieces) <= 15


def test_the_recorded_fragments_are_those_of_the_documentation():
    owners = record_fragments()
    assert {name: len(cells) for name, cells in owners.items()} == {"a": 256, "b": 128, "out": 128}
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(4):
            for half in range(2):
                assert owners["a"][g + i % 2 * 8, 2 * t + i // 2 * 8 + half] == (lane, i)
            assert owners["out"][g + i // 2 * 8, 2 * t + i % 2] == (lane, i)
        for i in range(2):
            assert owners["b"][2 * t + 8 * i, g] == owners["b"][2 * t + 8 * i + 1, g] == (lane, i)


def test_the_picture_of_the_fragments_says_what_a_lane_holds():
    picture = viz.fragments_picture(record_fragments(), lane=22)
    assert "out[5][4], out[5][5], out[13][4], out[13][5]" in picture.alt_text  # self-check 4
    assert len(picture.png()) < 120_000


TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "WARP_M": 32, "WARP_N": 32, "NUM_STAGES": 2}


@pytest.mark.parametrize("group", [1, 2, 3])
def test_the_order_of_the_picture_is_the_order_of_the_kernel(monkeypatch, group):
    """Only the first programs run: the tiles of out that they write are the first of tile_order."""
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    a, b = torch.ones(5 * 64, 32, device="cpu").half(), torch.ones(32, 3 * 64, device="cpu").half()
    order = viz.tile_order(5, 3, group)
    assert sorted(order) == [(row, column) for row in range(5) for column in range(3)]
    for count in (1, 4, 8, 13):
        launch = ops.plan_matmul(a, b, variant="08_pipelined", tiles=TILES | {"GROUP_M": group})
        assert launch.grid == 15
        out = launch.outputs[0].fill_(math.nan)
        launch.function(count, launch.block, *launch.arguments, shared_bytes=launch.shared_bytes)
        written = {(row, column) for row, column in order if not out[row * 64, column * 64].isnan()}
        assert written == set(order[:count])


def test_tiles_read_counts_stripes():
    assert viz.tiles_read(viz.tile_order(8, 8, 1), 16) == (2, 8)
    assert viz.tiles_read(viz.tile_order(8, 8, 4), 16) == (4, 4)
    rows, columns = viz.tiles_read(viz.tile_order(128, 64, 8), 132)  # self-check 5
    assert 4 * rows + 8 * columns == 168


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_flop_per_byte_is_that_of_the_formula(variant):
    size = 256 if variant == "08_pipelined" else 64
    dtype = torch.float16 if variant in ops.HALF_VARIANTS else torch.float32
    a, b = (torch.ones(size, size, device="cpu", dtype=dtype) for _ in range(2))
    loaded = ops.plan_matmul(a, b, variant=variant).profile().global_load.bytes
    m, n = (1, 1) if variant in ("01_naive", "02_coalesced") else ops.VARIANTS[variant][1]
    assert 2 * size**3 / loaded == 2 * m * n / ((m + n) * a.element_size())


def test_the_numbers_of_the_text_are_those_of_the_stored_rows(chapter):
    text = "\n".join(cell.source for cell in chapter.part("lecture") if cell.kind == "markdown")
    stored, counters = (measure.read_results("h200", name) for name in ("matmul", "matmul_counters"))

    def rate(variant, size, language="cuda", dtype="float16"):
        (row,) = stored.where(variant=variant, size_m=size, language=language, dtype=dtype).rows
        return row["tflops"]

    def counted(variant, column):
        (row,) = counters.where(variant=variant, language="cuda").rows
        return row[column]

    wmma, mma, fast = (rate(variant, 4096) for variant in ops.HALF_VARIANTS)
    twin, cublas = rate("08_pipelined", 4096, "triton"), rate("cublas", 4096, "torch")
    floats = [rate(variant, 2048, dtype="float32") for variant in ("01_naive", "02_coalesced", "03_shared_tile")]
    assert "more than eightfold, to about six tenths of cuBLAS" in text
    assert fast > 8 * wmma and 0.55 < fast / cublas < 0.68
    assert "a factor of two for fragments" in text and "one of four for large tiles" in text
    assert 1.7 < mma / wmma < 2.4 and 3.5 < fast / mma < 4.6
    assert "comes close to cuBLAS" in text and 0.93 < twin / cublas <= 1.02
    assert "coalescing alone is a factor of about 14" in text and 13 < floats[1] / floats[0] < 15.5
    assert "adds less than a tenth" in text and 1.0 < floats[2] / floats[1] < 1.1
    for words in (
        f"busy for {counted('03_shared_tile', 'percent_shared'):.0f} % of the time",
        f"busy for {counted('06_wmma', 'percent_tensor'):.0f} % of the time at first",
        f"are at {counted('08_pipelined', 'percent_tensor'):.0f} % in the end",
        f"{2048**3 // (16 * 8 * 16):,} in ours, 32 times as many",
    ):
        assert words in text, words
    both = 2 * 2048**2
    for row in counters.rows:
        needed = both * (4 if row["variant"] < "06" else 2)
        assert 0.95 * needed < row["dram_read_bytes"] < 1.3 * needed, "each matrix about once"
    assert 0.7 < counted("06_wmma", "shared_conflicts") / counted("06_wmma", "shared_wavefronts") < 0.8
    assert counted("07_mma", "shared_conflicts") < 0.01 * counted("07_mma", "shared_wavefronts")
    for row in counters.rows[2:]:
        per_byte = 2 * 2048**3 / (32 * row["global_load_sectors"])
        m, n = ops.VARIANTS[row["variant"]][1]
        assert per_byte == 2 * m * n / ((m + n) * (4 if row["variant"] < "06" else 2))


def test_the_baseline_of_tensor_cores_cuts_off():
    """Sums of one positive number: rounding would go both ways, cutting off only loses."""
    case = matmul_cases.case("long", 1, 1, 16 * 1000, dtype="float16")
    tensors = {"a": torch.full((1, 16000), 1 + 2.0**-10).half(), "b": torch.full((16000, 1), 1 + 2.0**-10).half()}
    got = matmul_cases.tensor_core_baseline(case, tensors)["out"].double()
    exact = matmul_cases.oracle(case, tensors)["out"]
    assert got.dtype == torch.float64 and 1e-7 < ((exact - got) / exact).item() < 1e-3
    few = {"a": torch.ones(16, 16).half(), "b": torch.eye(16, 8).half()}
    assert torch.equal(matmul_cases.tensor_core_baseline(case, few)["out"], torch.ones(16, 8))


def test_the_padding_of_05_saves_what_the_text_says(chapter):
    launch = ops.plan_matmul(*(torch.ones(64, 64, device="cpu") for _ in range(2)), variant="05_vectorised")
    plain = launch.function.source.replace("#define A_PAD 4", "#define A_PAD 0")
    kernels = cuda.compile(plain, launch.function.name, defines=launch.function.defines), launch.function
    found = [
        kernel.profile(launch.grid, launch.block, *launch.arguments, outputs=launch.outputs).shared_store.conflicts
        for kernel in kernels
    ]
    text = "\n".join(cell.source for cell in chapter.part("lecture"))
    assert f"from {found[0]} conflicts to {found[1]} in this size" in text
