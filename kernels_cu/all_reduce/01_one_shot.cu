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
//
// Why two halves of the inbox are enough. Call e uses half e % 2. Rank B overwrites in call e + 2 what rank A read in call e.
//   B's kernel e + 2 writes after griddepcontrol_wait(): B's kernel e + 1 has ended, so B has found A's words of call e + 1, of every
//   block. A wrote those after its own griddepcontrol_wait(): A's kernel e had ended, and with it every read of call e.
// The tag tells call e from call e - 2 in the same place, and from older ones: they come again only after 2^32 calls.
#if !defined(ELEMENT) || !defined(NUM_RANKS) || !defined(NUM_THREADS)
#error "pass -DELEMENT=__nv_bfloat16 -DNUM_RANKS=4 -DNUM_THREADS=128 (of a block)"
#endif
#ifndef MAX_POLLS
#define MAX_POLLS (1u << 25)  // rounds of polling, some 20 seconds, after which a peer is lost: the kernel traps instead of hanging
#endif
#include "common/dependent_launch.cuh"
#include "common/row_chunks.cuh"    // Chunk, as_floats, from_floats
#include "common/tagged_words.cuh"  // store_tagged, load_tagged
#define VEC (8 / static_cast<int>(sizeof(ELEMENT)))  // numbers of a packet: 8 bytes, which travel as two tagged words
static_assert(NUM_RANKS >= 2 && NUM_RANKS <= 8, "NUM_RANKS: a thread keeps a packet of each rank in registers");
static_assert(NUM_THREADS % WARP_SIZE == 0 && NUM_THREADS <= 1024, "NUM_THREADS: whole warps of one block");
typedef Chunk<ELEMENT, VEC> Packet;

// region: collect
// parts[r] = the packet of rank r: this rank's own, and those of the peers as soon as all of them have come. slot: where in the inbox
// the packet of rank 0 is; those of two ranks are `pitch` words apart.
__device__ __forceinline__ void collect(Packet (&parts)[NUM_RANKS], const Packet& own, const unsigned long long* slot,
                                        long long pitch, int rank, unsigned epoch) {
    bool complete = false;
    for (unsigned polls = 0; !complete; ++polls) {
        if (polls == MAX_POLLS) __trap();  // a peer does not come
        complete = true;
#pragma unroll
        for (int r = 0; r < NUM_RANKS; ++r) {
            if (r == rank) parts[r] = own;
            else complete &= load_tagged(parts[r].word, slot + r * pitch, epoch);
        }
    }
}
// endregion

// sum += the numbers of a packet
__device__ __forceinline__ void add(float (&sum)[VEC], const Packet& packet) {
    float numbers[VEC];
    as_floats(numbers, packet);
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum[j] += numbers[j];
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
one_shot_kernel(const ELEMENT* x, const ELEMENT* residual, const long long* inbox_offsets, ELEMENT* out, unsigned long long* inbox,
                unsigned* epochs, int num_packets, int capacity, int first_rank) {
    // region: ranks
    const int rank = first_rank + blockIdx.y, first = blockIdx.x * NUM_THREADS + threadIdx.x, step = gridDim.x * NUM_THREADS;
    const long long row = static_cast<long long>(blockIdx.y) * num_packets * VEC;  // of x, residual and out
    long long peer_offset[NUM_RANKS];  // of ranks rank, rank + 1, … in turn, so that no two ranks begin with the same peer
#pragma unroll
    for (int i = 0; i < NUM_RANKS; ++i) peer_offset[i] = inbox_offsets[(rank + i) % NUM_RANKS];
    // endregion

    // region: epoch
    griddepcontrol_launch_dependents();  // the next kernel may begin to ask for its weights
    griddepcontrol_wait();               // the kernels before have ended: x is complete, and the call before this one is over
    unsigned* calls = epochs + blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned epoch = *calls + 1;
    const long long pitch = 2LL * capacity, half = epoch % 2 * NUM_RANKS * pitch;  // words: of a source rank; first of this call
    // endregion

    // region: push
    for (int packet = first; packet < num_packets; packet += step) {
        Packet own;
        read_chunk(own, x + row, packet);
#pragma unroll
        for (int i = 1; i < NUM_RANKS; ++i) {
            store_tagged(inbox + peer_offset[i] + half + rank * pitch + 2LL * packet, own.word, epoch);
        }
    }
    // endregion

    // region: sum
    for (int packet = first; packet < num_packets; packet += step) {
        Packet own, addend, parts[NUM_RANKS];
        read_chunk(own, x + row, packet);
        if (residual) read_chunk(addend, residual + row, packet);  // on its way while the peers' packets are
        collect(parts, own, inbox + peer_offset[0] + half + 2LL * packet, pitch, rank, epoch);
        float sum[VEC] = {};
#pragma unroll
        for (int r = 0; r < NUM_RANKS; ++r) add(sum, parts[r]);
        if (residual) add(sum, addend);
        from_floats(own, sum);
        write_chunk(out + row, packet, own);
    }
    // endregion

    // region: count
    __syncthreads();  // separates all threads' reads of the number of the call from its next value
    if (threadIdx.x == 0) *calls = epoch;
    // endregion
}
