// The happens-before relation between threads, as vector clocks.
//
// Three forms, from fast to general. A barrier orders a whole block: Block::epoch counts them. __syncwarp orders lanes
// of a warp: Warp::clocks is a 32 x 32 matrix clock. Everything else (blocks, flags, locks) goes through VectorClock, as
// the PTX memory model has it: a fence releases what its thread knows, an atomic carries released clocks by its address to
// the threads whose atomics come later, and a fence after theirs acquires them. Cache operators (__ldcg) order nothing.
// Called by hooks.cpp, atomics.cpp, warp.cpp and block.cpp; asked by shadow.cpp.
#pragma once
#include <algorithm>
#include <unordered_map>

#include "state.h"

namespace simt {

// A set of accesses that happened before, downward closed in each thread. Immutable once shared (ClockPtr).
struct VectorClock {
    std::vector<uint32_t> epochs;                    // by block id: all accesses of the block before this epoch
    std::unordered_map<uint64_t, uint32_t> threads;  // by thread_key: the thread's accesses up to this clock

    static uint64_t thread_key(uint32_t block, unsigned linear) { return (uint64_t(block) << 16) | linear; }
    uint32_t epoch(uint32_t block) const { return block < epochs.size() ? epochs[block] : 0; }
    // True when an access with this stamp is in the set.
    bool covers(uint32_t block, unsigned linear, uint32_t stamp_epoch, uint32_t stamp_clock) const {
        if (epoch(block) > stamp_epoch) return true;
        auto entry = threads.find(thread_key(block, linear));
        return entry != threads.end() && entry->second >= stamp_clock;
    }
    void add_epoch(uint32_t block, uint32_t value) {
        if (epochs.size() <= block) epochs.resize(block + 1, 0);
        epochs[block] = std::max(epochs[block], value);
    }
    void add_thread(uint64_t key, uint32_t clock) {
        uint32_t& entry = threads[key];
        entry = std::max(entry, clock);
    }
    void add(const VectorClock& other) {  // elementwise maximum
        if (epochs.size() < other.epochs.size()) epochs.resize(other.epochs.size(), 0);
        for (size_t i = 0; i < other.epochs.size(); ++i) epochs[i] = std::max(epochs[i], other.epochs[i]);
        for (const auto& entry : other.threads) add_thread(entry.first, entry.second);
    }
};

// into = union of both. Copies only when both are set and differ; otherwise shares.
inline void join(ClockPtr& into, const ClockPtr& more) {
    if (!more || into == more) return;
    if (!into) {
        into = more;
        return;
    }
    auto both = std::make_shared<VectorClock>(*into);
    both->add(*more);
    into = std::move(both);
}

constexpr ClockPtr Clocks::*CLOCKS[] = {&Clocks::acquired, &Clocks::released, &Clocks::released_in_block,
                                        &Clocks::observed, &Clocks::observed_in_block};

struct Stamp;  // shadow.h

// What arrivals at an mbarrier or a named barrier have released so far.
struct Knowledge {
    Known known;  // by number of a thread or an agent of the block
    Clocks clocks;
};
void release_into(Knowledge& sum);  // adds all that happened before the current thread's next access

inline void join(Clocks& into, const Clocks& more) {
    for (auto member : CLOCKS) join(into.*member, more.*member);
}

// Is the stamped access in the set?
template <class AnyStamp>
bool covers(const ClockPtr& clock, const AnyStamp& stamp) {
    return clock && clock->covers(stamp.block, stamp.linear, stamp.epoch, stamp.clock);
}

// Of the current thread:
void fence(Scope scope);                                      // __threadfence and its kin
void atomic_synchronise(uintptr_t address, Scope scope);      // observes what was released by the address, and releases
void volatile_synchronise(uintptr_t address, bool is_write);  // a volatile read observes, a volatile write releases
// Did a fence of the writer's block, of whatever scope, and then an atomic on this variable release the write?
bool is_released_in_block(uint64_t variable, const Stamp& write);
void join_at_barrier(Block& block);                           // all live threads of the block are at __syncthreads
void join_lanes(Block& block, Warp& warp, unsigned mask);     // the lanes of `mask` are at __syncwarp
void reset_happens_before();                                  // at the start of a launch

}  // namespace simt
