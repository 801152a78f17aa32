// The blocks of one worker, and how a thread gives control back. See scheduler.h.
//
// Blocks run one after the other, in the launch's order. Under the resident schedule all blocks that fit are alive at
// once and take turns. Under every schedule a block whose threads only spin (on a lock, on a flag of another block)
// lets the next block in, so a grid barrier does not hang.
//
// Control flow: drain (scheduler's stack) -> run_block -> simt_switch -> kernel (fiber's stack) -> a hook ->
// yield_to_scheduler -> simt_switch back. A launch that stops leaves any of these by siglongjmp to run_blocks; fibers
// are abandoned where they are, and destructors of objects on their stacks do not run.
#include <cstring>
#include <new>

#include "findings.h"
#include "requests.h"
#include "scheduler.h"

namespace simt {

thread_local SIMT_FAST_TLS Worker* worker = nullptr;
thread_local SIMT_FAST_TLS Fiber* current = nullptr;
Launch* launch = nullptr;

constexpr unsigned SPIN_ACCESSES = 16;  // atomics of one thread before it yields

// The caller sets `wait` or `spinning` before, so that the scheduler knows what the thread is waiting for.
void yield_to_scheduler() {
    Fiber* self = current;
    SIMT_OF_CLANG(if (self->wait != Wait::ready) self->stored_at = 0;)
    current = nullptr;
    simt_switch(&self->stack_pointer, worker->scheduler_stack_pointer);
}

void yield_on_atomic() {
    Fiber& self = *current;
    // The schedules that look for bad interleavings yield at atomics long before a thread counts as spinning.
    bool eager = launch->schedule == Schedule::resident || (launch->schedule == Schedule::random && launch->random() % 2);
    if (++self.atomics_since_switch < SPIN_ACCESSES && !eager) return;
    self.spinning = self.atomics_since_switch >= SPIN_ACCESSES;
    // Stays one below the limit: from now on every atomic of the loop yields, until a barrier or collective resets it.
    self.atomics_since_switch = self.spinning ? SPIN_ACCESSES - 1 : self.atomics_since_switch;
    yield_to_scheduler();
}

// A loop that reads a volatile flag: the same code reads the same address again and nothing else volatile in between.
void yield_on_poll(uintptr_t address, uintptr_t code) {
    Fiber& self = *current;
    // the fast build may have unrolled the loop
    bool again = self.polled_address == address && (self.polled_code == code || !launch->checked);
    self.polled_address = address;
    self.polled_code = code;
    if (again) yield_on_atomic();
}

// Ends the launch from a fiber, a signal handler or the scheduler. Only the first reason is kept.
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

// Makes the worker's thread-local segment hold the shared memory of `next`. Its addresses are those of the segment, so
// a block that is not running has its bytes in saved_shared.
static void swap_shared(Block* previous, Block* next) {
    if (previous == next) return;
    if (previous) previous->saved_shared.assign(worker->shared_low, worker->shared_low + worker->shared_bytes);
    if (next->saved_shared.empty()) {
        poison_shared();  // it has not run yet
    } else {
        std::memcpy(worker->shared_low, next->saved_shared.data(), worker->shared_bytes);
    }
}

namespace {

// The blocks of one worker that are alive. Normally one; more come when those alive only spin.
struct ResidentBlocks {
    std::vector<std::unique_ptr<Block>> slots;  // reused: a block keeps its fibers and its stacks for the next one
    std::vector<Block*> alive;
    Block* in_shared = nullptr;  // whose shared memory is in the segment; null when that block is done

    // Starts the next block of the launch in a free slot. Null when none is left.
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

}  // namespace

// Runs blocks until the launch has none left. Without the resident schedule there is one alive, unless blocks spin.
static void drain(ResidentBlocks& residents) {
    bool together = launch->schedule == Schedule::resident;
    unsigned idle_turns = 0;
    for (size_t turn = 0;; ++turn) {
        while (residents.alive.empty() || (together && residents.alive.size() < launch->max_resident))
            if (!residents.admit()) break;
        if (residents.alive.empty()) return;
        size_t index = together ? launch->random() % residents.alive.size() : turn % residents.alive.size();
        Block* block = residents.alive[index];
        swap_shared(residents.in_shared, block);
        residents.in_shared = block;
        worker->block = block;
        Turn result = run_block(*block, together);
        if (result == Turn::stuck) {
            report_deadlock(*block);
            stop_launch(Stop::deadlock, 0);
        }
        if (result == Turn::done) {
            finish_block(*block);
            residents.alive.erase(residents.alive.begin() + static_cast<long>(index));
            residents.in_shared = nullptr;
            idle_turns = 0;
        } else if (!together && ++idle_turns > 2 * residents.alive.size()) {
            idle_turns = 0;  // every block alive has spun twice: what they wait for may be in the next block
            if (residents.alive.size() < launch->max_resident) residents.admit();
        }
    }
}

void run_blocks() {
    // on the heap: locals of this frame are undefined after a jump
    auto residents = std::make_unique<ResidentBlocks>();
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
