// Recording what lanes do, and grouping their accesses into requests. See requests.h.
//
// The key of a request is the code address plus the iteration count of every enclosing loop and the call path. Simpler
// keys are wrong under nested divergence: with the n-th occurrence in a lane instead, a lane-dependent inner loop
// inside an outer loop gives 9 requests where a GPU makes 12, and two causal rows (t, then 63 - t) give 65 instead of
// 96 (test_requests.py).
#include "requests.h"

#include <algorithm>
#include <cstring>

#include "loops.h"

namespace simt {

// Entries of a block's recording, 8 bytes each.
constexpr size_t FLUSH_ENTRIES = 1 << 16;   // flush at a barrier above this: what a cache holds
// flush anywhere above this, to bound memory: requests cut in two count twice
constexpr size_t FORCED_ENTRIES = 1 << 24;

// An entry: its kind in the lower half of the top byte, an access's flags in the upper half. Below: the node of a basic
// block; the code address of a call; for an access the bytes in bits 32-47 and the code address in bits 0-31, followed
// by an entry that is the address.
enum EntryKind : uint8_t { ENTRY_BLOCK = 1, ENTRY_CALL = 2, ENTRY_RETURN = 3, ENTRY_ACCESS = 4 };

namespace {

struct LoopLevel {  // a loop that the lane is in
    int loop;
    uint64_t iteration, hash;  // hash: of this iteration and of all levels outside
};
struct Activation {  // a function call in progress
    uint64_t seed;   // hash of the call path
    size_t first_level;
};
// Where a lane is while its recording is replayed; kept from flush to flush.
struct LaneState {
    std::vector<Activation> calls{{1, 0}};
    std::vector<LoopLevel> levels;
    uint64_t moved[SHARES] = {};  // bytes, in the order of largest_shares
};

LoopFinder loops;
std::unordered_map<uint64_t, Counters> counters;
// While the lanes of a warp have all done the same, the state of the first one is that of all, and only that is kept.
struct BlockState {
    std::vector<LaneState> lanes;
    std::vector<char> uniform;  // by warp
};
std::unordered_map<size_t, BlockState> block_states;  // by slot of the block
std::unordered_map<uint64_t, size_t> request_of_key;  // of the warp being flushed
std::vector<Request> requests;
size_t recorded_entries = 0;  // of all lanes, not yet flushed
uint64_t largest[SHARES] = {};
uint64_t products[MMA_KINDS] = {};
bool exact = true;

// Adds an access to the bytes that a lane has moved. Atomics belong to no one thread alone, and are not counted.
void add_to_share(LaneState& lane, uint64_t entry) {
    auto flags = static_cast<uint8_t>(entry >> 56);
    if (flags & FLAG_ATOMIC) return;
    unsigned share = (flags & FLAG_SHARED ? 2 : 0) + (flags & FLAG_WRITE ? 1 : 0);
    lane.moved[share] += static_cast<uint16_t>(entry >> 32);
    largest[share] = std::max(largest[share], lane.moved[share]);
}

// A 64-bit hash combiner. Keys are compared by hash alone: with 2^20 requests a collision has a chance of 2^-25.
uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdull;
    return hash ^ (hash >> 33);
}

// Hash of the call path and of the iteration counts of every enclosing loop.
uint64_t context(const LaneState& lane) {
    const Activation& call = lane.calls.back();
    return lane.levels.size() > call.first_level ? lane.levels.back().hash : call.seed;
}

// A lane enters a basic block: leave the loops that it is not part of; at a loop's header, count an iteration.
void enter_block(LaneState& lane, int node) {
    size_t base = lane.calls.back().first_level;
    int loop = loops.loop_of(node);
    size_t depth = base + loops.depth(loop);
    if (lane.levels.size() > depth) lane.levels.resize(depth);
    if (depth > base && lane.levels.size() == depth && lane.levels.back().loop != loop) lane.levels.pop_back();
    if (!loops.is_header(node)) return;
    uint64_t iteration = 1;
    if (lane.levels.size() == depth) {  // in the loop already: the back edge was taken
        iteration = lane.levels.back().iteration + 1;
        lane.levels.pop_back();
    }
    lane.levels.push_back({loop, iteration, mix(mix(context(lane), static_cast<uint64_t>(loop)), iteration)});
}

// Adds a lane's access to the request with this key. `cursor`: where the previous access of this lane went; lanes
// mostly repeat the order of the first one, so the next request is tried before the hash table.
void add_to_request(uint64_t entry, uint64_t address, uint64_t key, unsigned lane, size_t& cursor) {
    for (;;) {
        if (cursor >= requests.size() || requests[cursor].key != key) {
            auto [position, is_new] = request_of_key.try_emplace(key, requests.size());
            if (is_new) {
                requests.emplace_back();
                requests.back().key = key;
                requests.back().describe(entry, address);
            }
            cursor = position->second;
        }
        Request& request = requests[cursor++];
        auto distance = static_cast<int64_t>(address - request.base);
        if (!(request.lanes >> lane & 1) && distance == static_cast<int32_t>(distance)) {
            request.lanes |= 1u << lane;
            request.offset[lane] = static_cast<int32_t>(distance);
            return;
        }
        key = mix(key, 7);  // the same instruction again with no loop or call between, or more than 2 GB from the base
    }
}

// Walks through a lane's recording and, where they are to be grouped, adds its accesses to the requests of the warp.
void replay(const Fiber& fiber, LaneState& lane, bool grouped) {
    const std::vector<uint64_t>& entries = fiber.recording.entries;
    size_t cursor = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
        uint64_t entry = entries[i];
        switch (entry >> 56 & 0x0f) {
            case ENTRY_BLOCK: enter_block(lane, static_cast<int>(entry)); break;
            case ENTRY_CALL: lane.calls.push_back({mix(mix(context(lane), entry), 3), lane.levels.size()}); break;
            case ENTRY_RETURN:
                if (lane.calls.size() > 1) {  // the kernel itself returns without a recorded call
                    lane.levels.resize(lane.calls.back().first_level);
                    lane.calls.pop_back();
                }
                break;
            default:
                add_to_share(lane, entry);
                ++i;
                if (grouped) add_to_request(entry, entries[i], mix(context(lane), entry), fiber.lane, cursor);
        }
    }
}

