// Collectives of a warp: __syncwarp, shuffles, votes, reductions, matches, gathers for matrix instructions.
//
// A lane that arrives stores its operands in its Fiber and waits. When every active lane of the mask has arrived at the
// same collective with the same mask, the last one to arrive answers all of them. Lanes may arrive from different
// lines: that is legal since Volta, so the code address is not compared.
#include "warp.h"

#include <cstring>

#include "findings.h"
#include "happens_before.h"

namespace simt {

// Do two lanes wait in the same operation? Compared by kind and mask, as the rule for _sync functions has it.
static bool same_collective(const Fiber& a, const Fiber& b) {
    if (a.wait != Wait::collective || a.collective != b.collective || a.mask != b.mask) return false;
    // an ldmatrix does not meet an mma: their records differ in size
    return a.collective != Collective::gather || a.bytes == b.bytes;
}

// op as in simt_reduce (hooks.h).
static unsigned reduce_pair(int op, unsigned a, unsigned b, bool is_signed) {
    switch (op) {
        case 0: return a + b;
        case 1: return is_signed ? (static_cast<int>(a) < static_cast<int>(b) ? a : b) : (a < b ? a : b);
        case 2: return is_signed ? (static_cast<int>(a) > static_cast<int>(b) ? a : b) : (a > b ? a : b);
        case 3: return a & b;
        case 4: return a | b;
        default: return a ^ b;
    }
}

// The lane whose value `lane` takes. mode as in simt_shuffle; outside its segment of `width` lanes a lane takes its
// own.
static int shuffle_source(const Fiber& lane) {
    int self = lane.lane, width = lane.width, operand = lane.operand;
    int segment = self & ~(width - 1), source = self;
    switch (lane.mode) {
        case 0: return segment + (operand & (width - 1));
        case 1: source = self - operand; return source < segment ? self : source;
        case 2: source = self + operand; return source >= segment + width ? self : source;
        default: source = self ^ operand; return source >= segment + width ? self : source;
    }
}

// The value that a shuffle returns from an inactive lane is undefined in CUDA. Here it is made of this byte: NaN by
// default; inactive_lanes.py changes it to see whether the result depends on it.
static int inactive_byte = 0xff;

// Every lane of `lanes` gets its source lane's value.
static void answer_shuffle(Block& block, Warp& warp, unsigned lanes) {
    unsigned char sent[LANES][16];  // read before any lane's `out` is written: in and out may be the same variable
    for (unsigned lane = 0; lane < warp.lanes; ++lane)
        if (lanes >> lane & 1) {
            Fiber& fiber = block.fibers[warp.first + lane];
            std::memcpy(sent[lane], fiber.in, fiber.bytes);
        }
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(lanes >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        int source = shuffle_source(fiber);
        if (lanes >> source & 1) {
            std::memcpy(fiber.out, sent[source], fiber.bytes);
        } else {
            std::memset(fiber.out, inactive_byte, fiber.bytes);
            if (launch->checked) report_inactive_source(block, fiber, source);
        }
    }
}

// All collectives but shuffles: computes what any of them needs, then gives each lane its result.
static void answer_values(Block& block, Warp& warp, unsigned lanes, Fiber& any) {
    unsigned ballot = 0, reduced = 0;
    bool first = true, all_equal = true;
    std::shared_ptr<std::vector<unsigned char>> gathered;
    // 0xff: the record of a lane that has returned is all ones, which the headers recognise
    if (any.collective == Collective::gather) gathered = std::make_shared<std::vector<unsigned char>>(LANES * any.bytes, 0xff);
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(lanes >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        if (fiber.predicate) ballot |= 1u << lane;
        auto value = static_cast<unsigned>(fiber.value);
        reduced = first ? value : reduce_pair(any.operand, reduced, value, any.mode != 0);
        all_equal &= fiber.value == any.value;
        first = false;
        if (gathered) std::memcpy(gathered->data() + lane * fiber.bytes, fiber.in, fiber.bytes);
    }
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(lanes >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        if (fiber.collective == Collective::ballot) fiber.result = ballot;
        if (fiber.collective == Collective::reduce) fiber.result = reduced;
        if (fiber.collective == Collective::gather) fiber.gathered = gathered;
        if (fiber.collective != Collective::match) continue;
        fiber.result = fiber.mode ? (all_equal ? lanes : 0) : 0;
        for (unsigned other = 0; !fiber.mode && other < warp.lanes; ++other)
            if ((lanes >> other & 1) && block.fibers[warp.first + other].value == fiber.value)
                fiber.result |= 1u << other;
    }
}

// Answers the collective that `waiter` is in, when it is complete.
static bool try_answer(Block& block, Warp& warp, Fiber& waiter) {
    unsigned lanes = waiter.mask & warp.active;
    if ((warp.waiting & lanes) != lanes) return false;
    for (unsigned lane = 0; lane < warp.lanes; ++lane)
        if ((lanes >> lane & 1) && !same_collective(block.fibers[warp.first + lane], waiter)) return false;
    if (waiter.collective == Collective::shuffle) answer_shuffle(block, warp, lanes);
    else if (waiter.collective != Collective::syncwarp) answer_values(block, warp, lanes, waiter);
    // All others converge the lanes and order no memory (CUDA C++ Programming Guide, "Warp Shuffle Functions").
    if (launch->checked && waiter.collective == Collective::syncwarp) join_lanes(block, warp, lanes);
    for (unsigned lane = 0; lane < warp.lanes; ++lane)
        if (lanes >> lane & 1) block.fibers[warp.first + lane].wait = Wait::ready;
    warp.waiting &= ~lanes;
    return true;
}

// Returned lanes are not waited for, as on hardware since Volta.
void lane_returned(Block& block, Warp& warp) {
    warp.active &= ~(1u << current->lane);
    if (!warp.waiting) return;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        Fiber& fiber = block.fibers[warp.first + lane];
        if (fiber.wait == Wait::collective) try_answer(block, warp, fiber);
    }
}

