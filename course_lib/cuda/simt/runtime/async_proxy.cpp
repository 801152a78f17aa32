// Agents, what threads know of them, and the accesses of the async proxy. See async_proxy.h.
#include "async_proxy.h"

#include <algorithm>

#include "async_copy.h"
#include "happens_before.h"

namespace simt {

constexpr unsigned CHUNK_BYTES = 16;  // the unit of a swizzle, and of one access

static unsigned first_agent() { return (launch->num_threads + LANES - 1) / LANES * LANES; }

bool is_agent(unsigned linear) { return linear >= first_agent(); }

const Agent& agent_at(const Block& block, unsigned linear) { return block.agents[linear - first_agent()]; }

uint16_t find_agent(const Block& block, AgentKind kind, uint32_t owner) {
    for (size_t i = 0; i < block.agents.size(); ++i)
        if (block.agents[i].kind == static_cast<uint8_t>(kind) && block.agents[i].owner == owner)
            return static_cast<uint16_t>(first_agent() + i);
    return NO_AGENT;
}

uint16_t agent_of(Block& block, AgentKind kind, uint32_t owner) {
    uint16_t found = find_agent(block, kind, owner);
    if (found != NO_AGENT) return found;
    block.agents.push_back({static_cast<uint8_t>(kind), owner, 0, 0});
    return static_cast<uint16_t>(first_agent() + block.agents.size() - 1);
}

void learn(Fiber& fiber, uint16_t agent, uint32_t clock) {
    if (fiber.known && agent < fiber.known->size() && (*fiber.known)[agent] >= clock) return;
    auto known = fiber.known ? std::make_shared<Known>(*fiber.known) : std::make_shared<Known>();
    if (known->size() <= agent) known->resize(agent + 1u, 0);
    (*known)[agent] = clock;
    fiber.known = std::move(known);
}

void join_known(KnownPtr& into, const KnownPtr& more) {
    if (!more || into == more) return;
    if (!into) {
        into = more;
        return;
    }
    auto both = std::make_shared<Known>(*into);
    if (both->size() < more->size()) both->resize(more->size(), 0);
    for (size_t i = 0; i < more->size(); ++i) (*both)[i] = std::max((*both)[i], (*more)[i]);
    into = std::move(both);
}

// ---- accesses ----

// Agents are not ordered by __syncthreads: the epoch of their stamps is that of no barrier.
static Stamp stamp_of_agent(uint16_t agent, uint32_t clock, bool strong, uintptr_t code) {
    auto order = strong ? static_cast<uint8_t>(Order::atomic) : uint8_t(0);
    return {current->block->id, agent, order, Copied::no, ~0u, clock, static_cast<uint32_t>(code)};
}

// In pieces that do not cross a multiple of 16 bytes.
template <class F>
static void for_each_chunk(uint16_t agent, Range range, F&& access) {
    Agent& issued = current->block->agents[agent - first_agent()];
    issued.thread = current->linear;
    current->issues_async = static_cast<uint8_t>(issued.kind + 1);
    for (uintptr_t at = range.address, end = range.address + range.bytes; at < end;) {
        uintptr_t next = std::min(end, (at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        access(at, static_cast<unsigned>(next - at));
        at = next;
    }
    current->issues_async = 0;
}

bool async_shared_access(uint16_t agent, uint32_t clock, Range range, bool is_write, unsigned swizzle, uintptr_t code) {
    Fiber& self = *current;
    settle_pending_race(self);
    self.last_code = code;
    if (!is_inside_shared(range.address, range.bytes)) {
        report_access(Kind::out_of_bounds, Space::shared, code, range.address, range.bytes, is_write);
        return false;
    }
    Stamp stamp = stamp_of_agent(agent, clock, false, code);
    if (is_write) stamp.copied = static_cast<Copied>(static_cast<unsigned>(Copied::bulk) + swizzle);
    for_each_chunk(agent, range, [&](uintptr_t at, unsigned bytes) {
        agent_access(at, bytes, is_write, Space::shared, stamp);
    });
    return true;
}

bool async_global_access(uint16_t agent, uint32_t clock, Range range, bool is_write, bool strong, uintptr_t code) {
    Fiber& self = *current;
    settle_pending_race(self);
    self.last_code = code;
    if (!is_inside_global(range.address, range.bytes)) {
        report_access(Kind::out_of_bounds, Space::global, code, range.address, range.bytes, is_write);
        return false;
    }
    Stamp stamp = stamp_of_agent(agent, clock, strong, code);
    for_each_chunk(agent, range, [&](uintptr_t at, unsigned bytes) {
        agent_access(at, bytes, is_write, Space::global, stamp);
    });
    return true;
}

// A number holds the agent and its clock.
uint64_t begin_async_read(uint16_t agent, const Range* ranges, size_t count, uintptr_t code) {
    uint32_t clock = ++current->block->agents[agent - first_agent()].clock;
    for (size_t i = 0; i < count; ++i) async_shared_access(agent, clock, ranges[i], false, 0, code);
    return uint64_t(agent) << 32 | clock;
}

void end_async_read(Fiber& fiber, uint64_t number) {
    learn(fiber, static_cast<uint16_t>(number >> 32), static_cast<uint32_t>(number));
}

int written_swizzle(uintptr_t address) {
    uintptr_t offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    const Stamp& write = current->block->shared_shadow->cells[offset / 4].write;
    if (!write.clock || write.copied < Copied::bulk) return -1;
    return static_cast<int>(write.copied) - static_cast<int>(Copied::bulk);
}

// ---- fences ----

// The clock goes on, so that a later stamp of the thread is not taken for one before the fence.
static void note_fence(std::vector<FenceMark>& fences) {
    Fiber& self = *current;
    if (!launch->checked) return;
    settle_pending_race(self);
    fences.push_back({self.clock, self.block->epoch});
    ++self.clock;
}

void note_proxy_fence() { note_fence(current->proxy_fences); }
void note_mbarrier_init_fence() { note_fence(current->init_fences); }

bool is_fenced(const Stamp& stamp, std::vector<FenceMark> Fiber::*fences) {
    const Block& block = *current->block;
    const std::vector<FenceMark>& marks = block.fibers[stamp.linear].*fences;
    auto fence = std::lower_bound(marks.begin(), marks.end(), stamp.clock,
                                  [](const FenceMark& mark, uint32_t clock) { return mark.clock < clock; });
    if (fence == marks.end()) return false;
    Stamp after = stamp;
    after.epoch = fence->epoch;
    after.clock = fence->clock + 1;
    return is_ordered(after);
}

void check_proxy(const Cell& cell, const Access& access) {
    const Stamp& write = cell.write;
    if (access.space != Space::shared || !write.clock || is_agent(write.linear)) return;
    if (!is_ordered(write) || is_fenced(write, &Fiber::proxy_fences)) return;  // not ordered: a race is reported already
    report_missing_fence(access.stamp.code, access.address, access.bytes, write, "proxy");
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_fence_proxy_async() { note_proxy_fence(); }
