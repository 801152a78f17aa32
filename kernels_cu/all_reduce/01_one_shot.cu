// 01_one_shot — the sum over all ranks, and the residual added: every rank writes its part to all others, and sums what has come
//
// Idea      few bytes cost a step, not a transfer: one step to all peers instead of 2 (n - 1) round a ring; each word of data carries
//           the number of the call, so nothing else is waited for
// Contract  x (ranks_here, size) ELEMENT (float, __half or __nv_bfloat16), contiguous · residual like x or null · out like x, and may
//           be x or residual · out = sum of x over all ranks + residual, in the order of the ranks, in float, rounded once: the same
//           bits on every rank · size = num_packets * VEC; x, residual and out at multiples of 8 bytes
//           inbox (2, NUM_RANKS, capacity, 2) words of this rank, at a multiple of 16 bytes, zero before the first call ·
//           inbox_offsets (NUM_RANKS,): words from `inbox` to the inbox of each rank, which this card can write
//           epochs (ranks_here, gridDim.x): calls so far, zero before the first; left one higher
//           all ranks make the same calls in the same order, on one stream each, with one grid · num_packets <= capacity
//           blockIdx.y is rank first_rank + blockIdx.y. Cards: one rank a launch. On one card or a CPU, all ranks in one launch:
//           ranks_here = NUM_RANKS, and `inbox` is that of rank 0
//           launched as a dependent of the kernel before (common/dependent_launch.cuh), which must not write inbox_offsets
// Launch    grid (any number of blocks that are all resident together, ranks_here) · block NUM_THREADS · no dynamic shared memory
//           A block waits for the same block of all peers: a kernel that waits for room behind it never keeps it from starting, since
//           the next one of the stream starts after all blocks of this one
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: it has no access to a word of 64 bits that is whole for the cards of a host
// gate: -DELEMENT=__nv_bfloat16 -DNUM_RANKS=4 -DNUM_THREADS=128
// gate: -DELEMENT=__half -DNUM_RANKS=2 -DNUM_THREADS=128
// gate: -DELEMENT=float -DNUM_RANKS=8 -DNUM_THREADS=128
// Source    NCCL, protocol LL (8 bytes of data and flag); one-shot all-reduce of TensorRT-LLM, customAllReduceKernels
#if !defined(ELEMENT) || !defined(NUM_RANKS) || !defined(NUM_THREADS)
#error "pass -DELEMENT=__nv_bfloat16 -DNUM_RANKS=4 -DNUM_THREADS=128 (of a block)"
#endif
#include "common/dependent_launch.cuh"
#include "common/rank_inbox.cuh"  // RankInbox
#include "common/row_chunks.cuh"  // Chunk, as_floats, from_floats
#define VEC (8 / static_cast<int>(sizeof(ELEMENT)))  // numbers of a packet: 8 bytes, which travel as two tagged words
static_assert(NUM_THREADS % WARP_SIZE == 0 && NUM_THREADS <= 1024, "NUM_THREADS: whole warps of one block");
typedef Chunk<ELEMENT, VEC> Packet;

// sum += the numbers of a packet
__device__ __forceinline__ void add(float (&sum)[VEC], uint2 packet) {
    float numbers[VEC];
    as_floats(numbers, Packet{packet});
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum[j] += numbers[j];
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
one_shot_kernel(const ELEMENT* x, const ELEMENT* residual, const long long* inbox_offsets, ELEMENT* out, unsigned long long* inbox,
                unsigned* epochs, int num_packets, int capacity, int first_rank) {
    // region: start
    const int first = blockIdx.x * NUM_THREADS + threadIdx.x, step = gridDim.x * NUM_THREADS;
    const long long row = static_cast<long long>(blockIdx.y) * num_packets * VEC;  // of x, residual and out
    unsigned* calls = calls_of_block(epochs);
    RankInbox ranks = open_inbox(inbox, inbox_offsets, first_rank + blockIdx.y, capacity);
    griddepcontrol_launch_dependents();  // the next kernel may begin to ask for its weights
    griddepcontrol_wait();               // the kernels before have ended: x is complete, and the call before this one is over
    ranks.epoch = *calls + 1;
    // endregion

    // region: push
    for (int packet = first; packet < num_packets; packet += step) {
        Packet own;
        read_chunk(own, x + row, packet);
        ranks.push(packet, own.word);
    }
    // endregion

    // region: sum
    for (int packet = first; packet < num_packets; packet += step) {
        Packet own, addend;
        uint2 parts[NUM_RANKS];
        read_chunk(own, x + row, packet);
        if (residual) read_chunk(addend, residual + row, packet);  // on its way while the peers' packets are
        ranks.collect(parts, packet, own.word);
        float sum[VEC] = {};
#pragma unroll
        for (int r = 0; r < NUM_RANKS; ++r) add(sum, parts[r]);
        if (residual) add(sum, addend.word);
        from_floats(own, sum);
        write_chunk(out + row, packet, own);
    }
    count_call(calls, ranks.epoch);
    // endregion
}
