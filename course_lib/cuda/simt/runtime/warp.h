// Warp-wide operations. Called by block.cpp (a lane returned, no lane can run) and by the hooks at the end of warp.cpp.
#pragma once
#include "state.h"

namespace simt {

void lane_returned(Block& block, Warp& warp);        // the current lane: a collective of the others may now be complete
bool answer_active_masks(Block& block, Warp& warp);  // when no lane is ready; false: none waits in __activemask
void wait_in_collective(Collective kind, unsigned mask, uintptr_t code);  // of the current lane; returns when answered

}  // namespace simt
