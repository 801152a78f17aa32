// Bodies of small kernels that NVRTC and the machine must both compile; see test_headers_both_compilers.py.
// Parameters: float* f, int* i, double* d, __half* h, __half2* h2, __nv_bfloat16* b, __nv_bfloat162* b2, float2* f2.

// case: vector types
float4 v = *(float4*)f, w = v; w.x += v.y; *reinterpret_cast<float4*>(f + 4) = w;
float4 many[2] = {{1, 2, 3, 4}, {5, 6, 7, 8}}; many[0] = many[1]; float3 three = *(float3*)f;
float4 zero{}, one = {1.f}; int4 q = make_int4(1, 2, 3, 4);
f[i[0]] = (&v.x)[i[1]] + three.z + zero.x + one.x + q.w; const float4 cached = __ldg((const float4*)f);
f2[0] = float2{cached.x, many[0].y}; f2[1] = {1.f, 2.f}; longlong2 l = make_longlong2(1, 2);
uchar4 bytes = make_uchar4(1, 2, 3, 4); *(uchar4*)i = bytes; d[0] = l.y;

// case: words of halves
union { uint4 word; half part[8]; } pack; pack.word = *(uint4*)h; h[8] = pack.part[3];
union { float4 word; half2 part[4]; } pairs; pairs.word = *(float4*)h; h2[8] = pairs.part[1];
struct Four { half2 a, b; }; Four four = *(Four*)h; *(Four*)(h + 8) = four;

// case: dim3 and uint3
dim3 one, two(2), three = 3, given = {1, 2}; uint3 t = threadIdx; dim3 size = blockDim; uint3 back = size;
i[0] = one.x + two.y + three.z + given.y + t.x + back.y + gridDim.x + warpSize;

// case: maths
f[0] = expf(f[1]) + exp(f[1]) + exp2f(f[1]) + logf(f[1]) + log2f(f[1]) + sqrtf(f[1]) + rsqrtf(f[1]) + tanhf(f[1]);
f[1] = erff(f[2]) + powf(f[1], 2.f) + fmaf(f[0], f[1], f[2]) + fmaxf(f[0], d[0]) + fabsf(f[1]) + copysignf(1.f, f[1]);
d[0] = exp(d[1]) + max(f[0], d[0]) + fma(d[0], d[1], d[2]) + rsqrt(d[1]); float s, c; sincosf(f[0], &s, &c);
f[2] = s + c + fminf(f[0], f[1]) + floorf(f[0]) + roundf(f[1]) + ldexpf(f[0], 3) + nanf("") + normcdff(f[0]);

// case: fast maths
f[0] = __expf(f[1]) + __logf(f[1]) + __log2f(f[1]) + __fdividef(f[0], f[1]) + __sinf(f[0]) + __powf(f[0], f[1]);
f[1] = __frcp_rn(f[0]) + __fsqrt_rn(f[0]) + __fadd_rn(f[0], f[1]) + __fmaf_rn(f[0], f[1], f[2]) + __saturatef(f[0]);
f[2] = __fdiv_rn(f[0], f[1]) + __fmul_rn(f[0], f[1]) + __frsqrt_rn(f[0]) + CUDART_INF_F + CUDART_PI_F;

// case: directed rounding
f[0] = __fadd_rz(f[0], f[1]) + __fsub_ru(f[0], f[1]) + __fmul_rd(f[0], f[1]) + __fdiv_rz(f[0], f[1]) + __frcp_ru(f[0]);
f[1] = __fsqrt_rd(f[0]) + __fmaf_rz(f[0], f[1], f[2]) + __fmaf_ru(f[0], f[1], f[2]) + __fmaf_rd(f[0], f[1], f[2]);

// case: min and max
i[0] = max(i[1], i[2]) + min(i[0], 3u) + max(1ll, 2ll) + min(1l, 2l) + umin(1u, 2u) + abs(i[1]) + __hadd(i[0], i[1]);
f[0] = max(f[0], f[1]) + min(f[0], f[1]) + abs(f[0]);
i[1] = isnan(f[0]) + isinf(f[1]) + isfinite(d[0]) + signbit(f[0]);

