// wgmma: the asynchronous matrix product of a warpgroup, 128 threads. d (64 x n) += a (64 x k) b (k x n).
//
// A product is issued when the last of the 128 lanes calls it. It is made as late as the PTX ISA allows, at the first wait
// that covers it (forward, resident), at its issue (reverse), or at either (random). From its issue to its own wait a
// lane finds NaN in its accumulators. wgmma.cpp has lanes, groups and time; wgmma_operand.cpp descriptors and the
// operands in shared memory; wgmma_registers.cpp registers in flight and fences; wgmma_findings.cpp the other findings.
#pragma once
#include <deque>

#include "findings.h"
#include "state.h"

namespace simt {

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
    uintptr_t code = 0;          // of its issue
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
    unsigned arrived = 0;                  // lanes that wait in a product; `calls` of the others are null
    const WgmmaCall* calls[WARPGROUP] = {};
    uint64_t issued = 0;                   // products so far; the first has number 1
    uint64_t busy_until = 0;               // of the timeline: the products of a warpgroup run one after the other
    std::deque<WgmmaProduct> in_flight;    // not made yet, oldest first
    std::vector<std::shared_ptr<WgmmaTile>> tiles;
};

// Registers of a lane that a product in flight owns.
struct HeldRegisters {
    uintptr_t low, high;
    uint64_t product;  // the newest one that owns them
    uintptr_t code;    // of its issue
    bool is_a;
};

struct LocalWrite;  // wgmma_registers.cpp

// What a lane has in flight, oldest first, by commit group.
struct WgmmaLane {
    struct Pending {
        uint64_t product, read;  // read: of its operands, as async_proxy.h numbers it
        uint64_t start, end;     // of the timeline
        uintptr_t code;
        uint32_t group;
    };
    std::vector<Pending> pending;
    uint32_t group = 0;  // groups committed so far
    // Checked build only. fences: executed so far; counts on from block to block, and from launch to launch where `writes`
    // is taken over, which so needs no clearing.
    std::vector<HeldRegisters> held;
    uintptr_t held_low = ~uintptr_t(0), held_high = 0;  // all of `held` is between them
    uint32_t fences = 0, fences_at_start = 0;
    LocalWrite* writes = nullptr;  // by word of the stack, from the first fence on

    WgmmaLane() = default;
    WgmmaLane(const WgmmaLane&) = delete;
    ~WgmmaLane();
};

// Of the timeline: an assumption, as load_time in timeline.h is, so that a picture shows that a product takes time.
inline uint64_t product_time(unsigned n) { return n / 8; }

// wgmma.cpp
void start_wgmma(Fiber& fiber);  // the thread of a new block

// wgmma_operand.cpp
WgmmaOperand wgmma_operand(uint64_t descriptor, unsigned rows, bool is_mn_major);
void read_operand(const WgmmaOperand& operand, unsigned item_bytes, unsigned char* rows_of_32_bytes);
// At the issue, checked build: the descriptors, then the reads of all four warps. Returns the read's number.
uint64_t check_operands(Block& block, unsigned warpgroup, const WgmmaCall& call, const WgmmaProduct& product);

// wgmma_registers.cpp, checked build
void note_wgmma_fence(Fiber& fiber, WgmmaLane& lane);
// An access of a thread to its own stack.
void local_access(Fiber& fiber, uintptr_t address, unsigned bytes, bool is_write, uintptr_t code);
// At the issue: the fence must have come after the last write of d and a; from now on they are in flight.
void hold_registers(Fiber& fiber, WgmmaLane& lane, const WgmmaCall& call, uint64_t product, uintptr_t code);
void release_registers(WgmmaLane& lane, uint64_t product);         // and of all products before it

// wgmma_findings.cpp, checked build
Finding wgmma_finding(const Fiber& fiber, Kind kind, uintptr_t code, uintptr_t other_code, std::string detail);
void report_uncovered_wait(const Fiber& fiber, uintptr_t code);  // a wait for all that leaves out what is not committed
void report_unfinished(const Fiber& fiber);                      // the thread returns with products in flight
bool is_same_instruction(const WgmmaCall& a, const WgmmaCall& b);  // shape, types, transpositions; in both builds
void report_unequal_calls(Block& block, unsigned warpgroup, const Warpgroup& group);  // the first lane that differs
bool report_missing_lanes(Block& block);  // of a deadlock: a product waits for lanes that never come; false: none does

}  // namespace simt
