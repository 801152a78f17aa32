// From single accesses of single lanes to what a GPU would count: warp requests, sectors, wavefronts.
//
// Each lane records its accesses and its path (basic blocks, calls). When a block has finished, or at a barrier when
// the recording is long, requests.cpp replays the lanes of a warp side by side: accesses of the same instruction in the
// same iteration of every enclosing loop are one request. traffic.cpp counts the request's sectors or wavefronts.
#pragma once
#include <unordered_map>

#include "state.h"

namespace simt {

// Flags of an instruction: the upper half of the byte that `Counters` are keyed by. machine.py reads them.
constexpr uint8_t FLAG_WRITE = 0x10, FLAG_SHARED = 0x20, FLAG_ATOMIC = 0x40, FLAG_MATRIX = 0x80;

// Counters of one instruction (one code address and its flags).
struct Counters {
    uint8_t flags = 0;
    uint64_t requests = 0, bytes = 0;         // bytes: sum over the lanes
    uint64_t sectors = 0, ideal_sectors = 0;  // global memory, 32 bytes each
    uint64_t wavefronts = 0, conflicts = 0;   // shared memory
};

// The lanes that executed one instruction together.
struct Request {
    uint64_t key = 0;
    uint64_t base = 0;    // address of the lane that was replayed first
    uint32_t code = 0;
    uint16_t bytes = 0;   // of each lane
    uint8_t flags = 0;
    unsigned lanes = 0;   // mask
    int32_t offset[LANES];  // of each lane's address from base: half the size of 32 addresses
    void describe(uint64_t entry, uint64_t address) {  // an access of a recording (requests.cpp)
        code = static_cast<uint32_t>(entry);
        flags = static_cast<uint8_t>(entry >> 56) & 0xf0;
        bytes = static_cast<uint16_t>(entry >> 32);
        base = address;
    }
    uint64_t address(unsigned lane) const { return base + static_cast<uint64_t>(static_cast<int64_t>(offset[lane])); }
};
void count_request(const Request& request, Counters& sum);  // traffic.cpp

void reset_requests();  // at the start of a launch
void start_block_recording(Block& block);
void finish_block_recording(Block& block);
void abandon_recording();                   // the launch stopped: counters stay as they are
void flush_if_large(Block& block);          // at a barrier, where no request is half recorded
void flush_warp(Block& block, Warp& warp);  // all its lanes have returned
void record_block(uintptr_t code);          // a basic block begins
void record_call(uintptr_t code);
void record_return();
void record_access(uintptr_t code, uintptr_t address, unsigned bytes, uint8_t flags);
const std::unordered_map<uint64_t, Counters>& all_counters();  // by flags << 56 | code address
Counters& counters_of(uintptr_t code, uint8_t flags);  // for what is counted without a request (tma.cpp)
// The most bytes that one thread loads from and stores to global memory, then shared memory, in this order.
constexpr unsigned SHARES = 4;
const uint64_t* largest_shares();
constexpr unsigned MMA_KINDS = 3;
void count_mma(unsigned kind);
const uint64_t* mma_counts();  // warp instructions mma.m16n8k16, by types in the order of report.MMA_TYPES
bool counts_are_exact();  // false after a forced flush: some requests were counted in two parts

}  // namespace simt
