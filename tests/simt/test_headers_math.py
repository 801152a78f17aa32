"""Device maths, integer intrinsics and fp8 of the machine against torch and plain Python."""

import headers_common as common
import numpy as np
import pytest
import torch

UNARY = {
    "expf": torch.exp,
    "exp2f": torch.exp2,
    "logf": torch.log,
    "log2f": torch.log2,
    "sqrtf": torch.sqrt,
    "rsqrtf": torch.rsqrt,
    "tanhf": torch.tanh,
    "erff": torch.erf,
    "sinf": torch.sin,
    "cosf": torch.cos,
    "fabsf": torch.abs,
    "floorf": torch.floor,
    "ceilf": torch.ceil,
    "rintf": torch.round,
    "truncf": torch.trunc,
    "__expf": torch.exp,
    "__logf": torch.log,
    "__log2f": torch.log2,
    "__sinf": torch.sin,
    "__cosf": torch.cos,
    "__frcp_rn": torch.reciprocal,
    "__fsqrt_rn": torch.sqrt,
    "exp10f": lambda x: 10**x,
    "cbrtf": lambda x: x.sign() * x.abs() ** (1 / 3),
    "__saturatef": lambda x: x.clamp(0, 1),
    "normcdff": lambda x: 0.5 * torch.erfc(-x / 2**0.5),
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "log": torch.log,
    "tanh": torch.tanh,
    "abs": torch.abs,
}

INTEGERS = """
extern "C" void probe_integers(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out, long long n) {
    for (long long i = 0; i < n; ++i) {
        unsigned x = a[i], y = b[i], s = c[i], *o = out + 20 * i;
        o[0] = __popc(x); o[1] = __clz(x); o[2] = __ffs(x); o[3] = __brev(x); o[4] = __byte_perm(x, y, s);
        o[5] = __funnelshift_l(x, y, s); o[6] = __funnelshift_r(x, y, s); o[7] = __funnelshift_lc(x, y, s & 63);
        o[8] = __funnelshift_rc(x, y, s & 63); o[9] = __mul24(x, y); o[10] = __umul24(x, y); o[11] = __umulhi(x, y);
        o[12] = __mulhi((int)x, (int)y); o[13] = __hadd((int)x, (int)y); o[14] = __uhadd(x, y); o[15] = __sad(x, y, s);
        o[16] = __usad(x, y, s); o[17] = __dp4a((int)x, (int)y, (int)s); o[18] = min((int)x, (int)y);
        o[19] = max((int)x, y);
    }
}
"""


BINARY = {
    "fmax": "out[i] = fmaxf(a[i], b[i]);",
    "max": "out[i] = max(a[i], b[i]);",
    "min": "out[i] = min(a[i], b[i]);",
    "div": "out[i] = __fdividef(a[i], b[i]);",
    "add_rn": "out[i] = __fadd_rn(a[i], b[i]);",
    "no_contraction": "out[i] = __fadd_rn(__fmul_rn(a[i], b[i]), a[i]);",
    "pow": "out[i] = powf(a[i], b[i]);",
    "fma": "out[i] = __fmaf_rn(a[i], b[i], a[i]);",
}
FLOAT_TO_INT = {
    "classes": "out[i] = isnan(a[i]) | isinf(a[i]) << 1 | isfinite(a[i]) << 2 | signbit(a[i]) << 3;",
    "constants": "out[0] = __float_as_int(CUDART_INF_F); out[1] = __float_as_int(INFINITY);"
    "out[2] = CUDART_PI_F == 3.14159265f;",
}


@pytest.fixture(scope="module", params=["fast", "checked"])
def library(request, tmp_path_factory):
    text = ['#include "cuda_fp8.h"', '#include "math_constants.h"']
    text += [common.elementwise("const float* a, float* out", *[(f"u_{n}", f"out[i] = {n}(a[i]);") for n in UNARY])]
    text += [common.elementwise("const float* a, const float* b, float* out", *BINARY.items())]
    for to in ("int", "uint", "ll"):
        casts = [(f"to_{to}_{r}", f"out[i] = (long long)__float2{to}_{r}(a[i]);") for r in ("rn", "rz", "rd", "ru")]
        text.append(common.elementwise("const float* a, long long* out", *casts))
    text.append(common.elementwise("const float* a, int* out", *FLOAT_TO_INT.items()))
    for kind in ("e4m3", "e5m2"):
        text += fp8_conversions(kind)
    doubles = ("e4m3_double", "out[i] = __nv_fp8_e4m3(a[i]).__x;")
    text.append(common.elementwise("const double* a, unsigned char* out", doubles))
    return common.compile_library(tmp_path_factory.mktemp("math"), "\n".join([*text, INTEGERS]), build=request.param)


