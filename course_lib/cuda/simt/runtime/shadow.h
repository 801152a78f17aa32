// Shadow memory: for every four bytes, who wrote and read them last. The record of the race detector and of the
// initialisation check.
//
// A shadow cell holds the stamps of the last write and of two reads of its bytes. As in ThreadSanitizer, a bounded
// number of reads is enough in practice: the two are of different threads, of different warps where there were such.
// Cells of 4 bytes are split into halves and bytes where a kernel accesses them so, since two threads may write the two
// halves of a word without a race. access.cpp classifies an access and finds its cells; shadow.cpp keeps them.
#pragma once
#include <deque>

#include "findings.h"
#include "state.h"

namespace simt {

// Why an access is recorded. relaxed (volatile) and atomic accesses are strong in PTX's sense: they do not race with
// one another, except those of block scope (atomic_in_block) with accesses of other blocks. All others are weak:
//   matrix        a row of ldmatrix, which has wavefront rules of its own
//   copy_issue    the destination of a cp.async when it is issued, before the data arrives
//   copy_landing  the source of a cp.async once more at its wait; not counted as traffic again
enum class Order : uint8_t { plain, relaxed, atomic, atomic_in_block, matrix, copy_issue, copy_landing };

inline bool is_atomic(Order order) { return order == Order::atomic || order == Order::atomic_in_block; }

// What a stamp says about an asynchronous copy: nothing; the write is its landing and `code` its wait; the copy is in
// flight and `code` its issue. bulk and after: written by a TMA load under swizzle 0, 1, … (async_proxy.h). mbarrier: the
// bytes are an mbarrier, which only its own operations may touch.
enum class Copied : uint8_t { no, landed, in_flight, mbarrier, bulk };

// Who accessed the bytes, and when in terms of happens_before.h. clock 0: no access yet.
struct Stamp {
    uint32_t block;   // id
    uint16_t linear;  // thread of the block, or agent
    uint8_t strong;   // Order::relaxed, atomic or atomic_in_block; 0 for a weak access
    Copied copied;
    uint32_t epoch;   // of the block: barriers passed
    uint32_t clock;   // of the thread: fences and __syncwarp passed
    uint32_t code;    // code address in the kernel's library
};

struct Cell {
    Stamp write, read, other_read;
    uint32_t state;  // bit 0: initialised; bits 1-31: index of its split pair, 0 when whole
};
static_assert(sizeof(Cell) == 64, "a cell is one cache line");

// Halves and quarters of cells, in pairs: pair i is cells 2 i and 2 i + 1; pair 0 is unused. A deque keeps references
// valid while pairs are added.
struct SplitCells {
    std::deque<Cell> cells;
    uint32_t add_pair(const Cell& whole);
    void clear();
};

// The shadow of one block's shared memory.
struct SharedShadow {
    std::vector<Cell> cells;
    SplitCells split;
    std::vector<Stamp> copies;    // by cell: the asynchronous copy in flight to it; empty until the first one
    size_t cells_in_flight = 0;   // cells of `copies` that have one
    uint32_t last_copy = 0;       // copies are numbered; the stamp of one has its number as clock
};

// One access on its way through the cells.
struct Access {
    uintptr_t address;  // of the whole access, for messages
    unsigned bytes;
    bool is_write, is_atomic;
    bool starts_uninitialised;  // reading a cell that nothing has written is a finding
    bool is_issue;              // Order::copy_issue: the value is not in memory yet
    Space space;
    Stamp stamp;
    SplitCells* split;
    const Stamp* left = nullptr;  // the stamp that stays in the cells when it is not the thread's own: an agent's
};

// shadow.cpp
void update_cells(Cell* cells, uintptr_t low, const Access& access);  // cells[0] shadows the four bytes at `low`
void settle_pending_race(Fiber& fiber);  // withdraws the racing write's finding when it wrote the value that was there

// The writes that the cells of [address, address + bytes) hold, each part of a split cell on its own.
void append_writes(const Cell* cells, uintptr_t low, uintptr_t address, unsigned bytes, const SplitCells& split,
                   std::vector<Stamp>& into);

// access.cpp
void append_global_writes(uintptr_t address, unsigned bytes, std::vector<Stamp>& into);
void on_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code);
// An access that the current thread starts and an agent makes: checked as the thread's, stamped as `left`. Not counted.
void agent_access(uintptr_t address, unsigned bytes, bool is_write, Space space, const Stamp& left);
bool is_inside_shared(uintptr_t address, unsigned bytes);  // all of it in one variable or in the dynamic buffer
bool is_inside_global(uintptr_t address, unsigned bytes);  // all of it in one tensor or __device__ variable
// before a compare-and-swap: the plain read that began its loop is no race
void excuse_recent_reads(uintptr_t address);
void start_shared_shadow(Block& block);       // shared memory starts uninitialised in every block
bool start_shadow(const Launch& task, uintptr_t low, uintptr_t high);  // of the arena's tensors; false: out of memory
void end_shadow();
void add_region(const Region& region);

}  // namespace simt
