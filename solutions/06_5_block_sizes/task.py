"""06.5 The block sizes from M: what the judge runs."""

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.report.verdict import Diagnosis


def _needed(block_m, block_n, head_dim):
    """Bytes of the fp32 tiles of Q, out, K, V and scores."""
    return 4 * (2 * block_m * head_dim + 2 * block_n * head_dim + block_m * block_n)


def _accept_blocks(case, _inputs, outputs):
    """None for the largest block sizes that fit; otherwise a Diagnosis with the bytes."""
    sram, dim = case.sizes["sram_bytes"], case.sizes["head_dim"]
    block_m, block_n = outputs["block_m"].item(), outputs["block_n"].item()
    said = f"sram_bytes = {sram:,}, head_dim = {dim}: block_m = {block_m:g} and block_n = {block_n:g}"
    if block_m != int(block_m) or block_n != int(block_n) or min(block_m, block_n) < 1:
        return Diagnosis("no_block_size", f"{said}; both must be whole numbers of at least 1.")
    block_m, block_n = int(block_m), int(block_n)
    if block_m != min(block_n, dim):
        return Diagnosis("block_m_wrong", f"{said}. block_m must be min(block_n, head_dim) = {min(block_n, dim)}.")
    parts = (
        f"Q and out take 2 * {block_m} * {dim}, K and V 2 * {block_n} * {dim}, the scores {block_m} * {block_n} floats"
    )
    needs = f"{parts}: {_needed(block_m, block_n, dim):,} bytes"
    if _needed(block_m, block_n, dim) > sram:
        without = _needed(block_m, block_n, dim) - 4 * block_m * block_n <= sram
        tail = " Without the scores they would fit; the scores must fit as well." if without else ""
        return Diagnosis(
            "scores_forgotten" if without else "does_not_fit", f"{said}. {needs}, and there are {sram:,}.{tail}"
        )
    larger = _needed(min(block_n + 1, dim), block_n + 1, dim)
    if larger <= sram:
        return Diagnosis(
            "too_small", f"{said}. {needs} of {sram:,}; block_n = {block_n + 1} would fit as well, with {larger:,}."
        )
    return None


def _sram(name, sram_bytes, head_dim):
    return Case(name, {"sram_bytes": sram_bytes, "head_dim": head_dim}, "whole number")


EXERCISE = exercise(
    __file__,
    cases=(
        _sram("one key", 20, 1),
        _sram("static shared memory", 48 * 1024, 64),
        _sram("an A100", 163 * 1024, 64),
        _sram("an H100", 227 * 1024, 64),
        _sram("a wide head", 227 * 1024, 128),
        _sram("a narrow head", 48 * 1024, 16),
        _sram("exactly full", 4 * (4 * 32 * 64 + 32 * 32), 64),
        _sram("one byte short", 4 * (4 * 32 * 64 + 32 * 32) - 1, 64),
        _sram("wider than the tile", 9000, 128),
        _sram("exactly full, narrow head", _needed(16, 100, 16), 16),
        _sram("one byte short, narrow head", _needed(16, 100, 16) - 1, 16),
        _sram("a head of one number", 227 * 1024, 1),
        _sram("a head of 96", 99 * 1024 + 3, 96),
        _sram("a head of 512, 64 KiB", 64 * 1024, 512),
        _sram("as many keys as columns", _needed(80, 80, 80), 80),
        _sram("one key more than columns", _needed(80, 81, 80), 80),
        _sram("44 bytes", 44, 1),
    ),
    make_inputs=lambda case, gen: {},
    make_run=lambda case, tensors: Run(
        case.name,
        tensors,
        {"block_m": ((), "float32"), "block_n": ((), "float32")},
        (case.sizes["sram_bytes"], case.sizes["head_dim"]),
    ),
    accept=_accept_blocks,
)
