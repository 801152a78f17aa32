"""Cases, inputs and runs of matrix products, and the probes that read their mistakes.

May import: spec, protocol, torch.
"""

import torch

from ...exercise.spec import Case, Probe
from ...processes.protocol import Ref, Run

SIZES = ("size_m", "size_n", "size_k")


def case(name, size_m, size_n, size_k, values="normal", schedules=(), dtype="float32"):
    """A product of (size_m, size_k) and (size_k, size_n)."""
    return Case(name, dict(zip(SIZES, (size_m, size_n, size_k), strict=True)), values, dtype, schedules=schedules)


def inputs(case, gen):
    """{"a": (size_m, size_k), "b": (size_k, size_n)} of the case's dtype.

    values: "normal"; "positive", from 0 to 1; "whole numbers", 1 to 8 with either sign, whose sums are exact in any
    order (a single element says nothing about rounding: the baseline may be right by luck); "cancelling", the second
    half of k takes away what the first half adds, but for a small rest; "one infinite", a[1][0] is inf and b positive,
    so that row 1 of out is inf and no other, and where k is long enough a[1][20] too; "one infinite in b", the same for
    b[0][1] and b[20][1], so that column 1 of out is inf; "infinities that meet", see `_meeting`; "beyond 65504",
    products of some 65,536; "subnormal halves", see `_subnormal`; "tiles of zeros", normal but for a from k = 16 to 31
    and b from k = 32 to 47; "ones"; "row numbers", a[r][k] = r and b = 1; "column numbers", a = 1 and b[k][c] = c;
    "identity", a = 1 on its diagonal and b[k][c] = size_n k + c + 1, so that out shows b.
    """
    size_m, size_n, size_k = case.sizes.values()
    a, b = torch.ones(size_m, size_k), torch.ones(size_k, size_n)
    if case.values in _MADE:
        a, b = _MADE[case.values](size_m, size_n, size_k, gen)
    elif case.values in ("normal", "positive"):
        draw = torch.randn if case.values == "normal" else torch.rand
        a, b = draw(a.shape, generator=gen), draw(b.shape, generator=gen)
    elif case.values == "whole numbers":
        a, b = (_whole(matrix.shape, gen) for matrix in (a, b))
    elif case.values == "one infinite":
        a, b = torch.randn(a.shape, generator=gen), 0.5 + torch.rand(b.shape, generator=gen)
        a[1, 0:21:20] = float("inf")
    elif case.values == "one infinite in b":
        a, b = 0.5 + torch.rand(a.shape, generator=gen), torch.randn(b.shape, generator=gen)
        b[0:21:20, 1] = float("inf")
    elif case.values == "row numbers":
        a *= torch.arange(size_m)[:, None]
    elif case.values == "column numbers":
        b *= torch.arange(size_n)
    elif case.values == "identity":
        a, b = torch.eye(size_m, size_k), 1.0 + torch.arange(float(size_k * size_n)).reshape(size_k, size_n)
    dtype = getattr(torch, case.dtype)
    return {"a": a.to(dtype), "b": b.to(dtype)}


def _whole(shape, gen):
    sign = 2.0 * torch.randint(2, shape, generator=gen) - 1.0
    return sign * torch.randint(1, 9, shape, generator=gen)


def _cancelling(size_m, size_n, size_k, gen):
    """Whole numbers, the second half of k as the first with the sign of a changed and a rest below 1."""
    half = size_k // 2
    a, b = _whole((size_m, half), gen), _whole((half, size_n), gen)
    a, b = torch.cat((a, -a, a[:, : size_k % 2]), dim=1), torch.cat((b, b, b[: size_k % 2]))
    a[:, 0] += torch.rand(size_m, generator=gen)
    return a, b


def _meeting(size_m, size_n, size_k, gen):
    """Row 1 of a holds inf and -inf; a 0 of b meets an infinite a[2][5] in out[2][2], a 0 of a such a b in out[0][4].

    There out is NaN. size_m from 3, size_n from 5, size_k from 8 up.
    """
    a, b = torch.randn(size_m, size_k, generator=gen), 0.5 + torch.rand(size_k, size_n, generator=gen)
    a[1, 0], a[1, -1], a[2, 5], b[7, 4] = float("inf"), float("-inf"), float("inf"), float("inf")
    a[0, 7] = b[5, 2] = 0.0
    return a, b


def _beyond(size_m, size_n, size_k, gen):
    return 256 * torch.randn(size_m, size_k, generator=gen), 256 * torch.randn(size_k, size_n, generator=gen)


