// Releases, acquires and joins of vector clocks. See happens_before.h.
//
// PTX ISA, "Memory Consistency Model": a fence and then a strong write (atomic, volatile) is a release pattern, a strong
// read and then a fence an acquire pattern, and both count for the threads within the scopes of both fences. A barrier
// between the fence and the atomic, on either side, is as good as program order: __threadfence is fence.sc, and the order
// of fence.sc fences cannot contradict the barrier.
//
// More lenient than that in two ways, so each of these goes unreported:
//   - a volatile access counts as an atomic of device scope;
//   - TMA reads what threads of the same launch wrote to global memory without a proxy fence.
// An atomic alone releases and acquires nothing: a missing __threadfence before or after it is the classic error of a
// last-block reduction, and it must be found.
#include "happens_before.h"

#include <map>

#include "async_copy.h"
#include "async_proxy.h"
#include "shadow.h"
#include "why_unordered.h"

namespace simt {

// What was released by one atomic or volatile variable.
struct Variable {
    ClockPtr released;                     // with device scope, by any block
    std::map<uint32_t, ClockPtr> in_block; // by block id: by its own threads, with any scope
};
static std::unordered_map<uint64_t, Variable> variables;
static bool any_fence;  // since the start of the launch

// Blocks have the same addresses for their own shared memory.
static uint64_t key_of(uintptr_t address) {
    return is_shared_memory(address) ? address ^ uint64_t(current->block->id + 1) << 48 : address;
}

void reset_happens_before() {
    variables.clear();
    any_fence = false;
    reset_reasons();
}

// All that happened before the current thread's next access.
static std::shared_ptr<VectorClock> everything_before() {
    const Fiber& self = *current;
    const Block& block = *self.block;
    auto sum = std::make_shared<VectorClock>();
    if (block.clocks.acquired) sum->add(*block.clocks.acquired);
    if (self.clocks.acquired) sum->add(*self.clocks.acquired);
    // All of the block before its last barrier; of its own thread everything up to now.
    sum->add_epoch(block.id, block.epoch);
    sum->add_thread(VectorClock::thread_key(block.id, self.linear), self.clock);
    const Warp& warp = block.warps[self.warp];
    if (warp.exchanged)  // and what other lanes did before a __syncwarp with this one
        for (unsigned lane = 0; lane < warp.lanes; ++lane)
            if (uint32_t clock = warp.clocks[self.lane][lane])
                sum->add_thread(VectorClock::thread_key(block.id, warp.first + lane), clock);
    if (self.known)  // and what it knows of other threads and of asynchronous operations
        for (size_t i = 0; i < self.known->size(); ++i)
            if (uint32_t clock = (*self.known)[i])
                sum->add_thread(VectorClock::thread_key(block.id, static_cast<unsigned>(i)), clock);
    return sum;
}

// First the acquire: what it acquires it releases too.
void fence(Scope scope) {
    Fiber& self = *current;
    Clocks &mine = self.clocks, &blocks = self.block->clocks;
    any_fence = true;
    join(mine.acquired, mine.observed_in_block);
    join(mine.acquired, blocks.observed_in_block);
    if (scope != Scope::block) {
        join(mine.acquired, mine.observed);
        join(mine.acquired, blocks.observed);
    }
    mine.released_in_block = everything_before();  // a superset of the thread's earlier releases
    if (scope != Scope::block) mine.released = mine.released_in_block;
    ++self.clock;  // accesses after the fence are not in it
}

void release_into(Knowledge& sum) {
    Fiber& self = *current;
    const Warp& warp = self.block->warps[self.warp];
    auto add = [&](size_t number, uint32_t clock) {
        if (sum.known.size() <= number) sum.known.resize(number + 1, 0);
        sum.known[number] = std::max(sum.known[number], clock);
    };
    if (self.known)
        for (size_t i = self.known->size(); i-- > 0;) add(i, (*self.known)[i]);
    if (warp.exchanged)
        for (unsigned lane = 0; lane < warp.lanes; ++lane) add(warp.first + lane, warp.clocks[self.lane][lane]);
    add(self.linear, self.clock++);
    join(sum.clocks, self.clocks);
}

bool is_released_in_block(uint64_t key, const Stamp& write) {
    auto entry = variables.find(key);
    if (entry == variables.end()) return false;
    auto own = entry->second.in_block.find(write.block);
    return own != entry->second.in_block.end() && covers(own->second, write);
}

static void observe(const Variable& variable, Scope scope) {
    Fiber& self = *current;
    if (scope != Scope::block) join(self.clocks.observed, variable.released);
    auto own = variable.in_block.find(self.block->id);
    if (own != variable.in_block.end()) join(self.clocks.observed_in_block, own->second);
}

static void release(Variable& variable, Scope scope) {
    const Clocks &mine = current->clocks, &blocks = current->block->clocks;
    if (scope != Scope::block) {
        join(variable.released, mine.released);
        join(variable.released, blocks.released);
    }
    if (!mine.released_in_block && !blocks.released_in_block) return;
    ClockPtr& own = variable.in_block[current->block->id];
    join(own, mine.released_in_block);
    join(own, blocks.released_in_block);
}

void atomic_synchronise(uintptr_t address, Scope scope) {
    uint64_t key = key_of(address);
    note_atomic(key);
    if (!any_fence) return;  // nothing has been released
    Variable& variable = variables[key];
    observe(variable, scope);  // what others released, not what this thread adds
    release(variable, scope);
}

void volatile_synchronise(uintptr_t address, bool is_write) {
    uint64_t key = key_of(address);
    note_atomic(key);
    if (!any_fence) return;
    if (is_write) {
        release(variables[key] = {}, Scope::device);  // a store, unlike an atomic, does not continue a release chain
    } else {
        auto entry = variables.find(key);
        if (entry != variables.end()) observe(entry->second, Scope::device);
    }
}

// Moves the clocks that the block's threads hold in `member` into the block's. Threads often share one clock; a run of
// equal pointers is added once.
static void collect(Block& block, ClockPtr Clocks::*member) {
    ClockPtr& into = block.clocks.*member;
    std::shared_ptr<VectorClock> sum;
    const VectorClock* last = into.get();
    for (Fiber& fiber : block.fibers) {
        ClockPtr mine = std::move(fiber.clocks.*member);
        (fiber.clocks.*member).reset();
        if (!mine || mine.get() == last) continue;
        last = mine.get();
        if (!into) {
            into = std::move(mine);
            continue;
        }
        if (!sum) sum = std::make_shared<VectorClock>(*into);
        sum->add(*mine);
    }
    if (sum) into = std::move(sum);
}

void join_at_barrier(Block& block) {
    if (any_fence)  // without one there are no clocks
        for (auto member : CLOCKS) collect(block, member);
    KnownPtr known;  // of asynchronous operations: the epoch orders those of threads only
    for (const Fiber& fiber : block.fibers) join_known(known, fiber.known);
    if (known)
        for (Fiber& fiber : block.fibers) fiber.known = known;
    ++block.epoch;  // orders every access of the block so far; no per-thread work is needed
}

void join_lanes(Block& block, Warp& warp, unsigned mask) {
    uint32_t joined[LANES] = {};
    Clocks clocks;
    KnownPtr known;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        warp.clocks[lane][lane] = fiber.clock;
        for (unsigned other = 0; other < LANES; ++other)
            joined[other] = std::max(joined[other], warp.clocks[lane][other]);
        join(clocks, fiber.clocks);
        join_known(known, fiber.known);
    }
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        std::copy(joined, joined + LANES, warp.clocks[lane]);
        fiber.clocks = clocks;
        fiber.known = known;
        ++fiber.clock;  // later accesses need another __syncwarp
    }
    warp.exchanged = true;
}

}  // namespace simt
