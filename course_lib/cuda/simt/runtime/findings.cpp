// Collecting findings, without repeats. See findings.h.
#include "findings.h"

#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "shadow.h"

namespace simt {

using Key = std::tuple<int, int, uintptr_t, uintptr_t>;
static std::vector<Finding> findings;
static std::map<Key, size_t> known;
static std::set<uintptr_t> excused_reads;

void forget_findings() {
    findings.clear();
    known.clear();
    excused_reads.clear();
}

const std::vector<Finding>& all_findings() { return findings; }

void withdraw_finding(size_t index) { --findings[index].count; }

void excuse_plain_read(uintptr_t code) { excused_reads.insert(code); }

bool is_excused(const Finding& finding) { return finding.plain_read && excused_reads.count(finding.plain_read); }

size_t report(const Finding& finding) {
    static std::mutex lock;  // several workers may be stuck at once in the fast build
    std::lock_guard<std::mutex> guard(lock);
    Key key{static_cast<int>(finding.kind), static_cast<int>(finding.space), finding.code, finding.other_code};
    auto found = known.find(key);
    if (found == known.end()) {
        known[key] = findings.size();
        findings.push_back(finding);
        findings.back().count = 1;
        return findings.size() - 1;
    }
    Finding& first = findings[found->second];
    if (first.count == 0) {
        first = finding;
        first.count = 1;
    } else {
        ++first.count;
    }
    return found->second;
}

static Finding of_current(Kind kind, uintptr_t code) {
    Finding finding;
    finding.kind = kind;
    finding.code = code;
    finding.thread = current->index;
    finding.block = current->block->index;
    return finding;
}

size_t report_access(Kind kind, Space space, uintptr_t code, uintptr_t address, unsigned bytes, bool is_write) {
    Finding finding = of_current(kind, code);
    finding.space = space;
    finding.address = address;
    finding.bytes = bytes;
    finding.is_write = is_write;
    return report(finding);
}

static SimtIndex thread_index(unsigned linear) {
    const SimtIndex& size = launch->block;
    return {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
}

static SimtIndex block_index(uint32_t id) {
    const SimtIndex& grid = launch->grid;
    return {id % grid.x, id / grid.x % grid.y, id / (grid.x * grid.y)};
}

size_t report_race(Space space, const Stamp& now, uintptr_t address, unsigned bytes, bool is_write, const Stamp& other,
                   bool other_is_write) {
    Finding finding = of_current(Kind::race, now.code);
    finding.space = space;
    finding.address = address;
    finding.bytes = bytes;
    finding.is_write = is_write;
    finding.other_is_write = other_is_write;
    finding.other_code = other.code;
    finding.other_thread = thread_index(other.linear);
    finding.other_block = block_index(other.block);
    const Stamp &write = is_write ? now : other, &read = is_write ? other : now;
    bool beside_atomic = static_cast<Order>(write.unordered) == Order::atomic && !read.unordered;
    if (is_write != other_is_write && beside_atomic) finding.plain_read = read.code;
    if (other.copied == Copied::landed) finding.detail = "landed";
    if (other.copied == Copied::under_way) finding.detail = "under way";
    return report(finding);
}

void report_uneven_barrier(Block& block) {
    const Fiber* first = nullptr;
    size_t returned = block.fibers.size() - block.live;
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::barrier) continue;
        if (!first) first = &fiber;
        if (fiber.wait_code == first->wait_code) continue;
        Finding finding;
        finding.kind = Kind::divergent_barrier;
        finding.thread = first->index;
        finding.other_thread = fiber.index;
        finding.block = finding.other_block = block.index;
        finding.code = first->wait_code;
        finding.other_code = fiber.wait_code;
        report(finding);
        break;
    }
    if (returned == 0 || block.divergence_reported) return;
    block.divergence_reported = true;
    Finding finding;
    finding.kind = Kind::divergent_barrier;
    finding.thread = first->index;
    finding.block = block.index;
    finding.code = first->wait_code;
    finding.detail = std::to_string(returned) + " " + std::to_string(block.live);
    report(finding);
}

