// A tensor map as the SIMT machine reads it: what cuda.tensor_map puts into the 128 bytes of a TensorMap on the CPU engine.
//
// The same fields in the same order are in course_lib/cuda/tensor_map.py. Dimensions are innermost first.
#pragma once
#include <cstdint>

struct SimtTensorMap {
    uint64_t address;      // of the tensor's first element; rebased to the machine's copy of the tensor at the launch
    uint64_t strides[4];   // bytes to the next element of dimensions 1 to 4; dimension 0 is contiguous
    uint32_t sizes[5];     // elements of each dimension
    uint16_t box[5];       // elements of the box in each dimension, at most 256
    uint8_t rank;          // 1 to 5
    uint8_t element_bytes; // 1, 2, 4 or 8
    uint8_t swizzle;       // as in the wgmma descriptor: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
    uint8_t magic;         // 0x5a: the bytes are a tensor map of this machine
};
static_assert(sizeof(SimtTensorMap) <= 128, "a TensorMap holds 128 bytes");
