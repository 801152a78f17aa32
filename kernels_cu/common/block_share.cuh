// block_share — what of a kernel's work belongs to a block, where a block does more than one piece
//
// Device code only, no host headers.
#pragma once

// The first of `count` pieces, shared out evenly, that belongs to a block of grid x; to the end of the last block: `count`.
__device__ __forceinline__ int first_of_block(unsigned block, unsigned count) {
    return block * (count / gridDim.x) + block * (count % gridDim.x) / gridDim.x;
}
