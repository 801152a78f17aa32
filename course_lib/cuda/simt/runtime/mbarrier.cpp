// mbarriers: phases, arrivals, waits. See mbarrier.h. The hooks at the end are called by include/simt/mbarrier.h.
#include "mbarrier.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "async_copy.h"
#include "async_proxy.h"
#include "findings.h"
#include "timeline.h"
#include "tma.h"

namespace simt {

constexpr unsigned MBARRIER_BYTES = 8, MAX_COUNT = (1u << 20) - 1;  // arrivals, bytes; PTX ISA, "mbarrier"
constexpr unsigned MAX_TIME_OUTS = 64;  // of a block between two phases: then a copy lands, or the polls are in vain

Mbarrier* mbarrier_at(Block& block, uintptr_t address) {
    uintptr_t offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    for (Mbarrier& barrier : block.async->mbarriers)
        if (barrier.offset == offset) return &barrier;
    return nullptr;
}

unsigned mbarrier_number(const Block& block, const Mbarrier& barrier) {
    return static_cast<unsigned>(&barrier - block.async->mbarriers.data());
}

Mbarrier& mbarrier_of(Block& block, unsigned number) { return block.async->mbarriers[number]; }

// A finding about a barrier. `thread`: the example.
static Finding finding_about(Kind kind, const Block& block, uintptr_t offset, const Fiber& thread, uintptr_t code,
                             std::string detail) {
    Finding finding;
    finding.kind = kind;
    finding.space = Space::shared;
    finding.code = code;
    finding.thread = thread.index;
    finding.block = finding.other_block = block.index;
    finding.address = reinterpret_cast<uintptr_t>(worker->shared_low) + offset;
    finding.bytes = MBARRIER_BYTES;
    finding.detail = std::move(detail);
    return finding;
}

static void report_here(uintptr_t address, uintptr_t code, const std::string& detail, uintptr_t other_code = 0,
                        const Fiber* other = nullptr) {
    uintptr_t offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    Finding finding = finding_about(Kind::bad_barrier, *current->block, offset, *current, code, detail);
    finding.other_code = other_code;
    if (other) finding.other_thread = other->index;
    report(finding);
}

// Rules of the instructions themselves, in both builds.
static void check_address(uintptr_t address, uintptr_t code) {
    current->last_code = code;
    if (launch->checked) settle_pending_race(*current);
    if (!is_shared_memory(address)) stop_launch(Stop::trap, code, 0, "an mbarrier is in shared memory");
    if (address % MBARRIER_BYTES) stop_launch(Stop::trap, code, 0, "an mbarrier is at a multiple of 8 bytes");
}

bool check_mbarrier(uintptr_t address, uintptr_t code, bool by_copy) {
    check_address(address, code);
    Block& block = *current->block;
    const Mbarrier* barrier = mbarrier_at(block, address);
    if (!barrier) {
        if (!launch->checked) stop_launch(Stop::trap, code, 0, "an mbarrier is initialised before it is used");
        report_here(address, code, "uninitialised");
        return false;
    }
    if (!launch->checked) return true;
    const Stamp& init = barrier->init;
    const Fiber& owner = block.fibers[init.linear];
    if (!is_ordered(init)) report_here(address, code, "unpublished", init.code, &owner);
    else if (by_copy && !is_fenced(init, &Fiber::init_fences) && !is_fenced(init, &Fiber::proxy_fences))
        report_missing_fence(code, address, MBARRIER_BYTES, init, "init");
    return true;
}

// The waiting thread goes on: it knows what was released by the last completed phase.
static void acquire(Fiber& fiber, Mbarrier& barrier) {
    barrier.waited = std::max(barrier.waited, barrier.phase);
    fiber.refused_barrier = 0;
    if (!launch->checked) return;
    join_known(fiber.known, barrier.known);
    join(fiber.clocks, barrier.clocks);
    if (!launch->timeline) return;
    uint64_t start = time_of(fiber);
    if (barrier.phase) advance_time(fiber, barrier.completed_time);
    add_event(EventKind::mbarrier_wait, fiber, start, time_of(fiber), fiber.wait_code,
              uint64_t(mbarrier_number(*fiber.block, barrier)) << 32 | barrier.phase);
}

// Before the first phase completes, the phase of parity 1 counts as completed.
static bool is_completed(const Mbarrier& barrier, unsigned parity) { return (barrier.phase & 1) != (parity & 1); }

static void wake_waiters(Block& block, Mbarrier& barrier) {
    unsigned number = mbarrier_number(block, barrier);
    for (Fiber& fiber : block.fibers) {
        if ((fiber.wait != Wait::mbarrier && fiber.wait != Wait::mbarrier_poll) || fiber.wait_number != number) continue;
        if (!is_completed(barrier, fiber.wait_parity)) continue;
        acquire(fiber, barrier);
        fiber.result = 1;
        fiber.wait = Wait::ready;
    }
}

static void complete_phase(Block& block, Mbarrier& barrier) {
    if (launch->checked) {
        barrier.known = std::make_shared<Known>(barrier.arriving.known);
        barrier.clocks = barrier.arriving.clocks;
    }
    ++barrier.phase;
    barrier.pending = barrier.count;
    barrier.expected = barrier.arrived = 0;
    barrier.completed_time = barrier.time;
    block.async->time_outs = 0;
    wake_waiters(block, barrier);
}

// detail: "bytes|EXPECTED|ARRIVED OR ON THEIR WAY"
static void report_bytes(Block& block, const Mbarrier& barrier, uint64_t come, uintptr_t code, unsigned thread) {
    Finding finding = finding_about(Kind::bad_barrier, block, barrier.offset, block.fibers[thread], code,
                                    "bytes|" + std::to_string(barrier.expected) + "|" + std::to_string(come));
    finding.other_code = barrier.expect_code == code ? 0 : barrier.expect_code;
    report(finding);
}

// Completes the phase when nothing of it is pending. More bytes than expected complete it too, after a finding: on a GPU
// the count of bytes passes through 0 on its way.
static void try_complete(Block& block, Mbarrier& barrier, uintptr_t code, unsigned thread) {
    if (barrier.pending || barrier.arrived < barrier.expected) return;
    uint64_t come = barrier.arrived + barrier.bytes_in_flight;
    if (come > barrier.expected) {
        bool by_copy = barrier.copy_code != 0;
        report_bytes(block, barrier, come, by_copy ? barrier.copy_code : code, by_copy ? barrier.copy_thread : thread);
    }
    complete_phase(block, barrier);
}

void complete_bytes(Block& block, Mbarrier& barrier, uint64_t bytes, uintptr_t code, unsigned thread) {
    barrier.arrived += bytes;
    // The copy's own accesses: known to whoever waits for this phase.
    if (launch->checked) {
        Known& known = barrier.arriving.known;
        if (known.size() <= barrier.agent) known.resize(barrier.agent + 1u, 0);
        known[barrier.agent] = std::max(known[barrier.agent], barrier.phase + 1);
    }
    try_complete(block, barrier, code, thread);
}

static void arrive(uintptr_t address, uint64_t bytes, bool expects, uintptr_t code) {
    if (bytes > MAX_COUNT) stop_launch(Stop::trap, code, 0, "a phase of an mbarrier expects at most 1,048,575 bytes");
    if (!check_mbarrier(address, code, false)) return;
    if (launch->preempt && launch->random() % 4 == 0) yield_to_scheduler();
    Fiber& self = *current;
    Block& block = *self.block;
    Mbarrier& barrier = *mbarrier_at(block, address);
    if (!barrier.pending) {
        report_here(address, code, "arrivals|" + std::to_string(barrier.count));
        return;
    }
    if (launch->checked) release_into(barrier.arriving);
    barrier.time = std::max(barrier.time, time_of(self));
    if (expects) barrier.expect_code = code;
    barrier.expected += bytes;
    --barrier.pending;
    try_complete(block, barrier, code, self.linear);
}

// Waits in the hook; `wait` says how: Wait::mbarrier until the phase completes, Wait::mbarrier_poll until no thread can
// go on, or, under the random schedule, sometimes not at all: how long a GPU waits is not specified.
static bool wait_for_phase(uintptr_t address, unsigned parity, Wait wait, uintptr_t code) {
    if (!check_mbarrier(address, code, false)) return true;  // so that the launch goes on after the finding
    if (launch->preempt && launch->random() % 4 == 0) yield_to_scheduler();
    Fiber& self = *current;
    Mbarrier& barrier = *mbarrier_at(*self.block, address);
    self.wait_code = code;
    self.atomics_since_switch = 0;
    if (is_completed(barrier, parity)) {
        acquire(self, barrier);
        return true;
    }
    self.wait_number = mbarrier_number(*self.block, barrier);
    if (wait == Wait::mbarrier_poll) self.refused_barrier = self.wait_number + 1;
    if (wait == Wait::mbarrier_poll && launch->schedule == Schedule::random && launch->random() % 2) return false;
    self.wait_parity = parity & 1;
    self.wait = wait;
    yield_to_scheduler();
    return self.result != 0;
}

bool time_out_polls(Block& block) {
    if (block.async->time_outs >= MAX_TIME_OUTS) return false;
    bool any = false;
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::mbarrier_poll) continue;
        fiber.result = 0;
        fiber.wait = Wait::ready;
        any = true;
    }
    block.async->time_outs += any;
    return any;
}

