// Grouping lanes' accesses into requests, and counting them. See requests.h, and simt.md for why the iteration count of
// every enclosing loop belongs into the key.
#include "requests.h"

#include <algorithm>
#include <cstring>

#include "loops.h"

namespace simt {

constexpr size_t FLUSH_WORDS = 1 << 16;   // of one block, at a barrier: what a cache holds
constexpr size_t FORCED_WORDS = 1 << 24;  // of one block, anywhere: requests cut in two there count twice

// A word of a recording: kind in the top byte. A block has its node below, a call the code address of the call; an access
// has its bytes in the next 16 bits and its code address in the low 32, and is followed by a word with the address.
enum WordKind : uint8_t { WORD_BLOCK = 1, WORD_CALL = 2, WORD_RETURN = 3, WORD_ACCESS = 4 };

namespace {

struct Level {
    int loop;
    uint64_t iteration, hash;
};
struct Activation {  // one function call under way
    uint64_t seed;
    size_t first_level;
};
struct LaneState {
    std::vector<Activation> calls{{1, 0}};
    std::vector<Level> levels;
};
struct Request {
    uint64_t key = 0;
    uint64_t base = 0;   // address of the first lane that came
    uint32_t code = 0;
    uint16_t bytes = 0;  // of each lane
    uint8_t flags = 0;
    unsigned lanes = 0;
    int32_t offset[LANES];  // of each lane's address from base
    uint64_t address(unsigned lane) const { return base + static_cast<uint64_t>(static_cast<int64_t>(offset[lane])); }
};

LoopFinder loops;
std::unordered_map<uint64_t, Counters> counters;
std::unordered_map<size_t, std::vector<LaneState>> lane_states;  // by the block's slot
std::unordered_map<uint64_t, size_t> request_of_key;
std::vector<Request> requests;
size_t recorded_words = 0;
bool exact = true;

uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdull;
    return hash ^ (hash >> 33);
}

uint64_t context(const LaneState& lane) {
    const Activation& call = lane.calls.back();
    return lane.levels.size() > call.first_level ? lane.levels.back().hash : call.seed;
}

void enter_block(LaneState& lane, int node) {
    size_t base = lane.calls.back().first_level;
    int loop = loops.loop_of(node);
    size_t depth = base + loops.depth(loop);
    if (lane.levels.size() > depth) lane.levels.resize(depth);
    if (depth > base && lane.levels.size() == depth && lane.levels.back().loop != loop) lane.levels.pop_back();
    if (!loops.is_header(node)) return;
    uint64_t iteration = 1;
    if (lane.levels.size() == depth) {
        iteration = lane.levels.back().iteration + 1;
        lane.levels.pop_back();
    }
    lane.levels.push_back({loop, iteration, mix(mix(context(lane), static_cast<uint64_t>(loop)), iteration)});
}

void add_to_request(uint64_t word, uint64_t address, uint64_t key, unsigned lane, size_t& cursor) {
    for (;;) {
        if (cursor >= requests.size() || requests[cursor].key != key) {
            auto [place, is_new] = request_of_key.try_emplace(key, requests.size());
            if (is_new) {
                requests.emplace_back();
                requests.back().key = key;
                requests.back().code = static_cast<uint32_t>(word);
                requests.back().flags = static_cast<uint8_t>(word >> 56) & 0xf0;
                requests.back().bytes = static_cast<uint16_t>(word >> 32);
                requests.back().base = address;
            }
            cursor = place->second;
        }
        Request& request = requests[cursor++];
        auto distance = static_cast<int64_t>(address - request.base);
        if (!(request.lanes >> lane & 1) && distance == static_cast<int32_t>(distance)) {
            request.lanes |= 1u << lane;
            request.offset[lane] = static_cast<int32_t>(distance);
            return;
        }
        key = mix(key, 7);  // the same instruction again without a loop or call in between, or 2 GB away
    }
}

void follow(const Fiber& fiber, LaneState& lane) {
    const std::vector<uint64_t>& words = fiber.recording.words;
    size_t cursor = 0;
    for (size_t i = 0; i < words.size(); ++i) {
        uint64_t word = words[i];
        switch (word >> 56 & 0x0f) {
            case WORD_BLOCK: enter_block(lane, static_cast<int>(word)); break;
            case WORD_CALL: lane.calls.push_back({mix(mix(context(lane), word), 3), lane.levels.size()}); break;
            case WORD_RETURN:
                if (lane.calls.size() > 1) {
                    lane.levels.resize(lane.calls.back().first_level);
                    lane.calls.pop_back();
                }
                break;
            default: add_to_request(word, words[++i], mix(context(lane), word), fiber.lane, cursor);
        }
    }
}

struct Piece {
    uint64_t address;
    unsigned bytes;
};

void count_sectors(std::vector<Piece>& pieces, Counters& sum) {
    auto before = [](const Piece& a, const Piece& b) { return a.address < b.address; };
    if (!std::is_sorted(pieces.begin(), pieces.end(), before)) std::sort(pieces.begin(), pieces.end(), before);
    uint64_t next_sector = 0, covered = 0, distinct = 0;
    for (const Piece& piece : pieces) {
        uint64_t first = std::max(piece.address / 32, next_sector), last = (piece.address + piece.bytes - 1) / 32;
        if (last >= first) {
            sum.sectors += last - first + 1;
            next_sector = last + 1;
        }
        uint64_t begin = std::max(piece.address, covered), end = piece.address + piece.bytes;
        if (end > begin) {
            distinct += end - begin;
            covered = end;
        }
    }
    sum.ideal_sectors += (distinct + 31) / 32;
}

// True when every lane takes the same address as the lane at `distance` (by xor); absent lanes agree.
bool in_pairs(const Request& request, unsigned distance) {
    for (unsigned lane = 0; lane < LANES; ++lane) {
        unsigned other = lane ^ distance;
        if (!(request.lanes >> lane & 1) || !(request.lanes >> other & 1)) continue;
        if (request.offset[lane] != request.offset[other]) return false;
    }
    return true;
}

// 32 banks of 4 bytes; 8-byte accesses go in half-warps, 16-byte ones in quarter-warps; equal words are served together.
// Two halves (or quarters) go in one pass when neighbours share addresses: all lanes i and i ^ 1, or all i and i ^ 2. That
// is what an H200 does: the shared_index rows of tests/simt/data/h200_counters.csv.
// ldmatrix: each tile of eight rows of 16 bytes is one pass, whatever the rows of other tiles are.
void count_wavefronts(const Request& request, Counters& sum) {
    unsigned per_pass = request.bytes <= 4 ? 32 : request.bytes == 8 ? 16 : 8;
    bool is_matrix = (request.flags & FLAG_MATRIX) != 0;
    if (per_pass < LANES && !is_matrix && (in_pairs(request, 1) || in_pairs(request, 2))) per_pass *= 2;
    for (unsigned first = 0; first < LANES; first += per_pass) {
        uint64_t words[LANES][LANES];
        unsigned in_bank[LANES] = {}, most = 0;
        for (unsigned lane = first; lane < first + per_pass; ++lane) {
            if (!(request.lanes >> lane & 1)) continue;
            uint64_t from = request.address(lane) / 4, to = (request.address(lane) + request.bytes - 1) / 4;
            for (uint64_t word = from; word <= to; ++word) {
                unsigned bank = word % 32, i = 0;
                while (i < in_bank[bank] && words[bank][i] != word) ++i;
                if (i == in_bank[bank] && i < LANES) words[bank][in_bank[bank]++] = word;
                most = std::max(most, in_bank[bank]);
            }
        }
        sum.wavefronts += most;
        if (most > 1) sum.conflicts += most - 1;
    }
}

void count_request(const Request& request) {
    Counters& sum = counters[uint64_t(request.flags) << 56 | request.code];
    sum.flags = request.flags;
    ++sum.requests;
    static std::vector<Piece> pieces;
    pieces.clear();
    for (unsigned lane = 0; lane < LANES; ++lane) {
        if (!(request.lanes >> lane & 1)) continue;
        pieces.push_back({request.address(lane), request.bytes});
        sum.bytes += request.bytes;
    }
    if (request.flags & FLAG_SHARED) count_wavefronts(request, sum);
    else count_sectors(pieces, sum);
}

void flush(Block& block, Warp& warp) {
    loops.update();
    requests.clear();
    request_of_key.clear();
    std::vector<LaneState>& lanes = lane_states[block.slot];
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        Fiber& fiber = block.fibers[warp.first + lane];
        follow(fiber, lanes[fiber.linear]);
        recorded_words -= fiber.recording.words.size();
        fiber.recording.words.clear();
    }
    for (const Request& request : requests) count_request(request);
}

}  // namespace