// True when all lanes of the warp took the same path and made the same accesses, each at its own addresses, no more than
// 2 GB apart.
bool is_uniform(const Block& block, const Warp& warp) {
    const std::vector<uint64_t>& first = block.fibers[warp.first].recording.entries;
    for (unsigned lane = 1; lane < warp.lanes; ++lane) {
        const std::vector<uint64_t>& other = block.fibers[warp.first + lane].recording.entries;
        if (other.size() != first.size()) return false;
        for (size_t i = 0; i < first.size(); ++i) {
            if (other[i] != first[i]) return false;
            if ((first[i] >> 56 & 0x0f) != ENTRY_ACCESS) continue;
            auto distance = static_cast<int64_t>(other[++i] - first[i]);
            if (distance != static_cast<int32_t>(distance)) return false;
        }
    }
    return true;
}

// Where all lanes did the same, the n-th accesses of the lanes are the n-th request: what the keys would say.
void count_uniform(const Block& block, const Warp& warp) {
    const std::vector<uint64_t>& first = block.fibers[warp.first].recording.entries;
    const std::vector<uint64_t>* entries[LANES];
    for (unsigned lane = 0; lane < warp.lanes; ++lane) entries[lane] = &block.fibers[warp.first + lane].recording.entries;
    Request request;
    request.lanes = warp.lanes == LANES ? ~0u : (1u << warp.lanes) - 1;
    for (size_t i = 0; i < first.size(); ++i) {
        if ((first[i] >> 56 & 0x0f) != ENTRY_ACCESS) continue;
        request.describe(first[i], first[i + 1]);
        ++i;
        for (unsigned lane = 0; lane < warp.lanes; ++lane)
            request.offset[lane] = static_cast<int32_t>((*entries[lane])[i] - request.base);
        count_request(request, counters[uint64_t(request.flags) << 56 | request.code]);
    }
}

