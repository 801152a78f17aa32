"""e4m3 and the Hadamard rotation in float64, and the inputs that show mistakes.

e4m3 has 3 fraction bits: between 2^e and 2^(e+1) its numbers are 2^(e-3) apart, below 2^-6 they are 2^-9 apart, and the
largest is 448.
"""

import torch

from course_lib.grading.exercise.spec import Case

LARGEST = 448.0
SLACK = 2.0**-16  # relative: what float32 arithmetic may add to half a step
TIGHT = 2.125  # a bound may be so many times half a step


def case(name, num_rows, head_dim, block_rows, values="normal", dtype="float32", clip=1.0, **options):
    """A case of a (num_rows, head_dim) matrix; values as in `inputs`."""
    sizes = {"num_rows": num_rows, "head_dim": head_dim, "block_rows": block_rows}
    return Case(name, sizes, values, dtype, options | {"clip": clip})


def inputs(case, gen):
    """{"x": (num_rows, head_dim), "signs": (head_dim,) float32, +1 and -1}."""
    num_rows, head_dim, _ = case.sizes.values()
    x = torch.randn(num_rows, head_dim, generator=gen)
    if case.values == "outliers":
        x = x + 100.0 * x * (torch.rand(x.shape, generator=gen) < 0.01)
    if case.values == "mixed":
        x = x * 10.0 ** torch.linspace(-4.0, 4.0, num_rows)[torch.randperm(num_rows, generator=gen), None]
    if case.values == "zeros":
        x[: num_rows // 2] = 0.0
    if case.values == "tiny":
        x = x * 1e-32  # the largest of 96 such numbers is at least that
    if case.values == "large":
        x = x * 1e30
    if case.values == "every_step":
        x = _every_step(num_rows, head_dim, gen)
    if case.values == "negative":
        x = -x.abs() - 0.1
    signs = 1.0 - 2.0 * torch.randint(0, 2, (head_dim,), generator=gen).float()
    if head_dim == 1:
        signs = torch.ones(1)  # x is y: the numbers are those of the case
    x = x.to(getattr(torch, case.dtype))
    if case.options.get("strided"):
        x = torch.cat([x, torch.full_like(x, 7.0)]).t().contiguous().t()[:num_rows]
    return {"x": x, "signs": signs}


def _every_step(num_rows, head_dim, gen):
    """Numbers just below and above the middle between neighbours of e4m3, times 0.37; the first of a column is 448."""
    steps = torch.arange(1, 126).to(torch.uint8).view(torch.float8_e4m3fn).float()
    middles = (steps[1:] + steps[:-1]) / 2
    around = torch.cat([middles * (1 - 1e-4), middles * (1 + 1e-4), steps, torch.zeros(1)])
    x = around[torch.randperm(len(around), generator=gen)].repeat(-(-num_rows * head_dim // len(around)))
    x = x[: num_rows * head_dim].reshape(num_rows, head_dim) * (1.0 - 2.0 * (torch.arange(num_rows) % 2)[:, None])
    x[0] = LARGEST
    return 0.37 * x


def rotated(x, signs):
    """(x * signs) H / sqrt(head_dim) in float64; H[i, j] = -1 to the number of bits that i and j share."""
    y = x.double() * signs.double()
    half = 1
    while half < y.shape[1]:
        pairs = y.reshape(len(y), -1, 2, half)
        y = torch.stack([pairs.sum(dim=2), pairs[:, :, 0] - pairs[:, :, 1]], dim=2).reshape(len(y), -1)
        half *= 2
    return y / y.shape[1] ** 0.5


def largest_of_blocks(y, block_rows):
    """Largest magnitude of each block of rows, (ceil(rows / block_rows),)."""
    return torch.stack([rows.abs().max() for rows in y.split(block_rows)])


def of_each_row(scales, num_rows, block_rows):
    """(num_rows, 1) the scale of each row, float64."""
    return scales.double().repeat_interleave(block_rows)[:num_rows, None]


def half_step(size):
    """Half the distance of e4m3's numbers at `size` >= 0, in units of the scale, float64; 16 from 256 on."""
    exponent = torch.frexp(size.clamp(2.0**-6, LARGEST)).exponent - 1
    return 2.0 ** (exponent.double() - 4.0)


def best_bound(y, scale):
    """The largest error that an element of this size can have, float64: half a step, or what lies beyond 448 scales."""
    return torch.maximum(half_step(y.abs() / scale) * scale, y.abs() - LARGEST * scale)
