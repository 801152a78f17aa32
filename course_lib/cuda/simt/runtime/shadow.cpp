// Every access of the checked build comes through here: bounds, alignment, initialisation, races. See shadow.h.
#include "shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "async_copy.h"
#include "knowledge.h"
#include "requests.h"

namespace simt {

static std::vector<Region> regions;
static uintptr_t tensors_low = 0, tensors_high = 0;  // the arena with all tensors and their red zones
static Cell* tensor_cells = nullptr;
static std::vector<Cell> device_cells;               // of __device__ variables
static SplitCells global_split;

static bool ordered_in_block(const Stamp& stamp, const Fiber& self, const Block& block) {
    if (stamp.linear == self.linear || stamp.epoch < block.epoch) return true;
    if (stamp.linear / LANES == self.warp) {
        const Warp& warp = block.warps[self.warp];
        if (warp.known[self.lane][stamp.linear % LANES] >= stamp.clock) return true;
    }
    return false;
}

// Did the stamped access happen before what the current thread does now?
static bool ordered(const Stamp& stamp, const Fiber& self) {
    const Block& block = *self.block;
    if (stamp.block == block.id && ordered_in_block(stamp, self, block)) return true;
    if (self.know && self.know->covers(stamp.block, stamp.linear, stamp.epoch, stamp.clock)) return true;
    return block.know && block.know->covers(stamp.block, stamp.linear, stamp.epoch, stamp.clock);
}

// Two volatile accesses of a warp's lanes to shared memory: the old way to do without __syncwarp, which lock step no longer
// excuses. Volatile flags between warps or blocks are polled, and no race.
static bool lock_step(const Stamp& a, const Stamp& b, Space space) {
    constexpr auto RELAXED = static_cast<uint8_t>(Order::relaxed);
    return space == Space::shared && a.unordered == RELAXED && b.unordered == RELAXED && a.block == b.block &&
           a.linear / LANES == b.linear / LANES;
}

struct Access {
    uintptr_t address;  // of the whole access, for messages
    unsigned bytes;
    bool is_write, is_atomic, starts_uninitialised, waits_for_data;
    Space space;
    Stamp stamp;
    SplitCells* split;
};

static void report_write_race(const Access& access, const Stamp& other) {
    Fiber& self = *current;
    size_t index = report_race(access.space, access.stamp, access.address, access.bytes, true, other, true);
    if (access.waits_for_data) return;
    if (self.pending.open || access.stamp.unordered || other.unordered || access.bytes > sizeof(self.pending.before)) return;
    self.pending.open = true;  // two threads may write the same value: look at it after the write
    self.pending.address = access.address;
    self.pending.bytes = access.bytes;
    self.pending.finding = index;
    std::memcpy(self.pending.before, reinterpret_cast<void*>(access.address), access.bytes);
}

void settle_pending(Fiber& fiber) {
    if (!fiber.pending.open) return;
    fiber.pending.open = false;
    if (!std::memcmp(fiber.pending.before, reinterpret_cast<void*>(fiber.pending.address), fiber.pending.bytes))
        withdraw_finding(fiber.pending.finding);
}

static void remember_read(Cell& cell, const Stamp& now) {
    bool same_thread = cell.read.block == now.block && cell.read.linear == now.linear;
    if (cell.read.clock && !same_thread) {
        bool same_warp = cell.read.block == now.block && cell.read.linear / LANES == now.linear / LANES;
        bool keeps_other_warp = cell.other_read.clock && cell.other_read.epoch == now.epoch &&
                                (cell.other_read.block != now.block || cell.other_read.linear / LANES != now.linear / LANES);
        if (!same_warp || !keeps_other_warp) cell.other_read = cell.read;
    }
    cell.read = now;
}

static void touch_cell(Cell& cell, const Access& access) {
    Fiber& self = *current;
    const Stamp& now = access.stamp;
    bool written = (cell.state & 1) != 0;
    if (!access.is_write || access.is_atomic) {
        if (!written && access.starts_uninitialised)
            report_access(Kind::uninitialised_read, access.space, now.code, access.address, access.bytes, false);
    }
    auto clashes = [&](const Stamp& other) {
        if (!other.clock || ordered(other, self)) return false;
        return !(other.unordered && now.unordered) || lock_step(other, now, access.space);
    };
    if (clashes(cell.write)) {
        if (access.is_write) report_write_race(access, cell.write);
        else report_race(access.space, now, access.address, access.bytes, false, cell.write, true);
    }
    if (!access.is_write) {
        remember_read(cell, now);
        return;
    }
    if (clashes(cell.read)) {
        report_race(access.space, now, access.address, access.bytes, true, cell.read, false);
    } else if (clashes(cell.other_read)) {
        report_race(access.space, now, access.address, access.bytes, true, cell.other_read, false);
    }
    cell.write = now;
    cell.read.clock = cell.other_read.clock = 0;
    cell.state |= 1;
}

uint32_t SplitCells::add_pair(const Cell& whole) {
    if (cells.empty()) cells.resize(2);
    Cell half = whole;
    half.state &= 1;
    cells.push_back(half);
    cells.push_back(half);
    return static_cast<uint32_t>(cells.size() / 2 - 1);
}

void SplitCells::forget() { cells.clear(); }

// The part [from, to) of a cell that covers `size` bytes.
static void touch_part(Cell& cell, unsigned size, unsigned from, unsigned to, const Access& access) {
    if ((cell.state >> 1) == 0) {
        if (from == 0 && to == size) return touch_cell(cell, access);
        cell.state |= access.split->add_pair(cell) << 1;
    }
    size_t pair = cell.state >> 1;
    unsigned half = size / 2;
    if (from < half) touch_part(access.split->cells[2 * pair], half, from, to < half ? to : half, access);
    if (to > half) touch_part(access.split->cells[2 * pair + 1], half, from > half ? from - half : 0, to - half, access);
}

static void touch_cells(Cell* cells, uintptr_t low, const Access& access) {
    uintptr_t begin = access.address - low, end = begin + access.bytes;
    for (uintptr_t word = begin / 4; word * 4 < end; ++word) {
        auto from = static_cast<unsigned>(begin > word * 4 ? begin - word * 4 : 0);
        auto to = static_cast<unsigned>(end < word * 4 + 4 ? end - word * 4 : 4);
        Cell& cell = cells[word];
        if (from == 0 && to == 4 && (cell.state >> 1) == 0) touch_cell(cell, access);
        else touch_part(cell, 4, from, to, access);
    }
}

static Access make_access(uintptr_t address, unsigned bytes, bool is_write, Order order, Space space, uintptr_t code) {
    const Fiber& self = *current;
    Access access{address, bytes, is_write, order == Order::atomic, space == Space::shared, order == Order::copy, space, {},
                  &global_split};
    Order kept = order == Order::relaxed || order == Order::atomic ? order : Order::none;
    access.stamp = {self.block->id,    self.linear, static_cast<uint8_t>(kept), Copied::no,
                    self.block->epoch, self.clock,  static_cast<uint32_t>(code)};
    return access;
}

// The object that holds all of [address, address + bytes), or null.
static const Object* object_at(const std::vector<Object>& objects, uintptr_t address, unsigned bytes) {
    static const Object* last = nullptr;
    if (last >= objects.data() && last < objects.data() + objects.size() && address >= last->low &&
        address + bytes <= last->high)
        return last;
    auto after = std::upper_bound(objects.begin(), objects.end(), address,
                                  [](uintptr_t at, const Object& object) { return at < object.low; });
    if (after == objects.begin()) return nullptr;
    last = &*--after;
    return address + bytes <= last->high ? last : nullptr;
}

static uint8_t flags_of(bool is_write, Order order, Space space) {
    return static_cast<uint8_t>((is_write ? FLAG_WRITE : 0) | (order == Order::atomic ? FLAG_ATOMIC : 0) |
                                (order == Order::matrix ? FLAG_MATRIX : 0) | (space == Space::shared ? FLAG_SHARED : 0));
}

static void shared_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    auto low = reinterpret_cast<uintptr_t>(worker->shared_low);
    auto dynamic = reinterpret_cast<uintptr_t>(worker->dynamic_low);
    bool inside = dynamic && address >= dynamic ? address + bytes <= dynamic + launch->shared_bytes
                                                : object_at(launch->shared_objects, address - low, bytes) != nullptr;
    if (!inside) {
        report_access(Kind::out_of_bounds, Space::shared, code, address, bytes, is_write);
        return;
    }
    record_access(code, address, bytes, flags_of(is_write, order, Space::shared));
    SharedShadow& shadow = *current->block->shared_shadow;
    Access access = make_access(address, bytes, is_write, order, Space::shared, code);
    if (const Stamp* copy = copy_under_way(shadow, address - low, bytes)) {
        report_race(Space::shared, access.stamp, address, bytes, is_write, *copy, true);
        return;
    }
    access.split = &shadow.split;
    touch_cells(shadow.cells.data(), low, access);
}

