// rank_inbox — packets of 8 bytes to all ranks, and from them: the exchange of an all-reduce in one step
//
// Every rank has an inbox, (2, NUM_RANKS, capacity, 2) words of 64 bits that all ranks can write, and counts its calls. A thread pushes
// its packets to all peers and then collects the packets of the same number; each word carries the number of the call, so it waits for
// nothing but the data. All ranks make the same calls in the same order, one after the other on a stream, with one grid; packet p is
// pushed by one thread of each rank. Every block counts the calls in a word of its own.
//
// Why two halves of the inbox are enough. Call e uses half e % 2. Rank B overwrites in call e + 2 what rank A collected in call e.
//   B pushes after griddepcontrol_wait(): B's kernel e + 1 has ended, so it has collected packets of A's call e + 1. A pushed these
//   after its own griddepcontrol_wait(): A's kernel e had ended, and with it every read of call e.
// The tag tells the packets of call e from those of call e - 2 in the same place, and from older ones: it comes again after 2^32 calls.
// All blocks of a launch must be resident together. What the stream brings next cannot keep one out, not even a kernel that is launched
// as a dependent: it starts after all blocks of this one have started.
// Device code only, no host headers.
#pragma once
#include "common/constants.cuh"
#include "common/tagged_words.cuh"  // store_tagged, load_tagged
#if !defined(NUM_RANKS)
#error "NUM_RANKS: ranks of the all-reduce; pass -DNUM_RANKS=4"
#endif
#ifndef MAX_POLLS
#define MAX_POLLS (1u << 25)  // rounds, some 20 seconds, after which a peer is lost: the kernel traps instead of hanging
#endif
static_assert(NUM_RANKS >= 2 && NUM_RANKS <= 8, "NUM_RANKS: a thread keeps a packet of each rank in registers");

struct RankInbox {
    unsigned long long* inbox;  // of rank 0 of the launch
    int rank, capacity;         // this rank; packets of a rank in a half
    long long offsets[NUM_RANKS];  // words from `inbox` to the inboxes of ranks rank, rank + 1, …: no two begin with one peer
    unsigned epoch;                // number of this call, from 1 on

    // region: push
    // Where packet `packet` of rank `source` is in an inbox, in words.
    __device__ __forceinline__ long long place(int source, int packet) const {
        return 2 * ((static_cast<long long>(epoch % 2) * NUM_RANKS + source) * capacity + packet);
    }

    __device__ __forceinline__ void push(int packet, uint2 data) const {
#pragma unroll
        for (int i = 1; i < NUM_RANKS; ++i) store_tagged(inbox + offsets[i] + place(rank, packet), data, epoch);
    }
    // endregion

    // region: collect
    // parts[r] = the packet of rank r: this rank's own, and those of the peers as soon as all of them have come.
    __device__ __forceinline__ void collect(uint2 (&parts)[NUM_RANKS], int packet, uint2 own) const {
        const unsigned long long* first = inbox + offsets[0] + place(0, packet);
        bool complete = false;
        for (unsigned polls = 0; !complete; ++polls) {
            if (polls == MAX_POLLS) __trap();  // a peer does not come
            complete = true;
#pragma unroll
            for (int r = 0; r < NUM_RANKS; ++r) {
                if (r == rank) parts[r] = own;
                else complete &= load_tagged(parts[r], first + 2LL * r * capacity, epoch);
            }
        }
    }
    // endregion
};

// region: open
// Before griddepcontrol_wait(): no kernel writes inbox_offsets.
__device__ __forceinline__ RankInbox open_inbox(unsigned long long* inbox, const long long* inbox_offsets, int rank, int capacity) {
    RankInbox opened = {inbox, rank, capacity};
#pragma unroll
    for (int i = 0; i < NUM_RANKS; ++i) opened.offsets[i] = inbox_offsets[(rank + i) % NUM_RANKS];
    return opened;
}

// This block's count of calls; epochs (ranks of the launch, gridDim.x).
__device__ __forceinline__ unsigned* calls_of_block(unsigned* epochs) { return epochs + blockIdx.y * gridDim.x + blockIdx.x; }

// All threads of the block take part, each after it has read the count.
__device__ __forceinline__ void count_call(unsigned* calls, unsigned epoch) {
    __syncthreads();  // separates all threads' reads of the count from its next value
    if (threadIdx.x == 0) *calls = epoch;
}
// endregion
