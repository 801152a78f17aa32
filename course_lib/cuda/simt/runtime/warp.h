// What the lanes of a warp do together.
#pragma once
#include "state.h"

namespace simt {

void lane_left(Block& block, Warp& warp);            // a lane returned: others may now be complete
bool settle_active_masks(Block& block, Warp& warp);  // answers __activemask once no lane can run on
void wait_in_collective(Collective kind, unsigned mask, uintptr_t code);

}  // namespace simt
