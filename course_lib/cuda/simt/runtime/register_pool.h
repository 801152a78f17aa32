// The registers of a block, which setmaxnreg moves between its warpgroups. See register_pool.cpp.
#pragma once
#include "state.h"

namespace simt {

struct RegisterPool {
    unsigned total = 0;  // of the block: what its threads had at entry
    unsigned free = 0;
    std::vector<unsigned> held;  // by warpgroup: registers of each thread
};

void start_registers(RegisterPool& pool);
void report_blocked_on_registers(Block& block);

}  // namespace simt
