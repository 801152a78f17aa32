// Fibers: one stack and one saved stack pointer for each CUDA thread.
//
// A block of 1024 CUDA threads is 1024 fibers on one operating-system thread. Switching saves only the registers that the
// calling convention makes the callee keep, so it costs a few nanoseconds. Below every stack lies a page that cannot be
// touched: endless recursion ends there, in a signal that faults.cpp turns into a finding.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" void simt_switch(void** save_here, void* continue_there);

namespace simt {

constexpr size_t STACK_BYTES = 64 * 1024;  // for each CUDA thread, without the guard
#if defined(__aarch64__)
constexpr size_t PAGE_BYTES = 65536;  // Arm systems have pages of 4, 16 or 64 KB; its compilers probe frames every 64 KB
#else
constexpr size_t PAGE_BYTES = 4096;
#endif

// A set of stacks with guards, kept and reused from launch to launch.
class StackPool {
public:
    // Lowest usable address of stack `index`; maps more stacks when needed. Null when the system has no memory left.
    unsigned char* stack(size_t index);
    bool contains(uintptr_t address) const;
    // True when `address` lies in a guard page: a stack overflow.
    bool is_guard(uintptr_t address) const;
    StackPool() = default;
    StackPool(const StackPool&) = delete;
    ~StackPool();

private:
    static constexpr size_t CHUNK = 256;  // stacks mapped at a time
    static constexpr size_t MAX_CHUNKS = 80;
    static constexpr size_t STRIDE = STACK_BYTES + PAGE_BYTES;
    unsigned char* chunks_[MAX_CHUNKS] = {};
    size_t num_chunks_ = 0;
};

// Prepares `stack` so that the first switch to the returned stack pointer calls `entry`, which must never return.
// `index`: which of the block's threads; their first frames are spread over the cache instead of fighting for one set.
void* prepare_stack(unsigned char* stack, void (*entry)(), unsigned index);

}  // namespace simt
