"""TMA of kernels_cu/common on the SIMT machine: boxes against a model in numpy, traffic, each way to get it wrong."""

from pathlib import Path

import numpy
import pytest
import torch

from course_lib import cuda
from course_lib.cuda import nvrtc
from course_lib.errors import KernelFault
from tests.simt import mistakes
from tests.simt.tma_model import box_of, swizzled

SOURCE = Path(__file__).with_name("tma_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]


def line_of(text):
    return mistakes.line_of(SOURCE, text)


_kernels = {}


def kernel(name, **defines):
    key = name, tuple(sorted(defines.items()))
    if key not in _kernels:
        _kernels[key] = cuda.compile(SOURCE, name, defines={"BOX_BYTES": 16, "RANK": 2} | defines)
    return _kernels[key]


# ---- boxes: shape of the tensor, box, swizzle, coordinates (outermost first) ----
BOXES = [
    ((20, 64), (8, 64), "128B", (0, 0)),
    ((20, 64), (8, 64), "128B", (16, 0)),  # the last 4 rows are outside
    ((20, 72), (16, 64), "128B", (3, 16)),  # the last 8 columns are outside
    ((20, 72), (16, 32), "64B", (-5, -8)),  # outside on both low sides
    ((20, 72), (16, 16), "32B", (7, 64)),  # the last 8 columns are outside
    ((20, 72), (5, 72), None, (1, 0)),
    ((20, 72), (8, 8), None, (30, 0)),  # nothing of it exists
    ((3, 10, 64), (2, 8, 64), "128B", (1, 5, 0)),
    ((3, 10, 64), (3, 8, 32), "64B", (-1, 0, 32)),
    ((2, 3, 10, 64), (1, 1, 8, 64), "128B", (1, 2, 4, 0)),
    ((2, 3, 10, 64), (2, 2, 4, 32), "64B", (0, 2, -2, 48)),
    ((2, 3, 10, 64), (1, 3, 3, 16), None, (1, 0, 8, 0)),
]


def coordinates_for(coordinates):
    """Innermost first, four of them."""
    return (*coordinates[::-1], 0, 0)[:4]


def boxed(box, dtype):
    """Constants of load_kernel and store_kernel."""
    return {"BOX_BYTES": int(numpy.prod(box)) * dtype.itemsize, "RANK": len(box)}


@pytest.mark.parametrize("schedule", ["fast", *SCHEDULES])
@pytest.mark.parametrize("shape, box, swizzle, at", BOXES)
def test_a_box_is_loaded(shape, box, swizzle, at, schedule):
    x = torch.arange(int(numpy.prod(shape)), dtype=torch.float16).reshape(shape) + 1
    loaded = kernel("load_kernel", **boxed(box, x.dtype))
    num_bytes = boxed(box, x.dtype)["BOX_BYTES"]
    out = torch.full((num_bytes,), 0xEE, dtype=torch.uint8)
    arguments = cuda.tensor_map(x, box, swizzle), out, *coordinates_for(at)
    if schedule == "fast":
        loaded(1, 32, *arguments, shared_bytes=num_bytes)
    else:
        report = loaded.profile(1, 32, *arguments, shared_bytes=num_bytes, schedule=schedule, outputs=[out])
        assert report.ok, str(report)
    assert out.numpy().tobytes() == swizzled(box_of(x.numpy(), box, at).tobytes(), swizzle)


def put(array, tile, at):
    """Write a tile into an array at coordinates, outermost first; elements outside are left out."""
    for index in numpy.ndindex(*tile.shape):
        element = tuple(first + i for first, i in zip(at, index, strict=True))
        if all(0 <= i < size for i, size in zip(element, array.shape, strict=True)):
            array[element] = tile[index]


@pytest.mark.parametrize("schedule", ["fast", *SCHEDULES])
@pytest.mark.parametrize("shape, box, swizzle, at", [row for row in BOXES if min(row[3]) >= 0])
def test_a_box_is_stored(shape, box, swizzle, at, schedule):
    """What is outside the tensor is left out, and nothing else of the tensor changes."""
    before = torch.arange(int(numpy.prod(shape)), dtype=torch.float16).reshape(shape)
    tile = torch.arange(int(numpy.prod(box)), dtype=torch.float16).reshape(box) + 2000
    x, num_bytes = before.clone(), boxed(box, before.dtype)["BOX_BYTES"]
    source = torch.frombuffer(bytearray(swizzled(tile.numpy().tobytes(), swizzle)), dtype=torch.uint8)
    stored = kernel("store_kernel", **boxed(box, before.dtype))
    arguments = cuda.tensor_map(x, box, swizzle), source, *coordinates_for(at)
    if schedule == "fast":
        stored(1, 32, *arguments, shared_bytes=num_bytes)
    else:
        report = stored.profile(1, 32, *arguments, shared_bytes=num_bytes, schedule=schedule)
        assert report.ok, str(report)
    expected = before.numpy().copy()
    put(expected, tile.numpy(), at)
    assert numpy.array_equal(x.numpy(), expected)


def test_a_store_that_begins_before_the_tensor_is_refused():
    """As on an H200, where it is an illegal instruction; a load may begin there."""
    x, source = torch.zeros(20, 72, dtype=torch.float16), torch.zeros(1024, dtype=torch.uint8)
    stored = kernel("store_kernel", BOX_BYTES=1024, RANK=2)
    arguments = cuda.tensor_map(x, (16, 32), "64B"), source
    for at in ((-1, 0), (0, -8)):
        with pytest.raises(KernelFault, match="coordinates of a TMA store are 0 or more"):
            stored(1, 32, *arguments, *coordinates_for(at), shared_bytes=1024)


@pytest.mark.parametrize(("dtype", "column"), [(torch.float16, 61), (torch.float32, 2), (torch.float32, -2)])
def test_a_box_that_begins_inside_16_bytes_is_refused(dtype, column):
    """As on an H200, where it is an illegal instruction, for loads and stores."""
    x, tile = torch.zeros(8, 64, dtype=dtype), torch.zeros(4 * 16 * dtype.itemsize, dtype=torch.uint8)
    for name in ("load_kernel", "store_kernel"):
        arguments = cuda.tensor_map(x, (4, 16)), tile, *coordinates_for((0, column))
        with pytest.raises(KernelFault, match="a box begins at a multiple of 16 bytes|0 or more"):
            kernel(name, **boxed((4, 16), dtype))(1, 32, *arguments, shared_bytes=tile.numel())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_elements_of_other_sizes(dtype):
    x = torch.arange(6 * 32).reshape(6, 32).to(dtype)
    box, num_bytes = (4, 16), 64 * x.element_size()
    out = torch.zeros(num_bytes, dtype=torch.uint8)
    arguments = cuda.tensor_map(x, box), out, *coordinates_for((3, 16))
    report = kernel("load_kernel", **boxed(box, dtype)).profile(1, 32, *arguments, shared_bytes=num_bytes)
    assert report.ok, str(report)
    assert out.numpy().tobytes() == box_of(x.numpy(), box, (3, 16)).tobytes()


def traffic(name, column, text):
    """The traffic of the line with `text`: a kernel copies the box (8, 64) at row 16 of a tensor (20, 64)."""
    x, tile = torch.zeros(20, 64, dtype=torch.float16), torch.zeros(1024, dtype=torch.uint8)
    arguments = cuda.tensor_map(x, (8, 64), "128B"), tile, column, 16, 0, 0
    report = kernel(name, BOX_BYTES=1024, RANK=2).profile(1, 32, *arguments, shared_bytes=1024)
    return report.lines[line_of(text)]


def test_traffic_is_counted_at_the_copy():
    """Of the load what exists, by its sectors; of shared memory the whole box, without wavefronts."""
    load = traffic("load_kernel", 32, "tma_load_2d(tile_smem")
    assert vars(load.global_load) == {"requests": 1, "sectors": 8, "bytes": 256, "ideal_sectors": 8}
    assert vars(load.shared_store) == {"requests": 1, "wavefronts": 0, "conflicts": 0, "bytes": 1024}
    store = traffic("store_kernel", 0, "tma_store_2d(&map, tile_smem, c0, c1);")
    assert vars(store.global_store) == {"requests": 1, "sectors": 16, "bytes": 512, "ideal_sectors": 16}
    assert vars(store.shared_load) == {"requests": 1, "wavefronts": 0, "conflicts": 0, "bytes": 1024}


# ---- rules of the instruction ----
def load_at(offset, *, mode="profile", rank=2, shape=(8, 64), swizzle="128B", box=(8, 64)):
    source = SOURCE.replace("tma_load_2d(tile_smem,", f"tma_load_2d(tile_smem + {offset},")
    loaded = cuda.compile(source, "load_kernel", defines={"BOX_BYTES": 1024, "RANK": rank})
    x, out = torch.zeros(shape, dtype=torch.float16), torch.zeros(1024, dtype=torch.uint8)
    run = loaded if mode == "launch" else loaded.profile
    return run(1, 32, cuda.tensor_map(x, box, swizzle), out, 0, 0, 0, 0, shared_bytes=2048)


@pytest.mark.parametrize(
    "options, phrase",
    [
        ({"offset": 128}, "with the swizzle of 128 bytes starts at a multiple of 1,024 bytes"),
        ({"offset": 64, "swizzle": None}, "starts at a multiple of 128 bytes"),
        ({"offset": 0, "rank": 3}, "the number of coordinates is the number of the map's dimensions"),
    ],
)
def test_a_broken_rule_stops_the_launch(options, phrase):
    (finding,) = load_at(**options).of_kind("trap")
    assert phrase in finding.message
    with pytest.raises(KernelFault, match=phrase):
        load_at(mode="launch", **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_tile_that_is_larger_than_its_shared_memory(schedule):
    x, out = torch.zeros(8, 64, dtype=torch.float16), torch.zeros(1024, dtype=torch.uint8)
    loaded = kernel("load_kernel", BOX_BYTES=1024, RANK=2)
    arguments = cuda.tensor_map(x, (8, 64), "128B"), out, 0, 0, 0, 0
    report = loaded.profile(1, 32, *arguments, shared_bytes=512, schedule=schedule)
    found = {(one.kind, one.line) for one in report.findings}
    assert ("out_of_bounds", line_of("tma_load_2d(tile_smem")) in found


# ---- stores ----
def scale(schedule, wrong=0, num_tiles=5):
    x, out = torch.arange(num_tiles * 64, dtype=torch.float32).reshape(num_tiles, 64), torch.zeros(num_tiles, 64)
    scaled = kernel("scale_kernel", WRONG=wrong)
    arguments = x, cuda.tensor_map(out, (1, 64)), num_tiles
    if schedule == "fast":
        scaled(1, 64, *arguments)
        return None, torch.equal(out, 2 * x)
    return scaled.profile(1, 64, *arguments, schedule=schedule), torch.equal(out, 2 * x)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stores_through_two_buffers_are_clean(schedule):
    for num_tiles in (1, 2, 5):
        report, is_right = scale(schedule, num_tiles=num_tiles)
        assert report.ok and is_right, str(report)
    assert scale("fast")[1]


WRITE, STORE = "// the write", "tma_store_2d(&map, tile_smem[tile % 2], 0, tile);"
WRONG = {
    "NO_PROXY_FENCE": ("missing_fence", STORE, "is read by the async proxy here without fence_proxy_async()"),
    "LATE_PROXY_FENCE": ("missing_fence", STORE, "calls it after the write and before the barrier"),
    "NO_READ_WAIT": ("race", WRITE, "nothing orders this after a wait for its group (bulk_wait_group_read)"),
    "SHORT_READ_WAIT": ("race", WRITE, "nothing orders this after a wait for its group (bulk_wait_group_read)"),
    "NO_COMMIT": ("bad_copy", STORE, "add bulk_commit_group() and bulk_wait_group_read<0>()"),
    "NO_EXIT_WAIT": ("bad_copy", STORE, "the block ended while this copy might still read its shared memory"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wrong", WRONG)
def test_each_mistake_around_a_store(wrong, schedule):
    kind, text, sentence = WRONG[wrong]
    report, is_right = scale(schedule, wrong)
    found = [one for one in report.of_kind(kind) if one.line == line_of(text)]
    assert any(sentence in one.message for one in found), str(report)
    if wrong in ("NO_READ_WAIT", "SHORT_READ_WAIT", "NO_COMMIT"):  # the store reads as late as it may
        assert not is_right


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_store_before_the_barrier(schedule):
    """Forward the storing thread comes first and the others write under its store; else it reads what is unordered."""
    report, _ = scale(schedule, "NO_BARRIER")
    pairs = {(one.line, one.other_line) for one in report.races}
    assert pairs & {(line_of(WRITE), line_of(STORE)), (line_of(STORE), line_of(WRITE))}, str(report)
    if schedule == "reverse":
        (finding,) = [one for one in report.races if one.line == line_of(STORE)]
        assert "started by thread (0,0,0) reads 16 bytes of tile_smem" in finding.message
        assert finding.message.endswith("with no barrier between them (a race on shared memory).")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wrong", [0, "READ_BEFORE_WAIT"])
def test_what_is_stored_is_seen_after_the_wait_for_writes(wrong, schedule):
    x, copy, out = torch.arange(32.0), torch.zeros(1, 32), torch.zeros(32)
    read_back = kernel("read_back_kernel", WRONG=wrong)
    report = read_back.profile(1, 32, x, copy, cuda.tensor_map(copy, (1, 32)), out, schedule=schedule)
    if not wrong:
        assert report.ok and torch.equal(out, 2 * x), str(report)
        return
    (finding,) = report.findings
    assert finding.line == line_of("// the read") and "a wait for its group (bulk_wait_group)" in finding.message


@pytest.mark.parametrize("schedule", ["fast", *SCHEDULES])
def test_blocks_reduce_into_one_row(schedule):
    x, total = torch.arange(8 * 32, dtype=torch.float32).reshape(8, 32), torch.zeros(32)
    reduced = kernel("reduce_kernel")
    if schedule == "fast":
        reduced(8, 32, x, total)
    else:
        report = reduced.profile(8, 32, x, total, schedule=schedule)
        assert report.ok, str(report)
        assert report.lines[line_of("// the reduction")].global_store.bytes == 8 * 128
    assert torch.equal(total, x.sum(0))


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_is_real_cuda(rank):
    assert not nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines={"BOX_BYTES": 1024, "RANK": rank}).notes


@pytest.mark.parametrize("wrong", range(9))
def test_the_mistakes_are_real_cuda(wrong):
    defines = {"BOX_BYTES": 1024, "RANK": 2, "WRONG": wrong}
    assert not nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines=defines).notes
