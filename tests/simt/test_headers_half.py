"""half and bf16 of the machine against torch: every bit pattern, every rounding, every operator."""

from dataclasses import dataclass
from fractions import Fraction

import headers_common as common
import numpy as np
import pytest
import torch

ARITHMETIC = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
UNARY = ("exp", "exp2", "log", "sqrt", "rsqrt", "floor", "rint")


@dataclass
class Format:
    """A 16-bit type: what CUDA calls it, what torch calls it."""

    ctype: str
    name: str  # as in __float2<name>
    header: str
    dtype: torch.dtype
    tiny: float  # a number that a tie must not swallow

    def operators(self):
        """[(name, C statement)]: what takes two numbers."""
        name, two = self.name, f"{self.name}2"
        binary = [(n, f"out[i] = B(__h{n}(H(a[i]), H(b[i])));") for n in [*ARITHMETIC, "max", "min", "max_nan"]]
        signs = zip(ARITHMETIC, "+-*/", strict=True)
        binary += [(f"operator_{n}", f"out[i] = B(H(a[i]) {sign} H(b[i]));") for n, sign in signs]
        binary.append(
            (
                "compare",
                """
            T x = H(a[i]), y = H(b[i]);
            out[i] = (x == y) | (x != y) << 1 | (x < y) << 2 | (x <= y) << 3 | (x > y) << 4 | (x >= y) << 5
                   | __hequ(x, y) << 6 | __hne(x, y) << 7 | __hltu(x, y) << 8 | __hgeu(x, y) << 9;""",
            )
        )
        binary.append(
            (
                "pair_add",
                f"""
            {self.ctype}2 p = __hadd2(__halves2{two}(H(a[i]), H(b[i])), __floats2{two}_rn(1, 2));
            out[i] = B(p.x) ^ B(__high2{name}(p)) << 1;""",
            )
        )
        return binary

    def source(self):
        """C functions over arrays of bits."""
        bits, name = "const unsigned short* a", self.name
        unary = [(f"f_{n}", f"out[i] = B(h{n}(H(a[i])));") for n in UNARY]
        from_float = [("from_float", "out[i] = B(T(a[i]));")]
        from_float += [(f"from_float_{r}", f"out[i] = B(__float2{name}_{r}(a[i]));") for r in ("rz", "rd", "ru")]
        return "\n".join(
            [
                f'#include "{self.header}"',
                f"typedef {self.ctype} T;",
                f"static T H(unsigned short b) {{ return __ushort_as_{name}(b); }}",
                f"static unsigned short B(T x) {{ return __{name}_as_ushort(x); }}",
                common.elementwise(f"{bits}, float* out", ("to_float", "out[i] = H(a[i]);")),
                common.elementwise("const float* a, unsigned short* out", *from_float),
                common.elementwise("const double* a, unsigned short* out", ("from_double", "out[i] = B(T(a[i]));")),
                common.elementwise("const long long* a, unsigned short* out", ("from_int64", "out[i] = B(T(a[i]));")),
                common.elementwise(
                    f"{bits}, long long* out",
                    ("to_int", "out[i] = (int)H(a[i]);"),
                    ("to_int_rn", f"out[i] = __{name}2int_rn(H(a[i]));"),
                ),
                common.elementwise(f"{bits}, unsigned short* out", *unary),
                common.elementwise(f"{bits}, const unsigned short* b, unsigned short* out", *self.operators()),
                common.elementwise(
                    f"{bits}, const unsigned short* b, const unsigned short* c, unsigned short* out",
                    ("fma", "out[i] = B(__hfma(H(a[i]), H(b[i]), H(c[i])));"),
                ),
            ]
        )

    def tensor(self, bits):
        return torch.from_numpy(np.ascontiguousarray(bits).view(np.int16)).view(self.dtype)

    def bits(self, *values):
        return torch.tensor(values, dtype=torch.float64).to(self.dtype).view(torch.int16).numpy().view(np.uint16)


@dataclass
class Case:
    """A format and its functions, compiled in one of the machine's builds."""

    format: Format
    library: object

    def run(self, name, *arrays, dtype=np.uint16):
        return common.call(self.library, name, *arrays, common.empty(len(arrays[0]), dtype))

    def tensor(self, name, *arrays):
        return self.format.tensor(self.run(name, *arrays))


FORMATS = {
    "half": Format("__half", "half", "cuda_fp16.h", torch.float16, -(2.0**-24)),
    "bf16": Format("__nv_bfloat16", "bfloat16", "cuda_bf16.h", torch.bfloat16, -(2.0**-100)),
}
BUILDS = {
    "g++ fast": ("g++", "fast", ()),
    "g++ checked": ("g++", "checked", ()),
    "clang++ checked": ("clang++", "checked", ()),
}
if common.processor_has_f16c():
    BUILDS["g++ fast f16c"] = ("g++", "fast", ("-mf16c",))
