// The box of a TMA copy, taken apart into pieces of 16 bytes; the rules of the instructions; traffic.
#pragma once
#include <algorithm>

#include "../include/simt/tensor_map.h"
#include "state.h"

namespace simt {

constexpr unsigned PIECE_BYTES = 16;                    // the unit of a swizzle
constexpr unsigned SWIZZLE_BYTES[] = {0, 128, 64, 32};  // by SimtTensorMap::swizzle: the width of a row

// A box at its coordinates; or `bytes` of contiguous memory when there is no map.
struct Bulk {
    bool has_map = false;
    SimtTensorMap map{};
    int coordinates[5]{};
    unsigned char* global = nullptr;
    unsigned char* shared = nullptr;
    uint64_t bytes = 0;      // of the whole box
    uintptr_t code = 0;      // of the issue
    uint16_t thread = 0;
    uint64_t issue_time = 0;
};

// Up to 16 bytes of a box in shared memory, and the part of them that exists in global memory.
struct Piece16 {
    unsigned char* shared;
    unsigned bytes;
    unsigned first, count;  // bytes [first, first + count) exist, from `global` on
    unsigned char* global;
};

// 16-byte chunk c of row r (of 128 bytes) goes to chunk c ^ (r % 8), % 4 or % 2: address bits 4-6 change by bits 7-9.
inline unsigned char* swizzled(unsigned char* address, unsigned swizzle) {
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

// tma_rules.cpp. A broken rule of the instruction ends the launch, in both builds.
void check_store_begin(unsigned rank, const int* coordinates, uintptr_t code);
Bulk bulk_of_map(const void* map, void* shared, unsigned rank, const int* coordinates, uintptr_t code);
Bulk bulk_of_memory(void* global, void* shared, unsigned bytes, uintptr_t code);
void check_map_pointer(const void* map, SimtTensorMap& copy, uintptr_t code);
void count_copy(const Bulk& bulk, bool is_load);  // traffic, checked build

}  // namespace simt
