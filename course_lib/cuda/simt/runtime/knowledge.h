// What a thread knows to have happened elsewhere: the currency of fences and atomics.
//
// A barrier orders a block and a __syncwarp a warp; those have fast forms of their own (Block::epoch, Warp::known). This
// is the slow, general form, needed between blocks and for flags inside a block: `__threadfence` publishes what the thread
// knows, an atomic carries what was published to whoever touches the same address later.
#pragma once
#include <algorithm>
#include <unordered_map>

#include "state.h"

namespace simt {

struct Know {
    std::vector<uint32_t> epochs;                    // by block id: its accesses before this epoch are known
    std::unordered_map<uint64_t, uint32_t> threads;  // thread_key -> its accesses up to this clock are known

    static uint64_t thread_key(uint32_t block, unsigned linear) { return (uint64_t(block) << 16) | linear; }
    uint32_t epoch(uint32_t block) const { return block < epochs.size() ? epochs[block] : 0; }
    bool covers(uint32_t block, unsigned linear, uint32_t at_epoch, uint32_t at_clock) const {
        if (epoch(block) > at_epoch) return true;
        auto found = threads.find(thread_key(block, linear));
        return found != threads.end() && found->second >= at_clock;
    }
    void add_epoch(uint32_t block, uint32_t value) {
        if (epochs.size() <= block) epochs.resize(block + 1, 0);
        epochs[block] = std::max(epochs[block], value);
    }
    void add_thread(uint64_t key, uint32_t clock) {
        uint32_t& entry = threads[key];
        entry = std::max(entry, clock);
    }
    void add(const Know& other) {
        if (epochs.size() < other.epochs.size()) epochs.resize(other.epochs.size(), 0);
        for (size_t i = 0; i < other.epochs.size(); ++i) epochs[i] = std::max(epochs[i], other.epochs[i]);
        for (const auto& entry : other.threads) add_thread(entry.first, entry.second);
    }
};

// into = into and more. Shares when one of the two is empty.
inline void join(KnowPtr& into, const KnowPtr& more) {
    if (!more || into == more) return;
    if (!into) {
        into = more;
        return;
    }
    auto both = std::make_shared<Know>(*into);
    both->add(*more);
    into = std::move(both);
}

void fence_publishes();                        // __threadfence of the current thread
void atomic_carries(uintptr_t address);        // an atomic of the current thread
void volatile_carries(uintptr_t address, bool is_write);
void barrier_joins(Block& block);              // all live threads of the block meet
void syncwarp_joins(Block& block, Warp& warp, unsigned mask);
void forget_knowledge();                       // at the start of a launch

}  // namespace simt
