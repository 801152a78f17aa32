// What happened last to every four bytes of memory: the race detector's and the initialisation check's record.
//
// A cell remembers the last write and two reads of its bytes, each stamped with who, when and from which line. Cells of
// 4 bytes are split into halves and bytes where a kernel accesses them so, because two threads may well write the two
// halves of one word.
#pragma once
#include <deque>

#include "findings.h"
#include "state.h"

namespace simt {

// What a stamp tells about an asynchronous copy: nothing; it landed here, `code` is its wait; it is still under way and
// `code` is where it was started.
enum class Copied : uint8_t { no, landed, under_way };

// Who accessed, and when, in the terms in which ordering is decided (knowledge.h). clock 0: nobody yet.
struct Stamp {
    uint32_t block;
    uint16_t linear;
    uint8_t unordered;  // an Order: volatile or atomic; 0 for a plain access
    Copied copied;
    uint32_t epoch;
    uint32_t clock;
    uint32_t code;
};

struct Cell {
    Stamp write, read, other_read;  // the two reads are of different threads, of different warps where there were such
    uint32_t state;                 // bit 0: written; the rest: number of the split pair, 0 when whole
};
static_assert(sizeof(Cell) == 64, "a cell is one cache line");

// Halves and quarters of cells, in pairs; pair i stands at [2 * i], pair 0 is never used. A deque: references stay valid.
struct SplitCells {
    std::deque<Cell> cells;
    uint32_t add_pair(const Cell& whole);
    void forget();
};

// The shadow of one block's shared memory.
struct SharedShadow {
    std::vector<Cell> cells;
    SplitCells split;
    std::vector<Stamp> copies;  // by cell: the asynchronous copy under way to it; empty while there has been none
    size_t cells_awaited = 0;   // how many have one
    uint32_t last_copy = 0;     // copies are numbered; its stamp has the number as clock
};

// How an access stands to others of the same place: relaxed (volatile) and atomic ones do not race with each other.
// The rest are plain, with something of their own: a row of ldmatrix; the write of an asynchronous copy when it starts,
// before the data is there; its source once more when it lands, which is not counted again.
enum class Order : uint8_t { none, relaxed, atomic, matrix, copy, again };
void on_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code);
void settle_pending(Fiber& fiber);           // was the racing write one of the same value?
void excuse_first_look(uintptr_t address);   // before a compare-and-swap: the plain read that began its loop is no race
void start_shared_shadow(Block& block);      // shared memory begins unknown
bool start_shadow(const Launch& task, uintptr_t low, uintptr_t high);  // of the tensors; false: no memory
void end_shadow();
void add_region(const Region& region);

}  // namespace simt
