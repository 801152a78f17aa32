// Who runs next: blocks onto workers, threads of a block one after the other until each waits or has returned.
//
// Forward and reverse run the threads in and against their order; random shuffles them and gives way at random accesses;
// resident keeps all blocks that fit alive and takes turns. Under every schedule a block whose threads only spin (on a
// lock, on a flag of another block) makes room for the next block, so a grid barrier does not hang.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "findings.h"
#include "knowledge.h"
#include "requests.h"
#include "scheduler.h"
#include "shadow.h"
#include "warp.h"

namespace simt {

thread_local SIMT_FAST_TLS Worker* worker = nullptr;
thread_local SIMT_FAST_TLS Fiber* current = nullptr;
Launch* launch = nullptr;

constexpr unsigned SPIN_ACCESSES = 16;  // atomics of one thread before it gives way

void give_way() {
    Fiber* self = current;
    current = nullptr;
    simt_switch(&self->stack_pointer, worker->scheduler_stack_pointer);
}

void spin_pause() {
    Fiber& self = *current;
    bool eager = launch->schedule == Schedule::resident || (launch->schedule == Schedule::random && launch->random() % 2);
    if (++self.atomics_since_switch < SPIN_ACCESSES && !eager) return;
    self.spinning = self.atomics_since_switch >= SPIN_ACCESSES;
    self.atomics_since_switch = self.spinning ? SPIN_ACCESSES - 1 : self.atomics_since_switch;
    give_way();
}

void polling_pause(uintptr_t address, uintptr_t code) {
    Fiber& self = *current;
    bool again = self.polled_address == address && self.polled_code == code;
    self.polled_address = address;
    self.polled_code = code;
    if (again) spin_pause();
}

void stop_launch(Stop reason, uintptr_t code, uintptr_t address, const char* detail) {
    int expected = 0;
    if (launch->stop.compare_exchange_strong(expected, static_cast<int>(reason))) {
        launch->stop_code = code;
        launch->stop_address = address;
        if (detail) launch->stop_detail = detail;
        if (current) {
            launch->stop_thread = current->index;
            launch->stop_block = current->block->index;
        }
    }
    current = nullptr;
    siglongjmp(worker->escape, 1);
}

static void fiber_main() {
    try {
        launch->library.entry(launch->arguments);
    } catch (const std::bad_alloc&) {  // of the recording; kernels themselves throw nothing
        stop_launch(Stop::no_memory, 0);
    }
    Fiber& self = *current;
    self.wait = Wait::done;
    Block& block = *self.block;
    --block.live;
    if (launch->checked) settle_pending(self);
    lane_left(block, block.warps[self.warp]);
    give_way();
    __builtin_unreachable();
}

static void start_block(Block& block, uint32_t id, size_t slot) {
    const SimtIndex& grid = launch->grid;
    block.id = id;
    block.slot = slot;
    block.index = {id % grid.x, id / grid.x % grid.y, id / (grid.x * grid.y)};
    unsigned n = launch->num_threads;
    block.epoch = 1;
    block.done = block.divergence_reported = false;
    block.know.reset();
    block.release.reset();
    block.waiting_at_barrier = 0;
    block.live = n;
    block.warps.assign((n + LANES - 1) / LANES, Warp{});
    if (block.fibers.size() != n) block.fibers = std::vector<Fiber>(n);
    for (unsigned w = 0; w < block.warps.size(); ++w) {
        block.warps[w].first = w * LANES;
        block.warps[w].lanes = std::min(LANES, n - w * LANES);
        block.warps[w].present = block.warps[w].lanes == LANES ? ~0u : (1u << block.warps[w].lanes) - 1;
    }
    const SimtIndex& size = launch->block;
    for (unsigned i = 0; i < n; ++i) {
        Fiber& fiber = block.fibers[i];
        fiber.block = &block;
        fiber.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
        fiber.linear = static_cast<uint16_t>(i);
        fiber.lane = i % LANES;
        fiber.warp = i / LANES;
        fiber.wait = Wait::ready;
        fiber.spinning = false;
        fiber.atomics_since_switch = 0;
        fiber.steps = 0;
        fiber.clock = 1;
        fiber.know.reset();
        fiber.release.reset();
        fiber.pending.open = false;
        fiber.copies.clear();
        fiber.copy_group = 0;
        fiber.stack = worker->stacks->stack(slot * n + i);
        if (!fiber.stack) stop_launch(Stop::no_memory, 0);
        fiber.stack_pointer = prepare_stack(fiber.stack, fiber_main, i);
    }
    if (launch->checked) start_block_recording(block), start_shared_shadow(block);
    block.started = true;
}

static void run_fiber(Fiber& fiber) {
    current = &fiber;
    simt_switch(&worker->scheduler_stack_pointer, fiber.stack_pointer);
    current = nullptr;
}

// Runs the ready lanes of a warp until none is ready or all that are only spin. True when any did real work.
static bool run_warp(Block& block, Warp& warp, const unsigned* lanes) {
    bool progress = false;
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
        if (!any_ready && !settle_active_masks(block, warp)) {
            if (progress && !warp.present && launch->checked) flush_warp(block, warp);
            return progress;
        }
        if (any_ready && !worked) return progress;
        if (launch->preempt && (launch->schedule == Schedule::resident || launch->random() % 4 == 0)) return progress;
    }
}

