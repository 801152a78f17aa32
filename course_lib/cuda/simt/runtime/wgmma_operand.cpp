// Descriptors of wgmma and the operands in shared memory that they name. See wgmma.h.
//
// An address is computed first and swizzled then, on bits of the address itself, as the hardware does it. So a wrong
// stride, step or swizzle gives the numbers that a GPU would give.
// Source: PTX ISA, "Matrix-descriptor-format", "Strides", "Shared Memory Matrix Layout"; the canonical layouts in units of
// 16 bytes are those of CUTLASS, mma_traits_sm90_gmma.hpp.
#include <cstring>

#include "async_proxy.h"
#include "wgmma.h"

namespace simt {

// bits 0-13 start / 16 · 16-29 leading_bytes / 16 · 32-45 stride_bytes / 16 · 49-51 base offset · 62-63 swizzle
WgmmaDescriptor::WgmmaDescriptor(uint64_t bits) {
    constexpr unsigned SWIZZLE_BYTES[] = {16, 128, 64, 32};
    start = static_cast<unsigned>(bits & 0x3fff) << 4;
    leading_bytes = static_cast<unsigned>(bits >> 16 & 0x3fff) << 4;
    stride_bytes = static_cast<unsigned>(bits >> 32 & 0x3fff) << 4;
    base_offset = static_cast<unsigned>(bits >> 49 & 7);
    swizzle_bytes = SWIZZLE_BYTES[bits >> 62];
}

// 128 bytes: address bits 4-6 ^= bits 7-9; 64 bytes: bits 4-5 ^= 7-8; 32 bytes: bit 4 ^= bit 7.
static unsigned swizzled(unsigned offset, unsigned swizzle_bytes) {
    return offset ^ (offset >> 3 & (swizzle_bytes - 16));
}

// k runs along the rows: piece 2 r + h is half h of row r's 32 bytes.
//     no swizzle   8 rows of 16 bytes are contiguous; the other half is leading_bytes further, the next 8 rows stride_bytes
//     swizzled     8 rows of swizzle_bytes are contiguous, the halves beside each other; leading_bytes is not used
static unsigned k_major_offset(const WgmmaDescriptor& at, unsigned row, unsigned half) {
    unsigned half_bytes = at.swizzle_bytes == 16 ? at.leading_bytes : 16;
    return at.start + row / 8 * at.stride_bytes + row % 8 * at.swizzle_bytes + half * half_bytes;
}

// k runs down the columns (16-bit elements only): piece k * rows / 8 + c is rows 8 c to 8 c + 7 at one k.
//     no swizzle   8 of k, 16 bytes each, are contiguous; the next 8 of k are leading_bytes further, the next 8 rows
//                  stride_bytes
//     swizzled     8 of k, swizzle_bytes each, are contiguous; the next 8 of k are stride_bytes further, the next
//                  swizzle_bytes of rows leading_bytes
static unsigned mn_major_offset(const WgmmaDescriptor& at, unsigned piece, unsigned k) {
    unsigned width = at.swizzle_bytes / 16;  // pieces
    unsigned next_k = width == 1 ? at.leading_bytes : at.stride_bytes;
    unsigned next_rows = width == 1 ? at.stride_bytes : at.leading_bytes;
    return at.start + piece / width * next_rows + piece % width * 16 + k / 8 * next_k + k % 8 * at.swizzle_bytes;
}

WgmmaOperand wgmma_operand(uint64_t descriptor, unsigned rows, bool is_mn_major) {
    WgmmaDescriptor at(descriptor);
    WgmmaOperand operand;
    operand.rows = rows;
    operand.is_mn_major = is_mn_major;
    operand.offsets.reserve(2 * rows);
    for (unsigned i = 0; i < 2 * rows; ++i) {
        unsigned per_k = rows / 8;
        unsigned offset = is_mn_major ? mn_major_offset(at, i % per_k, i / per_k) : k_major_offset(at, i / 2, i % 2);
        operand.offsets.push_back(swizzled(offset, at.swizzle_bytes));
    }
    return operand;
}

// The operand as `rows` rows of 32 bytes, k along each. What is outside the block's shared memory reads as NaN.
void read_operand(const WgmmaOperand& operand, unsigned item_bytes, unsigned char* to) {
    unsigned per_k = operand.rows / 8;
    for (unsigned i = 0; i < operand.offsets.size(); ++i) {
        unsigned char piece[16];
        size_t offset = operand.offsets[i];
        if (offset + 16 <= worker->shared_bytes) std::memcpy(piece, worker->shared_low + offset, 16);
        else std::memset(piece, 0xff, 16);
        if (!operand.is_mn_major) {
            std::memcpy(to + i * 16, piece, 16);
            continue;
        }
        unsigned k = i / per_k, row = i % per_k * 8;
        for (unsigned r = 0; r < 8; ++r)
            std::memcpy(to + (row + r) * WGMMA_ROW_BYTES + k * item_bytes, piece + r * item_bytes, item_bytes);
    }
}

// ---- checks at the issue ----

// The swizzled patterns are of 8 rows, and begin at multiples of their size: 1024, 512 or 256 bytes. A descriptor may begin
// further along the first row (the steps of k), not in another row. detail: "descriptor|WHICH|FIELD|VALUE|MULTIPLE".
static void check_descriptor(const Fiber& fiber, uint64_t bits, const char* which, unsigned rows, bool is_mn_major,
                             uintptr_t code) {
    WgmmaDescriptor at(bits);
    unsigned width = at.swizzle_bytes, pattern = 8 * width;
    auto wrong = [&](const char* field, unsigned value, unsigned multiple) {
        report(wgmma_finding(fiber, Kind::bad_wgmma, code, 0,
                             std::string("descriptor|") + which + "|" + field + "|" + std::to_string(value) + "|" +
                                 std::to_string(multiple)));
    };
    if (at.base_offset) return wrong("base offset", at.base_offset, 0);
    if (width == 16) return;
    if (at.start % pattern >= width) return wrong("start", at.start, pattern);
    if (!is_mn_major && at.start % WGMMA_ROW_BYTES) return wrong("step", at.start % width, WGMMA_ROW_BYTES);
    if (at.stride_bytes % pattern) return wrong("stride_bytes", at.stride_bytes, pattern);
    if (is_mn_major && rows * 2 > width && at.leading_bytes % pattern) wrong("leading_bytes", at.leading_bytes, pattern);
}

// Bytes that a TMA load wrote under another swizzle than the descriptor's. detail: "swizzle|WHICH|DESCRIPTOR'S|WRITTEN".
static void check_swizzle(const Fiber& fiber, uint64_t bits, const char* which, const WgmmaOperand& operand, uintptr_t code) {
    auto field = static_cast<int>(bits >> 62);
    for (uint32_t offset : operand.offsets) {
        auto address = reinterpret_cast<uintptr_t>(worker->shared_low) + offset;
        int written = is_inside_shared(address, 16) ? written_swizzle(address) : -1;
        if (written < 0 || written == field) continue;
        report(wgmma_finding(fiber, Kind::bad_wgmma, code, 0,
                             std::string("swizzle|") + which + "|" + std::to_string(field) + "|" + std::to_string(written)));
        return;
    }
}

// The pieces of a that one warp reads: its own 16 rows.
static std::vector<Range> rows_of_warp(const WgmmaOperand& a, unsigned warp) {
    std::vector<Range> ranges;
    for (unsigned i = 0; i < a.offsets.size(); ++i) {
        unsigned row = a.is_mn_major ? i % (a.rows / 8) * 8 : i / 2;
        if (row / 16 == warp) ranges.push_back({reinterpret_cast<uintptr_t>(worker->shared_low) + a.offsets[i], 16});
    }
    return ranges;
}

// True when the current thread is ordered after the writes of these bytes, or they are not in shared memory.
static bool is_after_writes(const Range& range) {
    const Block& block = *current->block;
    const Cell* cells = block.shared_shadow->cells.data();
    if (!is_inside_shared(range.address, range.bytes)) return true;
    uintptr_t first = (range.address - reinterpret_cast<uintptr_t>(worker->shared_low)) / 4;
    for (uintptr_t i = first; i < first + range.bytes / 4; ++i) {
        if (cells[i].state >> 1) return false;  // split: the slow way knows
        const Stamp& write = cells[i].write;
        if (write.clock && write.epoch >= block.epoch && !is_ordered(write)) return false;
    }
    return true;
}

// A warp's last lane checks for it: all four warps must be ordered after the writes of what they read. What one lane
// waited for, the others of its warp know after a __syncwarp only. b is checked in full by the first warp; for the others
// only the order can differ.
uint64_t check_operands(Block& block, unsigned warpgroup, const WgmmaCall& call, const WgmmaProduct& product) {
    Fiber* issuing = current;
    if (!call.a_regs) {
        check_descriptor(*issuing, call.a, "a", WGMMA_ROWS, call.trans_a, product.code);
        check_swizzle(*issuing, call.a, "a", product.a, product.code);
    }
    check_descriptor(*issuing, call.b, "b", product.b.rows, call.trans_b, product.code);
    check_swizzle(*issuing, call.b, "b", product.b, product.code);
    uint16_t agent = agent_of(block, AgentKind::wgmma, warpgroup);
    uint64_t number = 0;
    std::vector<Range> b;
    for (uint32_t offset : product.b.offsets) b.push_back({reinterpret_cast<uintptr_t>(worker->shared_low) + offset, 16});
    for (unsigned warp = 0; warp < WARPGROUP / LANES; ++warp) {
        current = &block.fibers[warpgroup * WARPGROUP + warp * LANES + LANES - 1];
        if (warp == 0) number = begin_async_read(agent, b.data(), b.size(), product.code);
        auto clock = static_cast<uint32_t>(number);
        for (const Range& range : rows_of_warp(product.a, warp))
            async_shared_access(agent, clock, range, false, 0, product.code);
        for (const Range& range : b)
            if (warp && !is_after_writes(range)) async_shared_access(agent, clock, range, false, 0, product.code);
    }
    current = issuing;
    return number;
}

}  // namespace simt
