// One block: its threads one after the other, each until it waits or has returned. See scheduler.h.
//
// Warps are visited in turn, and so are the ready lanes of a warp. Forward and reverse take them in and against their
// order; random and resident shuffle both, and the checked build also yields at random accesses (`preempt`).
#include <algorithm>
#include <new>

#include "findings.h"
#include "happens_before.h"
#include "requests.h"
#include "scheduler.h"
#include "shadow.h"
#include "timeline.h"
#include "tma.h"
#include "warp.h"
#include "wgmma.h"

namespace simt {

// The first function on every fiber's stack. It never returns: there is no frame to return to.
static void fiber_main() {
    try {
        launch->library.entry(launch->arguments);
    } catch (const std::bad_alloc&) {  // thrown by the recording; kernels themselves throw nothing
        stop_launch(Stop::no_memory, 0);
    }
    Fiber& self = *current;
    self.wait = Wait::done;
    Block& block = *self.block;
    --block.live;
    if (launch->checked) settle_pending_race(self);
    if (launch->checked && self.wgmma && !self.wgmma->pending.empty()) report_unfinished(self);
    lane_returned(block, block.warps[self.warp]);
    yield_to_scheduler();
    __builtin_unreachable();
}

// Warps of 32 consecutive threads; the last one may have fewer lanes.
static void start_warps(Block& block, unsigned num_threads) {
    block.warps.assign((num_threads + LANES - 1) / LANES, Warp{});
    for (unsigned w = 0; w < block.warps.size(); ++w) {
        Warp& warp = block.warps[w];
        warp.first = w * LANES;
        warp.lanes = std::min(LANES, num_threads - w * LANES);
        warp.active = warp.lanes == LANES ? ~0u : (1u << warp.lanes) - 1;
    }
}

// A thread of a new block. Its first switch enters fiber_main on a fresh stack.
static void start_fiber(Block& block, unsigned number) {
    const SimtIndex& size = launch->block;
    Fiber& fiber = block.fibers[number];
    fiber.block = &block;
    fiber.index = {number % size.x, number / size.x % size.y, number / (size.x * size.y)};
    fiber.linear = static_cast<uint16_t>(number);
    fiber.lane = number % LANES;
    fiber.warp = number / LANES;
    fiber.wait = Wait::ready;
    fiber.spinning = false;
    fiber.atomics_since_switch = 0;
    fiber.steps = 0;
    fiber.clock = 1;
    fiber.clocks = {};
    fiber.known.reset();
    fiber.proxy_fences.clear();
    fiber.init_fences.clear();
    fiber.issues_async = 0;
    fiber.waited = 0;
    fiber.misaligned_at = 0;
    SIMT_OF_CLANG(fiber.stored_at = 0;)
    fiber.same_reads = 0;
    fiber.pending_race.open = false;
    fiber.copies.clear();
    fiber.copy_group = fiber.bulk_group = 0;
    start_wgmma(fiber);
    fiber.stack = worker->stacks->stack(block.slot * launch->num_threads + number);
    if (!fiber.stack) stop_launch(Stop::no_memory, 0);
    fiber.stack_pointer = prepare_stack(fiber.stack, fiber_main, number);
}

// `id` is the block's number in the grid, `slot` its place among the worker's resident blocks.
void start_block(Block& block, uint32_t id, size_t slot) {
    const SimtIndex& grid = launch->grid;
    unsigned n = launch->num_threads;
    block.id = id;
    block.slot = slot;
    block.index = {id % grid.x, id / grid.x % grid.y, id / (grid.x * grid.y)};
    block.epoch = 1;
    block.done = block.divergence_reported = false;
    block.clocks = {};
    block.agents.clear();
    block.waiting_at_barrier = 0;
    block.warpgroups.reset();
    block.live = n;
    start_warps(block, n);
    if (block.fibers.size() != n) block.fibers = std::vector<Fiber>(n);  // else reused: their vectors keep their memory
    for (unsigned i = 0; i < n; ++i) start_fiber(block, i);
    start_async(block);
    if (launch->checked) start_block_recording(block), start_shared_shadow(block);
    block.started = true;
}

// Runs a thread until it yields: at a barrier, a collective, an atomic, its end.
static void run_fiber(Fiber& fiber) {
    current = &fiber;
    simt_switch(&worker->scheduler_stack_pointer, fiber.stack_pointer);
    current = nullptr;
}

// Runs the ready lanes of a warp until none is ready or all that are only spin. Returns true when any made progress.
static bool run_warp(Block& block, Warp& warp, const unsigned* lanes) {
    bool progress = false;  // some lane did more than spin
    for (;;) {
        bool worked = false, any_ready = false;
        for (unsigned i = 0; i < warp.lanes; ++i) {
            Fiber& fiber = block.fibers[warp.first + lanes[i]];
            if (fiber.wait != Wait::ready) continue;
            fiber.spinning = false;
            run_fiber(fiber);
            worked |= !fiber.spinning;
            any_ready = true;
            if (launch->stop.load(std::memory_order_relaxed)) return true;
        }
        progress |= worked;
        // __activemask is answered only now: every lane that can arrive at it has arrived.
        if (!any_ready && !answer_active_masks(block, warp)) {
            // All lanes have returned: its recording is complete and can be counted while it is in the cache.
            if (progress && !warp.active && launch->checked) flush_warp(block, warp);
            return progress;
        }
        if (any_ready && !worked) return progress;
        // Leave the warp although its lanes could run on: other warps interleave with it.
        if (launch->preempt && (launch->schedule == Schedule::resident || launch->random() % 4 == 0)) return progress;
    }
}

// All live threads wait at a barrier: join their clocks, answer __syncthreads_count, _and and _or, make them ready.
static void release_barrier(Block& block) {
    int count = 0, all = 1, any = 0;
    bool divergent = block.live < block.fibers.size();  // a thread returned without reaching the barrier
    Fiber* first = nullptr;
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::barrier) continue;
        if (!first) first = &fiber;
        divergent |= fiber.wait_code != first->wait_code;
        bool predicate = fiber.predicate != 0;
        count += predicate;
        all &= predicate;
        any |= predicate;
    }
    if (launch->checked) {
        if (divergent) report_divergent_barrier(block);
        join_at_barrier(block);
        flush_if_large(block);
    }
    if (launch->timeline) meet_at_barrier(block);
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::barrier) continue;
        const int results[] = {0, count, all, any};  // by barrier_op
        fiber.result = static_cast<unsigned>(results[fiber.barrier_op]);
        fiber.wait = Wait::ready;
    }
    block.waiting_at_barrier = 0;
}

