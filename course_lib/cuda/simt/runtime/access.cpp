// The entry of every recorded access (on_access): address space, bounds, alignment, traffic; then its shadow cells.
//
// Called before the access happens by the sanitizer's callbacks (hooks.cpp), atomics.cpp, async_copy.cpp and
// tensor_core.cpp, in the checked build only. Memory is one of: the thread's own stack (not recorded), the worker's
// thread-local segment (shared memory), the arena (tensors), the library's writable segment (__device__ variables).
#include <algorithm>

#include "async_copy.h"
#include "requests.h"
#include "shadow.h"
#include "tensor_shadow.h"
#include "wgmma.h"

namespace simt {

static std::vector<Region> regions;                  // the tensors
static TensorShadow tensor_shadow;                   // of the arena: all tensors and their red zones
static std::vector<Cell> device_cells;               // of the library's writable segment
static SplitCells global_split;                      // of both

// The access as the current thread makes it now. `split` and `starts_uninitialised` are those of global memory and of
// shared memory; the callers adapt them.
static Access make_access(uintptr_t address, unsigned bytes, bool is_write, Order order, Space space, uintptr_t code) {
    const Fiber& self = *current;
    Access access{address, bytes, is_write, is_atomic(order), space == Space::shared, order == Order::copy_issue,
                  space, {}, &global_split};
    Order strong = order == Order::relaxed || is_atomic(order) ? order : Order::plain;
    access.stamp = {self.block->id,    self.linear, static_cast<uint8_t>(strong), Copied::no,
                    self.block->epoch, self.clock,  static_cast<uint32_t>(code)};
    return access;
}

// The object that holds all of [address, address + bytes), or null. Kernels access one array many times in a row:
// `last` is asked first. It may point into a list of an earlier launch; the comparison with this list's storage rejects
// that.
static const Object* object_at(const std::vector<Object>& objects, uintptr_t address, unsigned bytes) {
    static const Object* last = nullptr;
    if (last >= objects.data() && last < objects.data() + objects.size() && address >= last->low &&
        address + bytes <= last->high)
        return last;
    auto after = std::upper_bound(objects.begin(), objects.end(), address,
                                  [](uintptr_t value, const Object& object) { return value < object.low; });
    if (after == objects.begin()) return nullptr;
    last = &*--after;
    return address + bytes <= last->high ? last : nullptr;
}

// What keeps the counters of one code address apart: an atomic and a plain access may share a line.
static uint8_t flags_of(bool is_write, Order order, Space space) {
    return static_cast<uint8_t>((is_write ? FLAG_WRITE : 0) | (is_atomic(order) ? FLAG_ATOMIC : 0) |
                                (order == Order::matrix ? FLAG_MATRIX : 0) | (space == Space::shared ? FLAG_SHARED : 0));
}

bool is_inside_shared(uintptr_t address, unsigned bytes) {
    auto low = reinterpret_cast<uintptr_t>(worker->shared_low), dynamic = reinterpret_cast<uintptr_t>(worker->dynamic_low);
    // The dynamic buffer comes last in the segment and is larger than what the launch asked for.
    if (dynamic && address >= dynamic) return address + bytes <= dynamic + launch->shared_bytes;
    return object_at(launch->shared_objects, address - low, bytes) != nullptr;
}

// Shared memory: of every thread's block, the only block whose bytes are in the segment now.
static void shared_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    auto low = reinterpret_cast<uintptr_t>(worker->shared_low);
    if (!is_inside_shared(address, bytes)) {
        report_access(Kind::out_of_bounds, Space::shared, code, address, bytes, is_write);
        return;
    }
    record_access(code, address, bytes, flags_of(is_write, order, Space::shared));
    SharedShadow& shadow = *current->block->shared_shadow;
    Access access = make_access(address, bytes, is_write, order, Space::shared, code);
    if (const Stamp* copy = copy_in_flight(shadow, address - low, bytes)) {
        report_race(Space::shared, access.stamp, address, bytes, is_write, *copy, true);
        return;  // the cells belong to the copy: one finding is enough
    }
    access.split = &shadow.split;
    update_cells(shadow.cells.data(), low, access);
}