// case: bits
i[0] = __popc(i[1]) + __clz(i[1]) + __ffs(i[1]) + __brev(i[1]) + __byte_perm(i[0], i[1], 0x5410) + __popcll(i[1]);
i[1] = __funnelshift_l(i[0], i[1], 3) + __funnelshift_rc(i[0], i[1], 3) + __mul24(i[0], i[1]) + __umulhi(i[0], i[1]);
f[0] = __int_as_float(i[0]) + __uint_as_float(1u);
i[2] = __float_as_int(f[1]) + __float2int_rn(f[0]) + __dp4a(1, 2, 3);
i[3] = __float2int_rz(f[0]) + __float2uint_rd(f[0]) + __double2int_rn(d[0]); f[1] = __int2float_rn(i[0]);

// case: cached accesses
f[0] = __ldg(f + 1) + __ldcs(f + 2) + __ldcg(f + 3); __stcs(f + 4, 1.f); h[0] = __ldg(h + 1);
h2[1] = __ldg(h2 + 2); int4 word = __ldg((const int4*)i); __stcg((int4*)i + 1, word); __stcs(h, h[1]);
b[0] = __ldg(b + 1);

// case: memcpy
memcpy(f, h, 16); memset(i, 0, 8); unsigned bits; memcpy(&bits, f, 4); i[0] = bits;

// case: half conversions
h[0] = f[0]; h[1] = 1.0f; h[2] = 1; h[3] = 2.0; f[0] = h[0]; d[0] = h[0]; i[0] = h[0]; long long wide = h[1];
h[4] = __float2half(f[0]); h[5] = __float2half_rn(f[0]); f[2] = __half2float(h[0]); h[6] = half(3);
h[7] = half(2.5f); h[8] = static_cast<half>(f[0]); half list[2] = {1.f, 2.f}; h[9] = list[i[0]];
h[10] = __float2half_rz(f[0]); h[11] = __int2half_rn(i[0]) + __ushort_as_half(1);
i[1] = __half2int_rz(h[0]) + __half_as_ushort(h[1]) + wide; __half_raw raw = h[0]; h[12] = __half(raw);

// case: half arithmetic
h[0] = h[1] * h[2] + h[3]; h[0] += f[0]; h[1] *= 2.0f; h[2] = -h[3]; h[3]++; h[4] = __hfma(h[0], h[1], h[2]);
h[5] = __hadd(h[0], h[1]); h[6] = __hmax(h[0], h[1]); h[7] = __hdiv(h[0], h[1]);
h[8] = hexp(h[0]) + hrsqrt(h[1]); if (h[0] > h[1] || __hisnan(h[2]) || __hgt(h[0], h[1])) h[9] = __habs(h[0]);
f[0] = h[0] ? 1 : 0;
f[1] = float(h[0]) * (float)h[1] + fmaf(h[0], h[1], f[0]) + fmaxf(h[0], f[0]) + expf(h[0]);

// case: pairs of halves
half2 v = h2[0], w = __floats2half2_rn(1.f, 2.f); v.x = h[1]; h2[1] = v * w + h2[2];
h2[2] = __hfma2(v, w, h2[3]); float2 wide = __half22float2(v);
f[0] = wide.x + __low2float(v) + __high2float(w); h2[3] = __float22half2_rn(wide);
h2[4] = __halves2half2(h[0], h[1]); h2[5] = half2(h[0], h[1]); h2[6] = make_half2(h[0], h[1]);
h2[7] = {h[0], h[1]}; h2[8] = __half2half2(h[0]); h[2] = __low2half(v) + __high2half(w);
h2[9] = __hmax2(v, w) + h2exp2(v); i[0] = v == w; h2[10] = __lowhigh2highlow(v);
i[1] = __hbeq2(v, w) + __heq2_mask(v, w); half2 filled = {1.0f, 2.0f}; h2[11] = filled;

// case: bf16
b[0] = f[0]; b[1] = __float2bfloat16(f[0]); f[0] = b[0]; f[1] = __bfloat162float(b[1]);
b[2] = b[0] * b[1] + b[2]; b2[0] = __floats2bfloat162_rn(1.f, 2.f); float2 wide = __bfloat1622float2(b2[0]);
b2[1] = __float22bfloat162_rn(wide); b2[2] = __hfma2(b2[0], b2[1], b2[2]); b[3] = __hmax(b[0], b[1]);
b[4] = hexp(b[0]); f[2] = __low2float(b2[0]); b[5] = __nv_bfloat16(h[0]); h[0] = __half(b[0]);
nv_bfloat162 pair(b[0], b[1]); b2[3] = pair; b[6] = __hfma(b[0], b[1], b[2]);

