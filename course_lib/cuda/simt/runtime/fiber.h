// Fibers: one stack and one saved stack pointer for each CUDA thread.
//
// A block of 1024 CUDA threads is 1024 fibers on one operating-system thread. Switching saves only the registers that
// the calling convention makes the callee keep, so it costs a few nanoseconds. Below every stack is a guard page:
// endless recursion ends in a signal that faults.cpp turns into a finding. Used by block.cpp (start), scheduler.cpp
// (switch).
#pragma once
#include <cstddef>
#include <cstdint>

// Saves the callee-saved registers on the current stack and its stack pointer in *save, then resumes the stack
// `resume`.
extern "C" void simt_switch(void** save, void* resume);

namespace simt {

constexpr size_t STACK_BYTES = 64 * 1024;  // of a CUDA thread, without the guard page
#if defined(__aarch64__)
// Arm systems have pages of 4, 16 or 64 KB; its compilers probe frames every 64 KB
constexpr size_t PAGE_BYTES = 65536;
#else
constexpr size_t PAGE_BYTES = 4096;
#endif

// The stacks of one worker, kept and reused from launch to launch: mapping them is slower than a small kernel.
class StackPool {
public:
    // Lowest usable address of stack `index`; maps more stacks when needed. Null when the system has no memory left.
    unsigned char* stack(size_t index);
    bool contains(uintptr_t address) const;
    // True when `address` is in a guard page: a stack overflow.
    bool is_guard(uintptr_t address) const;
    StackPool() = default;
    StackPool(const StackPool&) = delete;
    ~StackPool();

private:
    static constexpr size_t CHUNK = 256;      // stacks mapped at a time
    static constexpr size_t MAX_CHUNKS = 80;  // 20480 stacks, more than MAX_RESIDENT_THREADS in machine.cpp
    static constexpr size_t STRIDE = STACK_BYTES + PAGE_BYTES;
    unsigned char* chunks_[MAX_CHUNKS] = {};
    size_t num_chunks_ = 0;
};

// Prepares `stack` so that the first switch to the returned stack pointer calls `entry`, which must never return.
// `index`: of the thread in its block. Stacks are a multiple of the page size apart; an offset by thread keeps the
// first frames of all threads from mapping to the same cache sets.
void* prepare_stack(unsigned char* stack, void (*entry)(), unsigned index);

}  // namespace simt