// ---- deadlocks, and the end of a block ----

// One finding for each line at which threads wait for a phase.
// detail: "mbarrier|PARITY|PHASES COMPLETED|ARRIVALS PENDING|COUNT|BYTES EXPECTED|BYTES ARRIVED|THREADS"
void report_blocked(Block& block) {
    struct Group {
        const Fiber* first;
        unsigned threads;
    };
    std::map<std::pair<unsigned, uintptr_t>, Group> groups;  // by number << 1 | parity, and line
    for (const Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::mbarrier && fiber.wait != Wait::mbarrier_poll) continue;
        std::pair<unsigned, uintptr_t> key{fiber.wait_number << 1 | fiber.wait_parity, fiber.wait_code};
        ++groups.try_emplace(key, Group{&fiber, 0}).first->second.threads;
    }
    for (const auto& [key, group] : groups) {
        const Mbarrier& barrier = mbarrier_of(block, key.first >> 1);
        std::string detail = "mbarrier";
        for (uint64_t number : {uint64_t(key.first & 1), uint64_t(barrier.phase), uint64_t(barrier.pending),
                                uint64_t(barrier.count), barrier.expected, barrier.arrived, uint64_t(group.threads)})
            detail += "|" + std::to_string(number);
        report(finding_about(Kind::deadlock, block, barrier.offset, *group.first, key.second, detail));
    }
}

