// setmaxnreg: the registers of a block and who holds them. The hook at the end is called by include/simt/setmaxnreg.h.
//
// A launch gives each thread 65,536 / (threads x blocks) registers, rounded down to a multiple of 8, at most 256; the
// threads are those of the launch, which __launch_bounds__ names, as it does the blocks that a multiprocessor holds at
// once (none named: one). That times the threads is the block's pool: what a warpgroup gives back, another takes.
#include "register_pool.h"

#include "findings.h"
#include "tma.h"

namespace simt {

constexpr unsigned SM_REGISTERS = 65536, MAX_REGISTERS = 256, UNIT = 8;  // PTX ISA, "setmaxnreg"

void start_registers(RegisterPool& pool) {
    unsigned threads = launch->num_threads;
    unsigned entry = std::min(MAX_REGISTERS, SM_REGISTERS / (threads * launch->blocks_per_sm) / UNIT * UNIT);
    pool.total = entry * threads;
    pool.free = 0;
    pool.held.assign((threads + WARPGROUP - 1) / WARPGROUP, entry);
}

static Finding finding_at(Kind kind, const Fiber& thread, const std::string& detail) {
    Finding finding;
    finding.kind = kind;
    finding.code = thread.wait_code;
    finding.thread = thread.index;
    finding.block = finding.other_block = thread.block->index;
    finding.detail = detail;
    return finding;
}

// The threads of a warpgroup that wait in the same setmaxnreg as `self`.
static unsigned num_waiting(const Block& block, const Fiber& self) {
    unsigned first = self.linear / WARPGROUP * WARPGROUP, count = 0;
    for (unsigned i = first; i < std::min(first + WARPGROUP, launch->num_threads); ++i) {
        const Fiber& fiber = block.fibers[i];
        count += fiber.wait == Wait::registers && fiber.operand == self.operand && fiber.mode == self.mode;
    }
    return count;
}

static void release_warpgroup(Block& block, unsigned group) {
    for (unsigned i = group * WARPGROUP; i < (group + 1) * WARPGROUP; ++i) block.fibers[i].wait = Wait::ready;
}

// Changes what a whole warpgroup holds, when the pool allows it. A change in the wrong direction is a finding, and is
// left out.
static bool try_change(Block& block, const Fiber& any) {
    RegisterPool& pool = block.async->registers;
    unsigned group = any.linear / WARPGROUP, wanted = static_cast<unsigned>(any.operand), held = pool.held[group];
    bool increases = any.mode != 0;
    if (increases ? wanted < held : wanted > held) {
        report(finding_at(Kind::bad_registers, any,
                          std::string(increases ? "inc|" : "dec|") + std::to_string(wanted) + "|" + std::to_string(held)));
    } else if (increases) {
        if ((wanted - held) * WARPGROUP > pool.free) return false;
        pool.free -= (wanted - held) * WARPGROUP;
        pool.held[group] = wanted;
    } else {
        pool.free += (held - wanted) * WARPGROUP;
        pool.held[group] = wanted;
    }
    release_warpgroup(block, group);
    return true;
}

// Warpgroups that wait for registers get them as soon as there are enough.
static void serve_waiting(Block& block) {
    for (unsigned first = 0; first + WARPGROUP <= launch->num_threads; first += WARPGROUP) {
        const Fiber& fiber = block.fibers[first];
        if (fiber.wait == Wait::registers && num_waiting(block, fiber) == WARPGROUP) try_change(block, fiber);
    }
}

// detail, when whole warpgroups wait for registers: "pool|SUM|TOTAL", SUM as "224 x 256 + 80 x 128".
// detail, when a part of a warpgroup waits for the rest of it: "part|WARPGROUP|THREADS"
void report_blocked_on_registers(Block& block) {
    const RegisterPool& pool = block.async->registers;
    std::vector<std::pair<unsigned, unsigned>> wanted;  // registers, threads
    const Fiber* starved = nullptr;
    for (unsigned group = 0; group < pool.held.size(); ++group) {
        unsigned first = group * WARPGROUP, threads = std::min(WARPGROUP, launch->num_threads - first);
        unsigned registers = pool.held[group];
        const Fiber* waiter = nullptr;
        for (unsigned i = first; i < first + threads && !waiter; ++i)
            if (block.fibers[i].wait == Wait::registers) waiter = &block.fibers[i];
        if (waiter && num_waiting(block, *waiter) < WARPGROUP) {
            report(finding_at(Kind::bad_registers, *waiter,
                              "part|" + std::to_string(group) + "|" + std::to_string(num_waiting(block, *waiter))));
        } else if (waiter) {
            registers = static_cast<unsigned>(waiter->operand);
            if (!starved) starved = waiter;
        }
        if (!wanted.empty() && wanted.back().first == registers) wanted.back().second += threads;
        else wanted.push_back({registers, threads});
    }
    if (!starved) return;
    std::string sum;
    for (auto [registers, threads] : wanted)
        sum += (sum.empty() ? "" : " + ") + std::to_string(registers) + " x " + std::to_string(threads);
    report(finding_at(Kind::deadlock, *starved, "pool|" + sum + "|" + std::to_string(pool.total)));
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_setmaxnreg(int num_registers, int increases) {
    Fiber& self = *current;
    Block& block = *self.block;
    self.wait_code = self.last_code = SIMT_CODE();
    self.operand = num_registers;
    self.mode = increases;
    self.wait = Wait::registers;
    block.async->used = true;
    self.atomics_since_switch = 0;
    if (launch->checked) settle_pending_race(self);
    if (num_waiting(block, self) == WARPGROUP && try_change(block, self)) serve_waiting(block);
    if (self.wait == Wait::registers) yield_to_scheduler();
}
