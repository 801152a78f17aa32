// Named barriers: bar.sync and bar.arrive with a number. The hook at the end is called by include/simt/named_barrier.h.
//
// A warp counts as 32 threads once all its lanes have come. The barrier opens when as many threads have come as the count
// says. It orders exactly those: what each of them did before comes before what the waiting ones do next.
#include "named_barrier.h"

#include <algorithm>
#include <map>

#include "async_proxy.h"
#include "findings.h"
#include "scheduler.h"
#include "timeline.h"
#include "tma.h"

namespace simt {

constexpr int NAMED_BARRIERS = 16;  // of a block

static Finding finding_at(Kind kind, const Fiber& thread, uintptr_t code, std::string detail) {
    Finding finding;
    finding.kind = kind;
    finding.code = code;
    finding.thread = thread.index;
    finding.block = finding.other_block = thread.block->index;
    finding.detail = std::move(detail);
    return finding;
}

// detail: "named|WHAT|BARRIER|…"
static std::string detail_of(const char* what, int number, std::initializer_list<uint64_t> numbers = {}) {
    std::string text = std::string("named|") + what + "|" + std::to_string(number);
    for (uint64_t one : numbers) text += "|" + std::to_string(one);
    return text;
}

static void open_barrier(Block& block, int number) {
    NamedBarrier& barrier = block.async->named[static_cast<size_t>(number)];
    auto known = std::make_shared<const Known>(barrier.knowledge.known);
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::named_barrier || fiber.wait_number != static_cast<unsigned>(number)) continue;
        fiber.wait = Wait::ready;
        if (!launch->checked) continue;
        join_known(fiber.known, known);
        join(fiber.clocks, barrier.knowledge.clocks);
        if (!launch->timeline) continue;
        uint64_t start = time_of(fiber);
        advance_time(fiber, barrier.time);
        add_event(EventKind::barrier_wait, fiber, start, time_of(fiber), fiber.wait_code,
                  barrier.opened << 4 | static_cast<unsigned>(number));
    }
    uint64_t opened = barrier.opened + 1;
    barrier = NamedBarrier{};
    barrier.opened = opened;
    block.async->time_outs = 0;
}

// Findings about an arrival; the launch goes on with the first arrival's count, rounded up to whole warps.
static void check_arrival(Block& block, NamedBarrier& barrier, int number, unsigned count, uintptr_t code) {
    Fiber& self = *current;
    unsigned bit = 1u << self.lane;
    if (count % LANES) report(finding_at(Kind::bad_barrier, self, code, detail_of("multiple", number, {count})));
    count = (count + LANES - 1) / LANES * LANES;
    if (!barrier.count) {
        barrier.count = count;
        barrier.code = code;
        barrier.first = self.linear;
    } else if (barrier.count != count) {
        Finding finding = finding_at(Kind::bad_barrier, self, code, detail_of("count", number, {count, barrier.count}));
        finding.other_code = barrier.code;
        finding.other_thread = block.fibers[barrier.first].index;
        report(finding);
    }
    if (barrier.lanes[self.warp] & bit)
        report(finding_at(Kind::bad_barrier, self, code, detail_of("twice", number, {self.warp})));
}

static void arrive_at(int number, unsigned count, bool waits, uintptr_t code) {
    Fiber& self = *current;
    Block& block = *self.block;
    self.last_code = code;
    if (number < 0 || number >= NAMED_BARRIERS)
        stop_launch(Stop::trap, code, 0, "the number of a named barrier is 0 to 15");
    if (!count) stop_launch(Stop::trap, code, 0, "a named barrier counts at least 32 threads");
    if (launch->checked) settle_pending_race(self);
    NamedBarrier& barrier = block.async->named[static_cast<size_t>(number)];
    block.async->used = true;
    check_arrival(block, barrier, number, count, code);
    self.wait_code = code;
    self.atomics_since_switch = 0;
    if (launch->checked) release_into(barrier.knowledge);
    barrier.time = std::max(barrier.time, time_of(self));
    if (waits) {
        self.wait = Wait::named_barrier;
        self.wait_number = static_cast<uint32_t>(number);
    }
    unsigned before = barrier.lanes[self.warp], active = block.warps[self.warp].active;
    barrier.lanes[self.warp] |= 1u << self.lane;
    if ((before & active) != active && (barrier.lanes[self.warp] & active) == active) {
        barrier.arrived += LANES;
        if (barrier.arrived >= barrier.count) open_barrier(block, number);
    }
    if (self.wait == Wait::named_barrier) yield_to_scheduler();
}

// The warps whose lanes have come, in full or in part, as a list: "4, 5, 6"
static std::string warps_of(const Block& block, const NamedBarrier& barrier, bool in_part) {
    std::string text;
    for (size_t w = 0; w < block.warps.size(); ++w) {
        unsigned lanes = barrier.lanes[w], active = block.warps[w].active;
        if (lanes && ((lanes & active) != active) == in_part) text += (text.empty() ? "" : ", ") + std::to_string(w);
    }
    return text;
}

// One finding for each place where threads wait, with all barriers of that place.
// detail: "named|deadlock|BARRIER|COUNT|ARRIVED|WARPS|WARPS IN PART", for the next barrier "|BARRIER|COUNT|…"
void report_blocked_at_named(Block& block) {
    std::vector<Finding> found;
    for (int number = 0; number < NAMED_BARRIERS; ++number) {
        const NamedBarrier& barrier = block.async->named[static_cast<size_t>(number)];
        for (const Fiber& fiber : block.fibers) {
            if (fiber.wait != Wait::named_barrier || fiber.wait_number != static_cast<unsigned>(number)) continue;
            std::string state = detail_of("deadlock", number, {barrier.count, barrier.arrived}) + "|" +
                                warps_of(block, barrier, false) + "|" + warps_of(block, barrier, true);
            auto same = [&](const Finding& one) { return one.code == fiber.wait_code; };
            auto other = std::find_if(found.begin(), found.end(), same);
            if (other == found.end()) found.push_back(finding_at(Kind::deadlock, fiber, fiber.wait_code, state));
            else other->detail += state.substr(std::string("named|deadlock").size());
            break;
        }
    }
    for (const Finding& one : found) report(one);
}

// An arrival for which no warp waited any more: harmless, and ping-pong leaves one.
void check_named_at_exit(Block& block) {
    for (int number = 0; number < NAMED_BARRIERS; ++number) {
        const NamedBarrier& barrier = block.async->named[static_cast<size_t>(number)];
        if (barrier.count)
            report(finding_at(Kind::remark, block.fibers[barrier.first], barrier.code,
                              detail_of("left", number, {barrier.arrived, barrier.count})));
    }
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_named_barrier(int number, int num_threads, int waits) {
    uintptr_t code = SIMT_CODE();
    unsigned count = num_threads < 0 ? 0 : static_cast<unsigned>(num_threads);
    // Barrier 0 of all threads is __syncthreads; some warps may call it by that name.
    if (number == 0 && waits && count == launch->num_threads) {
        wait_at_barrier(0, 0, code);
        return;
    }
    if (number == 0) report(finding_at(Kind::remark, *current, code, detail_of("zero", number)));
    arrive_at(number, count, waits != 0, code);
}
