// From single accesses of single lanes to what a GPU would count: warp requests, sectors, wavefronts.
//
// Each lane records its accesses and its path (basic blocks, calls). When a block has finished, the lanes of a warp are put
// side by side: accesses of the same instruction in the same iteration of every enclosing loop are one request.
#pragma once
#include <unordered_map>

#include "state.h"

namespace simt {

// Flags of an instruction.
constexpr uint8_t FLAG_WRITE = 0x10, FLAG_SHARED = 0x20, FLAG_ATOMIC = 0x40, FLAG_MATRIX = 0x80;

// Counters of one instruction (one code address), or sums of them.
struct Counters {
    uint8_t flags = 0;
    uint64_t requests = 0, bytes = 0;
    uint64_t sectors = 0, ideal_sectors = 0;  // global memory
    uint64_t wavefronts = 0, conflicts = 0;   // shared memory
};

void forget_requests();
void start_block_recording(Block& block);
void finish_block_recording(Block& block);
void abandon_recording();           // the launch stopped: nothing more will come
void flush_if_large(Block& block);        // at a barrier: all requests so far are complete
void flush_warp(Block& block, Warp& warp);  // all lanes have returned
void record_block(uintptr_t code);   // a basic block begins
void record_call(uintptr_t code);
void record_return();
void record_access(uintptr_t code, uintptr_t address, unsigned bytes, uint8_t flags);
const std::unordered_map<uint64_t, Counters>& all_counters();  // by code address and flags
bool counts_are_exact();

}  // namespace simt