def _subnormal(size_m, size_n, size_k, gen):
    """Whole numbers times 2^-24 in a and times 256 in b, and the other way round in the second half of k."""
    scale = torch.where(torch.arange(size_k) < size_k // 2, 2.0**-24, 256.0)
    return _whole((size_m, size_k), gen) * scale, _whole((size_k, size_n), gen) * scale.flip(0)[:, None]


def _tiles_of_zeros(size_m, size_n, size_k, gen):
    a, b = torch.randn(size_m, size_k, generator=gen), torch.randn(size_k, size_n, generator=gen)
    a[:, 16:32], b[32:48] = 0.0, 0.0
    return a, b


_MADE = {
    "cancelling": _cancelling,
    "infinities that meet": _meeting,
    "beyond 65504": _beyond,
    "subnormal halves": _subnormal,
    "tiles of zeros": _tiles_of_zeros,
}


def transposed_inputs(case, gen):
    """The same with b transposed: (size_n, size_k), its rows contiguous."""
    tensors = inputs(case, gen)
    return {"a": tensors["a"], "b": tensors["b"].T.contiguous()}


def run(case, tensors, *, tile, block, sizes=SIZES, out_dtype="float32", **extra):
    """(a, b, out, the named sizes), a block of threads for each tile of the result.

    Parameters
    ----------
    tile : (rows, columns) of the result that a block has
    block : threads of a block
    sizes : names of the sizes that the kernel takes, in its order
    """
    size_m, size_n, _ = case.sizes.values()
    outputs = {"out": ((size_m, size_n), out_dtype)}
    arguments = (Ref("a"), Ref("b"), Ref("out"), *(case.sizes[name] for name in sizes))
    grid = (-(-size_n // tile[1]), -(-size_m // tile[0]), 1)
    return Run(case.name, tensors, outputs, arguments, grid=grid, block=(*block, 1, 1)[:3], **extra)


def oracle(case, tensors):
    """{"out": a b in float64}."""
    return {"out": tensors["a"].double() @ tensors["b"].double()}


def transposed_oracle(case, tensors):
    """{"out": a b^T in float64}."""
    return {"out": tensors["a"].double() @ tensors["b"].double().T}


def baseline(out_dtype="float32", transposed=False):
    """(case, tensors) -> {"out"}: products and sums in float, rounded once to `out_dtype`."""

    def product(case, tensors):
        a, b = tensors["a"].float(), tensors["b"].float()
        return {"out": (a @ (b.T if transposed else b)).to(getattr(torch, out_dtype))}

    return product


def tensor_core_baseline(case, tensors):
    """{"out"}: as tensor cores add. The 16 products of a step and the sum so far are brought to the largest exponent
    among them, cut off one bit below the last one of a float there, and the total is cut off to float, not rounded.

    Source: M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer
    Science 7:e330, 2021: truncation, with few bits to spare. How many there are differs by GPU; one is the least.
    """
    a, b = tensors["a"].double(), tensors["b"].double()
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for k_start in range(0, a.shape[1], 16):
        addends = a[:, k_start : k_start + 16, None] * b[None, k_start : k_start + 16]  # (size_m, 16, size_n), exact
        addends = torch.cat((addends, total[:, None]), dim=1)
        total = _cut(_cut(addends, addends.abs().amax(dim=1, keepdim=True), 24).sum(dim=1), None, 23)
    return {"out": total.float()}


def _cut(x, largest, bits):
    """x towards zero to a multiple of 2^-bits of the power of two at `largest` (None: at each number itself)."""
    _, exponent = torch.frexp(x if largest is None else largest)  # 2^(exponent - 1) <= |x|
    unit = torch.ldexp(torch.ones_like(exponent, dtype=x.dtype), exponent - 1 - bits)
    return torch.trunc(x / unit) * unit


def fewest_bytes(case, in_bytes=4, out_bytes=4):
    """(bytes, why): both matrices read once, the result written once."""
    size_m, size_n, size_k = case.sizes.values()
    count = in_bytes * (size_m * size_k + size_k * size_n) + out_bytes * size_m * size_n
    return count, f"a and b read once, {in_bytes} bytes a number, out written once, {out_bytes} bytes a number"


def tiled_bytes(case, tile, in_bytes=4, out_bytes=4):
    """Bytes of a kernel whose blocks each read the rows of a and the columns of b that their tile needs, once."""
    size_m, size_n, size_k = case.sizes.values()
    across, down = -(-size_n // tile[1]), -(-size_m // tile[0])
    return in_bytes * (size_m * size_k * across + size_k * size_n * down) + out_bytes * size_m * size_n


def _out(_inputs, outputs):
    return outputs["out"].double()


def probes(size_m, size_n, size_k, dtype="float32", square=None):
    """Four runs whose right answers can be read: terms, rows, columns, identity. Each reading is the whole of out.

    Parameters
    ----------
    square : size_m = size_k of the run with the identity; default size_m
    """
    square = square or size_m
    sized = {"dtype": dtype}
    return (
        Probe("terms", case("terms", size_m, size_n, size_k, "ones", **sized), _out),
        Probe("rows", case("rows", size_m, size_n, size_k, "row numbers", **sized), _out),
        Probe("columns", case("columns", size_m, size_n, size_k, "column numbers", **sized), _out),
        Probe("identity", case("identity", square, size_n, square, "identity", **sized), _out),
    )


def tiled(tile, block):
    """What every exercise whose blocks compute tiles of out shares with the others, as arguments of `exercise`."""
    return {
        "make_run": lambda case, tensors: run(case, tensors, tile=tile, block=block),
        "rules": {"out": "forward"},
        "bound_bytes": fewest_bytes,
        "usual_bytes": lambda case: tiled_bytes(case, tile),
        "question": "Which numbers does a block read twice?",
        "tile": lambda case: tile,
    }
