// The race detector and the initialisation check on shadow cells. See shadow.h.
//
// Two accesses race when they touch the same byte, are of different threads, at least one is a write, not both are
// strong, and neither happened before the other. Fibers run one at a time, so "the other one happened before" is the
// only direction to ask about: the stamp in the cell is always the earlier access.
#include "shadow.h"

#include <algorithm>
#include <cstring>

#include "async_proxy.h"
#include "happens_before.h"

namespace simt {

// Program order, barriers and __syncwarp: a few integer comparisons.
static bool ordered_in_block(const Stamp& stamp, const Fiber& self, const Block& block) {
    if (stamp.linear == self.linear || stamp.epoch < block.epoch) return true;  // program order; a barrier between
    if (stamp.linear / LANES == self.warp) {
        const Warp& warp = block.warps[self.warp];
        if (warp.clocks[self.lane][stamp.linear % LANES] >= stamp.clock) return true;  // a __syncwarp between
    }
    return false;
}

// Did the stamped access happen before the current thread's next one? Tested from the cheapest relation to the dearest.
static bool ordered(const Stamp& stamp, const Fiber& self) {
    const Block& block = *self.block;
    if (stamp.block == block.id) {
        if (ordered_in_block(stamp, self, block)) return true;
        if (self.known && stamp.linear < self.known->size() && (*self.known)[stamp.linear] >= stamp.clock) return true;
    }
    return covers(self.clocks.acquired, stamp) || covers(block.clocks.acquired, stamp);
}

bool is_ordered(const Stamp& stamp) { return ordered(stamp, *current); }

// PTX: "morally strong", both are strong and each is in the scope of the other.
static bool both_strong(const Stamp& a, const Stamp& b) {
    constexpr auto IN_BLOCK = static_cast<uint8_t>(Order::atomic_in_block);
    return a.strong && b.strong && (a.block == b.block || (a.strong != IN_BLOCK && b.strong != IN_BLOCK));
}

// Two volatile accesses to shared memory by lanes of one warp: code that relies on lock step instead of __syncwarp,
// which Volta's independent thread scheduling no longer guarantees. Volatile flags between warps or blocks are polled:
// no race.
static bool relies_on_lock_step(const Stamp& a, const Stamp& b, Space space) {
    constexpr auto RELAXED = static_cast<uint8_t>(Order::relaxed);
    return space == Space::shared && a.strong == RELAXED && b.strong == RELAXED && a.block == b.block &&
           a.linear / LANES == b.linear / LANES;
}

// Two threads may write the same value: common (a flag set to 1), and no race here but a remark. The callback comes before the
// store, so the bytes are kept and compared at the thread's next hook. Not for strong accesses, nor for a copy that has
// not landed.
static void report_write_race(const Access& access, const Stamp& other) {
    Fiber& self = *current;
    size_t index = report_race(access.space, access.stamp, access.address, access.bytes, true, other, true);
    if (access.is_issue) return;
    auto& pending = self.pending_race;
    if (pending.open || access.stamp.strong || other.strong || access.bytes > sizeof(pending.before)) return;
    pending.open = true;
    pending.address = access.address;
    pending.bytes = access.bytes;
    pending.finding = index;
    pending.other_block = other.block;
    pending.other_linear = other.linear;
    std::memcpy(pending.before, reinterpret_cast<void*>(access.address), access.bytes);
}

// Called from the thread's next hook, and before it waits or returns: no other thread has run since the write.
void settle_pending_race(Fiber& fiber) {
    auto& pending = fiber.pending_race;
    if (!pending.open) return;
    pending.open = false;
    if (std::memcmp(pending.before, reinterpret_cast<void*>(pending.address), pending.bytes)) return;
    bool same_warp = pending.other_block == fiber.block->id && pending.other_linear / LANES == fiber.warp;
    if (!same_warp) remark_equal_writes(pending.finding, fiber, pending.other_block, pending.other_linear);
    withdraw_finding(pending.finding);
}

// Keeps two reads of different threads. A reader of another warp is kept rather than one of the same warp, because a
// __syncwarp may order the latter: the other is the one that a later write is more likely to race with.
static void remember_read(Cell& cell, const Stamp& now) {
    bool same_thread = cell.read.block == now.block && cell.read.linear == now.linear;
    if (cell.read.clock && !same_thread) {
        bool same_warp = cell.read.block == now.block && cell.read.linear / LANES == now.linear / LANES;
        bool keeps_other_warp = cell.other_read.clock && cell.other_read.epoch == now.epoch &&
                                (cell.other_read.block != now.block || cell.other_read.linear / LANES != now.linear / LANES);
        if (!same_warp || !keeps_other_warp) cell.other_read = cell.read;
    }
    cell.read = now;
}

// Checks an access against a cell's stamps and leaves its own.
static void update_cell(Cell& cell, const Access& access) {
    Fiber& self = *current;
    const Stamp& now = access.stamp;
    bool initialised = (cell.state & 1) != 0;
    if (!access.is_write || access.is_atomic) {  // an atomic reads too
        if (!initialised && access.starts_uninitialised)
            report_access(Kind::uninitialised_read, access.space, now.code, access.address, access.bytes, false);
    }
    auto races_with = [&](const Stamp& other) {
        if (!other.clock || ordered(other, self)) return false;
        return !both_strong(other, now) || relies_on_lock_step(other, now, access.space);
    };
    if (races_with(cell.write)) {
        if (access.is_write) report_write_race(access, cell.write);
        else report_race(access.space, now, access.address, access.bytes, false, cell.write, true);
    }
    if (!access.is_write) {
        if (access.left) check_proxy(cell, access);
        remember_read(cell, access.left ? *access.left : now);
        return;
    }
    if (races_with(cell.read)) {
        report_race(access.space, now, access.address, access.bytes, true, cell.read, false);
    } else if (races_with(cell.other_read)) {
        report_race(access.space, now, access.address, access.bytes, true, cell.other_read, false);
    }
    // A later access that is ordered after this write is ordered after the reads before it, or the race is reported
    // now.
    cell.write = access.left ? *access.left : now;
    cell.read.clock = cell.other_read.clock = 0;
    cell.state |= 1;
}

// Splits a cell: both halves start with the stamps of the whole.
uint32_t SplitCells::add_pair(const Cell& whole) {
    if (cells.empty()) cells.resize(2);
    Cell half = whole;
    half.state &= 1;  // initialised as the whole was, not split itself
    cells.push_back(half);
    cells.push_back(half);
    return static_cast<uint32_t>(cells.size() / 2 - 1);
}

void SplitCells::clear() { cells.clear(); }

// Updates bytes [from, to) of a cell that covers `size` bytes, splitting it where the access covers a part.
static void update_part(Cell& cell, unsigned size, unsigned from, unsigned to, const Access& access) {
    if ((cell.state >> 1) == 0) {
        if (from == 0 && to == size) return update_cell(cell, access);
        cell.state |= access.split->add_pair(cell) << 1;
    }
    size_t pair = cell.state >> 1;
    unsigned half = size / 2;
    if (from < half) update_part(access.split->cells[2 * pair], half, from, to < half ? to : half, access);
    if (to > half) update_part(access.split->cells[2 * pair + 1], half, from > half ? from - half : 0, to - half, access);
}

// Whole cells are the common case and take the short way.
void update_cells(Cell* cells, uintptr_t low, const Access& access) {
    uintptr_t begin = access.address - low, end = begin + access.bytes;
    for (uintptr_t word = begin / 4; word * 4 < end; ++word) {
        auto from = static_cast<unsigned>(begin > word * 4 ? begin - word * 4 : 0);
        auto to = static_cast<unsigned>(end < word * 4 + 4 ? end - word * 4 : 4);
        Cell& cell = cells[word];
        if (from == 0 && to == 4 && (cell.state >> 1) == 0) update_cell(cell, access);
        else update_part(cell, 4, from, to, access);
    }
}

static void append_part(const Cell& cell, const SplitCells& split, std::vector<Stamp>& into) {
    size_t pair = cell.state >> 1;
    if (!pair) return into.push_back(cell.write);
    append_part(split.cells[2 * pair], split, into);
    append_part(split.cells[2 * pair + 1], split, into);
}

void append_writes(const Cell* cells, uintptr_t low, uintptr_t address, unsigned bytes, const SplitCells& split,
                   std::vector<Stamp>& into) {
    for (uintptr_t word = (address - low) / 4; word <= (address + bytes - 1 - low) / 4; ++word)
        append_part(cells[word], split, into);
}

}  // namespace simt
