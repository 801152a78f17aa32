"""The device headers on the running machine: what a vector access counts as, shuffles, atomics, wmma."""

import itertools

import pytest
import torch

from course_lib.cuda import signature, simt

HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <mma.h>\n"


def profile(body, *tensors, parameters="const float* x, float* y", block=32, outputs=(), **options):
    """Report of one block of `block` threads that runs `body`."""
    source = f'{HEADERS}extern "C" __global__ void probe_kernel({parameters}) {{\n{body}\n}}\n'
    module = simt.build(source, "probe_kernel", signature.parse(source, "probe_kernel"), mode="checked")
    return module.profile(1, block, list(tensors), outputs=outputs, **options)


def counts(traffic):
    """Requests, and bytes each lane moved in all."""
    return traffic.requests, traffic.bytes // 32


# body, (global load requests, bytes a lane), (global store requests, bytes a lane)
ACCESSES = {
    "float4 load, one member used": ("float4 v = ((const float4*)x)[t]; y[t] = v.y;", (1, 16), (1, 4)),
    "float4 load through reinterpret_cast": (
        "const float4 v = *reinterpret_cast<const float4*>(x + 4 * t); y[t] = v.x + v.y + v.z + v.w;",
        (1, 16),
        (1, 4),
    ),
    "float4 made and stored": ("*reinterpret_cast<float4*>(y + 4 * t) = make_float4(1, 2, 3, x[t]);", (1, 4), (1, 16)),
    "float4 stored from a list": ("((float4*)y)[t] = {1, 2, 3, 4};", (0, 0), (1, 16)),
    "float4 copied": ("((float4*)y)[t] = ((const float4*)x)[t];", (1, 16), (1, 16)),
    "float4 through __ldg and __stcs": ("__stcs((float4*)y + t, __ldg((const float4*)x + t));", (1, 16), (1, 16)),
    "members of a float4 in memory": ("const float4* v = (const float4*)x + t; y[t] = v->x + v->w;", (2, 8), (1, 4)),
    "float2": ("float2 v = ((const float2*)x)[t]; ((float2*)y)[t] = make_float2(v.y, v.x);", (1, 8), (1, 8)),
    "float3 goes by elements": ("float3 v = ((const float3*)x)[t]; ((float3*)y)[t] = v;", (3, 12), (3, 12)),
    "double4 as two words": ("*((double4*)y + t) = *((const double4*)x + t);", (2, 32), (2, 32)),
    "uchar4": ("uchar4 v = ((const uchar4*)x)[t]; ((uchar4*)y)[t] = make_uchar4(v.w, v.z, v.y, v.x);", (1, 4), (1, 4)),
    "half2": ("half2 v = ((const half2*)x)[t]; ((half2*)y)[t] = __hadd2(v, v);", (1, 4), (1, 4)),
    "half2 made in place": ("((half2*)y)[t] = __floats2half2_rn(x[t], 1.0f);", (1, 4), (1, 4)),
    "eight halves in a word": (
        "union { uint4 word; half part[8]; } p; p.word = ((const uint4*)x)[t]; p.part[0] = p.part[7];"
        "((uint4*)y)[t] = p.word;",
        (1, 16),
        (1, 16),
    ),
    "struct of two half2": (
        "struct alignas(8) Pair { half2 a, b; }; Pair p = ((const Pair*)x)[t]; y[t] = __low2float(p.b);",
        (2, 8),
        (1, 4),
    ),
    "local copies are free": (
        "float4 v = ((const float4*)x)[t], w = v, many[3]; many[0] = w; many[1] = many[0]; auto f = [](float4 a) {"
        "a.x += 1; return a; }; many[2] = f(many[1]); float4* p = many + 1; *p = many[2]; ((float4*)y)[t] = p[0];",
        (1, 16),
        (1, 16),
    ),
    "choice between two vectors": (
        "float4 v = t < 32 ? ((const float4*)x)[t] : make_float4(0, 0, 0, 0); y[t] = v.x;",
        (1, 16),
        (1, 4),
    ),
    "memcpy of 16 bytes": ("float v[4]; memcpy(v, x + 4 * t, 16); memcpy(y + 4 * t, v, 16);", (2, 16), (2, 16)),
}


@pytest.mark.parametrize("name", ACCESSES)
def test_what_counts_as_one_access(name):
    body, loads, stores = ACCESSES[name]
    x, y = torch.ones(512), torch.zeros(512)
    report = profile(f"int t = threadIdx.x; {body}", x, y, outputs=(y,))
    assert report.ok, report
    assert (counts(report.global_load), counts(report.global_store)) == (loads, stores)
    assert report.shared_load.requests == report.shared_store.requests == 0


