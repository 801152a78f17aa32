// Named barriers (bar.sync, bar.arrive with a number). See named_barrier.cpp.
#pragma once
#include <array>

#include "happens_before.h"

namespace simt {

struct NamedBarrier {
    unsigned count = 0;         // threads that take part; 0: no thread has come since it last opened
    unsigned arrived = 0;       // threads of the warps that have come in full
    uintptr_t code = 0;         // the first arrival's line, by thread `first`
    uint16_t first = 0;
    uint64_t opened = 0;        // times
    std::array<unsigned, LANES> lanes{};  // by warp: the lanes that have come
    Knowledge knowledge;
    uint64_t time = 0;          // timeline: the latest arrival
};

void report_blocked_at_named(Block& block);
void check_named_at_exit(Block& block);

}  // namespace simt
