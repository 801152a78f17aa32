// What the machine knows while a kernel runs: launch, worker, block, warp, thread.
//
// A launch is cut into blocks. A worker (an operating-system thread) runs blocks; normally one at a time, several at once
// under the resident schedule or when a block spins on something that another block must do.
#pragma once
#include <setjmp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fiber.h"

extern "C" struct SimtIndex {
    unsigned x, y, z;
};

namespace simt {

constexpr unsigned LANES = 32;
constexpr unsigned LOOKS = 8;

enum class Wait : uint8_t { ready, barrier, collective, active_mask, done };
enum class Schedule : int { forward, reverse, random, resident };
enum class Collective : uint8_t { syncwarp, shuffle, ballot, reduce, match, gather };
enum class Stop : int { none, kernel_fault, step_limit, time_limit, interrupted, deadlock, trap, no_memory };

struct Know;  // knowledge.h: which accesses of other threads are known to have happened
using KnowPtr = std::shared_ptr<const Know>;
struct Block;

// What a lane did, for requests.cpp: words of 8 bytes, the meaning of which stands there.
struct Recording {
    std::vector<uint64_t> words;
    std::vector<int> path{0};  // last basic block in each function under way
};

// A copy that a thread has started (cp.async). Its data arrives when the thread waits for its group. See async_copy.h.
struct AsyncCopy {
    unsigned char* to;
    const unsigned char* from;
    unsigned bytes, source_bytes;
    uint32_t group, number;
};

struct Fiber {
    void* stack_pointer = nullptr;
    unsigned char* stack = nullptr;
    Block* block = nullptr;
    SimtIndex index{};
    uint16_t linear = 0;  // number of the thread in its block
    uint8_t lane = 0;
    uint8_t warp = 0;
    Wait wait = Wait::ready;
    bool spinning = false;  // gave way inside a loop of atomics or volatile reads
    uint8_t atomics_since_switch = 0;
    uintptr_t polled_address = 0, polled_code = 0;  // the last volatile read

    uintptr_t wait_code = 0;  // code address of the barrier or collective where it waits
    int barrier_op = 0, predicate = 0;

    Collective collective = Collective::syncwarp;
    unsigned mask = 0;
    int mode = 0, operand = 0, width = 0;
    unsigned bytes = 0;
    const void* in = nullptr;
    void* out = nullptr;
    unsigned long long value = 0;
    unsigned result = 0;
    std::shared_ptr<const std::vector<unsigned char>> gathered;

    std::vector<AsyncCopy> copies;  // under way, oldest first
    uint32_t copy_group = 0;        // groups committed so far

    uint64_t steps = 0;     // basic blocks executed (checked build)
    uintptr_t last_code = 0;
    uint32_t clock = 1;     // counts this thread's releases
    KnowPtr know, release;  // what it has learned by atomics, what its fences have published

    // Its last plain reads: a loop around a compare-and-swap begins with one.
    struct {
        uintptr_t address = 0, code = 0;
    } looks[LOOKS];
    unsigned num_looks = 0;

    // A write to memory that another thread wrote unordered: a race unless the value turns out to be the same.
    struct {
        bool open = false;
        uintptr_t address = 0;
        unsigned bytes = 0;
        unsigned char before[16] = {};
        size_t finding = 0;
    } pending;

    Recording recording;
};

struct Warp {
    unsigned first = 0, lanes = 0;   // threads [first, first + lanes) of the block
    unsigned present = 0;            // lanes that have not returned
    unsigned waiting = 0;            // lanes in a collective
    uint32_t known[LANES][LANES]{};  // known[i][j]: lane i knows lane j's accesses up to this clock
    bool exchanged = false;          // known[][] holds anything besides zeros
};

struct SharedShadow;  // shadow.h

struct Block {
    SimtIndex index{};
    uint32_t id = 0;
    uint32_t epoch = 1;  // counts block barriers
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    unsigned live = 0;
    unsigned waiting_at_barrier = 0;
    bool started = false, done = false, divergence_reported = false;
    KnowPtr know, release;
    size_t first_stack = 0;
    std::vector<unsigned char> saved_shared;  // while another block of this worker runs
    std::shared_ptr<SharedShadow> shared_shadow;
    size_t slot = 0;
};

// A variable of the kernel's library. Shared ones are counted from the start of the thread-local block.
enum class ObjectKind : int { shared, device, constant };
struct Object {
    uintptr_t low, high;
    ObjectKind kind;
};

struct Region {
    uintptr_t low = 0, high = 0;
    bool starts_uninitialised = false;
};

// The kernel's library as loaded in this process.
struct Library {
    void (*entry)(void**) = nullptr;
    uintptr_t base = 0;
    uintptr_t code_low = 0, code_high = 0;  // executable segment
    uintptr_t data_low = 0, data_high = 0;  // writable segment: __device__ variables
    uintptr_t map_low = 0, map_high = 0;    // everything of it that is mapped
    size_t tls_module = 0, tls_bytes = 0;
    unsigned char* (*dynamic_base)() = nullptr;
};

struct Launch {
    Library library;
    void** arguments = nullptr;
    SimtIndex grid{}, block{};
    uint64_t num_blocks = 0;
    unsigned num_threads = 0;  // of one block
    unsigned shared_bytes = 0;
    bool checked = false;
    Schedule schedule = Schedule::forward;
    uint64_t step_limit = 0;
    double time_limit_s = 0;
    size_t max_resident = 1;  // blocks alive at once
    bool preempt = false;     // give way at random accesses
    std::mt19937 random;
    std::vector<Object> shared_objects, device_objects;  // sorted by address
    std::vector<uint32_t> block_order;
    std::atomic<uint64_t> next_block{0};
    std::atomic<int> stop{0};  // a Stop
    std::string stop_detail;
    uintptr_t stop_code = 0, stop_address = 0;
    SimtIndex stop_thread{}, stop_block{};
    std::string printed;
};

struct Worker {
    void* scheduler_stack_pointer = nullptr;
    Block* block = nullptr;
    sigjmp_buf escape;
    unsigned char* shared_low = nullptr;  // this worker's copy of the kernel's thread-local segment
    size_t shared_bytes = 0;  // of it in use: up to the end of this launch's dynamic shared memory
    size_t tls_bytes = 0;     // all of it
    unsigned char* dynamic_low = nullptr;
    StackPool* stacks = nullptr;
};

#define SIMT_FAST_TLS __attribute__((tls_model("initial-exec")))
extern thread_local SIMT_FAST_TLS Worker* worker;
extern thread_local SIMT_FAST_TLS Fiber* current;  // null while the scheduler runs
extern Launch* launch;                             // one at a time

inline bool is_local(const Fiber& fiber, uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(fiber.stack) < STACK_BYTES;
}

// scheduler.cpp
void give_way();                  // back to the scheduler; returns when this thread is chosen again
[[noreturn]] void stop_launch(Stop reason, uintptr_t code, uintptr_t address = 0, const char* detail = nullptr);
void spin_pause();                // an atomic: give way now and then
void polling_pause(uintptr_t address, uintptr_t code);  // a volatile read: give way when it repeats
inline uintptr_t code_of(uintptr_t return_address) { return return_address - 1 - launch->library.base; }
#define SIMT_CODE() simt::code_of(reinterpret_cast<uintptr_t>(__builtin_return_address(0)))
#define SIMT_EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace simt
