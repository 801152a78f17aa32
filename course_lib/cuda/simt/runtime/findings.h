// Findings: what is wrong with a kernel, as code addresses and numbers. findings.py turns them into lines and
// sentences.
//
// Reported by shadow.cpp and access.cpp (accesses), block.cpp and scheduler.cpp (barriers, deadlocks), warp.cpp
// (shuffles).
#pragma once
#include <string>
#include <vector>

#include "state.h"

namespace simt {

// The order is that of KINDS in report.py.
// remark: nothing is wrong; kept apart from the findings.
enum class Kind : int {
    race, out_of_bounds, misaligned, uninitialised_read, divergent_barrier, deadlock, step_limit, bad_shuffle,
    stack_overflow, trap, missing_fence, bad_barrier, bad_copy, bad_registers, in_flight, bad_wgmma, const_write,
    remark
};
enum class Space : int { none, shared, global };

struct Finding {
    Kind kind = Kind::race;
    Space space = Space::none;
    uintptr_t code = 0, other_code = 0;  // other_code 0: there is no second location
    uint64_t count = 0;  // 0: withdrawn
    bool is_write = false, other_is_write = false;
    int issues_async = 0;  // 1 + AgentKind: the thread starts an asynchronous operation that makes the access
    SimtIndex thread{}, block{}, other_thread{}, other_block{};
    uint64_t address = 0;
    unsigned bytes = 0;
    std::string detail;  // more for the sentence; its form depends on the kind. A race's ends in " refused" after a try_wait
    uintptr_t plain_read = 0;  // of a race between a plain read and an atomic: the read's code address
};

struct Stamp;

void reset_findings();
const std::vector<Finding>& all_findings();
void withdraw_finding(size_t index);  // one occurrence turned out to be harmless
void excuse_plain_read(uintptr_t code);  // its races with atomics are harmless: a compare-and-swap reads again
bool is_excused(const Finding& finding);

// Adds an occurrence; the first one of (kind, code, other_code, space) is kept as the example. Returns its index.
size_t report(const Finding& finding);
// A finding about the current thread's access.
size_t report_access(Kind kind, Space space, uintptr_t code, uintptr_t address, unsigned bytes, bool is_write);
size_t report_race(Space space, const Stamp& now, uintptr_t address, unsigned bytes, bool is_write, const Stamp& other,
                   bool other_is_write);
// The race `index` of `fiber`'s write with one of another warp or block: both wrote the same value.
void remark_equal_writes(size_t index, const Fiber& fiber, uint32_t other_block, uint16_t other_linear);
// `write` changed the source of a cp.async that the current thread issued at `issue`, and waits for now.
void report_overwritten_source(const Stamp& write, uintptr_t address, unsigned bytes, uintptr_t issue);
// What a thread wrote (`write`) is used by the async proxy without a fence of that thread. detail: "proxy" or "init".
void report_missing_fence(uintptr_t code, uintptr_t address, unsigned bytes, const Stamp& write, const char* detail);
void report_divergent_barrier(Block& block);
std::string lane_list(unsigned lanes);  // "0-3, 7"
void report_deadlock(Block& block);
void report_inactive_source(Block& block, const Fiber& fiber, int source);  // of a shuffle
void report_not_in_mask(const Fiber& fiber, unsigned mask);

}  // namespace simt
