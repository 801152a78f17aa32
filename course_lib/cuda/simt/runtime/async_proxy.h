// Accesses that no thread makes: TMA copies and the operands of wgmma, which go through the async proxy.
//
// An agent is a pseudo-thread of a block: what completes on one mbarrier, the TMA stores of one thread, the products of
// one warpgroup. Its accesses are stamped at issue with the agent's clock of that moment, so they take part in the race
// detector as a thread's do. A thread learns an agent's clock when it waits for the completion, and passes it on by
// mbarriers, named barriers, __syncwarp, __syncthreads and fences. So a use before the wait, an overwrite before the
// wait, and a use by a thread that nothing orders after the wait are all found, whenever the data itself lands.
//
//     at issue            checked as the issuing thread's own access: bounds, uninitialised bytes, order after others
//     afterwards          its stamp is the agent's: ordered only for threads that know the agent's clock
//     reads of shared     what a thread wrote needs that thread's fence_proxy_async() between the write and the
//                         synchronisation that orders the issue after it
// Checked build only. `current` is the issuing thread.
#pragma once
#include "shadow.h"

namespace simt {

// What an agent does, for the sentence of a finding. The order is that of AGENTS in async_findings.py.
enum class AgentKind : uint8_t { tma_load, tma_store_read, tma_store_write, wgmma };

// The agent of this kind that belongs to `owner`, made at its first use: an mbarrier's number in the block, a thread's
// linear number, a warpgroup's number. Returns its number, which stamps hold as `linear`.
constexpr uint16_t NO_AGENT = 0xffff;  // also in the stamps of mbarriers: nothing is ordered after them
uint16_t agent_of(Block& block, AgentKind kind, uint32_t owner);
uint16_t find_agent(const Block& block, AgentKind kind, uint32_t owner);  // NO_AGENT: there is none
bool is_agent(unsigned linear);  // of a stamp: not a thread
const Agent& agent_at(const Block& block, unsigned linear);

// `fiber` knows the agent's accesses up to `clock`: they happened before its next access.
void learn(Fiber& fiber, uint16_t agent, uint32_t clock);
// The union of what two threads know; shares one of them where it can.
void join_known(KnownPtr& into, const KnownPtr& more);

// A piece of memory that the async proxy accesses; at most 16 contiguous bytes are one access.
struct Range {
    uintptr_t address;
    unsigned bytes;
};

// An asynchronous read of shared memory, from its issue to its completion.
//     uint64_t number = begin_async_read(agent, ranges, count, code);  at the issue, by the issuing thread
//     end_async_read(fiber, number);                                   for each thread whose wait covers it
// The reads of one agent complete in the order of their numbers: the end of one is the end of all before it.
// begin reports: bytes outside shared memory (nothing else of that range is checked), bytes that nothing has written, a
// write that is not ordered before the issue (a TMA load that was not waited for among them), a thread's write without
// fence_proxy_async(). Until a thread has ended it and passed that on, a write to the same bytes is a finding.
uint64_t begin_async_read(uint16_t agent, const Range* ranges, size_t count, uintptr_t code);
void end_async_read(Fiber& fiber, uint64_t number);

// The general forms. `clock` is the agent's clock that a thread must learn. A write to shared memory leaves the swizzle
// (of SimtTensorMap) in its cells. False: outside its memory (reported), nothing else was done.
bool async_shared_access(uint16_t agent, uint32_t clock, Range range, bool is_write, unsigned swizzle, uintptr_t code);
// Of a tensor or a __device__ variable. Not counted as traffic. strong: an atomic addition.
bool async_global_access(uint16_t agent, uint32_t clock, Range range, bool is_write, bool strong, uintptr_t code);

// The swizzle under which a TMA load wrote the cell at `address` of shared memory; -1 when a thread wrote it, or nothing.
int written_swizzle(uintptr_t address);

// The fences of the current thread.
void note_proxy_fence();         // fence_proxy_async
void note_mbarrier_init_fence(); // fence_mbarrier_init
// True when the thread that made `stamp` has fenced since, by one of `fences`, and the current thread is ordered after
// that.
bool is_fenced(const Stamp& stamp, std::vector<FenceMark> Fiber::*fences);

// shadow.cpp: the stamped access happened before the current thread's next one.
bool is_ordered(const Stamp& stamp);
// shadow.cpp calls it for every cell that an agent reads.
void check_proxy(const Cell& cell, const Access& access);

}  // namespace simt