// __device__ and __constant__ variables. They keep their values from launch to launch, so they start initialised.
static void device_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    const Object* object = object_at(launch->device_objects, address, bytes);
    if (!object) {
        report_access(Kind::out_of_bounds, Space::global, code, address, bytes, is_write);
        return;
    }
    if (object->kind == ObjectKind::constant) return;  // the constant cache is not part of the ledger
    if (order != Order::copy_landing) record_access(code, address, bytes, flags_of(is_write, order, Space::global));
    Access access = make_access(address, bytes, is_write, order, Space::global, code);
    update_cells(device_cells.data(), launch->library.data_low, access);
}

// The tensor that holds the byte at `address`, or null: the address is in a red zone.
static const Region* region_at(uintptr_t address) {
    static size_t last = 0;  // the region of the previous access; launches have a handful of tensors
    if (last >= regions.size() || address < regions[last].low || address >= regions[last].high) {
        for (last = 0; last < regions.size(); ++last)
            if (address >= regions[last].low && address < regions[last].high) break;
    }
    return last < regions.size() ? &regions[last] : nullptr;
}

// Tensors, by element and with their red zones. A tensor marked as an output starts uninitialised.
static void tensor_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    const Region* region = region_at(address);
    if (!region || address + bytes > region->high) {
        report_access(Kind::out_of_bounds, Space::global, code, address, bytes, is_write);
        return;  // the red zone is accessible: the launch goes on
    }
    if (is_write && region->is_const) report_access(Kind::const_write, Space::global, code, address, bytes, true);
    if (order != Order::copy_landing) record_access(code, address, bytes, flags_of(is_write, order, Space::global));
    Access access = make_access(address, bytes, is_write, order, Space::global, code);
    access.starts_uninitialised = region->starts_uninitialised;
    update_cells(tensor_shadow.cells(address, bytes), tensor_shadow.low(), access);
}

bool is_inside_global(uintptr_t address, unsigned bytes) {
    const Library& library = launch->library;
    if (address >= library.data_low && address < library.data_high)
        return object_at(launch->device_objects, address, bytes) != nullptr;
    const Region* region = region_at(address);
    return region && address + bytes <= region->high;
}

void append_global_writes(uintptr_t address, unsigned bytes, std::vector<Stamp>& into) {
    const Library& library = launch->library;
    if (address >= library.data_low && address < library.data_high)
        append_writes(device_cells.data(), library.data_low, address, bytes, global_split, into);
    else if (address >= tensor_shadow.low() && address + bytes <= tensor_shadow.high())
        append_writes(tensor_shadow.cells(address, bytes), tensor_shadow.low(), address, bytes, global_split, into);
}

void agent_access(uintptr_t address, unsigned bytes, bool is_write, Space space, const Stamp& left) {
    Access access = make_access(address, bytes, is_write, is_write ? Order::copy_issue : Order::plain, space, left.code);
    access.stamp.strong = left.strong;
    access.is_atomic = left.strong != 0;
    access.left = &left;
    if (space == Space::shared) {
        SharedShadow& shadow = *current->block->shared_shadow;
        auto low = reinterpret_cast<uintptr_t>(worker->shared_low);
        if (const Stamp* copy = copy_in_flight(shadow, address - low, bytes)) {
            report_race(space, access.stamp, address, bytes, is_write, *copy, true);
            return;  // the cells belong to a cp.async
        }
        access.split = &shadow.split;
        return update_cells(shadow.cells.data(), low, access);
    }
    if (address >= launch->library.data_low && address < launch->library.data_high)
        return update_cells(device_cells.data(), launch->library.data_low, access);
    const Region* region = region_at(address);
    if (is_write && region && region->is_const) report_access(Kind::const_write, space, left.code, address, bytes, true);
    access.starts_uninitialised = region && region->starts_uninitialised;
    update_cells(tensor_shadow.cells(address, bytes), tensor_shadow.low(), access);
}

