// Findings about wgmma: lanes that differ, lanes that never come, products that are never waited for. See wgmma.h.
//
// The details are read by wgmma_findings.py.
#include "wgmma.h"

namespace simt {

Finding wgmma_finding(const Fiber& fiber, Kind kind, uintptr_t code, uintptr_t other_code, std::string detail) {
    Finding finding;
    finding.kind = kind;
    finding.code = code;
    finding.other_code = other_code;
    finding.thread = finding.other_thread = fiber.index;
    finding.block = finding.other_block = fiber.block->index;
    finding.detail = std::move(detail);
    return finding;
}

bool is_same_instruction(const WgmmaCall& a, const WgmmaCall& b) {
    return a.num_regs == b.num_regs && a.to_floats == b.to_floats && !a.a_regs == !b.a_regs && a.trans_a == b.trans_a &&
           a.trans_b == b.trans_b;
}

// What two lanes of a warpgroup disagree on, or null.
static const char* difference(const WgmmaCall& a, const WgmmaCall& b) {
    if (!a.a_regs && a.a != b.a) return "the descriptor of a";
    if (a.b != b.b) return "the descriptor of b";
    return a.scale_d != b.scale_d ? "scale_d" : nullptr;
}

void report_unequal_calls(Block& block, unsigned warpgroup, const Warpgroup& group) {
    const Fiber& first = block.fibers[warpgroup * WARPGROUP];
    for (unsigned lane = 1; lane < WARPGROUP; ++lane) {
        const Fiber& fiber = block.fibers[warpgroup * WARPGROUP + lane];
        const char* what = difference(*group.calls[0], *group.calls[lane]);
        if (!what && fiber.wait_code != first.wait_code) what = "line";
        if (!what) continue;
        Finding finding = wgmma_finding(fiber, Kind::bad_wgmma, fiber.wait_code, first.wait_code, "unequal|");
        finding.detail += what;
        finding.other_thread = first.index;
        report(finding);
        return;
    }
}

// The lane whose product the others are held against: the first of those in the majority.
static unsigned waiting_lane(const Warpgroup& group) {
    unsigned first = 0, same = 0, other = 0;  // other: the last one that differs from the first
    while (!group.calls[first]) ++first;
    for (unsigned lane = first; lane < WARPGROUP; ++lane) {
        if (!group.calls[lane]) continue;
        if (is_same_instruction(*group.calls[first], *group.calls[lane])) ++same;
        else other = lane;
    }
    return 2 * same >= group.arrived ? first : other;
}

// "wgmma|LANES|WARP|WARPGROUP|WHERE": LANES is empty when the whole warp is missing. A lane that calls another instruction
// is missing too.
bool report_missing_lanes(Block& block) {
    for (size_t which = 0; block.warpgroups && which < block.warpgroups->size(); ++which) {
        const Warpgroup& group = (*block.warpgroups)[which];
        if (!group.arrived) continue;
        unsigned arrived = waiting_lane(group), missing = 0, first_missing = 0;
        auto is_missing = [&](unsigned lane) {
            return !group.calls[lane] || !is_same_instruction(*group.calls[arrived], *group.calls[lane]);
        };
        while (!is_missing(first_missing)) ++first_missing;
        unsigned warp = first_missing / LANES;
        for (unsigned lane = 0; lane < LANES; ++lane) missing |= is_missing(warp * LANES + lane) ? 1u << lane : 0;
        const Fiber& waiter = block.fibers[which * WARPGROUP + arrived];
        const Fiber& absent = block.fibers[which * WARPGROUP + first_missing];
        bool has_returned = absent.wait == Wait::done;
        Finding finding = wgmma_finding(waiter, Kind::deadlock, waiter.wait_code, has_returned ? 0 : absent.wait_code,
                                        "wgmma|" + (~missing ? lane_list(missing) : std::string()) + "|" +
                                            std::to_string(warp) + "|" + std::to_string(which) + "|" +
                                            (has_returned ? "returned" : group.calls[first_missing] ? "calls" : "waits"));
        finding.other_thread = absent.index;
        report(finding);
        return true;
    }
    return false;
}

void report_uncovered_wait(const Fiber& fiber, uintptr_t code) {
    if (fiber.wgmma->pending.empty()) return;
    const WgmmaLane::Pending& newest = fiber.wgmma->pending.back();
    if (newest.group == fiber.wgmma->group) report(wgmma_finding(fiber, Kind::bad_wgmma, code, newest.code, "uncovered"));
}

void report_unfinished(const Fiber& fiber) {
    const WgmmaLane::Pending& oldest = fiber.wgmma->pending.front();
    bool is_committed = oldest.group != fiber.wgmma->group;
    report(wgmma_finding(fiber, Kind::bad_wgmma, oldest.code, 0, is_committed ? "unfinished" : "uncommitted"));
}

}  // namespace simt
