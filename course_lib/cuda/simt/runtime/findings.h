// What the machine has to say against a kernel. Code addresses become lines, and findings sentences, in report.py.
#pragma once
#include <string>
#include <vector>

#include "state.h"

namespace simt {

// The order is that of KINDS in report.py.
enum class Kind : int {
    race, out_of_bounds, misaligned, uninitialised_read, divergent_barrier, deadlock, step_limit, bad_shuffle,
    stack_overflow, trap
};
enum class Space : int { none, shared, global };

struct Finding {
    Kind kind = Kind::race;
    Space space = Space::none;
    uintptr_t code = 0, other_code = 0;  // 0: no other place
    uint64_t count = 0;
    bool is_write = false, other_is_write = false;
    SimtIndex thread{}, block{}, other_thread{}, other_block{};
    uint64_t address = 0;
    unsigned bytes = 0;
    std::string detail;  // words that only the runtime knows
    uintptr_t plain_read = 0;  // a race of a plain read with an atomic: the read's place
};

struct Stamp;

void forget_findings();
const std::vector<Finding>& all_findings();
void withdraw_finding(size_t index);  // one occurrence turned out to be harmless
void excuse_plain_read(uintptr_t code);  // its races with atomics are harmless: a compare-and-swap looks again
bool is_excused(const Finding& finding);

// Adds an occurrence; the first one of (kind, code, other_code, space) is kept as the example. Gives its index.
size_t report(const Finding& finding);
// A finding about the current thread's access.
size_t report_access(Kind kind, Space space, uintptr_t code, uintptr_t address, unsigned bytes, bool is_write);
size_t report_race(Space space, const Stamp& now, uintptr_t address, unsigned bytes, bool is_write, const Stamp& other,
                   bool other_is_write);
void report_uneven_barrier(Block& block);
void report_stuck_block(Block& block);
void report_absent_lane(Block& block, const Fiber& fiber, int source);
void report_not_in_mask(const Fiber& fiber, unsigned mask);

}  // namespace simt