// Turns the recordings of a warp's lanes into counters. Lanes keep their LaneState: a loop may go on after a barrier.
void flush(Block& block, Warp& warp) {
    loops.update();  // before the replay: a recording may hold the first iterations of a new loop
    requests.clear();
    request_of_key.clear();
    BlockState& state = block_states[block.slot];
    LaneState* lanes = &state.lanes[warp.first];
    char& uniform = state.uniform[warp.first / LANES];
    bool was_uniform = uniform != 0;
    uniform = was_uniform && is_uniform(block, warp);
    if (was_uniform && !uniform) std::fill(lanes + 1, lanes + warp.lanes, lanes[0]);
    if (uniform) count_uniform(block, warp);
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        Fiber& fiber = block.fibers[warp.first + lane];
        if (!uniform || lane == 0) replay(fiber, lanes[lane], !uniform);
        recorded_entries -= fiber.recording.entries.size();
        fiber.recording.entries.clear();
    }
    for (const Request& request : requests)
        count_request(request, counters[uint64_t(request.flags) << 56 | request.code]);
}

}  // namespace

void reset_requests() {
    loops.clear();
    counters.clear();
    block_states.clear();
    recorded_entries = 0;
    std::fill(largest, largest + SHARES, 0);
    std::fill(products, products + MMA_KINDS, 0);
    exact = true;
}

void start_block_recording(Block& block) {
    BlockState& state = block_states[block.slot];
    state.lanes.resize(block.fibers.size());
    for (const Warp& warp : block.warps) state.lanes[warp.first] = LaneState{};
    state.uniform.assign(block.warps.size(), 1);
    for (Fiber& fiber : block.fibers) {
        fiber.recording.entries.clear();
        fiber.recording.path.assign(1, LoopFinder::ROOT);
    }
}

void flush_warp(Block& block, Warp& warp) { flush(block, warp); }

void finish_block_recording(Block& block) {
    for (Warp& warp : block.warps) flush(block, warp);
}

void abandon_recording() { block_states.clear(); }

void flush_if_large(Block& block) {
    if (recorded_entries > FLUSH_ENTRIES) finish_block_recording(block);
}

Counters& counters_of(uintptr_t code, uint8_t flags) {
    Counters& sum = counters[uint64_t(flags) << 56 | (code & 0xffffffff)];
    sum.flags = flags;
    return sum;
}

const uint64_t* largest_shares() { return largest; }

const uint64_t* mma_counts() { return products; }

void count_mma(unsigned kind) { ++products[kind]; }

bool counts_are_exact() { return exact; }

const std::unordered_map<uint64_t, Counters>& all_counters() { return counters; }

// Every entry passes here, so a kernel that never reaches a barrier is flushed in time as well.
static void append(Fiber& self, uint64_t entry) {
    self.recording.entries.push_back(entry);
    if (++recorded_entries <= FORCED_ENTRIES) return;
    exact = false;
    finish_block_recording(*self.block);
    recorded_entries = 0;
}

static uint64_t tagged(uint8_t kind, uint64_t rest) { return uint64_t(kind) << 56 | rest; }

// The path tells the edges of the control-flow graph; one entry for each function on the call stack.
void record_block(uintptr_t code) {
    Fiber& self = *current;
    int node = loops.node(static_cast<uint32_t>(code));
    loops.edge(self.recording.path.back(), node);
    self.recording.path.back() = node;
    append(self, tagged(ENTRY_BLOCK, static_cast<uint64_t>(node)));
}

void record_call(uintptr_t code) {
    current->recording.path.push_back(LoopFinder::ROOT);
    append(*current, tagged(ENTRY_CALL, code & 0xffffffff));
}

void record_return() {
    Recording& recording = current->recording;
    if (recording.path.size() > 1) recording.path.pop_back();
    append(*current, tagged(ENTRY_RETURN, 0));
}

void record_access(uintptr_t code, uintptr_t address, unsigned bytes, uint8_t flags) {
    auto kind = static_cast<uint8_t>(ENTRY_ACCESS | flags);
    Recording& recording = current->recording;
    recording.entries.push_back(tagged(kind, uint64_t(bytes) << 32 | (code & 0xffffffff)));
    ++recorded_entries;
    append(*current, address);  // a flush falls after the pair, never between its entries
}

}  // namespace simt