BUILDS = {name: build for name, build in BUILDS.items() if build[0] in common.COMPILERS}


@pytest.fixture(scope="module", params=[(f, b) for f in FORMATS for b in BUILDS], ids="-".join)
def case(request, tmp_path_factory):
    format_name, build_name = request.param
    compiler, mode, extra = BUILDS[build_name]
    form, folder = FORMATS[format_name], tmp_path_factory.mktemp("half")
    return Case(form, common.compile_library(folder, form.source(), compiler=compiler, build=mode, extra=extra))


def assert_same(got, expected):
    """Equal bits, any NaN for any NaN."""
    both_nan = got.isnan() & expected.isnan()
    wrong = ~both_nan & (got.view(torch.int16) != expected.view(torch.int16))
    first = int(wrong.nonzero()[0]) if wrong.any() else 0
    assert not wrong.any(), f"{int(wrong.sum())} differ; element {first} is {got[first]}, expected {expected[first]}"


def once(exact, dtype):
    """`exact` (float64) rounded once to dtype: torch goes through float32, so that is rounded to odd first."""
    nearest = exact.float()
    inexact = (nearest.double() != exact) & ~exact.isnan()
    too_large = (nearest.double().abs() > exact.abs()).to(torch.int32)
    return ((nearest.view(torch.int32) - too_large) | inexact.to(torch.int32)).view(torch.float32).to(dtype)


def odd_double(value):
    """A Fraction as float64 rounded to odd: on the same side of every tie."""
    nearest = float(value)
    if Fraction(nearest) == value:
        return nearest
    toward = np.float64(np.nextafter(nearest, 0.0) if abs(Fraction(nearest)) > abs(value) else nearest)
    return float((toward.view(np.uint64) | np.uint64(1)).view(np.float64))


def all_patterns():
    return np.arange(65536, dtype=np.uint16)


def hard_floats(form, count=400_000):
    """Random bit patterns, and for each format value the ties half-way to its neighbours and one step beside them."""
    random = np.random.default_rng(7).integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = form.tensor(all_patterns()).double().numpy()
    values = np.unique(values[np.isfinite(values)])
    ties = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    near = [ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))]
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.996, 65520, 65536, 3.4e38, 1e-45], np.float32)
    return np.concatenate([random, *near, edges])


def operands(count=200_000):
    """Pairs (and a third) of bit patterns: random, and with exponents near each other."""
    draw = np.random.default_rng(11).integers(0, 65536, (3, count), dtype=np.uint16)
    draw[1, : count // 2] = (draw[0, : count // 2] & 0xFC00) | (draw[1, : count // 2] & 0x83FF)
    return draw


def test_every_pattern_to_float_and_back(case):
    bits = all_patterns()
    got = case.run("to_float", bits, dtype=np.float32)
    expected = case.format.tensor(bits).float().numpy()
    np.testing.assert_array_equal(got, expected)  # NaN equals NaN here
    zero = bits & 0x7FFF == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))
    assert_same(case.tensor("from_float", got), case.format.tensor(bits))


def test_float_rounds_to_nearest_even(case):
    values = hard_floats(case.format)
    assert_same(case.tensor("from_float", values), torch.from_numpy(values).to(case.format.dtype))


@pytest.mark.parametrize("direction", ["rz", "rd", "ru"])
def test_directed_roundings(case, direction):
    values = hard_floats(case.format)
    values = values[np.isfinite(values)]
    bits = case.run(f"from_float_{direction}", values)
    got, exact = case.format.tensor(bits).double().numpy(), values.astype(np.float64)
    toward_zero = {"rz": np.ones_like(exact, bool), "rd": exact > 0, "ru": exact < 0}[direction]
    assert np.all(np.where(toward_zero, np.abs(got) <= np.abs(exact), np.abs(got) >= np.abs(exact)))
    nearest = torch.from_numpy(values).to(case.format.dtype).view(torch.int16).numpy().view(np.uint16)
    assert np.abs((bits & 0x7FFF).astype(int) - (nearest & 0x7FFF).astype(int)).max() <= 1
    np.testing.assert_array_equal(bits[got == exact], nearest[got == exact])


def test_double_rounds_once(case):
    """1 + half a step + 2^-40 is above the tie, but a float in between would round onto it."""
    step = torch.finfo(case.format.dtype).eps
    above, below = 1 + step / 2 + 2.0**-40, 1 + 3 * step / 2 - 2.0**-40
    got = case.tensor("from_double", np.array([above, 1 + step / 2, below, -above, 1e300, -1e-300])).double().tolist()
    assert got == [1 + step, 1.0, 1 + step, -1 - step, float("inf"), 0.0]