// case: fp8
__nv_fp8_e4m3 x(f[0]), y = (__nv_fp8_e4m3)h[0]; __nv_fp8_e5m2 z(b[0]); f[1] = float(x) + (float)y + float(z);
__nv_fp8x4_e4m3 four(*(float4*)f); *(float4*)f = float4(four); __nv_fp8x2_e5m2 two(f2[0]);
f2[1] = float2(two); unsigned char bits = __nv_cvt_float_to_fp8(f[0], __NV_SATFINITE, __NV_E4M3);
h[1] = __nv_cvt_fp8_to_halfraw(bits, __NV_E4M3); i[0] = x.__x + two.__x;

// case: warp
float v = __shfl_xor_sync(0xffffffffu, f[0], 1); half w = __shfl_down_sync(0xffffffffu, h[0], 2);
half2 p = __shfl_sync(0xffffffffu, h2[0], 0); nv_bfloat16 q = __shfl_up_sync(0xffffffffu, b[0], 1, 16);
i[0] = __ballot_sync(0xffffffffu, v > 0.f) + __any_sync(0xffffffffu, i[1]) + __reduce_add_sync(0xffffffffu, i[2]);
h[0] = w; h2[0] = p; b[0] = q; __syncwarp(); i[3] = __match_any_sync(0xffffffffu, i[3]) + __activemask();

// case: atomics
atomicAdd(f, 1.f); atomicAdd(i, 1); atomicAdd(d, 1.0); atomicAdd(h, h[1]); atomicAdd(h2, h2[1]);
atomicAdd(b, b[1]); atomicAdd(b2, b2[1]); i[1] = atomicCAS(i, 1, 2) + atomicMax(i, 3) + atomicExch(i, 4);

// case: shared memory
__shared__ float4 words[32]; __shared__ alignas(16) half tile[2][32]; __shared__ half2 pairs[32];
__shared__ __nv_bfloat16 one; extern __shared__ float4 dynamic[]; words[threadIdx.x] = *(float4*)f;
tile[0][threadIdx.x] = h[0]; one = b[0]; pairs[threadIdx.x] = h2[0]; dynamic[threadIdx.x] = words[0];
__syncthreads(); f[0] = words[1].x + dynamic[2].y; h[1] = tile[0][1]; h2[1] = pairs[1]; b[1] = one;

// case: wmma
using namespace nvcuda; wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
wmma::load_matrix_sync(x, h, 16); wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
wmma::load_matrix_sync(y, h, 16); wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
wmma::fill_fragment(z, 0.0f); wmma::mma_sync(z, x, y, z);
for (int k = 0; k < z.num_elements; ++k) z.x[k] *= 2.0f;
wmma::store_matrix_sync(f, z, 16, wmma::mem_row_major);
wmma::fragment<wmma::matrix_a, 32, 8, 16, __nv_bfloat16, wmma::col_major> p; wmma::load_matrix_sync(p, b, 32);
wmma::fragment<wmma::matrix_b, 32, 8, 16, __nv_bfloat16, wmma::row_major> q; wmma::load_matrix_sync(q, b, 8);
wmma::fragment<wmma::accumulator, 32, 8, 16, float> r; wmma::load_matrix_sync(r, f, 8, wmma::mem_row_major);
wmma::mma_sync(r, p, q, r); wmma::store_matrix_sync(f, r, 32, wmma::mem_col_major);
wmma::fragment<wmma::accumulator, 16, 16, 16, half> s; wmma::fill_fragment(s, __float2half(0.f));
wmma::mma_sync(s, x, y, s); wmma::store_matrix_sync(h, s, 16, wmma::mem_row_major);

// case: functions of the kernel's own
float4* words = (float4*)f; auto get = [&](int k) { return words[k]; }; float4 v = get(1);
auto swap_halves = [](half2 p) { return __halves2half2(p.y, p.x); }; h2[0] = swap_halves(h2[1]); f[0] = v.x;
const int row = blockIdx.x * blockDim.x + threadIdx.x; volatile float* seen = f; f[1] = seen[0]; i[row] = row;

// case: the rest
long long before = clock64(); __threadfence(); __syncthreads(); i[0] = __syncthreads_count(i[1]);
i[2] = clock64() - before; if (i[0] < 0) __trap(); printf("%d %f\n", i[0], f[0]); __nanosleep(10);
