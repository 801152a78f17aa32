// State of a launch: Launch, Worker, Block, Warp, Fiber. Included by every file of the runtime; has no logic of its
// own.
//
// A launch is cut into blocks. A worker (an operating-system thread) runs blocks: one at a time, except under the
// resident schedule or when a block spins on something that another block must do; then several blocks of a worker are
// alive at once and take turns. Every CUDA thread is a fiber of its worker, so the state of one worker needs no locks;
// what workers share is atomic in `Launch`. Checked launches use one worker (machine.py), so the detector needs no
// locks either.
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

// What only the runtime of clang++'s kernels needs; g++ sees nothing of it.
#if defined(__clang__)
#define SIMT_OF_CLANG(...) __VA_ARGS__
#else
#define SIMT_OF_CLANG(...)
#endif

namespace simt {

constexpr unsigned LANES = 32;
constexpr unsigned WARPGROUP = 128;  // threads
constexpr unsigned RECENT_READS = 8;

// ready: may run. barrier, collective, active_mask, warpgroup: stopped in __syncthreads, in a warp-wide operation, in
// __activemask, in a wgmma. mbarrier: until a phase completes; mbarrier_poll: the same, but gives up when no thread can
// go on. named_barrier, registers: in a named barrier, in setmaxnreg.
enum class Wait : uint8_t {
    ready, barrier, collective, active_mask, warpgroup, mbarrier, mbarrier_poll, named_barrier, registers, done
};
enum class Schedule : int { forward, reverse, random, resident };  // order of SCHEDULES in machine.py
// gather: a matrix instruction, which takes registers of all lanes.
enum class Collective : uint8_t { syncwarp, shuffle, ballot, reduce, match, gather };
// Why a launch ended early. The order is that of STOPS in machine.py.
enum class Stop : int { none, kernel_fault, step_limit, time_limit, interrupted, deadlock, trap, no_memory };

struct VectorClock;  // happens_before.h
using ClockPtr = std::shared_ptr<const VectorClock>;
// What a thread, or a block at its last barrier, has of others by fences and atomics (happens_before.h). `_in_block`: what
// fences and atomics of block scope do, which is for the threads of the own block.
struct Clocks {
    ClockPtr acquired;                     // happened before its next access
    ClockPtr released, released_in_block;  // its fences published this: its next atomic carries it on
    ClockPtr observed, observed_in_block;  // its atomics saw this: its next fence acquires it
};
enum class Scope : int { block, device, system };  // of a fence or an atomic; the numbers of include/simt/hooks.h
// What a thread knows of its block, besides what __syncthreads and __syncwarp order: by number of a thread or an agent
// (async_proxy.h), its accesses up to this clock. Null: nothing.
using Known = std::vector<uint32_t>;
using KnownPtr = std::shared_ptr<const Known>;
struct Block;
struct WgmmaLane;  // wgmma.h
struct Warpgroup;  // wgmma.h

// A fence of a thread: its accesses up to `clock`, of the block's epoch at the time, are before the fence.
struct FenceMark {
    uint32_t clock, epoch;
};

// What accesses memory in a block besides its threads. See async_proxy.h.
struct Agent {
    uint8_t kind;     // an AgentKind
    uint32_t owner;
    uint32_t clock;   // of its last access
    uint16_t thread;  // that issued the last access
};

struct WarpPaths;  // requests.cpp
// What one lane did since the last flush; requests.cpp defines the entries and turns them into warp requests.
struct Recording {
    const uint64_t* next = nullptr;    // the entry of its path that comes after those that the lane has done
    uint32_t code = 0;                 // of the last basic block of the function that runs; 0: none yet
    unsigned path = 0;                 // of the warp's
    WarpPaths* warp = nullptr;
    std::vector<uint64_t> addresses;   // of the accesses that it has done
    std::vector<uint32_t> callers;     // `code` of each function below on the call stack
};

struct Stamp;  // shadow.h
// What the source of a cp.async was when it was issued, in the checked build.
struct CopySource {
    std::vector<Stamp> writes;  // of its cells
    unsigned char bytes[16];
    uintptr_t code;  // of the issue
};

// A cp.async in flight. Its data arrives when the thread waits for its group. See async_copy.h.
struct AsyncCopy {
    unsigned char* destination;
    const unsigned char* source;
    unsigned bytes, source_bytes;  // written; read (the rest is zero-filled)
    uint32_t group, number;        // of the thread's commit groups; of the block's copies
    std::shared_ptr<const CopySource> before;
};

// A CUDA thread. start_block (block.cpp) resets what must not outlive a block; the rest is set before it is read.
struct alignas(64) Fiber {
    // What every basic block and every access asks for comes first, in as few cache lines as it takes.
    void* stack_pointer = nullptr;  // saved at the last switch to the scheduler
    unsigned char* stack = nullptr; // lowest usable address of its STACK_BYTES
    Block* block = nullptr;
    uint64_t steps = 0;       // basic blocks executed (checked build); compared with the step limit
    uintptr_t last_code = 0;  // the last code address seen: the line of a crash inside library code
    Wait wait = Wait::ready;
    bool spinning = false;  // yielded inside a loop of atomics or volatile reads: no progress
    uint8_t atomics_since_switch = 0;
    uint8_t lane = 0;
    uint8_t warp = 0;
    uint16_t linear = 0;  // x + y * blockDim.x + z * blockDim.x * blockDim.y
    // happens_before.h. The thread's own clock counts its releases: fences and __syncwarp.
    uint32_t clock = 1;
    unsigned num_recent_reads = 0;
    Recording recording;
    uint64_t same_reads = 0;  // plain reads of one address by one instruction, with no other access between: a poll
    std::shared_ptr<WgmmaLane> wgmma;  // null until the thread's first wgmma, fence or commit
    KnownPtr known;               // learned through mbarriers, named barriers and waits for asynchronous operations
    Clocks clocks;

