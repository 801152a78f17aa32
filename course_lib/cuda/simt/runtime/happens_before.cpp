// Releases, acquires and joins of vector clocks. See happens_before.h.
//
// More lenient than the CUDA memory model in four ways, so each of these goes unreported:
//   - an atomic acquires without a fence after it;
//   - a fence of any scope counts for every scope;
//   - atomics on one address form one chain whatever their memory order;
//   - TMA reads what threads of the same launch wrote to global memory without a proxy fence.
// An atomic alone releases nothing: without a __threadfence before it, its thread's writes stay unordered. That is the
// classic error of a last-block reduction, and it must be found.
#include "happens_before.h"

#include "async_proxy.h"

namespace simt {

// By address of an atomic or volatile variable: the union of what was released through it.
static std::unordered_map<uintptr_t, ClockPtr> released_at;

void reset_happens_before() { released_at.clear(); }

void release_fence() {
    Fiber& self = *current;
    Block& block = *self.block;
    auto released = std::make_shared<VectorClock>();
    if (block.acquired) released->add(*block.acquired);
    if (self.acquired) released->add(*self.acquired);
    // All of the block before its last barrier; of its own thread everything up to now.
    released->add_epoch(block.id, block.epoch);
    released->add_thread(VectorClock::thread_key(block.id, self.linear), self.clock);
    Warp& warp = block.warps[self.warp];
    if (warp.exchanged)  // and what other lanes did before a __syncwarp with this one
        for (unsigned lane = 0; lane < warp.lanes; ++lane)
            if (uint32_t clock = warp.clocks[self.lane][lane])
                released->add_thread(VectorClock::thread_key(block.id, warp.first + lane), clock);
    if (self.known)  // and what it knows of other threads and of asynchronous operations
        for (size_t i = 0; i < self.known->size(); ++i)
            if (uint32_t clock = (*self.known)[i])
                released->add_thread(VectorClock::thread_key(block.id, static_cast<unsigned>(i)), clock);
    self.released = std::move(released);  // a superset of the thread's earlier releases
    ++self.clock;                         // accesses after the fence are not in it
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
    join(sum.acquired, self.acquired);
    join(sum.released, self.released);
}

void atomic_acquire_release(uintptr_t address) {
    Fiber& self = *current;
    ClockPtr& here = released_at[address];
    ClockPtr before = here;  // acquire what others released, not what this thread adds
    join(here, self.released);
    join(here, self.block->released);
    join(self.acquired, before);
}

void volatile_synchronise(uintptr_t address, bool is_write) {
    if (is_write) {
        if (current->released || current->block->released) {
            ClockPtr& here = released_at[address];
            here = current->released;  // replaces: a store, unlike an atomic, does not continue a release chain
            join(here, current->block->released);
        }
    } else if (!released_at.empty()) {
        auto entry = released_at.find(address);
        if (entry != released_at.end()) join(current->acquired, entry->second);
    }
}

// Moves the clocks that the block's threads hold in `member` into `into`. Threads often share one clock; a run of equal
// pointers is added once.
static void collect(Block& block, ClockPtr& into, ClockPtr Fiber::*member) {
    std::shared_ptr<VectorClock> sum;
    const VectorClock* last = into.get();
    for (Fiber& fiber : block.fibers) {
        ClockPtr mine = std::move(fiber.*member);
        (fiber.*member).reset();
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
    collect(block, block.acquired, &Fiber::acquired);
    collect(block, block.released, &Fiber::released);
    KnownPtr known;  // of asynchronous operations: the epoch orders those of threads only
    for (const Fiber& fiber : block.fibers) join_known(known, fiber.known);
    if (known)
        for (Fiber& fiber : block.fibers) fiber.known = known;
    ++block.epoch;  // orders every access of the block so far; no per-thread work is needed
}

void join_lanes(Block& block, Warp& warp, unsigned mask) {
    uint32_t joined[LANES] = {};
    ClockPtr acquired, released;
    KnownPtr known;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        warp.clocks[lane][lane] = fiber.clock;
        for (unsigned other = 0; other < LANES; ++other)
            joined[other] = std::max(joined[other], warp.clocks[lane][other]);
        join(acquired, fiber.acquired);
        join(released, fiber.released);
        join_known(known, fiber.known);
    }
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        std::copy(joined, joined + LANES, warp.clocks[lane]);
        fiber.acquired = acquired;
        fiber.released = released;
        fiber.known = known;
        ++fiber.clock;  // later accesses need another __syncwarp
    }
    warp.exchanged = true;
}

}  // namespace simt
