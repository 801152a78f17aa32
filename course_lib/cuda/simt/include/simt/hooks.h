// The interface between kernel code and the SIMT machine's runtime.
//
// Kernel code (compiled by the system C++ compiler with machine.h forced in) calls these; runtime/ defines them. They are out
// of line: the return address of each call is a code address in the kernel, and so a source line. Every header function
// that calls a hook is always_inline for the same reason.
#pragma once
#include <cstddef>
#include <cstdint>

#define SIMT_INLINE static inline __attribute__((always_inline))

// clang merges equal calls of several branches into one, which then has no line. These calls must keep theirs.
#if defined(__clang__)
#define SIMT_OWN_LINE __attribute__((nomerge))
#else
#define SIMT_OWN_LINE
#endif

struct uint3;  // vector_types.h
struct dim3;   // vector_types.h

extern "C" {
// threadIdx, blockIdx, blockDim, gridDim. The pointers stay valid while the thread runs.
const uint3* simt_thread_idx();
const uint3* simt_block_idx();
const dim3* simt_block_dim();
const dim3* simt_grid_dim();
unsigned char* simt_dynamic_shared();  // the block's dynamic shared memory
SIMT_OWN_LINE size_t simt_shared_address(const void* pointer);  // in the block's window of shared memory, from 0

// Block barrier. op: 0 plain, 1 count, 2 and, 3 or. Returns the reduced predicate.
int simt_barrier(int op, int predicate);
void simt_syncwarp(unsigned mask);
// 0 block, 1 device, 2 system
void simt_fence(int scope);

// Warp shuffle: every lane of mask sends `bytes` (at most 16) and receives those of its source lane.
// mode: 0 idx, 1 up, 2 down, 3 xor; width as in __shfl_sync.
void simt_shuffle(unsigned mask, int mode, int operand, int width, const void* in, void* out, unsigned bytes);
unsigned simt_ballot(unsigned mask, int predicate);
unsigned simt_active_mask();
// op: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor
unsigned simt_reduce(unsigned mask, int op, unsigned value, int is_signed);
unsigned simt_match_any(unsigned mask, unsigned long long value);
unsigned simt_match_all(unsigned mask, unsigned long long value, int* predicate);

// Collective for instructions that need the registers of every lane (ldmatrix, mma, wmma): each lane sends `bytes` from
// `in`; afterwards *all points to 32 consecutive records in lane order, valid until the lane's next gather.
void simt_warp_gather(unsigned mask, const void* in, unsigned bytes, const void** all);

// ldmatrix: the 16 bytes of shared memory at the lane's address into `row`, recorded as a read with wavefronts of its own:
// one for each tile of eight rows.
SIMT_OWN_LINE void simt_matrix_row(void* row, const void* address);
// Counts an mma.m16n8k16 of the warp; `kind` is the place of its types in report.MMA_TYPES.
void simt_count_mma(unsigned kind);

// cp.async: `source_bytes` of `source` go to `destination` in shared memory, zeros to the rest of `bytes`. The source is
// read (and counted) at once; the destination keeps its old bytes and belongs to the copy until its thread has waited
// for its group.
SIMT_OWN_LINE void simt_copy_async(void* destination, const void* source, unsigned bytes, unsigned source_bytes);
void simt_copy_commit();
SIMT_OWN_LINE void simt_copy_wait(unsigned num_groups);  // until at most the last num_groups committed groups are in flight
SIMT_OWN_LINE void simt_copy_wait_all();                 // until none is in flight, committed or not

// wgmma: 128 lanes call it together. d: num_regs accumulators; a_regs: the four registers of a, or null when a is in shared
// memory and `a` its descriptor; item_bytes: of an element of a and b, which to_floats converts.
SIMT_OWN_LINE void simt_wgmma(float* d, unsigned num_regs, const unsigned* a_regs, unsigned long long a, unsigned long long b,
                              unsigned item_bytes, int trans_a, int trans_b, int scale_d,
                              void (*to_floats)(const void* from, float* to, unsigned count));
SIMT_OWN_LINE void simt_wgmma_fence();
SIMT_OWN_LINE void simt_wgmma_commit();
SIMT_OWN_LINE void simt_wgmma_wait(unsigned num_groups);  // until at most the last num_groups committed groups are in flight

// mbarriers: 8 bytes of shared memory. A wait returns when the phase of this parity has completed; try_wait also, with 0,
// when no thread of the block can go on, up to 64 times before a copy lands.
SIMT_OWN_LINE void simt_mbarrier_init(void* barrier, unsigned num_arrivals);
void simt_mbarrier_init_fence();
SIMT_OWN_LINE void simt_mbarrier_arrive(void* barrier);
SIMT_OWN_LINE void simt_mbarrier_arrive_expect_tx(void* barrier, unsigned num_bytes);
SIMT_OWN_LINE unsigned simt_mbarrier_parity(void* barrier);  // of the phase that is not yet complete
SIMT_OWN_LINE int simt_mbarrier_try_wait(void* barrier, unsigned parity);
SIMT_OWN_LINE void simt_mbarrier_wait(void* barrier, unsigned parity);

// TMA: a box of `rank` dimensions at its coordinates, innermost first. Plain bulk copies: `num_bytes` in one piece.
SIMT_OWN_LINE void simt_tma_load(void* shared, const void* map, void* barrier, unsigned rank, const int* coordinates);
SIMT_OWN_LINE void simt_tma_store(const void* map, const void* shared, unsigned rank, const int* coordinates);
SIMT_OWN_LINE void simt_bulk_load(void* shared, const void* global, unsigned num_bytes, void* barrier);
SIMT_OWN_LINE void simt_bulk_reduce_add_f32(void* global, const void* shared, unsigned num_bytes);
void simt_bulk_commit_group();
SIMT_OWN_LINE void simt_bulk_wait_group(unsigned num_groups, int reads_only);
SIMT_OWN_LINE void simt_prefetch_tensormap(const void* map);
void simt_fence_proxy_async();

SIMT_OWN_LINE void simt_named_barrier(int number, int num_threads, int waits);  // waits 0: only arrives
SIMT_OWN_LINE void simt_setmaxnreg(int num_registers, int increases);

// Atomics: one call, one recorded atomic access. kind: see SimtAtomicType. op: 0 add, 1 sub, 2 exch, 3 min, 4 max, 5 and,
// 6 or, 7 xor, 8 inc, 9 dec, 10 cas. scope: as of simt_fence. Writes the old value to `old`.
void simt_atomic(int op, int type, int scope, void* address, const void* operand, const void* compare, void* old);

// A copy that is recorded as ONE read of `bytes` at source and one write at destination (float4 and friends).
void simt_copy(void* destination, const void* source, unsigned bytes);
// A recorded access without data movement (wrappers that move data themselves).
void simt_record(const void* address, unsigned bytes, int is_write);

long long simt_clock64();
int simt_printf(const char* format, ...);
SIMT_OWN_LINE void simt_assert_fail(const char* expression, const char* file, int line);
void simt_trap();
}

enum SimtAtomicType {
    SIMT_I32, SIMT_U32, SIMT_I64, SIMT_U64, SIMT_F32, SIMT_F64, SIMT_F16, SIMT_BF16, SIMT_F16X2, SIMT_BF16X2, SIMT_U16
};
