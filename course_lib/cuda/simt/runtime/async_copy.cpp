// cp.async, its groups and its waits. See async_copy.h.
#include "async_copy.h"

#include <algorithm>
#include <cstring>

namespace simt {

// What no GPU does, whatever the build: a copy between other memories, more bytes than there is room for.
static void check_copy(uintptr_t to, uintptr_t from, unsigned bytes, unsigned source_bytes, uintptr_t code) {
    const char* broken = nullptr;
    if (!is_shared_memory(to)) broken = "cp.async writes to shared memory";
    else if (is_shared_memory(from) || is_local(*current, from)) broken = "cp.async reads global memory";
    else if (source_bytes > bytes) broken = "cp.async reads at most as many bytes as it writes";
    else if (!launch->checked && (to % bytes || from % bytes)) broken = "the addresses of cp.async are multiples of its size";
    if (broken) stop_launch(Stop::trap, code, 0, broken);
}

// The cells of the block's shared memory that [address, address + bytes) touches, as [first, last].
static std::pair<size_t, size_t> shared_cells(uintptr_t address, unsigned bytes) {
    uintptr_t offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    size_t end = current->block->shared_shadow->cells.size();
    return {offset / 4, std::min((offset + bytes - 1) / 4, end - 1)};
}

static Stamp stamp_of_copy(Copied copied, uintptr_t code) {
    const Fiber& self = *current;
    return {self.block->id, self.linear, 0, copied, self.block->epoch, self.clock, static_cast<uint32_t>(code)};
}

const Stamp* copy_under_way(const SharedShadow& shadow, uintptr_t offset, unsigned bytes) {
    if (!shadow.cells_awaited) return nullptr;
    for (uintptr_t cell = offset / 4; cell <= (offset + bytes - 1) / 4; ++cell)
        if (shadow.copies[cell].copied != Copied::no) return &shadow.copies[cell];
    return nullptr;
}

// The shared memory belongs to a copy from now on. Gives its number.
static uint32_t copy_starts(uintptr_t address, unsigned bytes, uintptr_t code) {
    SharedShadow& shadow = *current->block->shared_shadow;
    if (shadow.copies.empty()) shadow.copies.resize(shadow.cells.size());
    Stamp copy = stamp_of_copy(Copied::under_way, code);
    copy.clock = ++shadow.last_copy;
    auto [first, last] = shared_cells(address, bytes);
    for (size_t cell = first; cell <= last; ++cell) {
        shadow.cells_awaited += shadow.copies[cell].copied == Copied::no;
        shadow.copies[cell] = copy;
    }
    return copy.clock;
}

// As if the current thread wrote now; what a later copy owns stays that one's.
static void copy_lands(uint32_t number, uintptr_t address, unsigned bytes, uintptr_t code) {
    SharedShadow& shadow = *current->block->shared_shadow;
    Cell landed{};  // nobody has come near since it started, or has been reported
    landed.write = stamp_of_copy(Copied::landed, code);
    landed.state = 1;
    auto [first, last] = shared_cells(address, bytes);
    for (size_t cell = first; cell <= last; ++cell) {
        Stamp& copy = shadow.copies[cell];
        if (copy.copied == Copied::no || copy.clock != number) continue;
        copy.copied = Copied::no;
        --shadow.cells_awaited;
        shadow.cells[cell] = landed;
    }
}

static uint32_t record_start(uintptr_t to, uintptr_t from, unsigned bytes, unsigned source_bytes, uintptr_t code) {
    if (source_bytes) on_access(from, source_bytes, false, Order::none, code);
    if (source_bytes != bytes && from % bytes)  // the address counts even when less is read
        report_access(Kind::misaligned, Space::global, code, from, bytes, false);
    on_access(to, bytes, true, Order::copy, code);
    return copy_starts(to, bytes, code);
}

static void land(const AsyncCopy& copy, uintptr_t code) {
    if (launch->checked) {
        if (copy.source_bytes)
            on_access(reinterpret_cast<uintptr_t>(copy.from), copy.source_bytes, false, Order::again, code);
        copy_lands(copy.number, reinterpret_cast<uintptr_t>(copy.to), copy.bytes, code);
    }
    std::memcpy(copy.to, copy.from, copy.source_bytes);
    std::memset(copy.to + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
}

// Lands every copy of a group before `group`.
static void land_before(uint32_t group, uintptr_t code) {
    Fiber& self = *current;
    self.last_code = code;
    if (launch->checked) settle_pending(self);
    size_t done = 0;
    while (done < self.copies.size() && self.copies[done].group < group) land(self.copies[done++], code);
    self.copies.erase(self.copies.begin(), self.copies.begin() + static_cast<long>(done));
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_copy_async(void* destination, const void* source, unsigned bytes, unsigned source_bytes) {
    Fiber& self = *current;
    uintptr_t code = SIMT_CODE();
    auto to = reinterpret_cast<uintptr_t>(destination), from = reinterpret_cast<uintptr_t>(source);
    self.last_code = code;
    check_copy(to, from, bytes, source_bytes, code);
    uint32_t number = 0;
    if (launch->checked) number = record_start(to, from, bytes, source_bytes, code);
    else if (source_bytes) (void)*static_cast<const volatile unsigned char*>(source);  // a bad address fails in this line
    self.copies.push_back({static_cast<unsigned char*>(destination), static_cast<const unsigned char*>(source), bytes,
                           source_bytes, self.copy_group, number});
}

SIMT_EXPORT void simt_copy_commit() { ++current->copy_group; }

SIMT_EXPORT void simt_copy_wait(unsigned num_groups) {
    uint32_t committed = current->copy_group;
    if (committed > num_groups) land_before(committed - num_groups, SIMT_CODE());
}

SIMT_EXPORT void simt_copy_wait_all() { land_before(current->copy_group + 1, SIMT_CODE()); }
