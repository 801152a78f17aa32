// TMA loads, stores and reductions, bulk groups. See tma.h. The hooks at the end are called by include/simt/tma.h.
#include "tma.h"

#include <algorithm>
#include <cstring>

#include "async_copy.h"
#include "async_proxy.h"
#include "findings.h"
#include "timeline.h"

namespace simt {

namespace {

// ---- loads ----

// Bytes outside every variable and tensor were reported at issue; they are not touched.
bool may_touch(const Piece16& piece) {
    if (!launch->checked) return true;
    return is_inside_shared(reinterpret_cast<uintptr_t>(piece.shared), piece.bytes) &&
           (!piece.count || is_inside_global(reinterpret_cast<uintptr_t>(piece.global), piece.count));
}

// Of a load's event: the copy's number in its block, the thread that issued it, its first byte in shared memory.
uint64_t load_number(const Bulk& bulk, uint64_t copy) {
    uint64_t offset = reinterpret_cast<uintptr_t>(bulk.shared) - reinterpret_cast<uintptr_t>(worker->shared_low);
    return copy << 32 | uint64_t(bulk.thread) << 20 | (offset & 0xfffff);
}

void land_load(Block& block, size_t index) {
    BulkLoad load = block.async->loads[index];
    block.async->loads.erase(block.async->loads.begin() + static_cast<long>(index));
    const Bulk& bulk = load.bulk;
    for_each_piece(bulk, [](const Piece16& piece) {
        if (!may_touch(piece)) return;
        std::memset(piece.shared, 0, piece.bytes);
        if (piece.count) std::memcpy(piece.shared + piece.first, piece.global, piece.count);
    });
    Mbarrier& barrier = mbarrier_of(block, load.barrier);
    --barrier.in_flight;
    barrier.bytes_in_flight -= bulk.bytes;
    uint64_t landed = bulk.issue_time + load_time(bulk.bytes);
    barrier.time = std::max(barrier.time, landed);
    add_event(EventKind::tma_load, block.fibers[bulk.thread], bulk.issue_time, landed, bulk.code,
              load_number(bulk, ++block.async->events));
    complete_bytes(block, barrier, bulk.bytes, bulk.code, bulk.thread);
}

// The accesses of a load at its issue: global memory is read, shared memory is written.
void record_load(const Bulk& bulk, uint16_t agent, uint32_t clock) {
    for_each_piece(bulk, [&](const Piece16& piece) {
        Range global{reinterpret_cast<uintptr_t>(piece.global), piece.count};
        Range shared{reinterpret_cast<uintptr_t>(piece.shared), piece.bytes};
        if (piece.count) async_global_access(agent, clock, global, false, false, bulk.code);
        async_shared_access(agent, clock, shared, true, bulk.map.swizzle, bulk.code);
    });
    count_copy(bulk, true);
}

// A fault of the fast build happens on the line of the issue, not where the copy lands.
void touch_global(const Bulk& bulk) {
    for_each_piece(bulk, [](const Piece16& piece) {
        if (piece.count) (void)*static_cast<const volatile unsigned char*>(piece.global + piece.count - 1);
    });
}

void issue_load(const Bulk& bulk, uintptr_t barrier_address) {
    if (!check_mbarrier(barrier_address, bulk.code, true)) return;
    Fiber& self = *current;
    Block& block = *self.block;
    Mbarrier& barrier = *mbarrier_at(block, barrier_address);
    unsigned number = mbarrier_number(block, barrier);
    barrier.copy_code = bulk.code;
    barrier.copy_phase = barrier.phase + 1;
    barrier.copy_thread = self.linear;
    if (launch->checked) {
        barrier.agent = agent_of(block, AgentKind::tma_load, number);
        record_load(bulk, barrier.agent, barrier.phase + 1);
    } else {
        touch_global(bulk);
    }
    ++barrier.in_flight;
    barrier.bytes_in_flight += bulk.bytes;
    block.async->loads.push_back({bulk, number});
    if (launch->schedule == Schedule::reverse) land_load(block, block.async->loads.size() - 1);
    if (launch->schedule == Schedule::random) land_at_random(block);
}

// ---- stores and reductions ----

void add_floats(unsigned char* global, const unsigned char* shared, unsigned bytes) {
    for (unsigned at = 0; at < bytes; at += 4) {
        auto* word = reinterpret_cast<uint32_t*>(global + at);
        uint32_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST), next;
        float sum, more;
        std::memcpy(&more, shared + at, 4);
        do {  // other workers add to the same floats
            std::memcpy(&sum, &seen, 4);
            sum += more;
            std::memcpy(&next, &sum, 4);
        } while (!__atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    }
}

void land_store(Block& block, size_t index, uint64_t time) {
    BulkStore store = block.async->stores[index];
    block.async->stores.erase(block.async->stores.begin() + static_cast<long>(index));
    for_each_piece(store.bulk, [&](const Piece16& piece) {
        if (!piece.count || !may_touch(piece)) return;
        if (store.adds) add_floats(piece.global, piece.shared + piece.first, piece.count);
        else std::memcpy(piece.global, piece.shared + piece.first, piece.count);
    });
    const Bulk& bulk = store.bulk;
    add_event(EventKind::tma_store, block.fibers[bulk.thread], bulk.issue_time, time, bulk.code, ++block.async->events);
}

void issue_store(const Bulk& bulk, bool adds) {
    Fiber& self = *current;
    Block& block = *self.block;
    if (launch->checked) {
        uint32_t clock = self.bulk_group + 1;  // learned when the group is waited for
        uint16_t reader = agent_of(block, AgentKind::tma_store_read, self.linear);
        uint16_t writer = agent_of(block, AgentKind::tma_store_write, self.linear);
        for_each_piece(bulk, [&](const Piece16& piece) {
            Range shared{reinterpret_cast<uintptr_t>(piece.shared) + piece.first, piece.count};
            Range global{reinterpret_cast<uintptr_t>(piece.global), piece.count};
            if (!piece.count) return;
            async_shared_access(reader, clock, shared, false, 0, bulk.code);
            async_global_access(writer, clock, global, true, adds, bulk.code);
        });
        count_copy(bulk, false);
    } else {
        touch_global(bulk);
    }
    block.async->used = true;
    block.async->stores.push_back({bulk, self.bulk_group, adds});
}

// Until at most `num_groups` committed groups of the thread are in flight.
void wait_for_groups(unsigned num_groups, bool reads_only, uintptr_t code) {
    Fiber& self = *current;
    Block& block = *self.block;
    self.last_code = code;
    if (launch->checked) settle_pending_race(self);
    uint32_t done = self.bulk_group > num_groups ? self.bulk_group - num_groups : 0;
    auto& stores = block.async->stores;
    for (size_t i = 0; i < stores.size();)
        if (stores[i].bulk.thread == self.linear && stores[i].group < done) land_store(block, i, time_of(self));
        else ++i;
    uint16_t reader = find_agent(block, AgentKind::tma_store_read, self.linear);
    if (!launch->checked || !done || reader == NO_AGENT) return;
    learn(self, reader, done);
    if (!reads_only) learn(self, agent_of(block, AgentKind::tma_store_write, self.linear), done);
}

}  // namespace

// ---- the block ----

void start_async(Block& block) {
    if (block.async && !block.async->used) return;
    block.async = std::make_shared<AsyncState>();
    start_registers(block.async->registers);
}

bool land_oldest_load(Block& block) {
    if (block.async->loads.empty()) return false;
    land_load(block, 0);
    return true;
}

void land_at_random(Block& block) {
    size_t count = block.async->loads.size();
    if (count && launch->random() % 4 == 0) land_load(block, launch->random() % count);
}

void finish_async(Block& block) {
    if (!block.async->used) return;
    while (land_oldest_load(block)) {}
    auto& stores = block.async->stores;
    while (!stores.empty()) {
        const Bulk bulk = stores[0].bulk;
        Finding finding;
        finding.kind = Kind::bad_copy;
        finding.code = bulk.code;
        finding.thread = block.fibers[bulk.thread].index;
        finding.block = finding.other_block = block.index;
        finding.detail = stores[0].group < block.fibers[bulk.thread].bulk_group ? "store" : "uncommitted";
        if (launch->checked) report(finding);
        land_store(block, 0, time_of(block.fibers[bulk.thread]));
    }
    if (!launch->checked) return;
    check_mbarriers_at_exit(block);
    check_named_at_exit(block);
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_tma_load(void* shared, const void* map, void* barrier, unsigned rank, const int* coordinates) {
    uintptr_t code = SIMT_CODE();
    issue_load(bulk_of_map(map, shared, rank, coordinates, code), reinterpret_cast<uintptr_t>(barrier));
}

SIMT_EXPORT void simt_tma_store(const void* map, const void* shared, unsigned rank, const int* coordinates) {
    uintptr_t code = SIMT_CODE();
    check_store_begin(rank, coordinates, code);
    issue_store(bulk_of_map(map, const_cast<void*>(shared), rank, coordinates, code), false);
}

SIMT_EXPORT void simt_bulk_load(void* shared, const void* global, unsigned bytes, void* barrier) {
    uintptr_t code = SIMT_CODE();
    issue_load(bulk_of_memory(const_cast<void*>(global), shared, bytes, code), reinterpret_cast<uintptr_t>(barrier));
}

SIMT_EXPORT void simt_bulk_reduce_add_f32(void* global, const void* shared, unsigned bytes) {
    uintptr_t code = SIMT_CODE();
    issue_store(bulk_of_memory(global, const_cast<void*>(shared), bytes, code), true);
}

SIMT_EXPORT void simt_bulk_commit_group() { ++current->bulk_group; }

SIMT_EXPORT void simt_bulk_wait_group(unsigned num_groups, int reads_only) {
    wait_for_groups(num_groups, reads_only != 0, SIMT_CODE());
}

SIMT_EXPORT void simt_prefetch_tensormap(const void* map) {
    SimtTensorMap copy;
    check_map_pointer(map, copy, SIMT_CODE());
}