static void device_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    const Object* object = object_at(launch->device_objects, address, bytes);
    if (!object) {
        report_access(Kind::out_of_bounds, Space::global, code, address, bytes, is_write);
        return;
    }
    if (object->kind == ObjectKind::constant) return;
    if (order != Order::again) record_access(code, address, bytes, flags_of(is_write, order, Space::global));
    Access access = make_access(address, bytes, is_write, order, Space::global, code);
    touch_cells(device_cells.data(), launch->library.data_low, access);
}

static void tensor_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    static size_t last = 0;
    if (last >= regions.size() || address < regions[last].low || address >= regions[last].high) {
        for (last = 0; last < regions.size(); ++last)
            if (address >= regions[last].low && address < regions[last].high) break;
    }
    if (last >= regions.size() || address + bytes > regions[last].high) {
        report_access(Kind::out_of_bounds, Space::global, code, address, bytes, is_write);
        return;  // it lands in a red zone
    }
    if (order != Order::again) record_access(code, address, bytes, flags_of(is_write, order, Space::global));
    Access access = make_access(address, bytes, is_write, order, Space::global, code);
    access.starts_uninitialised = regions[last].starts_uninitialised;
    touch_cells(tensor_cells, tensors_low, access);
}

static void remember_look(Fiber& self, uintptr_t address, uintptr_t code) {
    self.looks[self.num_looks++ % LOOKS] = {address, code};
}

