// Events in logical time. See timeline.h.
#include "timeline.h"

#include <algorithm>
#include <unordered_map>

namespace simt {

namespace {
struct Event {
    uint32_t block, warp;
    EventKind kind;
    uint64_t start, end;
    uintptr_t code;
    uint64_t number;
};
std::vector<Event> events;
std::unordered_map<uint64_t, size_t> last_of_warp;  // by block, warp and kind: the newest event
}  // namespace

uint64_t time_of(const Fiber& fiber) { return fiber.steps + fiber.waited; }

void advance_time(Fiber& fiber, uint64_t time) {
    uint64_t now = time_of(fiber);
    if (now < time) fiber.waited += time - now;
}

void add_event(EventKind kind, const Fiber& fiber, uint64_t start, uint64_t end, uintptr_t code, uint64_t number) {
    if (!launch->timeline) return;
    uint64_t key = (uint64_t(fiber.block->id) << 16 | fiber.warp) << 8 | static_cast<uint64_t>(kind);
    auto [entry, is_new] = last_of_warp.try_emplace(key, events.size());
    if (!is_new) {
        Event& last = events[entry->second];
        if (last.code == code && last.number == number) {
            last.start = std::min(last.start, start);
            last.end = std::max(last.end, end);
            return;
        }
        entry->second = events.size();
    }
    events.push_back({fiber.block->id, fiber.warp, kind, start, end, code, number});
}

void meet_at_barrier(Block& block) {
    uint64_t last = 0;
    for (const Fiber& fiber : block.fibers)
        if (fiber.wait == Wait::barrier) last = std::max(last, time_of(fiber));
    for (Fiber& fiber : block.fibers) {
        if (fiber.wait != Wait::barrier) continue;
        uint64_t start = time_of(fiber);
        advance_time(fiber, last);
        add_event(EventKind::barrier_wait, fiber, start, last, fiber.wait_code, uint64_t(block.epoch) << 4);
    }
}

void reset_timeline() {
    events.clear();
    last_of_warp.clear();
}

std::string timeline_text() {
    std::string text;
    for (const Event& event : events) {
        text += text.empty() ? "[" : ",[";
        for (uint64_t number : {uint64_t(event.block), uint64_t(event.warp), static_cast<uint64_t>(event.kind), event.start,
                                event.end, uint64_t(event.code)})
            text += std::to_string(number) + ",";
        text += std::to_string(event.number) + "]";
    }
    return "[" + text + "]";
}

}  // namespace simt