static void release_barrier(Block& block) {
    int count = 0, all = 1, any = 0;
    bool uneven = block.live < block.fibers.size();
    Fiber* first = nullptr;
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::barrier) continue;
        if (!first) first = &fiber;
        uneven |= fiber.wait_code != first->wait_code;
        bool predicate = fiber.predicate != 0;
        count += predicate;
        all &= predicate;
        any |= predicate;
    }
    if (launch->checked) {
        if (uneven) report_uneven_barrier(block);
        barrier_joins(block);
        flush_if_large(block);
    }
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::barrier) continue;
        const int results[] = {0, count, all, any};
        fiber.result = static_cast<unsigned>(results[fiber.barrier_op]);
        fiber.wait = Wait::ready;
    }
    block.waiting_at_barrier = 0;
}

enum class Turn { done, spinning, stuck };

// Runs a block until it is done, only spins, or can never go on.
static Turn run_block(Block& block, bool one_round) {
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
            if (launch->stop.load(std::memory_order_relaxed)) siglongjmp(worker->escape, 1);
        }
        if (block.live == 0) return Turn::done;
        if (block.waiting_at_barrier == block.live) {
            release_barrier(block);
            progress = true;
        }
        if (!progress) {
            for (Fiber& fiber : block.fibers)
                if (fiber.wait == Wait::ready) return Turn::spinning;
            return Turn::stuck;
        }
        if (one_round) return Turn::spinning;
    }
}

static void swap_shared(Block* from, Block* to) {
    if (from == to) return;
    if (from) from->saved_shared.assign(worker->shared_low, worker->shared_low + worker->shared_bytes);
    if (to->saved_shared.empty()) {
        poison_shared();
    } else {
        std::memcpy(worker->shared_low, to->saved_shared.data(), worker->shared_bytes);
    }
}

static void finish_block(Block& block) {
    if (launch->checked) finish_block_recording(block);
    block.done = true;
    block.saved_shared.clear();
}

// The blocks of one worker. Normally there is one at a time; more come when those alive only spin.
struct Residents {
    std::vector<std::unique_ptr<Block>> slots;
    std::vector<Block*> alive;
    Block* shared_holder = nullptr;

    Block* admit() {
        uint64_t next = launch->next_block.fetch_add(1);
        if (next >= launch->num_blocks) return nullptr;
        size_t slot = 0;
        while (slot < slots.size() && slots[slot]->started && !slots[slot]->done) ++slot;
        if (slot == slots.size()) slots.push_back(std::make_unique<Block>());
        Block* block = slots[slot].get();
        block->saved_shared.clear();
        start_block(*block, launch->block_order.empty() ? static_cast<uint32_t>(next) : launch->block_order[next], slot);
        alive.push_back(block);
        return block;
    }
};

static void drain(Residents& residents) {
    bool together = launch->schedule == Schedule::resident;
    unsigned idle_turns = 0;
    for (size_t turn = 0;; ++turn) {
        while (residents.alive.empty() || (together && residents.alive.size() < launch->max_resident))
            if (!residents.admit()) break;
        if (residents.alive.empty()) return;
        size_t index = together ? launch->random() % residents.alive.size() : turn % residents.alive.size();
        Block* block = residents.alive[index];
        swap_shared(residents.shared_holder, block);
        residents.shared_holder = block;
        worker->block = block;
        Turn result = run_block(*block, together);
        if (result == Turn::stuck) {
            report_stuck_block(*block);
            stop_launch(Stop::deadlock, 0);
        }
        if (result == Turn::done) {
            finish_block(*block);
            residents.alive.erase(residents.alive.begin() + static_cast<long>(index));
            residents.shared_holder = nullptr;
            idle_turns = 0;
        } else if (!together && ++idle_turns > 2 * residents.alive.size()) {
            idle_turns = 0;
            if (residents.alive.size() < launch->max_resident) residents.admit();
        }
    }
}

void run_blocks() {
    auto residents = std::make_unique<Residents>();
    try {
        if (sigsetjmp(worker->escape, 1) == 0) drain(*residents);
    } catch (const std::bad_alloc&) {
        int expected = 0;
        launch->stop.compare_exchange_strong(expected, static_cast<int>(Stop::no_memory));
    }
    current = nullptr;
    if (launch->checked && launch->stop.load()) abandon_recording();
}

}  // namespace simt
