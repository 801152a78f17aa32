// The last atomics of every block, and what they say about an unordered write. See why_unordered.h.
#include "why_unordered.h"

#include "happens_before.h"
#include "shadow.h"

namespace simt {

constexpr unsigned KEPT = 8;  // atomics of a block; a kernel that announces its writes by an atomic uses few variables

// Atomics of one thread on one variable with no other atomic of its block between.
struct Announcement {
    uint64_t variable = 0;
    uint64_t first = 0, last = 0;  // their numbers in the launch; 0: none
    uint32_t linear = 0, epoch = 0, clock = 0;  // of the first one
};

struct Announcements {
    Announcement kept[KEPT];
    unsigned newest = 0;
};

static std::vector<Announcements> of_block;  // by block id
static uint64_t num_atomics;

void reset_reasons() {
    of_block.clear();
    num_atomics = 0;
}

void note_atomic(uint64_t variable) {
    const Fiber& self = *current;
    if (of_block.size() <= self.block->id) of_block.resize(self.block->id + 1);
    Announcements& mine = of_block[self.block->id];
    Announcement& newest = mine.kept[mine.newest];
    ++num_atomics;
    if (newest.first && newest.variable == variable && newest.linear == self.linear) {
        newest.last = num_atomics;
        return;
    }
    mine.newest = (mine.newest + 1) % KEPT;
    mine.kept[mine.newest] = {variable, num_atomics, num_atomics, self.linear, self.block->epoch, self.clock};
}

// Came the announcement after the write, by the same thread or with a barrier of its block between?
static bool follows(const Announcement& one, const Stamp& write) {
    return one.first && (write.epoch < one.epoch || (write.linear == one.linear && write.clock <= one.clock));
}

// The first announcement of the write that an atomic of the current block has observed, or null.
static const Announcement* observed_announcement(const Stamp& write) {
    if (of_block.size() <= std::max(write.block, current->block->id)) return nullptr;
    for (const Announcement& theirs : of_block[write.block].kept)
        for (const Announcement& ours : of_block[current->block->id].kept)
            if (follows(theirs, write) && ours.variable == theirs.variable && ours.last > theirs.first) return &theirs;
    return nullptr;
}

const char* why_unordered(const Stamp& write) {
    const Clocks &mine = current->clocks, &blocks = current->block->clocks;
    bool same_block = write.block == current->block->id;
    if (covers(mine.observed, write) || covers(blocks.observed, write)) return "acquire";
    if (same_block) return covers(mine.observed_in_block, write) || covers(blocks.observed_in_block, write) ? "acquire" : "";
    const Announcement* announcement = observed_announcement(write);
    if (!announcement) return "";
    return is_released_in_block(announcement->variable, write) ? "block scope" : "release";
}

}  // namespace simt