static std::string lane_list(unsigned lanes) {
    std::string text;
    for (unsigned lane = 0; lane < LANES;) {
        if (!(lanes >> lane & 1)) {
            ++lane;
            continue;
        }
        unsigned last = lane;
        while (last + 1 < LANES && (lanes >> (last + 1) & 1)) ++last;
        if (!text.empty()) text += ", ";
        text += std::to_string(lane);
        if (last > lane) text += "-" + std::to_string(last);
        lane = last + 1;
    }
    return text;
}

static const char* collective_name(Collective kind) {
    switch (kind) {
        case Collective::syncwarp: return "__syncwarp";
        case Collective::shuffle: return "a shuffle";
        case Collective::ballot: return "a vote";
        case Collective::reduce: return "a __reduce_*_sync";
        case Collective::match: return "a __match_*_sync";
        default: return "a warp-wide operation";
    }
}

void report_stuck_block(Block& block) {
    for (const Fiber& waiter : block.fibers) {
        if (waiter.wait != Wait::collective) continue;
        const Warp& warp = block.warps[waiter.warp];
        unsigned here = 0, missing = 0;
        const Fiber* absent = nullptr;
        for (unsigned lane = 0; lane < warp.lanes; ++lane) {
            const Fiber& fiber = block.fibers[warp.first + lane];
            bool same = fiber.wait == Wait::collective && fiber.collective == waiter.collective && fiber.mask == waiter.mask;
            if (same) here |= 1u << lane;
            else if ((waiter.mask >> lane & 1) && fiber.wait != Wait::done) {
                missing |= 1u << lane;
                if (!absent) absent = &fiber;
            }
        }
        if (!absent) continue;
        Finding finding;
        finding.kind = waiter.collective == Collective::syncwarp ? Kind::deadlock : Kind::bad_shuffle;
        finding.code = waiter.wait_code;
        finding.other_code = absent->wait_code;
        finding.thread = waiter.index;
        finding.other_thread = absent->index;
        finding.block = finding.other_block = block.index;
        finding.detail = std::string(collective_name(waiter.collective)) + "|" + lane_list(here) + "|" +
                         lane_list(missing) + "|" + std::to_string(waiter.warp) + "|" +
                         (absent->wait == Wait::barrier ? "__syncthreads" : collective_name(absent->collective));
        report(finding);
        return;
    }
    Finding finding;
    finding.kind = Kind::deadlock;
    for (const Fiber& fiber : block.fibers)
        if (fiber.wait != Wait::done) {
            finding.code = fiber.wait_code;
            finding.thread = fiber.index;
            break;
        }
    finding.block = block.index;
    report(finding);
}

void report_absent_lane(Block& block, const Fiber& fiber, int source) {
    const Warp& warp = block.warps[fiber.warp];
    const char* why = "is not named in the mask";
    if (static_cast<unsigned>(source) >= warp.lanes) why = "does not exist (the block ends before it)";
    else if (block.fibers[warp.first + static_cast<unsigned>(source)].wait == Wait::done) why = "has returned";
    Finding finding;
    finding.kind = Kind::bad_shuffle;
    finding.code = fiber.wait_code;
    finding.thread = fiber.index;
    finding.block = block.index;
    finding.detail = "absent|" + std::to_string(fiber.lane) + "|" + std::to_string(source) + "|" + why;
    report(finding);
}

void report_not_in_mask(const Fiber& fiber, unsigned mask) {
    Finding finding;
    finding.kind = Kind::bad_shuffle;
    finding.code = fiber.wait_code;
    finding.thread = fiber.index;
    finding.block = fiber.block->index;
    finding.detail = "not_named|" + std::to_string(fiber.lane) + "|" + lane_list(mask);
    report(finding);
}

}  // namespace simt
