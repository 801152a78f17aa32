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

constexpr size_t FLUSH_ENTRIES = 1 << 16;  // recorded entries above which a barrier flushes

// The lanes of a warp mostly do the same, so they share their records. A path is a list of entries: a lane follows one as
// long as its own entries are the same, and only the first lane that comes to a point writes the entry. A lane that does
// something else there takes another path with the same beginning. Each list ends with 0, which is no entry.
struct WarpPaths {
    std::vector<std::vector<uint64_t>> lists{{0}};  // the first `used` are in use; the others keep their memory
    size_t used = 1;
    Fiber* first = nullptr;
    unsigned lanes = 0;

    size_t done(const Recording& lane) const { return static_cast<size_t>(lane.next - lists[lane.path].data()); }
    void clear() {  // one empty path, of all lanes
        for (size_t i = 0; i < used; ++i) lists[i].assign(1, 0);
        used = 1;
        for (unsigned lane = 0; lane < lanes; ++lane) {
            Recording& recording = first[lane].recording;
            recording.path = 0;
            recording.next = lists[0].data();
            recording.addresses.clear();
        }
    }
};

size_t recorded_entries = 0;

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
// Lanes that have done the same so far have one state, that of the first of them.
struct BlockState {
    std::vector<LaneState> lanes;  // by thread
    std::vector<uint8_t> like;     // by thread: the lane that has its state
    std::vector<WarpPaths> warps;
};
std::unordered_map<size_t, BlockState> block_states;  // by slot of the block
std::vector<Request> requests;  // of the warp being flushed
std::vector<uint32_t> slots;    // 1 + number of a request, at its key or behind; 0: empty. Empty from flush to flush
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

// The slot of the request with this key, or the empty one where it belongs. A power of two of them, half empty or more.
uint32_t& slot_of(uint64_t key) {
    if (requests.size() * 2 >= slots.size()) {
        slots.assign(std::max<size_t>(64, slots.size() * 2), 0);
        for (size_t i = 0; i < requests.size(); ++i) slot_of(requests[i].key) = static_cast<uint32_t>(i + 1);
    }
    for (size_t i = key;; ++i) {
        uint32_t& slot = slots[i & (slots.size() - 1)];
        if (!slot || requests[slot - 1].key == key) return slot;
    }
}

void clear_requests() {
    for (size_t i = 0; i < requests.size(); ++i) {
        size_t at = requests[i].key;
        while (slots[at & (slots.size() - 1)] != i + 1) ++at;
        slots[at & (slots.size() - 1)] = 0;
    }
    requests.clear();
}

