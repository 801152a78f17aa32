// mbarriers, and what else a block has for asynchronous work: TMA copies in flight, named barriers, the register pool.
//
// The 8 bytes of an mbarrier hold nothing; its state is here, found by its address. The cells of the 8 bytes carry a
// stamp that no access is ordered after, so that a plain load or store is a finding. What threads know passes from those
// that arrive (`arriving`) to those that wait (`known`), and from a TMA load as the clock of the barrier's agent, which
// is the number of completed phases: a wait that an older phase satisfies orders nothing after a newer load.
#pragma once
#include "happens_before.h"
#include "shadow.h"

namespace simt {

struct Mbarrier {
    uintptr_t offset = 0;     // from the start of shared memory
    unsigned count = 0;       // arrivals of a phase
    unsigned pending = 0;     // of them, still to come
    uint64_t expected = 0, arrived = 0;  // bytes of this phase
    uint32_t phase = 0;       // phases completed
    uint32_t waited = 0;      // newest phase that a wait has returned for, counted from 1
    uint32_t in_flight = 0;   // copies issued, not landed
    uint64_t bytes_in_flight = 0;
    uint16_t agent = 0;       // 0: no copy has been issued
    uintptr_t expect_code = 0;  // the last expect_tx; 0: none
    uintptr_t copy_code = 0;  // the last copy on it, by thread copy_thread, lands in phase copy_phase (from 1)
    uint32_t copy_phase = 0;
    uint16_t copy_thread = 0;
    Stamp init{};
    Knowledge arriving;
    KnownPtr known;           // of the last completed phase, with `clocks`
    Clocks clocks;
    uint64_t time = 0, completed_time = 0;  // timeline: the latest arrival of this phase; of the last completed one
};

Mbarrier* mbarrier_at(Block& block, uintptr_t address);  // null: not initialised
unsigned mbarrier_number(const Block& block, const Mbarrier& barrier);
Mbarrier& mbarrier_of(Block& block, unsigned number);
// What every use of the barrier by the current thread must pass; reports. by_copy: the async proxy uses it.
bool check_mbarrier(uintptr_t address, uintptr_t code, bool by_copy);
// A copy has landed that `thread` issued at `code`.
void complete_bytes(Block& block, Mbarrier& barrier, uint64_t bytes, uintptr_t code, unsigned thread);
bool time_out_polls(Block& block);  // no thread can go on: try_wait gives up. False: none waits in one, or too often
void report_blocked(Block& block);  // a deadlock: what each group of threads waits for
void check_mbarriers_at_exit(Block& block);

}  // namespace simt
