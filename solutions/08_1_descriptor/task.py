"""08.1 Write a wgmma descriptor: what the judge runs."""

import torch

from course_lib.grading.exercise.dtypes import in_both_dtypes
from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from .fields import diagnose_fields, explain

PANEL_COLS, PANEL_ROW = 64, 128  # numbers, bytes
NAMES = {"float16": "__half", "bfloat16": "__nv_bfloat16"}


def _case(name, dtype, block_n, major, rows, size_k, *, start=0, schedules=("forward",)):
    """`major`: "kk", "km", "mk" or "mm", of a and b; `rows` of a and of b; `start`: bytes before b's tile, at least."""
    (a_rows, b_rows), (a_mn, b_mn) = rows, (letter == "m" for letter in major)
    sizes = {"a_rows": a_rows, "block_n": block_n, "size_k": size_k}
    options = {"b_rows": b_rows, "a_mn": int(a_mn), "b_mn": int(b_mn), "start": start}
    return Case(name, sizes, "normal", dtype, options, schedules)


def _inputs(case, gen):
    dtype, size_k = getattr(torch, case.dtype), case.sizes["size_k"]
    a = torch.randn(case.sizes["a_rows"], size_k, generator=gen)
    b = torch.randn(case.options["b_rows"], size_k, generator=gen) * torch.exp(torch.randn(size_k, generator=gen))
    b[case.sizes["block_n"] :] = 500.0  # rows that the product does not read
    tensors = {"a": a.T if case.options["a_mn"] else a, "b": b.T if case.options["b_mn"] else b}
    return {name: tensor.contiguous().to(dtype) for name, tensor in tensors.items()}


def _tile_bytes(rows, cols):
    return -(-cols // PANEL_COLS) * rows * PANEL_ROW


def _run(case, tensors):
    a_rows, block_n, size_k = case.sizes.values()
    b_start = max(_tile_bytes(*tensors["a"].shape), case.options["start"])
    blocks, options = a_rows // 64, case.options
    outputs = {
        "out": ((a_rows, block_n), "float32"),
        "descriptors": ((blocks, size_k // 16, 2), "int64"),
        "starts": ((blocks, 2), "int64"),
    }
    constants = {"ELEMENT": NAMES[case.dtype], "BLOCK_N": block_n, "A_MN": options["a_mn"], "B_MN": options["b_mn"]}
    names = map(Ref, ("a", "b", "out", "descriptors", "starts"))
    return Run(
        case.name,
        tensors,
        outputs,
        (*names, a_rows, options["b_rows"], size_k, b_start),
        grid=(blocks, 1, 1),
        block=(128, 1, 1),
        shared_bytes=b_start + _tile_bytes(*tensors["b"].shape),
        constants=constants,
    )


def _product(case, tensors, dtype):
    a = tensors["a"].T if case.options["a_mn"] else tensors["a"]
    b = tensors["b"].T if case.options["b_mn"] else tensors["b"]
    return {"out": a.to(dtype) @ b.to(dtype)[: case.sizes["block_n"]].T}


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one step of k", "float16", 64, "kk", (64, 64), 16, schedules=ALL_SCHEDULES),
        _case("one panel", "float16", 64, "kk", (64, 64), 64),
        _case("two panels", "float16", 64, "kk", (64, 64), 128, schedules=("reverse",)),
        _case("128 rows, a panel and a step", "float16", 64, "kk", (128, 72), 80),
        _case("192 rows, three panels, far from the start", "float16", 64, "kk", (192, 96), 192, start=160 * 1024),
        _case("b down its columns, one panel", "bfloat16", 64, "km", (64, 64), 32, schedules=ALL_SCHEDULES),
        _case("b down its columns, head_dim 128", "bfloat16", 128, "km", (64, 128), 192, start=120 * 1024),
        late(
            _case("b down its columns, three panels of 16 rows", "float16", 176, "km", (128, 192), 16, start=40 * 1024)
        ),
        _case("a down its columns", "bfloat16", 32, "mk", (128, 40), 112),
        late(_case("both down their columns", "float16", 256, "mm", (64, 256), 80)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    **in_both_dtypes(_product),
    rules={"out": "forward"},
    diagnose=diagnose_fields,
    explain=explain,
    tile=lambda case: (64, 8),
)
