"""Float operations rounded to nearest, towards zero, up and down, against exact fractions."""

import itertools
from fractions import Fraction
from math import isqrt

import headers_common as common
import numpy as np
import pytest

MODES = ("rn", "rz", "ru", "rd")
OPERATIONS = {  # name -> call, exact value
    "fadd": ("__fadd_{}(a[i], b[i])", lambda x, y, z: x + y),
    "fsub": ("__fsub_{}(a[i], b[i])", lambda x, y, z: x - y),
    "fmul": ("__fmul_{}(a[i], b[i])", lambda x, y, z: x * y),
    "fdiv": ("__fdiv_{}(a[i], b[i])", lambda x, y, z: x / y),
    "frcp": ("__frcp_{}(b[i])", lambda x, y, z: 1 / y),
    "fmaf": ("__fmaf_{}(a[i], b[i], c[i])", lambda x, y, z: x * y + z),
}
LARGEST = np.finfo(np.float32).max


@pytest.fixture(scope="module", params=["fast", "checked"])
def library(request, tmp_path_factory):
    calls = {name: call for name, (call, _) in OPERATIONS.items()} | {"fsqrt": "__fsqrt_{}(b[i])"}
    statements = [(f"{name}_{mode}", f"out[i] = {calls[name].format(mode)};") for name in calls for mode in MODES]
    statements += [("frsqrt_rn", "out[i] = __frsqrt_rn(b[i]);"), ("divide", "out[i] = __fdividef(a[i], b[i]);")]
    text = common.elementwise("const float* a, const float* b, const float* c, float* out", *statements)
    directory = tmp_path_factory.mktemp("rounding")
    return common.compile_library(directory, '#include "cuda_fp16.h"\n' + text, build=request.param)


def numbers():
    """Three columns: random floats, of all magnitudes too, sums that cancel, and every triple of a few edges."""
    rng = np.random.default_rng(6)
    near, wide = rng.standard_normal((3, 300)), rng.standard_normal((3, 300)) * 10.0 ** rng.uniform(-44, 38, (3, 300))
    cancelling = rng.standard_normal((3, 100)).astype(np.float32)
    cancelling[1] = np.nextafter(-cancelling[0], np.float32(0))
    cancelling[2] = -cancelling[0] * cancelling[1]
    edges = [1.0, -3.0, 2**-24, 1e-45, -1e-45, 1.17549435e-38, LARGEST, -LARGEST]
    triples = np.array(list(itertools.product(edges, repeat=3))).T
    columns = np.concatenate([near, wide, cancelling, triples], axis=1).astype(np.float32)
    return [np.ascontiguousarray(column) for column in columns]


def neighbours(exact):
    """The floats on both sides of a fraction, equal when it is a float; as Fractions, infinities as floats."""
    if abs(exact) > LARGEST:
        low, high = Fraction(float(LARGEST)), np.inf
        return (low, high) if exact > 0 else (-high, -low)
    guess = np.float32(float(exact))
    low, high = (np.nextafter(guess, np.float32(way)) for way in (-LARGEST, LARGEST))
    candidates = [Fraction(float(x)) for x in (low, guess, high)]
    return max(x for x in candidates if x <= exact), min(x for x in candidates if x >= exact)


def rounded(exact, mode):
    """float32 of a fraction that is not 0."""
    low, high = neighbours(exact)
    if mode == "rn":
        beyond = 2**128  # where the next float would be
        middle = (max(low, -beyond) + min(high, beyond)) / 2
        even = low if np.float32(float(low)).view(np.uint32) % 2 == 0 else high  # infinity is even
        return np.float32(float(even if exact == middle else low if exact < middle else high))
    down = mode == "rd" or (mode == "rz" and exact > 0)
    return np.float32(float(low if down else high))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_rounding(library, name, mode):
    a, b, c = numbers()
    got = common.call(library, f"{name}_{mode}", a, b, c, common.empty(len(a), np.float32))
    for i in range(len(a)):
        exact = OPERATIONS[name][1](*(Fraction(float(column[i])) for column in (a, b, c)))
        if exact:
            assert got[i] == rounded(exact, mode), (a[i], b[i], c[i])


@pytest.mark.parametrize("name, mode", [*(("fsqrt", mode) for mode in MODES), ("frsqrt", "rn")])
def test_roots(library, name, mode):
    a, b, c = (np.abs(column) for column in numbers())
    got = common.call(library, f"{name}_{mode}", a, b, c, common.empty(len(a), np.float32))
    for i in range(len(a)):
        square = Fraction(float(b[i])) if name == "fsqrt" else 1 / Fraction(float(b[i]))
        scale = 4**200
        root = Fraction(isqrt(square.numerator * scale * square.denominator), square.denominator * 2**200)
        if root * root != square:
            root += Fraction(1, 2**190)  # between the root and any float above it
        assert got[i] == rounded(root, mode), b[i]


def test_signs_and_infinities(library):
    inf, nan = np.inf, np.nan
    a = np.array([1, -0.0, 0.0, inf, inf, 3e38, -3e38], np.float32)
    b = np.array([-1, -0.0, -0.0, -inf, 1, 3e38, -3e38], np.float32)
    most = LARGEST.item()
    expected = {
        "rn": [0.0, -0.0, 0.0, nan, inf, inf, -inf],
        "rz": [0.0, -0.0, 0.0, nan, inf, most, -most],
        "ru": [0.0, -0.0, 0.0, nan, inf, inf, -most],
        "rd": [-0.0, -0.0, -0.0, nan, inf, most, -inf],
    }
    for mode, want in expected.items():
        got = common.call(library, f"fadd_{mode}", a, b, a, common.empty(len(a), np.float32))
        np.testing.assert_array_equal(got, np.array(want, np.float32), err_msg=mode)
        np.testing.assert_array_equal(np.signbit(got[:3]), np.signbit(want[:3]), err_msg=mode)
    x, y = np.array([1, 0, -2, inf, 0], np.float32), np.array([0, 0, 0, 2, inf], np.float32)
    for mode in MODES:
        got = common.call(library, f"fdiv_{mode}", x, y, x, common.empty(5, np.float32))
        np.testing.assert_array_equal(got, np.array([inf, nan, -inf, inf, 0], np.float32), err_msg=mode)


def test_fast_division_by_a_large_number(library):
    """CUDA Math API, __fdividef: 0 for 2^126 < |y| < 2^128, NaN if x is infinite too."""
    x = np.array([3e38, 3e38, 3e38, -3e38, np.inf, 1, 0], np.float32)
    y = np.array(
        [2.0**126, np.nextafter(np.float32(2.0**126), np.float32(np.inf)), 3e38, 3e38, 1e38, np.inf, 3], np.float32
    )
    got = common.call(library, "divide", x, y, x, common.empty(7, np.float32))
    np.testing.assert_array_equal(got, np.array([x[0] / y[0], 0, 0, 0, np.nan, 0, 0], np.float32))