    // A write that races with another thread's write. It is no race when the value turns out to be unchanged, which is
    // known only after the write: the next hook of this thread decides (settle_pending_race).
    struct {
        bool open = false;
        uintptr_t address = 0;
        unsigned bytes = 0;
        unsigned char before[16] = {};
        size_t finding = 0;
        uint32_t other_block = 0;  // of the other write
        uint16_t other_linear = 0;
    } pending_race;

    SimtIndex index{};    // threadIdx
    uintptr_t polled_address = 0, polled_code = 0;  // the last volatile read; the same one again is polling
    uintptr_t misaligned_at = 0;  // where the compiler last met a misaligned reference (undefined.cpp)
    unsigned misaligned_for = 1;  // the alignment of its type
    SIMT_OF_CLANG(uintptr_t stored_at = 0; unsigned stored_bytes = 0;)  // the last write in this basic block (hooks.cpp)

    // Of the barrier or collective that the thread waits in. Set by the hook, read by the thread that completes it.
    uintptr_t wait_code = 0;  // its code address
    uint32_t wait_number = 0, wait_parity = 0;  // of the mbarrier or named barrier
    uint32_t refused_barrier = 0;  // 1 + number of the mbarrier whose try_wait returned false last; 0: waited for since
    int barrier_op = 0, predicate = 0;
    Collective collective = Collective::syncwarp;
    unsigned mask = 0;
    int mode = 0, operand = 0, width = 0;
    unsigned bytes = 0;        // of the value at `in`
    const void* in = nullptr;  // in the waiting thread's own stack, which stays as it is until it is resumed
    void* out = nullptr;
    unsigned long long value = 0;
    unsigned result = 0;
    std::shared_ptr<const std::vector<unsigned char>> gathered;  // of all lanes; alive until the next gather

    std::vector<AsyncCopy> copies;  // in flight, oldest first
    uint32_t copy_group = 0;        // groups committed so far
    uint32_t bulk_group = 0;        // bulk groups committed so far (tma.cpp)

    std::vector<FenceMark> proxy_fences, init_fences;  // fence_proxy_async, fence_mbarrier_init; oldest first

    uint8_t issues_async = 0;  // 1 + AgentKind while the access being checked is of an operation that the thread starts
    uint64_t waited = 0;  // of the timeline: what waits add to `steps`

