// What the instructions of TMA demand, and what a copy counts as. See tma_box.h.
#include <cstring>

#include "async_copy.h"
#include "requests.h"
#include "timeline.h"
#include "tma_box.h"

namespace simt {

constexpr unsigned SECTOR = 32;      // bytes
constexpr uint8_t MAP_MAGIC = 0x5a;  // of SimtTensorMap
constexpr uintptr_t MAP_ALIGNMENT = 64;

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

static void refuse(uintptr_t code, const char* rule) { stop_launch(Stop::trap, code, 0, rule); }

static void check_tile(const Bulk& bulk) {
    auto address = reinterpret_cast<uintptr_t>(bulk.shared);
    if (!is_shared_memory(address) || !is_shared_memory(address + bulk.bytes - 1))
        refuse(bulk.code, "the tile of a bulk copy is in shared memory");
    if (!bulk.has_map && address % PIECE_BYTES)
        refuse(bulk.code, "a bulk copy starts at a multiple of 16 bytes of shared memory");
    if (bulk.has_map && address % 128) refuse(bulk.code, "the tile of a TMA copy starts at a multiple of 128 bytes");
    if (bulk.has_map && bulk.map.swizzle == 1 && address % 1024)
        refuse(bulk.code, "the tile of a TMA copy with the swizzle of 128 bytes starts at a multiple of 1,024 bytes");
}

void check_map_pointer(const void* map, SimtTensorMap& copy, uintptr_t code) {
    if (reinterpret_cast<uintptr_t>(map) % MAP_ALIGNMENT) refuse(code, "a TensorMap is at a multiple of 64 bytes");
    std::memcpy(&copy, map, sizeof(copy));
    if (copy.magic != MAP_MAGIC) refuse(code, "a TMA copy takes a TensorMap that cuda.tensor_map made");
}

static void check_map(const SimtTensorMap& map, unsigned rank, uintptr_t code) {
    if (map.rank != rank) refuse(code, "the number of coordinates is the number of the map's dimensions");
    unsigned row_bytes = map.box[0] * map.element_bytes;
    if (row_bytes % PIECE_BYTES) refuse(code, "a row of the box is a multiple of 16 bytes");
    if (map.swizzle && row_bytes != SWIZZLE_BYTES[map.swizzle])
        refuse(code, "a row of the box is as wide as the swizzle");
    for (unsigned d = 0; d < rank; ++d)
        if (map.box[d] < 1 || map.box[d] > 256) refuse(code, "a side of the box has 1 to 256 elements");
}

// A load may begin before the tensor. A store that does is an illegal instruction on an H200 (driver 580).
void check_store_begin(unsigned rank, const int* coordinates, uintptr_t code) {
    for (unsigned d = 0; d < rank; ++d)
        if (coordinates[d] < 0) refuse(code, "the coordinates of a TMA store are 0 or more; only a load may begin outside");
}

Bulk bulk_of_map(const void* pointer, void* shared, unsigned rank, const int* coordinates, uintptr_t code) {
    Bulk bulk;
    current->last_code = code;
    bulk.has_map = true;
    check_map_pointer(pointer, bulk.map, code);
    check_map(bulk.map, rank, code);
    bulk.bytes = bulk.map.element_bytes;
    if (coordinates[0] * (int)bulk.map.element_bytes % (int)PIECE_BYTES)  // an illegal instruction on an H200 (driver 580)
        refuse(code, "a box begins at a multiple of 16 bytes of a row: c0, the place in the row, times the bytes of an element");
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
    if (reinterpret_cast<uintptr_t>(global) % PIECE_BYTES)
        refuse(code, "a bulk copy starts at a multiple of 16 bytes of global memory");
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

}  // namespace simt
