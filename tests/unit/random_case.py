"""What random calls are made of: a right call with its expected result, and what may stand in place of an argument."""

import math

import numpy
import torch

LANGUAGES = ("cuda", "triton")
SIZES = (1, 2, 3, 5, 16, 33)
WRONG = (
    None, 0, -1, 1.5, "x", [1.0], (), {}, numpy.ones((2, 3), "float32"), torch.ones(2, 3, device="meta"), torch.ones(0),
    torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 3).t(), torch.ones(2), torch.ones(1, 1, 1, 1), True,
    torch.tensor(1), torch.tensor([99, -5], dtype=torch.int32), float("nan"), 1 << 40, torch.ones(2, 3).to_sparse(),
    b"", object(), torch.ones(3, 3, dtype=torch.complex64),
)  # fmt: skip


class Case:
    """One right call: `function(**arguments)` gives `expected()`, tensors compared within `tolerance`."""

    def __init__(self, function, arguments, expected, tolerance=1e-4):
        self.function, self.arguments, self.expected, self.tolerance = function, arguments, expected, tolerance

    def near(self, got, expected, infinite):
        """Whether a tensor is the expected one, of its shape and within the tolerance of its type.

        Where an infinity was given, NaN may stand for anything: it is no number that someone believes.
        """
        units = self.tolerance if got.dtype.itemsize != 2 else max(self.tolerance, 2e-2)
        if got.shape != expected.shape:
            return False
        if got.is_complex() or expected.is_complex():
            return got.dtype == expected.dtype and torch.allclose(got, expected, units, units, equal_nan=True)
        if got.is_floating_point():  # what the type cannot hold is an infinity in it
            wide, most = expected.double(), (1 - units) * torch.finfo(got.dtype).max
            expected = torch.where(got.isinf() & (got.sign() * wide > most), got.double(), wide)
        got, expected = got.double(), expected.double()
        expected = expected.masked_fill(got.isnan() & infinite, torch.nan)
        return torch.allclose(got, expected, units, units, equal_nan=True)


def alike(case, got, expected, infinite=False):
    """Whether a result is the expected one: tensors and floats near it, all else equal, in lists of any depth."""
    if isinstance(expected, torch.Tensor):
        return isinstance(got, torch.Tensor) and case.near(got, expected, infinite)
    if isinstance(expected, list | tuple) or isinstance(got, list | tuple):
        same = isinstance(expected, list | tuple) and isinstance(got, list | tuple) and len(got) == len(expected)
        return same and all(alike(case, a, b, infinite) for a, b in zip(got, expected, strict=True))
    if isinstance(expected, float):
        return type(got) in (int, float) and math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12)
    return type(got) is type(expected) and got == expected


def spoiled(r, value):
    """An argument that is nearly right: of another type, shape, order in memory, with a value that stands out."""
    if not isinstance(value, torch.Tensor):
        return r.choice((value, None, str(value), [value], -1, 3, 1.5))
    wide = torch.stack((value, value), -1)[..., 0] if value.ndim else value
    others = [
        value[None], value[:-1], value[..., :-1], value.flatten(), value.double(), value.half(), value.bfloat16(),
        value.long(), value.int(), wide, value.transpose(0, -1), value.flip(-1), torch.cat((value, value)),
    ]  # fmt: skip
    for number in (float("nan"), float("inf"), -float("inf"), -1, 1000, 2.0**31):
        if value.numel() and (value.is_floating_point() or abs(number) < 2.0**15):
            one = value.clone()
            one.view(-1)[r.randrange(one.numel())] = number if value.dtype != torch.uint8 else int(number) % 256
            others.append(one)
    return r.choice(others)