def test_vectors_arrive():
    """The values, not only the counts: a rotation of float4s through shared memory."""
    x, y = torch.randn(128), torch.zeros(128)
    report = profile(
        "__shared__ float4 tile[32]; __shared__ half2 pairs[32]; int t = threadIdx.x;\n"
        "tile[t] = ((const float4*)x)[t]; pairs[t] = __floats2half2_rn(1, 2); __syncthreads();\n"
        "float4 v = tile[(t + 1) % 32]; half2 p = pairs[(t + 5) % 32];\n"
        "v.x += __low2float(p); v.w += __high2float(p); ((float4*)y)[t] = v;",
        x,
        y,
        outputs=(y,),
    )
    expected = x.view(32, 4).roll(-1, 0).clone()
    expected[:, 0] += 1
    expected[:, 3] += 2
    assert report.ok, report
    torch.testing.assert_close(y.view(32, 4), expected)
    assert counts(report.shared_store) == (2, 20) and counts(report.shared_load) == (2, 20)
    assert report.shared_load.wavefronts == 4 + 1


@pytest.mark.parametrize(("vector", "offset", "bytes_"), [("float4", 1, 16), ("float2", 1, 8), ("half2", 0.5, 4)])
def test_misaligned_vectors_are_found(vector, offset, bytes_):
    x, y = torch.ones(512), torch.zeros(512)
    body = f"{vector} v = *(const {vector}*)((const char*)x + {int(4 * offset)}); (({vector}*)y)[threadIdx.x] = v;"
    report = profile(body, x, y, outputs=(y,))
    assert len(report.misaligned) == 1 and f"{bytes_} bytes" in report.misaligned[0].message
    assert len(report.findings) == 1