def fp8_conversions(kind):
    """C functions from bytes of one fp8 format to float and back."""
    return (
        common.elementwise(
            "const unsigned char* a, float* out",
            (f"{kind}_to_float", f"__nv_fp8_{kind} x; x.__x = a[i]; out[i] = float(x);"),
        ),
        common.elementwise(
            "const float* a, unsigned char* out",
            (f"{kind}_saturating", f"out[i] = __nv_fp8_{kind}(a[i]).__x;"),
            (f"{kind}_plain", f"out[i] = __nv_cvt_float_to_fp8(a[i], __NV_NOSAT, __NV_{kind.upper()});"),
            (
                f"{kind}_four",
                f"if (i % 4 == 0) {{ __nv_fp8x4_{kind} v(make_float4(a[i], a[i + 1], a[i + 2], a[i + 3]));"
                "*(unsigned*)(out + i) = v.__x; }",
            ),
        ),
    )


def floats(count=20_000):
    draw = torch.randn(count, generator=torch.Generator().manual_seed(3)) * 4
    infinity = float("inf")
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, infinity, -infinity, float("nan"), 88.0, -88.0, 1e-30, 2.5, 3.5])
    return torch.cat([draw, edges])


@pytest.mark.parametrize("name", UNARY)
def test_functions(library, name):
    x = floats()
    got = torch.from_numpy(common.call(library, f"u_{name}", x.numpy(), common.empty(len(x), np.float32)))
    expected = UNARY[name](x.double()).float()
    if name == "__saturatef":
        expected[x.isnan()] = 0.0  # as on the GPU
    atol = 1e-7 if name in ("sinf", "cosf", "__sinf", "__cosf") else 1e-37
    torch.testing.assert_close(got, expected, rtol=3e-7, atol=atol, equal_nan=True)


def test_two_operands(library):
    x = floats()
    y = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(4))].contiguous()

    def got(name):
        return torch.from_numpy(common.call(library, name, x.numpy(), y.numpy(), common.empty(len(x), np.float32)))

    exact = {"fmax": torch.fmax(x, y), "max": torch.fmax(x, y), "min": torch.fmin(x, y)}  # NaN loses
    exact |= {"div": x / y, "add_rn": x + y, "no_contraction": (x * y) + x}
    for name, expected in exact.items():
        torch.testing.assert_close(got(name), expected, rtol=0, atol=0, equal_nan=True)
    wide_x, wide_y = x.double(), y.double()
    close = {"fma": wide_x * wide_y + wide_x, "pow": wide_x**wide_y}
    for name, expected in close.items():
        torch.testing.assert_close(got(name), expected.float(), rtol=3e-7, atol=1e-44, equal_nan=True)


