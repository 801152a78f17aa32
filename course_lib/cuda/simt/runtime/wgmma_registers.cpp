// Registers of wgmma in the checked build: what is in flight may not be touched, and what a thread has written since its
// last wgmma_fence() may not be used. See wgmma.h.
//
// The arrays are in the thread's own stack, and known to the hooks by address, so the compiler keeps them in memory and
// instruments their accesses.
#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "wgmma.h"

namespace simt {

// The last write of four bytes of the thread's stack: in which interval between two fences, and where.
struct LocalWrite {
    uint32_t fence, code;
};

static size_t local_word(const Fiber& fiber, uintptr_t address) {
    return (address - reinterpret_cast<uintptr_t>(fiber.stack)) / 4;
}

// The writes of a lane, kept for a later launch: to map and clear them anew took a fifth of a short one. Numbers of
// fences go on where the previous owner stopped, so that nothing it has written counts as new.
struct SpareWrites {
    LocalWrite* writes;
    uint32_t fences;
};

constexpr size_t MAX_SPARE = 512;  // of 128 KB, of which a page or two are in use
static std::mutex spare_mutex;
static std::vector<SpareWrites> spare_writes;

static SpareWrites take_writes() {
    std::lock_guard<std::mutex> lock(spare_mutex);
    if (spare_writes.empty()) return {static_cast<LocalWrite*>(std::calloc(STACK_BYTES / 4, sizeof(LocalWrite))), 0};
    SpareWrites spare = spare_writes.back();
    spare_writes.pop_back();
    return spare;
}

WgmmaLane::~WgmmaLane() {
    std::lock_guard<std::mutex> lock(spare_mutex);
    if (writes && spare_writes.size() < MAX_SPARE)
        spare_writes.push_back({writes, fences});
    else
        std::free(writes);
}

void note_wgmma_fence(Fiber& fiber, WgmmaLane& lane) {
    ++lane.fences;
    if (lane.writes) return;
    SpareWrites spare = take_writes();
    lane.writes = spare.writes;
    lane.fences += spare.fences;
    lane.fences_at_start += spare.fences;
    if (!lane.writes) stop_launch(Stop::no_memory, 0);
}

void local_access(Fiber& fiber, uintptr_t address, unsigned bytes, bool is_write, uintptr_t code) {
    WgmmaLane& lane = *fiber.wgmma;
    uintptr_t end = address + bytes;
    if (end > lane.held_low && address < lane.held_high) {
        for (const HeldRegisters& held : lane.held) {
            if (end <= held.low || address >= held.high) continue;
            uintptr_t first = address > held.low ? address - held.low : 0;
            Finding finding = wgmma_finding(fiber, Kind::in_flight, code, held.code,
                                         (held.is_a ? "a " : "d ") + std::to_string(first / 4));
            finding.is_write = is_write;
            report(finding);
            break;
        }
    }
    if (!is_write || !lane.writes) return;
    for (uintptr_t word = address & ~uintptr_t(3); word < end; word += 4)
        if (is_local(fiber, word)) lane.writes[local_word(fiber, word)] = {lane.fences, static_cast<uint32_t>(code)};
}

static void bound_held(WgmmaLane& lane) {
    lane.held_low = ~uintptr_t(0);
    lane.held_high = 0;
    for (const HeldRegisters& held : lane.held) {
        lane.held_low = std::min(lane.held_low, held.low);
        lane.held_high = std::max(lane.held_high, held.high);
    }
}

// Reports the first of these registers that the thread has written since its last fence. False: none.
static bool written_since_fence(const Fiber& fiber, const WgmmaLane& lane, uintptr_t low, uintptr_t high, bool is_a,
                                uintptr_t code) {
    for (uintptr_t word = low; word < high; word += 4) {
        if (!is_local(fiber, word)) return false;
        const LocalWrite& write = lane.writes[local_word(fiber, word)];
        if (write.fence != lane.fences || !write.code) continue;
        report(wgmma_finding(fiber, Kind::missing_fence, code, write.code,
                          (is_a ? "wgmma a " : "wgmma d ") + std::to_string((word - low) / 4)));
        return true;
    }
    return false;
}

void hold_registers(Fiber& fiber, WgmmaLane& lane, const WgmmaCall& call, uint64_t product, uintptr_t code) {
    auto d = reinterpret_cast<uintptr_t>(call.d), a = reinterpret_cast<uintptr_t>(call.a_regs);
    if (!is_local(fiber, d) || (a && !is_local(fiber, a)))
        report(wgmma_finding(fiber, Kind::bad_wgmma, code, 0, "memory"));
    uintptr_t d_end = d + call.num_regs * sizeof(float), a_end = a + 4 * sizeof(unsigned);
    if (lane.fences == lane.fences_at_start) {
        report(wgmma_finding(fiber, Kind::missing_fence, code, 0, "wgmma first"));
    } else {
        bool is_reported = a && written_since_fence(fiber, lane, a, a_end, true, code);
        if (!is_reported) written_since_fence(fiber, lane, d, d_end, false, code);
    }
    bool is_held = false;  // by an earlier product that adds to the same accumulators: now until this one's wait
    for (HeldRegisters& held : lane.held) {
        auto meets = [&](uintptr_t low, uintptr_t high) { return held.low < high && held.high > low; };
        bool is_same = !held.is_a && held.low == d && held.high == d_end;
        if ((meets(d, d_end) && !is_same) || (a && !held.is_a && meets(a, a_end)))  // two may read the same a
            report(wgmma_finding(fiber, Kind::bad_wgmma, code, held.code, "overlap"));
        if (!is_same) continue;
        held.product = product;
        held.code = code;
        is_held = true;
    }
    if (!is_held) lane.held.push_back({d, d_end, product, code, false});
    if (a) lane.held.push_back({a, a_end, product, code, true});
    bound_held(lane);
}

void release_registers(WgmmaLane& lane, uint64_t product) {
    auto is_done = [&](const HeldRegisters& held) { return held.product <= product; };
    lane.held.erase(std::remove_if(lane.held.begin(), lane.held.end(), is_done), lane.held.end());
    bound_held(lane);
}

}  // namespace simt