// One round visits every warp. A deadlock is a round in which no thread ran at all.
Turn run_block(Block& block, bool one_round) {
    unsigned num_warps = static_cast<unsigned>(block.warps.size());
    std::vector<unsigned> order(num_warps);
    unsigned lanes[LANES];
    bool backwards = launch->schedule == Schedule::reverse;
    bool shuffled = launch->schedule == Schedule::random || launch->schedule == Schedule::resident;
    for (unsigned w = 0; w < num_warps; ++w) order[w] = backwards ? num_warps - 1 - w : w;
    for (;;) {
        if (shuffled) std::shuffle(order.begin(), order.end(), launch->random);
        bool progress = false;
        for (unsigned w : order) {
            Warp& warp = block.warps[w];
            for (unsigned i = 0; i < warp.lanes; ++i) lanes[i] = backwards ? warp.lanes - 1 - i : i;
            if (shuffled) std::shuffle(lanes, lanes + warp.lanes, launch->random);
            progress |= run_warp(block, warp, lanes);
            // Another worker or a signal stopped the launch. Relaxed: the flag orders nothing, it only has to arrive.
            if (launch->stop.load(std::memory_order_relaxed)) siglongjmp(worker->escape, 1);
            if (launch->schedule == Schedule::random) land_at_random(block);
        }
        if (block.live == 0) return Turn::done;
        // A returned thread counts as arrived, as on the hardware; release_barrier reports it.
        if (block.waiting_at_barrier == block.live) {
            release_barrier(block);
            progress = true;
        }
        // As late as possible: a copy lands when no thread can do without it, and each poll is told "not yet" before.
        if (!progress) progress = time_out_polls(block) || land_oldest_load(block);
        if (!progress) {
            for (Fiber& fiber : block.fibers)
                if (fiber.wait == Wait::ready) return Turn::spinning;
            return Turn::stuck;
        }
        if (one_round) return Turn::spinning;
    }
}

// Counts what is left of the recording; the slot is free for the next block.
void finish_block(Block& block) {
    finish_async(block);
    if (launch->checked) finish_block_recording(block);
    block.done = true;
    block.saved_shared.clear();
}

}  // namespace simt