def test_integers(case):
    above_a_tie = (1 << 40) + (1 << 32) + 1  # bf16: half a step and one; float64 holds it, float32 does not
    wide = np.array([0, 1, -1, 2049, 4097, 65519, 65520, -70000, 2**62 + 1, -(2**63), above_a_tie], np.int64)
    expected = torch.tensor([odd_double(Fraction(v)) for v in wide.tolist()], dtype=torch.float64)
    assert_same(case.tensor("from_int64", wide), once(expected, case.format.dtype))
    bits = case.format.bits(1.5, 2.5, -1.5, 300.0, np.nan, np.inf, -np.inf)
    assert case.run("to_int", bits, dtype=np.int64).tolist() == [1, 2, -1, 300, 0, 2**31 - 1, -(2**31)]
    assert case.run("to_int_rn", bits, dtype=np.int64).tolist() == [2, 2, -2, 300, 0, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_rounds_once(case, name):
    a, b, _ = operands()
    exact = ARITHMETIC[name](case.format.tensor(a).double(), case.format.tensor(b).double())
    for function in (name, f"operator_{name}"):
        assert_same(case.tensor(function, a, b), once(exact, case.format.dtype))


def test_fma_rounds_once(case):
    """Against exact rational arithmetic; the first triple is a tie that only the third operand breaks."""
    a, b, c = (x[:3000].copy() for x in operands())
    step = torch.finfo(case.format.dtype).eps
    a[0], b[0], c[0] = case.format.bits(1 + step, 1.5, case.format.tiny)
    finite = np.all([case.format.tensor(x).isfinite().numpy() for x in (a, b, c)], axis=0)
    a, b, c = a[finite], b[finite], c[finite]
    x, y, z = ([Fraction(v) for v in case.format.tensor(bits).double().tolist()] for bits in (a, b, c))
    exact = [p * q + r for p, q, r in zip(x, y, z, strict=True)]
    expected = once(torch.tensor([odd_double(v) for v in exact], dtype=torch.float64), case.format.dtype)
    nonzero = torch.tensor([v != 0 for v in exact])  # a zero's sign is another matter
    assert_same(case.tensor("fma", a, b, c)[nonzero], expected[nonzero])


def test_max_and_min(case):
    a, b, _ = operands()
    x, y = case.format.tensor(a), case.format.tensor(b)
    for name, pick in (("max", torch.maximum), ("min", torch.minimum)):
        expected = torch.where(x.isnan(), y, torch.where(y.isnan(), x, pick(x, y)))
        assert_same(case.tensor(name, a, b), expected)
    assert_same(case.tensor("max_nan", a, b), torch.maximum(x, y))
    zeros = np.array([0x0000, 0x8000], np.uint16)
    assert case.run("max", zeros, zeros[::-1].copy()).tolist() == [0x0000, 0x0000]
    assert case.run("min", zeros, zeros[::-1].copy()).tolist() == [0x8000, 0x8000]


def test_comparisons(case):
    a, b, _ = operands(20_000)
    b[::7] = a[::7]
    x, y = case.format.tensor(a).float(), case.format.tensor(b).float()
    either = x.isnan() | y.isnan()
    columns = [x == y, x != y, x < y, x <= y, x > y, x >= y]
    columns += [(x == y) | either, (x != y) & ~either, (x < y) | either, (x >= y) | either]
    expected = sum(column.int() << i for i, column in enumerate(columns)).numpy()
    np.testing.assert_array_equal(case.run("compare", a, b), expected)


def test_pairs(case):
    a, b, _ = operands(20_000)
    x, y = case.format.tensor(a) + 1, case.format.tensor(b) + 2
    number = ~(x.isnan() | y.isnan()).numpy()
    low, high = (v.view(torch.int16).numpy().view(np.uint16) for v in (x, y))
    np.testing.assert_array_equal(case.run("pair_add", a, b)[number], (low ^ high << 1)[number])


@pytest.mark.parametrize("name", UNARY)
def test_functions_are_within_one_unit(case, name):
    bits = all_patterns()
    reference = torch.round if name == "rint" else getattr(torch, name)
    expected = reference(case.format.tensor(bits).double()).to(case.format.dtype)
    got = case.tensor(f"f_{name}", bits)
    assert torch.equal(got.isnan(), expected.isnan())
    number = ~expected.isnan()
    distance = got[number].view(torch.int16).int() - expected[number].view(torch.int16).int()
    assert distance.abs().max() <= 1
