// From single accesses of single lanes to what a GPU would count: warp requests, sectors, wavefronts.
//
// Each lane records its accesses and its path (basic blocks, calls); lanes of a warp that do the same share a path. When a
// block has finished, or at a barrier when the recording is long, requests.cpp replays the lanes of a warp side by side:
// accesses of the same instruction in the same iteration of every enclosing loop are one request. traffic.cpp counts the
// request's sectors or wavefronts.
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
void record_call(uintptr_t code);
void record_return();

// An entry: its kind in the lower half of the top byte, an access's flags in the upper half. Below: the code addresses of a
// basic block (bits 0-27) and of the one before (bits 28-55; 0: it is the function's first); the code address of a call; for
// an access the bytes in bits 32-47 and the code address in bits 0-31. Addresses are lists of their own, one for each lane.
enum EntryKind : uint8_t { ENTRY_BLOCK = 1, ENTRY_CALL = 2, ENTRY_RETURN = 3, ENTRY_ACCESS = 4 };
constexpr unsigned CODE_BITS = 28;  // a kernel's library is far below 256 MB
constexpr uint32_t CODE_MASK = (1u << CODE_BITS) - 1;
// Entries and addresses above which the recording is flushed anywhere, to bound memory: requests cut in two count twice.
constexpr size_t FORCED_ENTRIES = 1 << 24;
extern size_t recorded_entries;  // and addresses, of all lanes, not yet flushed
void append_new(Recording& lane, uint64_t entry);  // an entry that does not come next in the lane's path
void flush_by_force();

inline void record(Recording& lane, uint8_t kind, uint64_t rest) {
    uint64_t entry = uint64_t(kind) << 56 | rest;
    if (*lane.next == entry) ++lane.next;
    else append_new(lane, entry);
    if (++recorded_entries > FORCED_ENTRIES) flush_by_force();
}

// A basic block begins.
inline void record_block(uintptr_t code) {
    Recording& lane = current->recording;
    uint64_t before = lane.code;
    lane.code = static_cast<uint32_t>(code) & CODE_MASK;
    record(lane, ENTRY_BLOCK, before << CODE_BITS | lane.code);
}

inline void record_access(uintptr_t code, uintptr_t address, unsigned bytes, uint8_t flags) {
    Recording& lane = current->recording;
    lane.addresses.push_back(address);  // before its entry: a flush falls after both
    ++recorded_entries;
    record(lane, static_cast<uint8_t>(ENTRY_ACCESS | flags), uint64_t(bytes) << 32 | (code & 0xffffffff));
}

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