void check_mbarriers_at_exit(Block& block) {
    for (const Mbarrier& barrier : block.async->mbarriers) {
        uintptr_t code = barrier.expect_code ? barrier.expect_code : barrier.copy_code;
        const Fiber& copier = block.fibers[barrier.copy_thread];
        if (barrier.expected != barrier.arrived) report_bytes(block, barrier, barrier.arrived, code, barrier.copy_thread);
        else if (barrier.copy_phase > barrier.waited)
            report(finding_about(Kind::bad_copy, block, barrier.offset, copier, barrier.copy_code, "unwaited"));
    }
}

// The stamp of the 8 bytes: of the initialising thread, but at a time that is never in the past of any access.
static void stamp_mbarrier(Mbarrier& barrier, uintptr_t address, uintptr_t code) {
    Fiber& self = *current;
    barrier.init = {self.block->id,     self.linear, 0, Copied::mbarrier,
                    self.block->epoch, self.clock,  static_cast<uint32_t>(code)};
    Stamp never = barrier.init;
    never.linear = NO_AGENT;
    never.epoch = never.clock = ~0u;
    agent_access(address, MBARRIER_BYTES, true, Space::shared, never);
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_mbarrier_init(void* pointer, unsigned count) {
    uintptr_t code = SIMT_CODE();
    auto address = reinterpret_cast<uintptr_t>(pointer);
    check_address(address, code);
    if (!count || count > MAX_COUNT) stop_launch(Stop::trap, code, 0, "an mbarrier counts 1 to 1,048,575 arrivals");
    if (launch->checked && !is_inside_shared(address, MBARRIER_BYTES)) {
        report_access(Kind::out_of_bounds, Space::shared, code, address, MBARRIER_BYTES, true);
        stop_launch(Stop::kernel_fault, code, address);
    }
    Block& block = *current->block;
    if (mbarrier_at(block, address)) {
        report_here(address, code, "again");
        return;
    }
    block.async->used = true;
    block.async->mbarriers.emplace_back();
    Mbarrier& barrier = block.async->mbarriers.back();
    barrier.offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    barrier.count = barrier.pending = count;
    if (launch->checked) stamp_mbarrier(barrier, address, code);
    std::memset(pointer, 0, MBARRIER_BYTES);
}

SIMT_EXPORT void simt_mbarrier_init_fence() { note_mbarrier_init_fence(); }

SIMT_EXPORT void simt_mbarrier_arrive(void* barrier) {
    arrive(reinterpret_cast<uintptr_t>(barrier), 0, false, SIMT_CODE());
}

SIMT_EXPORT void simt_mbarrier_arrive_expect_tx(void* barrier, unsigned bytes) {
    arrive(reinterpret_cast<uintptr_t>(barrier), bytes, true, SIMT_CODE());
}

SIMT_EXPORT unsigned simt_mbarrier_parity(void* pointer) {
    auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!check_mbarrier(address, SIMT_CODE(), false)) return 0;
    return mbarrier_at(*current->block, address)->phase & 1;
}

SIMT_EXPORT int simt_mbarrier_try_wait(void* barrier, unsigned parity) {
    return wait_for_phase(reinterpret_cast<uintptr_t>(barrier), parity, Wait::mbarrier_poll, SIMT_CODE());
}

SIMT_EXPORT void simt_mbarrier_wait(void* barrier, unsigned parity) {
    wait_for_phase(reinterpret_cast<uintptr_t>(barrier), parity, Wait::mbarrier, SIMT_CODE());
}