// Lanes that wait in the same call of __activemask are converged: a GPU could give any subset, this is the largest one.
bool answer_active_masks(Block& block, Warp& warp) {
    bool answered = false;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        Fiber& waiter = block.fibers[warp.first + lane];
        if (waiter.wait != Wait::active_mask) continue;
        unsigned converged = 0;
        for (unsigned other = 0; other < warp.lanes; ++other) {
            Fiber& fiber = block.fibers[warp.first + other];
            if (fiber.wait == Wait::active_mask && fiber.wait_code == waiter.wait_code) converged |= 1u << other;
        }
        for (unsigned other = 0; other < warp.lanes; ++other) {
            if (!(converged >> other & 1)) continue;
            block.fibers[warp.first + other].result = converged;
            block.fibers[warp.first + other].wait = Wait::ready;
        }
        answered = true;
    }
    return answered;
}

// The operands are in the lane's Fiber already.
void wait_in_collective(Collective kind, unsigned mask, uintptr_t code) {
    Fiber& self = *current;
    Block& block = *self.block;
    self.collective = kind;
    self.wait_code = code;
    if (!(mask >> self.lane & 1)) {
        if (launch->checked) report_not_in_mask(self, mask);
        mask |= 1u << self.lane;  // so that the launch goes on after the finding
    }
    self.mask = mask;
    self.wait = Wait::collective;
    self.atomics_since_switch = 0;
    Warp& warp = block.warps[self.warp];
    warp.waiting |= 1u << self.lane;
    if (!try_answer(block, warp, self)) yield_to_scheduler();
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_set_inactive_byte(int byte) { inactive_byte = byte; }  // for the launches that follow

// ---- hooks: each stores its operands in the Fiber, waits, and takes its result from there ----

SIMT_EXPORT void simt_syncwarp(unsigned mask) { wait_in_collective(Collective::syncwarp, mask, SIMT_CODE()); }

SIMT_EXPORT void simt_shuffle(unsigned mask, int mode, int operand, int width, const void* in, void* out, unsigned bytes) {
    Fiber& self = *current;
    self.mode = mode;
    self.operand = operand;
    self.width = width;
    self.in = in;
    self.out = out;
    self.bytes = bytes;
    wait_in_collective(Collective::shuffle, mask, SIMT_CODE());
}

SIMT_EXPORT unsigned simt_ballot(unsigned mask, int predicate) {
    current->predicate = predicate != 0;
    Fiber& self = *current;
    wait_in_collective(Collective::ballot, mask, SIMT_CODE());
    return self.result;
}

// Not a collective: no mask says for whom to wait, so run_warp answers when no lane of the warp can run.
SIMT_EXPORT unsigned simt_active_mask() {
    Fiber& self = *current;
    self.wait = Wait::active_mask;
    self.wait_code = SIMT_CODE();
    yield_to_scheduler();
    return self.result;
}

SIMT_EXPORT unsigned simt_reduce(unsigned mask, int op, unsigned value, int is_signed) {
    Fiber& self = *current;
    self.operand = op;
    self.value = value;
    self.mode = is_signed;
    wait_in_collective(Collective::reduce, mask, SIMT_CODE());
    return self.result;
}

SIMT_EXPORT unsigned simt_match_any(unsigned mask, unsigned long long value) {
    Fiber& self = *current;
    self.value = value;
    self.mode = 0;
    wait_in_collective(Collective::match, mask, SIMT_CODE());
    return self.result;
}

SIMT_EXPORT unsigned simt_match_all(unsigned mask, unsigned long long value, int* predicate) {
    Fiber& self = *current;
    self.value = value;
    self.mode = 1;
    wait_in_collective(Collective::match, mask, SIMT_CODE());
    *predicate = self.result != 0;
    return self.result;
}

// *all stays valid until the lane's next gather, which replaces `gathered`.
SIMT_EXPORT void simt_warp_gather(unsigned mask, const void* in, unsigned bytes, const void** all) {
    Fiber& self = *current;
    self.in = in;
    self.bytes = bytes;
    wait_in_collective(Collective::gather, mask, SIMT_CODE());
    *all = self.gathered->data();
}
