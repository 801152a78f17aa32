// TMA loads, stores and reductions, bulk groups. See tma.h. The hooks at the end are called by include/simt/tma.h.
#include "tma.h"

#include <algorithm>
#include <cstring>

#include "async_copy.h"
#include "async_proxy.h"
#include "findings.h"
#include "requests.h"
#include "timeline.h"

namespace simt {

constexpr unsigned PIECE_BYTES = 16;   // the unit of a swizzle
constexpr unsigned SECTOR = 32;        // bytes
constexpr uint8_t MAP_MAGIC = 0x5a;    // of SimtTensorMap
constexpr unsigned SWIZZLE_BYTES[] = {0, 128, 64, 32};  // by SimtTensorMap::swizzle: the width of a row

namespace {

// Up to 16 bytes of a box in shared memory, and the part of them that exists in global memory.
struct Piece16 {
    unsigned char* shared;
    unsigned bytes;
    unsigned first, count;  // bytes [first, first + count) exist, from `global` on
    unsigned char* global;
};

// 16-byte chunk c of row r (of 128 bytes) goes to chunk c ^ (r % 8), % 4 or % 2: address bits 4-6 change by bits 7-9.
unsigned char* swizzled(unsigned char* address, unsigned swizzle) {
    if (!swizzle) return address;
    auto bits = reinterpret_cast<uintptr_t>(address);
    return reinterpret_cast<unsigned char*>(bits ^ ((bits >> 7 & (SWIZZLE_BYTES[swizzle] / PIECE_BYTES - 1)) << 4));
}

// One row of a box: elements from `x` on, `row` in global memory where x is 0; null: the row is outside the tensor.
template <class F>
void for_each_piece_of_row(const Bulk& bulk, unsigned char* shared, unsigned char* row, F&& visit) {
    const SimtTensorMap& map = bulk.map;
    unsigned element = map.element_bytes, row_bytes = map.box[0] * element;
    for (unsigned at = 0; at < row_bytes; at += PIECE_BYTES) {
        Piece16 piece{swizzled(shared + at, map.swizzle), std::min(PIECE_BYTES, row_bytes - at), 0, 0, nullptr};
        int64_t low = bulk.coordinates[0] + static_cast<int64_t>(at / element), high = low + piece.bytes / element;
        int64_t from = std::max<int64_t>(low, 0), to = std::min<int64_t>(high, map.sizes[0]);
        if (row && to > from) {
            piece.first = static_cast<unsigned>(from - low) * element;
            piece.count = static_cast<unsigned>(to - from) * element;
            piece.global = row + from * element;
        }
        visit(piece);
    }
}

// All pieces of a copy, in the order of the box.
template <class F>
void for_each_piece(const Bulk& bulk, F&& visit) {
    if (!bulk.has_map) {
        for (uint64_t at = 0; at < bulk.bytes; at += PIECE_BYTES)
            visit(Piece16{bulk.shared + at, PIECE_BYTES, 0, PIECE_BYTES, bulk.global + at});
        return;
    }
    const SimtTensorMap& map = bulk.map;
    unsigned row_bytes = map.box[0] * map.element_bytes;
    uint64_t num_rows = bulk.bytes / row_bytes;
    for (uint64_t r = 0; r < num_rows; ++r) {
        uint64_t rest = r;
        auto* row = reinterpret_cast<unsigned char*>(map.address);
        for (unsigned d = 1; d < map.rank; ++d) {
            int64_t at = bulk.coordinates[d] + static_cast<int64_t>(rest % map.box[d]);
            rest /= map.box[d];
            if (at < 0 || at >= static_cast<int64_t>(map.sizes[d])) row = nullptr;
            if (row) row += static_cast<uint64_t>(at) * map.strides[d - 1];
        }
        for_each_piece_of_row(bulk, bulk.shared + r * row_bytes, row, visit);
    }
}

// Traffic of a copy: one request, its bytes that exist and their sectors; shared memory by bytes, without wavefronts.
void count_copy(const Bulk& bulk, bool is_load) {
    uint64_t bytes = 0, sectors = 0, next_sector = 0;
    for_each_piece(bulk, [&](const Piece16& piece) {
        if (!piece.count) return;
        auto address = reinterpret_cast<uintptr_t>(piece.global);
        uint64_t first = address / SECTOR, last = (address + piece.count - 1) / SECTOR;
        if (first + 1 == next_sector) ++first;  // the sector of the piece before
        if (last >= first) sectors += last - first + 1;
        next_sector = last + 1;
        bytes += piece.count;
    });
    Counters& global = counters_of(bulk.code, is_load ? 0 : FLAG_WRITE);
    ++global.requests;
    global.bytes += bytes;
    global.sectors += sectors;
    global.ideal_sectors += (bytes + SECTOR - 1) / SECTOR;
    Counters& shared = counters_of(bulk.code, FLAG_SHARED | (is_load ? FLAG_WRITE : 0));
    ++shared.requests;
    shared.bytes += bulk.bytes;
}

// ---- rules of the instructions ----

void refuse(uintptr_t code, const char* rule) { stop_launch(Stop::trap, code, 0, rule); }

void check_tile(const Bulk& bulk) {
    auto address = reinterpret_cast<uintptr_t>(bulk.shared);
    if (!is_shared_memory(address) || !is_shared_memory(address + bulk.bytes - 1))
        refuse(bulk.code, "the tile of a bulk copy is in shared memory");
    if (!bulk.has_map && address % PIECE_BYTES) refuse(bulk.code, "a bulk copy starts at a multiple of 16 bytes of shared memory");
    if (bulk.has_map && address % 128) refuse(bulk.code, "the tile of a TMA copy starts at a multiple of 128 bytes");
    if (bulk.has_map && bulk.map.swizzle == 1 && address % 1024)
        refuse(bulk.code, "the tile of a TMA copy with the swizzle of 128 bytes starts at a multiple of 1,024 bytes");
}

void check_map(const SimtTensorMap& map, unsigned rank, uintptr_t code) {
    if (map.magic != MAP_MAGIC) refuse(code, "a TMA copy takes a TensorMap that cuda.tensor_map made");
    if (map.rank != rank) refuse(code, "the number of coordinates is the number of the map's dimensions");
    unsigned row_bytes = map.box[0] * map.element_bytes;
    if (row_bytes % PIECE_BYTES) refuse(code, "a row of the box is a multiple of 16 bytes");
    if (map.swizzle && row_bytes != SWIZZLE_BYTES[map.swizzle]) refuse(code, "a row of the box is as wide as the swizzle");
    for (unsigned d = 0; d < rank; ++d)
        if (map.box[d] < 1 || map.box[d] > 256) refuse(code, "a side of the box has 1 to 256 elements");
}

Bulk bulk_of_map(const void* pointer, void* shared, unsigned rank, const int* coordinates, uintptr_t code) {
    Bulk bulk;
    current->last_code = code;
    bulk.has_map = true;
    if (reinterpret_cast<uintptr_t>(pointer) % 64) refuse(code, "a TensorMap is at a multiple of 64 bytes");
    std::memcpy(&bulk.map, pointer, sizeof(bulk.map));
    check_map(bulk.map, rank, code);
    bulk.bytes = bulk.map.element_bytes;
    for (unsigned d = 0; d < rank; ++d) {
        bulk.coordinates[d] = coordinates[d];
        bulk.bytes *= bulk.map.box[d];
    }
    bulk.shared = static_cast<unsigned char*>(shared);
    bulk.code = code;
    bulk.thread = current->linear;
    bulk.issue_time = time_of(*current);
    check_tile(bulk);
    return bulk;
}

Bulk bulk_of_memory(void* global, void* shared, unsigned bytes, uintptr_t code) {
    Bulk bulk;
    current->last_code = code;
    if (!bytes || bytes % PIECE_BYTES) refuse(code, "a bulk copy moves a multiple of 16 bytes");
    if (reinterpret_cast<uintptr_t>(global) % PIECE_BYTES) refuse(code, "a bulk copy starts at a multiple of 16 bytes of global memory");
    if (is_shared_memory(reinterpret_cast<uintptr_t>(global))) refuse(code, "one side of a bulk copy is global memory");
    bulk.global = static_cast<unsigned char*>(global);
    bulk.shared = static_cast<unsigned char*>(shared);
    bulk.bytes = bytes;
    bulk.code = code;
    bulk.thread = current->linear;
    bulk.issue_time = time_of(*current);
    check_tile(bulk);
    return bulk;
}

// ---- loads ----

// Bytes outside every variable and tensor were reported at issue; they are not touched.
bool may_touch(const Piece16& piece) {
    if (!launch->checked) return true;
    return is_inside_shared(reinterpret_cast<uintptr_t>(piece.shared), piece.bytes) &&
           (!piece.count || is_inside_global(reinterpret_cast<uintptr_t>(piece.global), piece.count));
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
    add_event(EventKind::tma_load, block.fibers[bulk.thread], bulk.issue_time, landed, bulk.code, ++block.async->events);
    complete_bytes(block, barrier, bulk.bytes, bulk.code, bulk.thread);
}

// The accesses of a load at its issue: global memory is read, shared memory is written.
void record_load(const Bulk& bulk, uint16_t agent, uint32_t clock) {
    for_each_piece(bulk, [&](const Piece16& piece) {
        if (piece.count)
            async_global_access(agent, clock, {reinterpret_cast<uintptr_t>(piece.global), piece.count}, false, false, bulk.code);
        async_shared_access(agent, clock, {reinterpret_cast<uintptr_t>(piece.shared), piece.bytes}, true, bulk.map.swizzle, bulk.code);
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
    add_event(EventKind::tma_store, block.fibers[store.bulk.thread], store.bulk.issue_time, time, store.bulk.code, ++block.async->events);
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
    if (!launch->checked || !done) return;
    learn(self, agent_of(block, AgentKind::tma_store_read, self.linear), done);
    if (!reads_only) learn(self, agent_of(block, AgentKind::tma_store_write, self.linear), done);
}

}  // namespace

// ---- the block ----

void start_async(Block& block) {
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
    uintptr_t code = SIMT_CODE();
    SimtTensorMap copy;
    if (reinterpret_cast<uintptr_t>(map) % 64) refuse(code, "a TensorMap is at a multiple of 64 bytes");
    std::memcpy(&copy, map, sizeof(copy));
    if (copy.magic != MAP_MAGIC) refuse(code, "a TMA copy takes a TensorMap that cuda.tensor_map made");
}
