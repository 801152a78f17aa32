// Who waited for whom: events of a launch in logical time. Recorded when the launch asks for it (Launch::timeline).
//
// A thread's time counts the basic blocks that it has executed. When it waits, its time goes on at that of the thread or
// copy that ended the wait, if that is later (Lamport's clock). So times of a block's threads are comparable and depend
// little on how the machine interleaves them, but one unit is no number of cycles.
#pragma once
#include <string>

#include "state.h"

namespace simt {

// The order is that of EVENTS in report.py.
enum class EventKind : uint8_t { mbarrier_wait, barrier_wait, wgmma_wait, tma_load, tma_store, wgmma };

// A TMA load takes 32 units and one for every 512 bytes: an assumption, so that a picture shows that it takes time.
inline uint64_t load_time(uint64_t bytes) { return 32 + bytes / 512; }

uint64_t time_of(const Fiber& fiber);
void advance_time(Fiber& fiber, uint64_t time);  // the thread goes on at `time` if that is later
void meet_at_barrier(Block& block);  // __syncthreads: its threads go on at the time of the last one
// An event of the fiber's warp. Events of equal kind, line and `number` (a phase, a group) of one warp are merged into
// one, from the first start to the last end.
void add_event(EventKind kind, const Fiber& fiber, uint64_t start, uint64_t end, uintptr_t code, uint64_t number);
void reset_timeline();
std::string timeline_text();  // JSON: a list of [block, warp, kind, start, end, code, number]

}  // namespace simt
