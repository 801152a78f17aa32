// block_reduce — one number of each thread to one number for the block. Device code only, no host headers.
#pragma once

// region: block_reduce
// A tree over reduce_smem (BLOCK,), a power of two. All threads of the block take part, and all get the result.
// Two calls with the same reduce_smem need a __syncthreads() between them: somebody may still be reading the first result.
__device__ __forceinline__ float block_max(float value, float* reduce_smem) {
    reduce_smem[threadIdx.x] = value;
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            reduce_smem[threadIdx.x] = fmaxf(reduce_smem[threadIdx.x], reduce_smem[threadIdx.x + stride]);
        }
    }
    __syncthreads();  // separates the last write to reduce_smem[0] from its reads
    return reduce_smem[0];
}

__device__ __forceinline__ float block_sum(float value, float* reduce_smem) {
    reduce_smem[threadIdx.x] = value;
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            reduce_smem[threadIdx.x] += reduce_smem[threadIdx.x + stride];
        }
    }
    __syncthreads();  // separates the last write to reduce_smem[0] from its reads
    return reduce_smem[0];
}
// endregion
