// The one entrance to the scheduler: run this worker's share of the launch's blocks.
#pragma once
#include "state.h"

namespace simt {

void run_blocks();      // until no block is left or the launch stops
void poison_shared();   // machine.cpp: fills the worker's shared memory with a pattern that is NaN in every format

}  // namespace simt
