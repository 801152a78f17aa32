// wgmma: lanes of a warpgroup, commit groups, waits, and the product itself. See wgmma.h. The hooks at the end are called
// by include/simt/wgmma.h.
#include "wgmma.h"

#include <algorithm>
#include <cstring>

#include "async_proxy.h"
#include "requests.h"
#include "timeline.h"

namespace simt {

static Warpgroup& warpgroup_of(const Fiber& fiber) {
    Block& block = *fiber.block;
    if (!block.warpgroups) block.warpgroups = std::make_shared<std::vector<Warpgroup>>(block.fibers.size() / WARPGROUP);
    return (*block.warpgroups)[fiber.linear / WARPGROUP];
}

static WgmmaLane& lane_of(Fiber& fiber) {
    if (!fiber.wgmma) fiber.wgmma = std::make_shared<WgmmaLane>();
    return *fiber.wgmma;
}

void start_wgmma(Fiber& fiber) {
    if (!fiber.wgmma) return;
    WgmmaLane& lane = *fiber.wgmma;
    lane.pending.clear();
    lane.group = 0;
    lane.fences_at_start = lane.fences;
    release_registers(lane, ~uint64_t(0));
}

static Fiber& fiber_of(Block& block, unsigned group, unsigned lane) { return block.fibers[group * WARPGROUP + lane]; }

// Row and column of accumulator `i` of a lane: d[4 j + 2 h + e] is row 16 warp + lane / 4 + 8 h, column
// 8 j + 2 (lane % 4) + e.
static size_t tile_index(unsigned lane, unsigned i, unsigned n) {
    unsigned row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8;
    return size_t(row) * n + i / 4 * 8 + lane % 4 * 2 + i % 2;
}

// The lane's numbers move into the tile, and NaN into its registers.
static void give(WgmmaTile& tile, unsigned lane) {
    unsigned n = 2 * tile.num_regs;
    for (unsigned i = 0; i < tile.num_regs; ++i) tile.values[tile_index(lane, i, n)] = tile.d[lane][i];
    std::memset(tile.d[lane], 0xff, tile.num_regs * sizeof(float));
}

// The current lane's numbers move into its registers. Not when the function that declared them has returned.
static void take(WgmmaTile& tile, unsigned lane) {
    unsigned n = 2 * tile.num_regs;
    auto d = reinterpret_cast<uintptr_t>(tile.d[lane]), frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    bool is_alive = d > frame || !is_local(*current, d);
    for (unsigned i = 0; is_alive && i < tile.num_regs; ++i) tile.d[lane][i] = tile.values[tile_index(lane, i, n)];
    if (!is_alive && launch->checked) report(wgmma_finding(*current, Kind::bad_wgmma, tile.code, 0, "gone"));
    tile.taken[lane] = true;
    ++tile.num_taken;
}

// The tile of these accumulators: the one that earlier products in flight add to, or a new one.
static std::shared_ptr<WgmmaTile> tile_of(Warpgroup& group) {
    for (auto& tile : group.tiles) {
        if (tile->d[0] != group.calls[0]->d || tile->num_regs != group.calls[0]->num_regs) continue;
        for (unsigned lane = 0; lane < WARPGROUP; ++lane) {
            tile->d[lane] = group.calls[lane]->d;
            if (!tile->taken[lane]) continue;
            tile->taken[lane] = false;
            --tile->num_taken;
            give(*tile, lane);
        }
        return tile;
    }
    auto tile = std::make_shared<WgmmaTile>();
    tile->num_regs = group.calls[0]->num_regs;
    tile->values.resize(size_t(WARPGROUP) * tile->num_regs);
    for (unsigned lane = 0; lane < WARPGROUP; ++lane) {
        tile->d[lane] = group.calls[lane]->d;
        give(*tile, lane);
    }
    group.tiles.push_back(tile);
    return tile;
}

// a in registers, as rows of 32 bytes: register r of a lane is row 16 warp + lane / 4 + 8 (r % 2), bytes
// 4 (lane % 4) + 16 (r / 2) and the three after it, for either size of elements.
static std::vector<unsigned char> a_of_registers(const Warpgroup& group) {
    std::vector<unsigned char> bytes(WGMMA_ROWS * WGMMA_ROW_BYTES);
    for (unsigned lane = 0; lane < WARPGROUP; ++lane)
        for (unsigned r = 0; r < 4; ++r) {
            unsigned row = lane / 32 * 16 + lane % 32 / 4 + r % 2 * 8;
            std::memcpy(&bytes[row * WGMMA_ROW_BYTES + lane % 4 * 4 + r / 2 * 16], &group.calls[lane]->a_regs[r], 4);
        }
    return bytes;
}

// values (64 x n) = a (64 x k) b (k x n), plus the old values if `adds`. n is a multiple of 16. Four rows by eight columns at
// a time: their sums fit the 16 vector registers that every processor has.
static void multiply(const float* a, const float* b, float* values, unsigned n, unsigned k, bool adds) {
    typedef float Four __attribute__((vector_size(16)));
    for (unsigned column = 0; column < n; column += 8)
        for (unsigned row = 0; row < WGMMA_ROWS; row += 4) {
            Four sums[4][2] = {}, factors[2], old;
            for (unsigned i = 0; i < k; ++i) {
                std::memcpy(factors, b + size_t(i) * n + column, sizeof(factors));
                for (unsigned r = 0; r < 4; ++r)
                    for (unsigned c = 0; c < 2; ++c) sums[r][c] += a[(row + r) * k + i] * factors[c];
            }
            for (unsigned r = 0; r < 4; ++r)
                for (unsigned c = 0; c < 2; ++c) {
                    float* d = values + size_t(row + r) * n + column + 4 * c;
                    std::memcpy(&old, d, sizeof(old));
                    if (adds) sums[r][c] = old + sums[r][c];
                    std::memcpy(d, &sums[r][c], sizeof(old));
                }
        }
}

// Reads the operands now, and adds to the tile.
static void make_product(WgmmaProduct& product) {
    thread_local std::vector<unsigned char> bytes(256 * WGMMA_ROW_BYTES);
    thread_local std::vector<float> a(WGMMA_ROWS * 32), rows(256 * 32), b(256 * 32);
    unsigned n = product.b.rows, k = WGMMA_ROW_BYTES / product.item_bytes;
    if (product.a.rows) read_operand(product.a, product.item_bytes, bytes.data());
    product.to_floats(product.a.rows ? bytes.data() : product.a_bytes.data(), a.data(), WGMMA_ROWS * k);
    read_operand(product.b, product.item_bytes, bytes.data());
    product.to_floats(bytes.data(), rows.data(), n * k);
    for (unsigned column = 0; column < n; ++column)
        for (unsigned i = 0; i < k; ++i) b[size_t(i) * n + column] = rows[size_t(column) * k + i];
    multiply(a.data(), b.data(), product.tile->values.data(), n, k, product.scale_d);
}

// Makes all products up to `number`, in the order of their issue.
static void make_products(Warpgroup& group, uint64_t number) {
    while (!group.in_flight.empty() && group.in_flight.front().number <= number) {
        make_product(group.in_flight.front());
        group.in_flight.pop_front();
    }
}

// Traffic: one request, and the bytes of the operands in shared memory, without wavefronts: the tensor cores read them in
// patterns that no bank count of loads describes.
static void count_operands(const WgmmaProduct& product) {
    Counters& shared = counters_of(product.code, FLAG_SHARED);
    ++shared.requests;
    shared.bytes += size_t(product.a.rows + product.b.rows) * WGMMA_ROW_BYTES;
}

// What the product means for each lane: it is in flight, and so are its registers.
static void enter_lanes(Block& block, unsigned which, const WgmmaProduct& product) {
    Warpgroup& group = (*block.warpgroups)[which];
    uint64_t read = 0, start = 0;
    if (launch->checked) {
        report_unequal_calls(block, which, group);
        read = check_operands(block, which, *group.calls[0], product);
        count_operands(product);
    }
    for (unsigned lane = 0; lane < WARPGROUP; ++lane) start = std::max(start, time_of(fiber_of(block, which, lane)));
    group.busy_until = std::max(group.busy_until, start) + product_time(product.b.rows);
    for (unsigned lane = 0; lane < WARPGROUP; ++lane) {
        Fiber& fiber = fiber_of(block, which, lane);
        WgmmaLane& its = lane_of(fiber);
        its.pending.push_back({product.number, read, start, group.busy_until, product.code, its.group});
        advance_time(fiber, start);
        if (launch->checked) hold_registers(fiber, its, *group.calls[lane], product.number, product.code);
    }
}

// All 128 lanes have arrived.
static void issue(Block& block, unsigned which, uintptr_t code) {
    Warpgroup& group = (*block.warpgroups)[which];
    const WgmmaCall& call = *group.calls[0];
    WgmmaProduct product;
    product.number = ++group.issued;
    product.code = code;
    product.item_bytes = call.item_bytes;
    product.scale_d = call.scale_d;
    product.to_floats = call.to_floats;
    if (call.a_regs) product.a_bytes = a_of_registers(group);
    else product.a = wgmma_operand(call.a, WGMMA_ROWS, call.trans_a);
    product.b = wgmma_operand(call.b, 2 * call.num_regs, call.trans_b);
    enter_lanes(block, which, product);
    product.tile = tile_of(group);
    product.tile->last_product = product.number;
    product.tile->code = code;
    group.in_flight.push_back(std::move(product));
    bool at_once = launch->schedule == Schedule::reverse || (launch->schedule == Schedule::random && launch->random() % 2);
    if (at_once) make_products(group, group.issued);
}

static bool is_one_instruction(const Warpgroup& group) {
    for (const WgmmaCall* call : group.calls)
        if (!is_same_instruction(*call, *group.calls[0])) return false;
    return true;
}

static void wait_for_warpgroup(const WgmmaCall& call, uintptr_t code) {
    Fiber& self = *current;
    Block& block = *self.block;
    unsigned which = self.linear / WARPGROUP, number = self.linear % WARPGROUP;
    self.last_code = self.wait_code = code;
    if (launch->checked) settle_pending_race(self);
    if ((which + 1) * WARPGROUP > block.fibers.size())
        stop_launch(Stop::trap, code, 0, "wgmma needs all 128 threads of a warpgroup; the block ends before them");
    Warpgroup& group = warpgroup_of(self);
    group.calls[number] = &call;
    self.wait = Wait::warpgroup;
    self.atomics_since_switch = 0;
    // Lanes that call another instruction do not meet: a deadlock, in whose finding they are missing.
    if (++group.arrived < WARPGROUP || !is_one_instruction(group)) return yield_to_scheduler();
    issue(block, which, code);
    group.arrived = 0;
    std::fill(group.calls, group.calls + WARPGROUP, nullptr);
    for (unsigned lane = 0; lane < WARPGROUP; ++lane) fiber_of(block, which, lane).wait = Wait::ready;
}

// One event for each group of the warpgroup, on the line of its first product; recorded by its first lane.
static void add_group_events(const Fiber& self, const WgmmaLane& lane, size_t count) {
    const WgmmaLane::Pending* first = &lane.pending[0];
    for (size_t i = 0; i < count; ++i) {
        const WgmmaLane::Pending& one = lane.pending[i];
        if (one.group != first->group) first = &one;
        add_event(EventKind::wgmma, self, one.start, one.end, first->code, one.group);
    }
}

// Products of groups before `group` are complete for the current lane, which waits for them at `code`.
static void complete_before(uint32_t group, uintptr_t code) {
    Fiber& self = *current;
    WgmmaLane& lane = *self.wgmma;
    Warpgroup& warps = warpgroup_of(self);
    size_t done = 0;
    while (done < lane.pending.size() && lane.pending[done].group < group) ++done;
    if (!done) return;
    uint64_t last = lane.pending[done - 1].product;
    make_products(warps, last);
    if (launch->checked) {
        end_async_read(self, lane.pending[done - 1].read);
        release_registers(lane, last);
        uint64_t arrived = time_of(self);
        advance_time(self, lane.pending[done - 1].end);
        if (self.linear % WARPGROUP == 0) {
            add_event(EventKind::wgmma_wait, self, arrived, time_of(self), code, group);
            add_group_events(self, lane, done);
        }
    }
    lane.pending.erase(lane.pending.begin(), lane.pending.begin() + static_cast<long>(done));
    unsigned number = self.linear % WARPGROUP;
    for (auto& tile : warps.tiles)
        if (!tile->taken[number] && tile->last_product <= last) take(*tile, number);
    auto is_done = [](const std::shared_ptr<WgmmaTile>& tile) { return tile->num_taken == WARPGROUP; };
    warps.tiles.erase(std::remove_if(warps.tiles.begin(), warps.tiles.end(), is_done), warps.tiles.end());
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_wgmma(float* d, unsigned num_regs, const unsigned* a_regs, uint64_t a, uint64_t b, unsigned item_bytes,
                            int trans_a, int trans_b, int scale_d, void (*to_floats)(const void*, float*, unsigned)) {
    WgmmaCall call{d, num_regs, a_regs, a, b, item_bytes, trans_a != 0, trans_b != 0, scale_d != 0, to_floats};
    wait_for_warpgroup(call, SIMT_CODE());
}

SIMT_EXPORT void simt_wgmma_fence() {
    if (launch->checked) note_wgmma_fence(*current, lane_of(*current));
}

SIMT_EXPORT void simt_wgmma_commit() { ++lane_of(*current).group; }

// Waits until at most `num_groups` committed groups are in flight.
SIMT_EXPORT void simt_wgmma_wait(unsigned num_groups) {
    uint32_t committed = lane_of(*current).group;
    if (launch->checked && !num_groups) report_uncovered_wait(*current, SIMT_CODE());
    if (committed > num_groups) complete_before(committed - num_groups, SIMT_CODE());
}