SHUFFLES = {
    "__shfl_sync(0xffffffffu, v, 3)": lambda t: 3,
    "__shfl_up_sync(0xffffffffu, v, 2)": lambda t: t if t < 2 else t - 2,
    "__shfl_down_sync(0xffffffffu, v, 4, 8)": lambda t: t + 4 if t % 8 < 4 else t,
    "__shfl_xor_sync(0xffffffffu, v, 5)": lambda t: t ^ 5,
}
# type -> its element, torch's dtype of that, elements
KINDS = {
    "__half": ("__half", torch.float16, 1),
    "__half2": ("__half", torch.float16, 2),
    "__nv_bfloat16": ("__nv_bfloat16", torch.bfloat16, 1),
    "__nv_bfloat162": ("__nv_bfloat16", torch.bfloat16, 2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expression", SHUFFLES)
def test_shuffles_of_halves(expression, kind):
    element, dtype, width = KINDS[kind]
    x = torch.randn(32, width).to(dtype)
    y = torch.zeros_like(x)
    body = f"{kind} v = ((const {kind}*)x)[threadIdx.x]; (({kind}*)y)[threadIdx.x] = {expression};"
    report = profile(body, x.view(-1), y.view(-1), parameters=f"const {element}* x, {element}* y", outputs=(y,))
    assert report.ok, report
    assert torch.equal(y, x[[SHUFFLES[expression](t) for t in range(32)]])


@pytest.mark.parametrize("kind", KINDS)
def test_atomic_adds_of_halves(kind):
    """Small integers, so that the order of the 64 additions does not matter; each old value is a sum on the way."""
    element, dtype, width = KINDS[kind]
    total, old = torch.zeros(width, dtype=dtype), torch.zeros(64 * width, dtype=dtype)
    value = f"{kind}(1.0f)" if width == 1 else f"{kind}({element}(1.0f), {element}(2.0f))"
    body = f"(({kind}*)y)[threadIdx.x] = atomicAdd(({kind}*)x, {value});"
    report = profile(body, total, old, parameters=f"{element}* x, {element}* y", block=64, outputs=(old,))
    assert report.ok, report
    assert total.tolist() == [64.0, 128.0][:width]
    assert sorted(old.view(64, width)[:, 0].tolist()) == list(range(64))


SUMS = [("__half", "float"), ("__half", "__half"), ("__nv_bfloat16", "float")]
SHAPES = [(16, 16), (32, 8), (8, 32)]
LAYOUTS = list(itertools.product(("row_major", "col_major"), repeat=2))


def wmma_body(m, n, a_layout, b_layout, a_ld, b_ld, operand, sum_type, steps):
    return f"""
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, {m}, {n}, 16, {operand}, wmma::{a_layout}> fa;
    wmma::fragment<wmma::matrix_b, {m}, {n}, 16, {operand}, wmma::{b_layout}> fb;
    wmma::fragment<wmma::accumulator, {m}, {n}, 16, {sum_type}> fc;
    wmma::load_matrix_sync(fc, c, {n}, wmma::mem_row_major);
    for (int k = 0; k < {steps}; ++k) {{
        wmma::load_matrix_sync(fa, a + 16 * k * {1 if a_layout == "row_major" else a_ld}, {a_ld});
        wmma::load_matrix_sync(fb, b + 16 * k * {b_ld if b_layout == "row_major" else 1}, {b_ld});
        wmma::mma_sync(fc, fa, fb, fc);
    }}
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] * {sum_type}(0.5f);
    wmma::store_matrix_sync(out, fc, {m}, wmma::mem_col_major);"""


@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("operand", "sum_type"), SUMS)
def test_wmma(shape, layouts, operand, sum_type):
    """Two steps along k, an accumulator loaded by rows and stored by columns, then halved element by element."""
    (m, n), (a_layout, b_layout) = shape, layouts
    dtype, sum_dtype = KINDS[operand][1], {"float": torch.float32, "__half": torch.float16}[sum_type]
    generator = torch.Generator().manual_seed(m)
    a, b = (torch.randn(size, generator=generator).to(dtype) for size in ((m, 32), (32, n)))
    c = torch.randn(m, n, generator=generator).to(sum_dtype)
    out = torch.zeros(n, m, dtype=sum_dtype)
    a_memory = a.contiguous() if a_layout == "row_major" else a.T.contiguous()
    b_memory = b.contiguous() if b_layout == "row_major" else b.T.contiguous()
    body = wmma_body(m, n, a_layout, b_layout, a_memory.shape[1], b_memory.shape[1], operand, sum_type, 2)
    parameters = f"const {operand}* a, const {operand}* b, const {sum_type}* c, {sum_type}* out"
    report = profile(body, a_memory, b_memory, c, out, parameters=parameters, outputs=(out,))
    assert report.ok, report
    exact = 0.5 * (a.double() @ b.double() + c.double())
    tolerance = 2e-5 if sum_type == "float" else 1e-2
    torch.testing.assert_close(out.T.double(), exact, rtol=tolerance, atol=tolerance)
    assert report.global_load.bytes == (a.nelement() + b.nelement()) * 2 + c.nelement() * c.element_size()
    assert report.global_store.bytes == out.nelement() * out.element_size()


def test_wmma_needs_the_whole_warp():
    body = "if (threadIdx.x < 16) {" + wmma_body(16, 16, "row_major", "col_major", 32, 32, "__half", "float", 2) + "}"
    a, c, out = torch.zeros(16, 32).half(), torch.zeros(16, 16), torch.zeros(16, 16)
    parameters = "const __half* a, const __half* b, const float* c, float* out"
    report = profile(body, a, a.clone(), c, out, parameters=parameters)
    assert any("all 32 lanes" in finding.message for finding in report.findings), report


@pytest.mark.parametrize(("pointer", "ld", "rule"), [("a + 8", 32, "32 bytes"), ("a", 20, "16 bytes")])
def test_wmma_says_what_its_pointers_must_be(pointer, ld, rule):
    body = (
        f"nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> f;\n"
        f"nvcuda::wmma::load_matrix_sync(f, {pointer}, {ld}); out[threadIdx.x] = f.x[0];"
    )
    a, out = torch.zeros(1024).half(), torch.zeros(32)
    report = profile(body, a, out, parameters="const __half* a, float* out", outputs=(out,))
    assert any(rule in finding.message for finding in report.findings), report


def test_a_stored_fragment_is_not_yet_visible_to_the_other_lanes():
    """Storing orders nothing: without __syncwarp another lane's read is a race."""
    body = """
    using namespace nvcuda;
    __shared__ alignas(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    wmma::fill_fragment(f, 1.0f);
    wmma::store_matrix_sync(tile, f, 16, wmma::mem_row_major);
    {barrier}
    y[threadIdx.x] = tile[threadIdx.x];"""
    y = torch.zeros(32)
    racy, clean = (profile(body.replace("{barrier}", b), y, parameters="float* y") for b in ("", "__syncwarp();"))
    assert racy.races and clean.ok
