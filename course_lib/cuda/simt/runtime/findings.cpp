// Collects findings, one for each pair of code addresses. See findings.h.
#include "findings.h"

#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "async_proxy.h"
#include "tma.h"
#include "wgmma.h"
#include "why_unordered.h"

namespace simt {

using Key = std::tuple<int, int, uintptr_t, uintptr_t>;  // kind, space, code, other_code
static std::vector<Finding> findings;
static std::map<Key, size_t> index_by_key;
static std::set<uintptr_t> excused_reads;  // code addresses

void reset_findings() {
    findings.clear();
    index_by_key.clear();
    excused_reads.clear();
}

const std::vector<Finding>& all_findings() { return findings; }

void withdraw_finding(size_t index) { --findings[index].count; }

void excuse_plain_read(uintptr_t code) { excused_reads.insert(code); }

bool is_excused(const Finding& finding) { return finding.plain_read && excused_reads.count(finding.plain_read); }

// Counts one more occurrence. Accesses in a loop report the same pair of lines a million times: one entry, one example.
size_t report(const Finding& finding) {
    static std::mutex lock;  // of the fast build, whose workers may find deadlocks at once
    std::lock_guard<std::mutex> guard(lock);
    Key key{static_cast<int>(finding.kind), static_cast<int>(finding.space), finding.code, finding.other_code};
    auto entry = index_by_key.find(key);
    if (entry == index_by_key.end()) {
        index_by_key[key] = findings.size();
        findings.push_back(finding);
        findings.back().count = 1;
        return findings.size() - 1;
    }
    Finding& first = findings[entry->second];
    if (first.count == 0) {  // its example was withdrawn: this one takes its place
        first = finding;
        first.count = 1;
    } else {
        ++first.count;
    }
    return entry->second;
}

// A finding at `code` with the current thread as its example.
static Finding finding_of_current(Kind kind, uintptr_t code) {
    Finding finding;
    finding.kind = kind;
    finding.code = code;
    finding.thread = current->index;
    finding.block = current->block->index;
    finding.issues_async = current->issues_async;
    return finding;
}

size_t report_access(Kind kind, Space space, uintptr_t code, uintptr_t address, unsigned bytes, bool is_write) {
    Finding finding = finding_of_current(kind, code);
    finding.space = space;
    finding.address = address;
    finding.bytes = bytes;
    finding.is_write = is_write;
    return report(finding);
}

// What an agent's access is, for the sentence: "agent KIND", "mbarrier", or nothing.
static std::string agent_text(const Stamp& stamp) {
    if (stamp.copied == Copied::mbarrier) return "mbarrier";
    const Block& block = *current->block;
    if (!is_agent(stamp.linear)) return "";
    // Of another block: its agents may be gone. Only stores reach memory that blocks share.
    auto kind = stamp.block == block.id ? agent_at(block, stamp.linear).kind : static_cast<uint8_t>(AgentKind::tma_store_write);
    return "agent " + std::to_string(kind);
}

// Whether the current thread asked an mbarrier, was told "not yet" and went on: to what a load of that barrier writes, or to
// a load of its own.
static bool ignored_try_wait(const Stamp& other) {
    if (!current->refused_barrier) return false;
    if (current->issues_async == 1 + static_cast<int>(AgentKind::tma_load)) return true;
    if (!is_agent(other.linear) || other.block != current->block->id) return false;
    const Agent& agent = agent_at(*current->block, other.linear);
    return agent.kind == static_cast<uint8_t>(AgentKind::tma_load) && agent.owner + 1 == current->refused_barrier;
}

// threadIdx of a linear thread number; blockIdx of a linear block number.
static SimtIndex thread_index(unsigned linear) {
    const SimtIndex& size = launch->block;
    return {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
}

static SimtIndex block_index(uint32_t id) {
    const SimtIndex& grid = launch->grid;
    return {id % grid.x, id / grid.x % grid.y, id / (grid.x * grid.y)};
}

// `now` is the current thread's access, `other` the earlier one, from a shadow cell.
size_t report_race(Space space, const Stamp& now, uintptr_t address, unsigned bytes, bool is_write, const Stamp& other,
                   bool other_is_write) {
    Finding finding = finding_of_current(Kind::race, now.code);
    finding.space = space;
    finding.address = address;
    finding.bytes = bytes;
    finding.is_write = is_write;
    finding.other_is_write = other_is_write;
    finding.other_code = other.code;
    bool by_agent = is_agent(other.linear);
    if (other.copied == Copied::mbarrier) by_agent = false;
    else if (!by_agent) finding.other_thread = thread_index(other.linear);
    else if (other.block == current->block->id) finding.other_thread = thread_index(agent_at(*current->block, other.linear).thread);
    finding.other_block = block_index(other.block);
    const Stamp &write = is_write ? now : other, &read = is_write ? other : now;
    // Kept until the end of the launch: whether the read began a compare-and-swap loop is known only at the swap.
    bool plain_read_of_atomic = is_atomic(static_cast<Order>(write.strong)) && !read.strong;
    if (is_write != other_is_write && plain_read_of_atomic) finding.plain_read = read.code;
    if (other.strong && now.strong && other.block != now.block) finding.detail = "atomic of block scope";
    else if (other_is_write && !by_agent) finding.detail = why_unordered(other);
    if (other.copied == Copied::landed) finding.detail = "landed";
    if (other.copied == Copied::in_flight) finding.detail = "in flight";
    if (by_agent || other.copied == Copied::mbarrier) finding.detail = agent_text(other);
    if (space == Space::shared && ignored_try_wait(other)) finding.detail += " refused";
    return report(finding);
}

void remark_equal_writes(size_t index, const Fiber& fiber, uint32_t other_block, uint16_t other_linear) {
    Finding remark = findings[index];
    remark.kind = Kind::remark;
    remark.thread = fiber.index;
    remark.block = fiber.block->index;
    remark.other_thread = thread_index(other_linear);
    remark.other_block = block_index(other_block);
    remark.detail = "equal writes";
    report(remark);
}

void report_overwritten_source(const Stamp& write, uintptr_t address, unsigned bytes, uintptr_t issue) {
    Finding finding = finding_of_current(Kind::race, write.code);
    finding.space = Space::global;
    finding.address = address;
    finding.bytes = bytes;
    finding.is_write = true;
    finding.other_code = issue;
    finding.other_thread = finding.thread;  // who copies
    finding.other_block = finding.block;
    finding.thread = thread_index(write.linear);
    finding.block = block_index(write.block);
    finding.detail = "source";
    report(finding);
}

void report_missing_fence(uintptr_t code, uintptr_t address, unsigned bytes, const Stamp& write, const char* detail) {
    Finding finding = finding_of_current(Kind::missing_fence, code);
    finding.space = Space::shared;
    finding.address = address;
    finding.bytes = bytes;
    finding.other_code = write.code;
    finding.other_thread = thread_index(write.linear);
    finding.other_block = block_index(write.block);
    finding.detail = detail;
    report(finding);
}

// Threads wait at different barriers, or some have returned; each is a finding of its own. detail: "RETURNED WAITING".
void report_divergent_barrier(Block& block) {
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

std::string lane_list(unsigned lanes) {
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

// As the sentence names it.
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

static bool waits_for_async(const Fiber& fiber) {
    return fiber.wait == Wait::mbarrier || fiber.wait == Wait::mbarrier_poll || fiber.wait == Wait::named_barrier ||
           fiber.wait == Wait::registers;
}

// No thread of the block can go on. The first warp operation that waits for a lane which waits elsewhere is the cause;
// its detail is "OPERATION|ARRIVED LANES|MISSING LANES|WARP|OPERATION OF A MISSING LANE". Without one, any waiting
// thread.
void report_deadlock(Block& block) {
    bool lanes_are_missing = report_missing_lanes(block);
    report_blocked(block);
    report_blocked_at_named(block);
    report_blocked_on_registers(block);
    if (lanes_are_missing) return;
    for (const Fiber& waiter : block.fibers) {
        if (waiter.wait != Wait::collective) continue;
        const Warp& warp = block.warps[waiter.warp];
        unsigned arrived = 0, missing = 0;
        const Fiber* first_missing = nullptr;
        for (unsigned lane = 0; lane < warp.lanes; ++lane) {
            const Fiber& fiber = block.fibers[warp.first + lane];
            bool same = fiber.wait == Wait::collective && fiber.collective == waiter.collective && fiber.mask == waiter.mask;
            if (same) arrived |= 1u << lane;
            else if ((waiter.mask >> lane & 1) && fiber.wait != Wait::done) {
                missing |= 1u << lane;
                if (!first_missing) first_missing = &fiber;
            }
        }
        if (!first_missing || waits_for_async(*first_missing)) continue;
        Finding finding;
        finding.kind = waiter.collective == Collective::syncwarp ? Kind::deadlock : Kind::bad_shuffle;
        finding.code = waiter.wait_code;
        finding.other_code = first_missing->wait_code;
        finding.thread = waiter.index;
        finding.other_thread = first_missing->index;
        finding.block = finding.other_block = block.index;
        finding.detail = std::string(collective_name(waiter.collective)) + "|" + lane_list(arrived) + "|" +
                         lane_list(missing) + "|" + std::to_string(waiter.warp) + "|" +
                         (first_missing->wait == Wait::barrier ? "__syncthreads" : collective_name(first_missing->collective));
        report(finding);
        return;
    }
    for (const Fiber& fiber : block.fibers)
        if (waits_for_async(fiber)) return;  // reported above
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

// detail: "inactive|LANE|SOURCE LANE|WHY". The value may still be unused: inactive_lanes.py decides.
void report_inactive_source(Block& block, const Fiber& fiber, int source) {
    const Warp& warp = block.warps[fiber.warp];
    const char* why = "is not named in the mask";
    if (static_cast<unsigned>(source) >= warp.lanes) why = "does not exist (the block ends before it)";
    else if (block.fibers[warp.first + static_cast<unsigned>(source)].wait == Wait::done) why = "has returned";
    Finding finding;
    finding.kind = Kind::bad_shuffle;
    finding.code = fiber.wait_code;
    finding.thread = fiber.index;
    finding.block = block.index;
    finding.detail = "inactive|" + std::to_string(fiber.lane) + "|" + std::to_string(source) + "|" + why;
    report(finding);
}

// detail: "not_named|LANE|LANES OF THE MASK"
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
