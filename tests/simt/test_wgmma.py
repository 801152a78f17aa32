"""wgmma of kernels_cu/common: operands of every layout, format and width against a model in float64."""

from pathlib import Path

import numpy as np
import pytest
import torch

from course_lib.cuda import nvrtc, sass
from course_lib.cuda.source import with_headers_digest
from course_lib.errors import KernelFault
from tests.simt import wgmma_model as model

SOURCE = Path(__file__).with_name("wgmma_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]
WIDTHS = [128, 64, 32, 16]
ITEM = {"f16": 2, "bf16": 2, "e4m3": 1}


def defines(n, kind, trans_a, trans_b, in_registers):
    product = f"wgmma_m64k{32 // ITEM[kind]}_f32_{kind}"
    trans = "" if kind == "e4m3" else f"<{trans_b}>" if in_registers else f"<{trans_a}, {trans_b}>"
    return {"BLOCK_N": n, "PRODUCT": product, "TRANS": trans, "IN_REGISTERS": int(in_registers)}


def arguments(a_bits, b_bits, out, *, width=128, trans=(0, 0), scale_d=0):
    """The kernel's arguments for a (64, K) and b (n, K), and the bytes of shared memory."""
    lay_out = [model.mn_major if one else model.k_major for one in trans]
    a, b = lay_out[0](a_bits, width), lay_out[1](b_bits, width)
    a_image = model.aligned(a.image)
    image = np.concatenate([a_image, model.aligned(b.image)])
    steps = [(x, len(a_image) + y) for x, y in zip(a.steps, b.steps, strict=True)]
    layout = [a.leading_bytes, a.stride_bytes, b.leading_bytes, b.stride_bytes, model.SWIZZLE_FIELD[width]]
    registers = model.a_registers(a_bits).view(np.int32)
    return (
        torch.from_numpy(image).view(torch.float32),
        torch.from_numpy(registers).view(torch.uint32),
        torch.tensor(steps, dtype=torch.int32),
        torch.tensor(layout, dtype=torch.int32),
        out,
        len(image) // 16,
        len(steps),
        scale_d,
    ), len(image)


def check(run, n, kind, *, width=128, trans=(0, 0), in_registers=False, num_k=None, seed=0, **options):
    """Multiply random operands and compare with float64."""
    random = np.random.default_rng(seed)
    num_k = num_k or 128 // ITEM[kind] * 2  # two panels of 128 bytes
    a_bits, a = model.numbers(random.standard_normal((64, num_k)), kind)
    b_bits, b = model.numbers(random.standard_normal((n, num_k)), kind)
    start = random.standard_normal((64, n)).astype(np.float32)
    out = torch.from_numpy(start.copy())
    given, shared_bytes = arguments(a_bits, b_bits, out, width=width, trans=trans, scale_d=1)
    report = run(
        SOURCE, "product_kernel", 1, 128, *given,
        shared_bytes=shared_bytes, defines=defines(n, kind, *trans, in_registers), **options,
    )  # fmt: skip
    np.testing.assert_allclose(out.numpy(), a @ b.T + start, rtol=0, atol=2e-4)
    assert report is None or report.ok, str(report)


@pytest.mark.parametrize("n", [16, 64, 128, 176, 256])
@pytest.mark.parametrize("kind", ["f16", "bf16", "e4m3"])
def test_every_width(launch, n, kind):
    check(launch, n, kind)
    check(launch, n, kind, in_registers=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_every_layout(profile, width, trans, schedule):
    check(profile, 64, "f16", width=width, trans=trans, num_k=64, schedule=schedule)


# ---- one number at a time: every element of a and b reaches the right sum, and no other ----
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("kind, trans_b", [("f16", 0), ("f16", 1), ("e4m3", 0)])
def test_one_hot_operands(launch, kind, trans_b, in_registers):
    """a is one-hot: column k of b appears in one row of d, for every k of two panels; and the other way round."""
    n, num_k, random = 64, 256 // ITEM[kind], np.random.default_rng(1)
    dense_bits, dense = model.numbers(random.integers(-8, 8, (64, num_k)), kind)
    for first_k in range(0, num_k, 64):
        hot_bits, _ = model.numbers(np.eye(64, num_k, first_k), kind)
        for a_bits, b_bits, expected in [
            (hot_bits, dense_bits, dense.T[first_k : first_k + 64]),
            (dense_bits, hot_bits, dense[:, first_k : first_k + 64]),
        ]:
            out = torch.zeros(64, n)
            given, shared_bytes = arguments(a_bits, b_bits, out, trans=(0, trans_b))
            launch(
                SOURCE, "product_kernel", 1, 128, *given,
                shared_bytes=shared_bytes, defines=defines(n, kind, 0, trans_b, in_registers),
            )  # fmt: skip
            np.testing.assert_array_equal(out.numpy(), expected)


def test_panels_of_n(launch):
    """b with n down the rows has several panels of 64; leading_bytes leads from one to the next."""
    check(launch, 176, "bf16", trans=(0, 1))
    check(launch, 256, "f16", trans=(1, 1), width=64)


@pytest.mark.parametrize("scale_d", [0, 1])
def test_scale_d_ignores_what_was_there(launch, scale_d):
    bits, _ = model.numbers(np.eye(64), "f16")
    out = torch.full((64, 64), float("nan") if not scale_d else 2.0)
    given, shared_bytes = arguments(bits, bits, out, scale_d=scale_d)
    launch(SOURCE, "product_kernel", 1, 128, *given, shared_bytes=shared_bytes, defines=defines(64, "f16", 0, 0, False))
    np.testing.assert_array_equal(out.numpy(), np.eye(64) + 2 * scale_d)


# ---- wrong descriptors: the numbers that the wrong address holds, or a finding ----
PRODUCT_LINE = next(i for i, line in enumerate(SOURCE.splitlines(), 1) if "step > 0 || scale_d" in line)


def wrong(profile, schedule, *, trans=(0, 0), n=128, layout=None, steps=None, shared_bytes=0):
    """Findings as (kind, message), and whether the values are right, of a product with changed descriptors."""
    random = np.random.default_rng(2)
    a_bits, a = model.numbers(random.standard_normal((64, 128)), "f16")
    b_bits, b = model.numbers(random.standard_normal((n, 128)), "f16")
    out = torch.zeros(64, n)
    given, num_bytes = arguments(a_bits, b_bits, out, trans=trans)
    given = list(given)
    for changed, position in ((steps, 2), (layout, 3)):
        if changed:
            given[position] = changed(given[position].clone())
    report = profile(
        SOURCE, "product_kernel", 1, 128, *given,
        shared_bytes=num_bytes + shared_bytes, defines=defines(n, "f16", *trans, False), schedule=schedule,
    )  # fmt: skip
    assert {one.line for one in report.findings} <= {PRODUCT_LINE}, str(report)
    is_right = np.allclose(out.numpy(), a @ b.T, atol=1e-3)
    return [(one.kind, one.message) for one in report.findings], is_right


def put(index, value):
    def change(tensor):
        tensor[index] = value
        return tensor

    return change


def test_unchanged_descriptors_are_right(profile):
    assert wrong(profile, "forward") == ([], True)
    assert wrong(profile, "forward", trans=(0, 1)) == ([], True)


# Legal by themselves: only the numbers show them, and tests/gpu compares those with a GPU's.
WRONG_NUMBERS = {
    "swizzle": {"trans": (1, 1), "n": 32, "layout": put(4, model.SWIZZLE_FIELD[64])},
    "stride": {"layout": put(1, 2048)},  # of a: rows 8 to 15 are 16 to 23
    "step": {"steps": put((slice(None), 1), 16384)},  # of b: it stays at the first
    "leading": {"trans": (0, 1), "layout": put(2, 0)},  # of b: the first panel twice
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_wrong_descriptors_that_only_numbers_show(profile, name, schedule):
    findings, is_right = wrong(profile, schedule, **WRONG_NUMBERS[name])
    assert not findings and not is_right, findings


DESCRIPTORS = [
    ({"layout": put(4, model.SWIZZLE_FIELD[64])}, "64 bytes into a swizzle pattern"),  # the third step along k
    ({"layout": put(3, 512)}, "the descriptor of b has stride_bytes = 512; it must be a multiple of 1024"),
    ({"trans": (0, 1), "layout": put(2, 8192 + 512)}, "the descriptor of b has leading_bytes = 8704"),
    (
        {"steps": put((0, 1), 16384 + 128)},
        "of b begins at byte 16512 of shared memory, 128 bytes into a swizzle pattern",
    ),
    ({"steps": put((1, 0), 16)}, "the descriptor of a begins 16 bytes into the row; a step of one wgmma along k is 32"),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("changed, sentence", DESCRIPTORS)
def test_descriptors_that_are_findings(profile, changed, sentence, schedule):
    findings, is_right = wrong(profile, schedule, shared_bytes=16384, **changed)
    assert findings and findings[0][0] == "bad_wgmma" and sentence in findings[0][1], findings
    assert not is_right


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_operand_outside_shared_memory(profile, schedule):
    findings, is_right = wrong(profile, schedule, steps=put((7, 1), 16384 + 32768 - 4096))
    assert [kind for kind, _ in findings] == ["out_of_bounds"] and not is_right
    assert "of the dynamic shared memory, which has 49152 bytes" in findings[0][1]


def test_a_base_offset_is_refused(profile):
    source = SOURCE.replace("layout[2], layout[3], layout[4]);", "layout[2], layout[3], layout[4]) | 3ull << 49;")
    bits, _ = model.numbers(np.eye(64), "f16")
    given, shared_bytes = arguments(bits, bits, torch.zeros(64, 64))
    report = profile(
        source, "product_kernel", 1, 128, *given, shared_bytes=shared_bytes, defines=defines(64, "f16", 0, 0, False)
    )
    assert [one.kind for one in report.findings] == ["bad_wgmma"] and "has base offset 3" in report.findings[0].message


def test_wgmma_needs_a_whole_warpgroup(profile, launch):
    bits, _ = model.numbers(np.eye(64), "f16")
    given, shared_bytes = arguments(bits, bits, torch.zeros(64, 64))
    options = {"shared_bytes": shared_bytes, "defines": defines(64, "f16", 0, 0, False)}
    report = profile(SOURCE, "product_kernel", 1, 96, *given, **options)
    assert [(one.kind, one.line) for one in report.findings] == [("trap", PRODUCT_LINE)]
    with pytest.raises(KernelFault, match="wgmma needs all 128 threads of a warpgroup"):
        launch(SOURCE, "product_kernel", 1, 96, *given, **options)


# ---- the same text for GPUs ----
@pytest.mark.parametrize("n", [16, 176, 256])
@pytest.mark.parametrize("kind, trans", [("f16", (1, 1)), ("bf16", (0, 1)), ("e4m3", (0, 0))])
@pytest.mark.parametrize("in_registers", [False, True])
def test_compiles_for_hopper(n, kind, trans, in_registers, compiled_before):
    macros = defines(n, kind, *trans, in_registers)
    if compiled_before(with_headers_digest(SOURCE), macros):
        return
    cubin = nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines=macros, filename="wgmma_kernels.cu")
    assert cubin.resources["product_kernel"].spill_bytes == 0
    assert ("QGMMA" if kind == "e4m3" else "HGMMA") in sass.disassemble(cubin.code)
