// TMA copies: boxes of tensors and plain pieces of memory, between global and shared memory.
//
// A load takes its destination and its source at issue, as accesses of an agent (async_proxy.h), and lands later: global
// memory is read, shared memory is written and the bytes are counted on the mbarrier at once. Forward and resident land a
// copy only when no thread of the block can go on and try_wait has returned false 64 times, reverse lands it at issue,
// random at a random time, in any order.
// A store or reduction reads shared memory and writes global memory as late as its thread's wait for the bulk group, or
// at the end of the block. A block that ends without bulk_wait_group_read or bulk_wait_group is a finding, and so is one
// that ends before a wait for a load: the PTX ISA does not say that the end of a block waits for them, and its shared
// memory is given to the next block. Writes to global memory need no wait at the end: the end of the kernel covers them.
// Traffic (Report): a copy is one request of its line. Its bytes and sectors of global memory are those that exist, its
// bytes of shared memory are the whole box, and its wavefronts are none: the instruction goes by no bank. A reduction
// counts as a store.
#pragma once
#include <array>

#include "mbarrier.h"
#include "named_barrier.h"
#include "register_pool.h"
#include "tma_box.h"

namespace simt {

struct BulkLoad {
    Bulk bulk;
    unsigned barrier = 0;  // number
};

struct BulkStore {
    Bulk bulk;
    uint32_t group = 0;  // of its thread
    bool adds = false;   // a reduction
};

// Of a block.
struct AsyncState {
    bool used = false;  // otherwise the next block of the slot takes it as it is
    std::vector<Mbarrier> mbarriers;
    std::vector<BulkLoad> loads;    // in flight, oldest first
    std::vector<BulkStore> stores;  // in flight, oldest first
    std::array<NamedBarrier, 16> named{};
    RegisterPool registers;
    uint64_t events = 0;     // of copies, on the timeline
    unsigned time_outs = 0;  // of try_wait, since a phase has completed
};

void start_async(Block& block);
bool land_oldest_load(Block& block);  // false: none is in flight
void land_at_random(Block& block);    // random schedule: any copy, or none
void finish_async(Block& block);      // the block has ended: lands what is in flight, reports what was not waited for

}  // namespace simt
