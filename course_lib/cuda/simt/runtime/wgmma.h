// wgmma: the asynchronous matrix product of a warpgroup, 128 threads. d (64 x n) += a (64 x k) b (k x n).
//
// A product is issued when the last of the 128 lanes calls it. It is made as late as the PTX ISA allows, at the first wait
// that covers it (forward, resident), at its issue (reverse), or at either (random). From its issue to its own wait a
// lane finds NaN in its accumulators. wgmma.cpp has lanes, groups and time; wgmma_operand.cpp descriptors and the
// operands in shared memory.
#pragma once
#include <deque>

#include "state.h"

namespace simt {

constexpr unsigned WARPGROUP = 128;      // threads
constexpr unsigned WGMMA_ROWS = 64;      // of a and d
constexpr unsigned WGMMA_ROW_BYTES = 32; // of a row of a, or of a column of b: k is 16 or 32
constexpr unsigned WGMMA_MAX_REGS = 128; // accumulators of a lane, n / 2

// The arguments of one lane, on its own stack until the product is issued.
struct WgmmaCall {
    float* d;
    unsigned num_regs;
    const unsigned* a_regs;  // null: a is in shared memory
    uint64_t a, b;           // descriptors
    unsigned item_bytes;
    bool trans_a, trans_b, scale_d;
    void (*to_floats)(const void* from, float* to, unsigned count);
};

// A descriptor, field by field, in bytes.
struct WgmmaDescriptor {
    unsigned start, leading_bytes, stride_bytes;
    unsigned base_offset;
    unsigned swizzle_bytes;  // 128, 64, 32, or 16: none
    explicit WgmmaDescriptor(uint64_t bits);
};

// One operand in shared memory as pieces of 16 bytes: their offsets in the block's window, in the order of read_operand.
struct WgmmaOperand {
    unsigned rows = 0;  // m or n; 0: the operand is in registers
    bool is_mn_major = false;
    std::vector<uint32_t> offsets;
};

// The accumulators of a warpgroup while products that add to them are in flight. Row-major, 64 x n.
struct WgmmaTile {
    float* d[WARPGROUP] = {};    // where each lane keeps its own
    bool taken[WARPGROUP] = {};  // the lane has waited and has its numbers
    unsigned num_regs = 0, num_taken = 0;
    uint64_t last_product = 0;   // number of the newest product that adds to it
    std::vector<float> values;
};

struct WgmmaProduct {
    uint64_t number = 0;
    uintptr_t code = 0;
    unsigned item_bytes = 2;
    bool scale_d = true;
    void (*to_floats)(const void* from, float* to, unsigned count) = nullptr;
    WgmmaOperand a, b;
    std::vector<unsigned char> a_bytes;  // 64 rows of 32 bytes, taken from registers at issue
    std::shared_ptr<WgmmaTile> tile;
};

struct Warpgroup {
    unsigned arrived = 0;                  // lanes that wait in a product
    const WgmmaCall* calls[WARPGROUP] = {};
    uint64_t issued = 0;                   // products so far; the first has number 1
    std::deque<WgmmaProduct> in_flight;    // not made yet, oldest first
    std::vector<std::shared_ptr<WgmmaTile>> tiles;
};

// What a lane has in flight, oldest first, by commit group.
struct WgmmaLane {
    struct Pending {
        uint64_t product;
        uint32_t group;
    };
    std::vector<Pending> pending;
    uint32_t group = 0;  // groups committed so far
};

// wgmma_operand.cpp
WgmmaOperand wgmma_operand(uint64_t descriptor, unsigned rows, bool is_mn_major);
void read_operand(const WgmmaOperand& operand, unsigned item_bytes, unsigned char* rows_of_32_bytes);

}  // namespace simt
