// last_block — which of several blocks that share a result is the last to have left its part
//
// All threads of the block take part. Device code only, no host headers.
// Source    CUDA C++ Programming Guide, "Memory Fence Functions"
#pragma once

// region: last
// Whether this block is the last of num_blocks to arrive; its parts of the others are then visible to it. `counter` must be zero
// on entry; the last block zeroes it. last_smem: one int in shared memory.
__device__ __forceinline__ bool is_last_block(int* counter, int num_blocks, int* last_smem) {
    __threadfence();  // this thread's part is visible to every block before the block counts itself
    __syncthreads();  // separates all threads' parts, and every read of shared memory, from what follows
    if (threadIdx.x == 0) *last_smem = atomicAdd(counter, 1) == num_blocks - 1;
    __syncthreads();  // separates the write of last_smem from its reads
    if (!*last_smem) return false;
    __threadfence();                        // what the other blocks made visible is read below, not before
    if (threadIdx.x == 0) *counter = 0;  // ready for the next launch
    return true;
}
// endregion