void forget_requests() {
    loops.clear();
    counters.clear();
    lane_states.clear();
    recorded_words = 0;
    exact = true;
}

void start_block_recording(Block& block) {
    lane_states[block.slot].assign(block.fibers.size(), LaneState{});
    for (Fiber& fiber : block.fibers) {
        fiber.recording.words.clear();
        fiber.recording.path.assign(1, LoopFinder::ROOT);
    }
}

void flush_warp(Block& block, Warp& warp) { flush(block, warp); }

void finish_block_recording(Block& block) {
    for (Warp& warp : block.warps) flush(block, warp);
}

void abandon_recording() { lane_states.clear(); }

void flush_if_large(Block& block) {
    if (recorded_words > FLUSH_WORDS) finish_block_recording(block);
}

bool counts_are_exact() { return exact; }

const std::unordered_map<uint64_t, Counters>& all_counters() { return counters; }

static void append(Fiber& self, uint64_t word) {
    self.recording.words.push_back(word);
    if (++recorded_words <= FORCED_WORDS) return;
    exact = false;
    finish_block_recording(*self.block);
    recorded_words = 0;
}

static uint64_t tagged(uint8_t kind, uint64_t rest) { return uint64_t(kind) << 56 | rest; }

void record_block(uintptr_t code) {
    Fiber& self = *current;
    int node = loops.node(static_cast<uint32_t>(code));
    loops.edge(self.recording.path.back(), node);
    self.recording.path.back() = node;
    append(self, tagged(WORD_BLOCK, static_cast<uint64_t>(node)));
}

void record_call(uintptr_t code) {
    current->recording.path.push_back(LoopFinder::ROOT);
    append(*current, tagged(WORD_CALL, code & 0xffffffff));
}

void record_return() {
    Recording& recording = current->recording;
    if (recording.path.size() > 1) recording.path.pop_back();
    append(*current, tagged(WORD_RETURN, 0));
}

void record_access(uintptr_t code, uintptr_t address, unsigned bytes, uint8_t flags) {
    auto kind = static_cast<uint8_t>(WORD_ACCESS | flags);
    Recording& recording = current->recording;
    recording.words.push_back(tagged(kind, uint64_t(bytes) << 32 | (code & 0xffffffff)));
    ++recorded_words;
    append(*current, address);
}

}  // namespace simt