void excuse_first_look(uintptr_t address) {
    for (const auto& look : current->looks)
        if (look.address == address) excuse_plain_read(look.code);
}

void on_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    Fiber& self = *current;
    if (is_local(self, address)) return;
    settle_pending(self);
    self.last_code = code;
    const Library& library = launch->library;
    uintptr_t shared_offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    bool is_shared = shared_offset < worker->tls_bytes;
    bool is_tensor = address >= tensors_low && address < tensors_high;
    bool is_device = address >= library.data_low && address < library.data_high;
    if (!is_shared && !is_tensor && !is_device) {
        if (address >= library.map_low && address < library.map_high) return;  // constants of the library
        report_access(Kind::out_of_bounds, worker->stacks->contains(address) ? Space::none : Space::global, code, address,
                      bytes, is_write);
        stop_launch(Stop::kernel_fault, code, address);
    }
    if (!is_write && order == Order::none) remember_look(self, address, code);
    if (launch->preempt && launch->random() % 16 == 0) give_way();
    if (order != Order::again && bytes > 1 && (bytes & (bytes - 1)) == 0 && address % bytes)
        report_access(Kind::misaligned, is_shared ? Space::shared : Space::global, code, address, bytes, is_write);
    if (is_shared) return shared_access(address, bytes, is_write, order, code);
    if (is_tensor) return tensor_access(address, bytes, is_write, order, code);
    device_access(address, bytes, is_write, order, code);
}

void start_shared_shadow(Block& block) {
    if (!block.shared_shadow) block.shared_shadow = std::make_shared<SharedShadow>();
    block.shared_shadow->cells.assign(worker->shared_bytes / 4 + 1, Cell{});
    block.shared_shadow->split.forget();
    block.shared_shadow->copies.clear();
    block.shared_shadow->cells_awaited = 0;
    block.shared_shadow->last_copy = 0;
}

bool start_shadow(const Launch& task, uintptr_t low, uintptr_t high) {
    tensors_low = low;
    tensors_high = high;
    size_t bytes = ((high - low) / 4 + 1) * sizeof(Cell);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    tensor_cells = static_cast<Cell*>(memory);
    device_cells.assign((task.library.data_high - task.library.data_low) / 4 + 1, Cell{});
    regions.clear();
    global_split.forget();
    return true;
}

void end_shadow() {
    if (tensor_cells) munmap(tensor_cells, ((tensors_high - tensors_low) / 4 + 1) * sizeof(Cell));
    tensor_cells = nullptr;
}

void add_region(const Region& region) { regions.push_back(region); }

}  // namespace simt