// Adds a lane's access to the request with this key. `cursor`: behind the request of the lane's previous access; lanes
// mostly repeat the order of the first one, so this request is tried before the hash table.
void add_to_request(uint64_t entry, uint64_t address, uint64_t key, unsigned lane, size_t& cursor) {
    for (;;) {
        if (cursor >= requests.size() || requests[cursor].key != key) {
            uint32_t& slot = slot_of(key);
            if (!slot) {
                requests.emplace_back();
                requests.back().key = key;
                requests.back().describe(entry, address);
                slot = static_cast<uint32_t>(requests.size());
            }
            cursor = slot - 1;
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

// Lanes of a warp that have done the same, since the last flush and before.
struct Group {
    unsigned first, like;  // its first lane; the lane that has had its state
    size_t path, done;     // their path and how many of its entries they have done
    unsigned lanes[LANES], size;
};

// The groups of a warp.
std::vector<Group>& groups_of(const WarpPaths& paths, const uint8_t* like) {
    static std::vector<Group> groups;  // reused: one worker in the checked build
    groups.clear();
    for (unsigned lane = 0; lane < paths.lanes; ++lane) {
        size_t path = paths.first[lane].recording.path, done = paths.done(paths.first[lane].recording);
        auto same = [&](const Group& group) { return group.like == like[lane] && group.path == path && group.done == done; };
        auto group = std::find_if(groups.begin(), groups.end(), same);
        if (group == groups.end()) group = groups.insert(group, {lane, like[lane], path, done, {}, 0});
        group->lanes[group->size++] = lane;
    }
    return groups;
}

// Walks through the entries of a group and, with `addresses`, adds its accesses to the requests of the warp.
void replay(const std::vector<uint64_t>& entries, const Group& group, LaneState& state, const uint64_t* const* addresses) {
    size_t cursor = 0, access = 0;
    for (size_t i = 0; i < group.done; ++i) {
        uint64_t entry = entries[i];
        switch (entry >> 56 & 0x0f) {
            case ENTRY_BLOCK: enter_block(state, loops.node(entry & CODE_MASK)); break;
            case ENTRY_CALL: state.calls.push_back({mix(mix(context(state), entry), 3), state.levels.size()}); break;
            case ENTRY_RETURN:
                if (state.calls.size() > 1) {  // the kernel itself returns without a recorded call
                    state.levels.resize(state.calls.back().first_level);
                    state.calls.pop_back();
                }
                break;
            default:
                add_to_share(state, entry);
                if (addresses) {
                    uint64_t key = mix(context(state), entry);
                    size_t start = cursor;
                    for (unsigned n = 0; n < group.size; ++n) {
                        unsigned lane = group.lanes[n];
                        cursor = start;
                        add_to_request(entry, addresses[lane][access], key, lane, cursor);
                    }
                }
                ++access;
        }
    }
}

// Whether no lane's address is more than 2 GB from that of the first one.
bool are_near(const uint64_t* const* addresses, unsigned lanes, size_t count) {
    uint64_t far = 0;  // bits of the distances above the 32 that a request has room for
    for (unsigned lane = 1; lane < lanes; ++lane)
        for (size_t i = 0; i < count; ++i) far |= (addresses[lane][i] - addresses[0][i] + (1ull << 31)) >> 32;
    return far == 0;
}

// Where all lanes did the same, the n-th accesses of the lanes are the n-th request: what the keys would say.
void count_uniform(const std::vector<uint64_t>& entries, const Warp& warp, const uint64_t* const* addresses) {
    Request request;
    request.lanes = warp.lanes == LANES ? ~0u : (1u << warp.lanes) - 1;
    size_t access = 0;
    for (uint64_t entry : entries) {
        if ((entry >> 56 & 0x0f) != ENTRY_ACCESS) continue;
        request.describe(entry, addresses[0][access]);
        for (unsigned lane = 0; lane < warp.lanes; ++lane)
            request.offset[lane] = static_cast<int32_t>(addresses[lane][access] - request.base);
        count_request(request, counters[uint64_t(request.flags) << 56 | request.code]);
        ++access;
    }
}

// Turns the recordings of a warp's lanes into counters. Groups keep their LaneState: a loop may go on after a barrier.
void flush(Block& block, Warp& warp) {
    loops.update();  // before the replay: a recording may hold the first iterations of a new loop
    BlockState& state = block_states[block.slot];
    LaneState* lanes = &state.lanes[warp.first];
    WarpPaths& paths = state.warps[warp.first / LANES];
    const uint64_t* addresses[LANES];
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        const Recording& recording = block.fibers[warp.first + lane].recording;
        addresses[lane] = recording.addresses.data();
        recorded_entries -= paths.done(recording) + recording.addresses.size();
    }
    std::vector<Group>& groups = groups_of(paths, &state.like[warp.first]);
    for (const Group& group : groups)  // before any state goes on
        if (group.first != group.like) lanes[group.first] = lanes[group.like];
    bool uniform = groups.size() == 1 && are_near(addresses, warp.lanes, block.fibers[warp.first].recording.addresses.size());
    if (uniform) count_uniform(paths.lists[groups[0].path], warp, addresses);
    for (const Group& group : groups) {
        replay(paths.lists[group.path], group, lanes[group.first], uniform ? nullptr : addresses);
        for (unsigned n = 0; n < group.size; ++n) state.like[warp.first + group.lanes[n]] = static_cast<uint8_t>(group.first);
    }
    paths.clear();
    for (const Request& request : requests)
        count_request(request, counters[uint64_t(request.flags) << 56 | request.code]);
    clear_requests();
}

}  // namespace

void reset_requests() {
    loops.clear();
    counters.clear();
    block_states.clear();
    requests.clear();  // a launch that was stopped may have left some
    slots.clear();
    recorded_entries = 0;
    std::fill(largest, largest + SHARES, 0);
    std::fill(products, products + MMA_KINDS, 0);
    exact = true;
}

void start_block_recording(Block& block) {
    BlockState& state = block_states[block.slot];
    state.lanes.resize(block.fibers.size());
    state.like.assign(block.fibers.size(), 0);
    state.warps.resize(block.warps.size());
    for (Fiber& fiber : block.fibers) {
        fiber.recording.warp = &state.warps[fiber.warp];
        fiber.recording.code = 0;
        fiber.recording.callers.clear();
    }
    for (const Warp& warp : block.warps) {
        WarpPaths& paths = state.warps[warp.first / LANES];
        paths.first = &block.fibers[warp.first];
        paths.lanes = warp.lanes;
        paths.clear();
        state.lanes[warp.first] = LaneState{};
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

void flush_by_force() {
    exact = false;
    finish_block_recording(*current->block);
    recorded_entries = 0;
}

// The path that a lane takes which does something else than its own says next: one that begins with the same entries and
// goes on with `entry`, or ends there; else a new one.
static size_t branch_off(WarpPaths& paths, const Recording& lane, uint64_t entry) {
    size_t done = paths.done(lane);
    const uint64_t *begin = paths.lists[lane.path].data(), *end = lane.next;
    for (size_t i = 0; i < paths.used; ++i) {
        const std::vector<uint64_t>& other = paths.lists[i];
        bool fits = other.size() > done && (other[done] == entry || other[done] == 0);
        if (fits && std::equal(begin, end, other.begin())) return i;
    }
    std::vector<uint64_t> start(begin, end);
    start.push_back(0);
    if (paths.used == paths.lists.size()) paths.lists.emplace_back();
    paths.lists[paths.used].swap(start);
    return paths.used++;
}

// Writes an entry at the end of a path. Where that moves the list, the lanes on it have to point into the new one.
static void lengthen(WarpPaths& paths, size_t path, uint64_t entry) {
    std::vector<uint64_t>& entries = paths.lists[path];
    const uint64_t* before = entries.data();
    entries.back() = entry;
    entries.push_back(0);
    if (entries.data() == before) return;
    for (unsigned lane = 0; lane < paths.lanes; ++lane) {
        Recording& other = paths.first[lane].recording;
        if (other.path == path) other.next = entries.data() + (other.next - before);
    }
}

// A block's entry names the one before it, so equal entries are the same edge of the control-flow graph: it is added once,
// where the entry is written.
void append_new(Recording& lane, uint64_t entry) {
    WarpPaths& paths = *lane.warp;
    if (*lane.next) {  // another lane did something else here
        size_t done = paths.done(lane), path = branch_off(paths, lane, entry);
        lane.path = static_cast<unsigned>(path);
        lane.next = paths.lists[path].data() + done;
    }
    if (!*lane.next) {
        lengthen(paths, lane.path, entry);
        if ((entry >> 56) == ENTRY_BLOCK) {
            uint32_t from = entry >> CODE_BITS & CODE_MASK;
            loops.edge(from ? loops.node(from) : LoopFinder::ROOT, loops.node(entry & CODE_MASK));
        }
    }
    ++lane.next;
}

void record_call(uintptr_t code) {
    Recording& recording = current->recording;
    recording.callers.push_back(recording.code);
    recording.code = 0;
    record(recording, ENTRY_CALL, code & CODE_MASK);
}

void record_return() {
    Recording& recording = current->recording;
    if (!recording.callers.empty()) {  // the kernel itself returns without a recorded call
        recording.code = recording.callers.back();
        recording.callers.pop_back();
    }
    record(recording, ENTRY_RETURN, 0);
}

}  // namespace simt