RANGES = {"int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1), "ll": (-(2**63), 2**63 - 1)}
ROUNDINGS = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("to", RANGES)
def test_casts_saturate(library, to, rounding):
    low, high = RANGES[to]
    ends = [2.0**31, -(2.0**31), 3e9, -3e9, 1e30, -1e30, np.inf, -np.inf, np.nan]
    x = np.array([0.5, 1.5, -0.5, -1.5, 2.5, 16777217.0, *ends], np.float32)
    got = common.call(library, f"to_{to}_{rounding}", x, common.empty(len(x), np.int64)).tolist()
    rounded = ROUNDINGS[rounding](x.astype(np.float64))
    clamp = [0 if np.isnan(v) else low if v <= low else high if v >= high else int(v) for v in rounded]
    assert got == clamp


def test_classes_and_constants(library):
    x = np.array([np.nan, np.inf, -np.inf, 1.0, -0.0], np.float32)
    assert common.call(library, "classes", x, common.empty(5, np.int32)).tolist() == [1, 2, 10, 4, 12]
    assert common.call(library, "constants", x, common.empty(5, np.int32)).tolist()[:3] == [0x7F800000, 0x7F800000, 1]


def signed(x, bits=32):
    return (x & (2**bits - 1)) - ((x >> (bits - 1) & 1) << bits)


def integer_truth(x, y, s):
    """What the integer intrinsics say, in Python's integers."""
    both, sx, sy = y << 32 | x, signed(x), signed(y)
    pool = both.to_bytes(8, "little")
    permuted = 0
    for i in range(4):
        pick = s >> 4 * i & 15
        byte = pool[pick & 7]
        permuted |= ((255 if byte & 128 else 0) if pick & 8 else byte) << 8 * i
    products = [(signed(x >> 8 * i & 255, 8), signed(y >> 8 * i & 255, 8)) for i in range(4)]
    clamped = min(s & 63, 32)
    return [
        v & 0xFFFFFFFF
        for v in [
            x.bit_count(),
            32 - x.bit_length(),
            (x & -x).bit_length(),
            int(f"{x:032b}"[::-1], 2),
            permuted,
            both << (s & 31) >> 32,
            both >> (s & 31),
            both << clamped >> 32,
            both >> clamped,
            signed(x, 24) * signed(y, 24),
            (x & 0xFFFFFF) * (y & 0xFFFFFF),
            x * y >> 32,
            sx * sy >> 32,
            sx + sy >> 1,
            x + y >> 1,
            s + abs(sx - sy),
            s + abs(x - y),
            s + sum(p * q for p, q in products),
            min(sx, sy),
            max(x, y),
        ]
    ]


def test_integer_intrinsics(library):
    draw = np.random.default_rng(5).integers(0, 2**32, (3, 500), dtype=np.uint64).astype(np.uint32)
    draw[:, 0], draw[:, 1] = 0, 0xFFFFFFFF
    got = common.empty(20 * 500, np.uint32)
    common.call(library, "integers", *draw, got)
    expected = [integer_truth(*(int(v) for v in column)) for column in draw.T]
    np.testing.assert_array_equal(got.reshape(500, 20), np.array(expected, np.uint32))


FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@pytest.mark.parametrize("kind", FP8)
def test_every_fp8_pattern(library, kind):
    bits = np.arange(256, dtype=np.uint8)
    got = common.call(library, f"{kind}_to_float", bits, common.empty(256, np.float32))
    np.testing.assert_array_equal(got, torch.from_numpy(bits).view(FP8[kind]).float().numpy())
    finite = np.isfinite(got)
    back = common.call(library, f"{kind}_saturating", got, common.empty(256, np.uint8))
    np.testing.assert_array_equal(back[finite], bits[finite])


@pytest.mark.parametrize("kind", FP8)
def test_float_to_fp8(library, kind):
    """Random floats, and the ties between neighbours; saturated to the largest number, or overflowing."""
    random = np.random.default_rng(9).integers(0, 2**32, 400_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = torch.arange(256, dtype=torch.uint8).view(FP8[kind]).double().numpy()
    values = np.unique(values[np.isfinite(values)])
    ties = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))]
    edges = np.array([448, 463.9, 464, 464.1, 480, 57344, 61439, 61440, 1e30, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([random, ties, *beside, edges])
    x = np.concatenate([x, -x])
    x = x[: len(x) // 4 * 4]
    reference = torch.from_numpy(x)
    largest = torch.finfo(FP8[kind]).max

    bits = common.call(library, f"{kind}_saturating", x, common.empty(len(x), np.uint8))
    got = torch.from_numpy(bits).view(FP8[kind]).float()
    clamped = reference.clamp(-largest, largest).to(FP8[kind]).float()
    assert torch.equal(got.isnan(), reference.isnan()) and torch.equal(got.nan_to_num(0), clamped.nan_to_num(0))

    # what lies beyond the tie above the largest number overflows: to NaN or infinity (torch's own choice has changed)
    overflow = reference.abs() > 464 if kind == "e4m3" else reference.abs() >= 61440
    beyond = torch.full_like(reference, float("nan")) if kind == "e4m3" else reference.sign() * float("inf")
    expected = torch.where(overflow, beyond, clamped)
    plain = torch.from_numpy(common.call(library, f"{kind}_plain", x, common.empty(len(x), np.uint8)))
    torch.testing.assert_close(plain.view(FP8[kind]).float(), expected, rtol=0, atol=0, equal_nan=True)
    np.testing.assert_array_equal(common.call(library, f"{kind}_four", x, common.empty(len(x), np.uint8)), bits)


def test_double_to_fp8_rounds_once(library):
    x = np.array([1.0625 + 2.0**-45, 1.0625, 1.1875 - 2.0**-45, 1e300])
    bits = common.call(library, "e4m3_double", x, common.empty(4, np.uint8))
    assert torch.from_numpy(bits).view(torch.float8_e4m3fn).float().tolist() == [1.125, 1.0, 1.125, 448.0]