// A ring of the last plain reads: a compare-and-swap loop reads its variable plainly a few instructions before the
// swap.
static void note_plain_read(Fiber& self, uintptr_t address, uintptr_t code) {
    const auto& last = self.recent_reads[(self.num_recent_reads + RECENT_READS - 1) % RECENT_READS];
    self.same_reads = last.address == address && last.code == code ? self.same_reads + 1 : 0;
    self.recent_reads[self.num_recent_reads++ % RECENT_READS] = {address, code};
}

void excuse_recent_reads(uintptr_t address) {
    for (const auto& read : current->recent_reads)
        if (read.address == address) excuse_plain_read(read.code);
}

// `code` is the code address for messages and counters. Returns when the access may happen; a fatal one does not
// return.
void on_access(uintptr_t address, unsigned bytes, bool is_write, Order order, uintptr_t code) {
    Fiber& self = *current;
    if (is_local(self, address)) {  // registers and local arrays of the thread itself
        if (self.wgmma) local_access(self, address, bytes, is_write, code);
        return;
    }
    settle_pending_race(self);  // the previous write has happened by now
    self.last_code = code;
    const Library& library = launch->library;
    uintptr_t shared_offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    bool is_shared = shared_offset < worker->tls_bytes;
    bool is_tensor = address >= tensor_shadow.low() && address < tensor_shadow.high();
    bool is_device = address >= library.data_low && address < library.data_high;
    if (!is_shared && !is_tensor && !is_device) {
        if (address >= library.map_low && address < library.map_high) return;  // constants of the library
        // Another thread's stack, or memory of nothing: carrying the access out could crash the process, so stop here.
        report_access(Kind::out_of_bounds, worker->stacks->contains(address) ? Space::none : Space::global, code, address,
                      bytes, is_write);
        stop_launch(Stop::kernel_fault, code, address);
    }
    if (!is_write && order == Order::plain) note_plain_read(self, address, code);
    else self.same_reads = 0;
    // Interleave other threads before the access; not before a volatile read, which may poll: a yield that is not spinning
    // counts as progress, and the block that is polled for would never be let in.
    bool may_poll = !is_write && order == Order::relaxed;
    if (launch->preempt && !may_poll && launch->random() % 16 == 0) yield_to_scheduler();
    if (order != Order::copy_landing && bytes > 1 && (bytes & (bytes - 1)) == 0 && address % bytes)
        report_access(Kind::misaligned, is_shared ? Space::shared : Space::global, code, address, bytes, is_write);
    if (is_shared) return shared_access(address, bytes, is_write, order, code);
    if (is_tensor) return tensor_access(address, bytes, is_write, order, code);
    device_access(address, bytes, is_write, order, code);
}

void start_shared_shadow(Block& block) {
    if (!block.shared_shadow) block.shared_shadow = std::make_shared<SharedShadow>();
    block.shared_shadow->cells.assign(worker->shared_bytes / 4 + 1, Cell{});
    block.shared_shadow->split.clear();
    block.shared_shadow->copies.clear();
    block.shared_shadow->cells_in_flight = 0;
    block.shared_shadow->last_copy = 0;
}

bool start_shadow(const Launch& task, uintptr_t low, uintptr_t high) {
    if (!tensor_shadow.start(low, high)) return false;
    device_cells.assign((task.library.data_high - task.library.data_low) / 4 + 1, Cell{});
    regions.clear();
    global_split.clear();
    return true;
}

void end_shadow() { tensor_shadow.end(); }

void add_region(const Region& region) { regions.push_back(region); }

}  // namespace simt
