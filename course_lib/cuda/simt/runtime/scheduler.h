// The scheduler in two parts: block.cpp runs the threads of one block, scheduler.cpp the blocks of one worker.
#pragma once
#include "state.h"

namespace simt {

// block.cpp
enum class Turn { done, spinning, stuck };  // spinning: threads are ready, but none made progress
void start_block(Block& block, uint32_t id, size_t slot);
Turn run_block(Block& block, bool one_round);  // until it is done, only spins or can never go on; or for one round
void finish_block(Block& block);

// scheduler.cpp
void run_blocks();  // the worker's share of the launch: until no block is left or the launch stops

// hooks.cpp
int wait_at_barrier(int op, int predicate, uintptr_t code);  // op as in simt_barrier

// machine.cpp
void poison_shared();  // fills the worker's shared memory with 0xff: NaN in every floating type

}  // namespace simt
