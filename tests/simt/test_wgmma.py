"""wgmma of kernels_cu/common: operands of every layout, format and width against a model in float64."""

from pathlib import Path

import numpy as np
import pytest
import torch
import wgmma_model as model

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