    // The last plain reads: a compare-and-swap loop begins with one, which is no race (excuse_recent_reads).
    struct {
        uintptr_t address = 0, code = 0;
    } recent_reads[RECENT_READS];
};

struct Warp {
    unsigned first = 0, lanes = 0;    // threads [first, first + lanes) of the block
    unsigned active = 0;              // mask of the lanes that have not returned
    unsigned waiting = 0;             // mask of the lanes in a collective
    uint32_t clocks[LANES][LANES]{};  // clocks[i][j]: accesses of lane j up to this clock happened before lane i's next
    bool exchanged = false;           // clocks[][] holds anything besides zeros
};

struct SharedShadow;  // shadow.h
struct AsyncState;    // tma.h

struct Block {
    SimtIndex index{};   // blockIdx
    uint32_t id = 0;     // x + y * gridDim.x + z * gridDim.x * gridDim.y
    uint32_t epoch = 1;  // counts block barriers: everything of an earlier epoch is ordered for the whole block
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    unsigned live = 0;  // threads that have not returned
    unsigned waiting_at_barrier = 0;
    bool started = false, done = false, divergence_reported = false;
    Clocks clocks;                // what its threads had at the last barrier, joined
    std::vector<unsigned char> saved_shared;  // its shared memory while another block of this worker runs
    std::shared_ptr<SharedShadow> shared_shadow;
    std::vector<Agent> agents;
    std::shared_ptr<std::vector<Warpgroup>> warpgroups;  // null until the block's first wgmma
    std::shared_ptr<AsyncState> async;  // mbarriers, TMA copies, named barriers, registers
    size_t slot = 0;  // of the worker's resident blocks; its stacks and recordings are found by it
};

// A variable of the kernel's library. The order of ObjectKind is that of OBJECT_KINDS in memory.py.
enum class ObjectKind : int { shared, device, constant };
struct Object {
    uintptr_t low, high;  // shared: offsets from the start of the thread-local segment; others: addresses
    ObjectKind kind;
};

// A tensor as the checks see it.
struct Region {
    uintptr_t low = 0, high = 0;
    bool starts_uninitialised = false;  // an output: reading it before a write is a finding
    bool is_const = false;              // no parameter may write it
};

// The kernel's library as loaded in this process.
struct Library {
    void (*entry)(void**) = nullptr;
    uintptr_t base = 0;
    uintptr_t code_low = 0, code_high = 0;  // executable segment
    uintptr_t data_low = 0, data_high = 0;  // writable segment: __device__ variables
    uintptr_t map_low = 0, map_high = 0;    // all its mapped segments
    size_t tls_module = 0, tls_bytes = 0;   // its thread-local segment, which holds __shared__ variables only
    unsigned char* (*dynamic_base)() = nullptr;
};

struct Launch {
    Library library;
    void** arguments = nullptr;
    SimtIndex grid{}, block{};
    uint64_t num_blocks = 0;
    unsigned num_threads = 0;   // of one block
    unsigned shared_bytes = 0;  // dynamic
    unsigned blocks_per_sm = 1;  // that __launch_bounds__ asks for
    bool checked = false;
    Schedule schedule = Schedule::forward;
    uint64_t step_limit = 0;   // basic blocks of one thread
    double time_limit_s = 0;   // of the launch; 0: none
    size_t max_resident = 1;   // blocks of a worker alive at once
    bool preempt = false;      // yield at random accesses
    bool timeline = false;     // record events (timeline.h)
    std::mt19937 random;       // used by the checked build, which has one worker
    std::vector<Object> shared_objects, device_objects;  // sorted by address
    std::vector<uint32_t> block_order;                   // empty: 0, 1, 2, …
    std::atomic<uint64_t> next_block{0};                 // workers take blocks from here
    std::atomic<int> stop{0};  // a Stop; the first one wins and its thread fills in the rest
    std::string stop_detail;
    uintptr_t stop_code = 0, stop_address = 0;
    SimtIndex stop_thread{}, stop_block{};
    std::string printed;
};

struct Worker {
    void* scheduler_stack_pointer = nullptr;
    Block* block = nullptr;
    sigjmp_buf escape;  // run_blocks; a launch that stops jumps here from any fiber or signal handler
    // The kernel library's thread-local segment in this operating-system thread: the shared memory of the block that
    // runs.
    unsigned char* shared_low = nullptr;
    size_t shared_bytes = 0;  // in use: up to the end of this launch's dynamic shared memory
    size_t tls_bytes = 0;     // the whole segment, with the unused end of the dynamic buffer
    unsigned char* dynamic_low = nullptr;
    StackPool* stacks = nullptr;
};

// initial-exec: one instruction to reach them, where the default model of a shared library calls a function.
#define SIMT_FAST_TLS __attribute__((tls_model("initial-exec")))
extern thread_local SIMT_FAST_TLS Worker* worker;
extern thread_local SIMT_FAST_TLS Fiber* current;  // null while the scheduler runs
extern Launch* launch;                             // one at a time

inline bool is_local(const Fiber& fiber, uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(fiber.stack) < STACK_BYTES;
}

// scheduler.cpp
void yield_to_scheduler();  // returns when this thread is chosen again
[[noreturn]] void stop_launch(Stop reason, uintptr_t code, uintptr_t address = 0, const char* detail = nullptr);
void yield_on_atomic();                                 // every SPIN_ACCESSES-th atomic yields
void yield_on_poll(uintptr_t address, uintptr_t code);  // a volatile read yields when it repeats

// Address in the library of the call that returns to `return_address`. The call ends one byte before it; without the -
// 1 a call at the end of a line would be found on the next line.
inline uintptr_t code_of(uintptr_t return_address) { return return_address - 1 - launch->library.base; }
#define SIMT_CODE() simt::code_of(reinterpret_cast<uintptr_t>(__builtin_return_address(0)))
#define SIMT_EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace simt
