// cp.async, its commit groups and its waits. See async_copy.h. The hooks at the end are called by
// include/simt/async_copy.h.
#include "async_copy.h"

#include <algorithm>
#include <cstring>

#include "async_proxy.h"

namespace simt {

// Rules of the instruction itself, in both builds. Alignment in the fast build only: the checked one reports it as a
// finding.
static void check_copy(uintptr_t destination, uintptr_t source, unsigned bytes, unsigned source_bytes, uintptr_t code) {
    const char* broken = nullptr;
    if (!is_shared_memory(destination)) broken = "cp.async writes to shared memory";
    else if (is_shared_memory(source) || is_local(*current, source)) broken = "cp.async reads global memory";
    else if (source_bytes > bytes) broken = "cp.async reads at most as many bytes as it writes";
    else if (!launch->checked && (destination % bytes || source % bytes))
        broken = "the addresses of cp.async are multiples of its size";
    if (broken) stop_launch(Stop::trap, code, 0, broken);
}

// The cells of the block's shared memory that [address, address + bytes) touches, as [first, last].
static std::pair<size_t, size_t> shared_cells(uintptr_t address, unsigned bytes) {
    uintptr_t offset = address - reinterpret_cast<uintptr_t>(worker->shared_low);
    size_t end = current->block->shared_shadow->cells.size();
    return {offset / 4, std::min((offset + bytes - 1) / 4, end - 1)};
}

// A weak access of the current thread, whatever the copy's state.
static Stamp stamp_of_copy(Copied copied, uintptr_t code) {
    const Fiber& self = *current;
    return {self.block->id, self.linear, 0, copied, self.block->epoch, self.clock, static_cast<uint32_t>(code)};
}

const Stamp* copy_in_flight(const SharedShadow& shadow, uintptr_t offset, unsigned bytes) {
    if (!shadow.cells_in_flight) return nullptr;
    for (uintptr_t cell = offset / 4; cell <= (offset + bytes - 1) / 4; ++cell)
        if (shadow.copies[cell].copied != Copied::no) return &shadow.copies[cell];
    return nullptr;
}

// Marks the destination as owned by a copy. Returns the copy's number in the block.
static uint32_t mark_in_flight(uintptr_t address, unsigned bytes, uintptr_t code) {
    SharedShadow& shadow = *current->block->shared_shadow;
    if (shadow.copies.empty()) shadow.copies.resize(shadow.cells.size());
    Stamp copy = stamp_of_copy(Copied::in_flight, code);
    copy.clock = ++shadow.last_copy;
    auto [first, last] = shared_cells(address, bytes);
    for (size_t cell = first; cell <= last; ++cell) {
        shadow.cells_in_flight += shadow.copies[cell].copied == Copied::no;
        shadow.copies[cell] = copy;
    }
    return copy.clock;
}

// Stamps the destination as written now by the current thread. Cells that a later copy owns stay that copy's.
static void mark_landed(uint32_t number, uintptr_t address, unsigned bytes, uintptr_t code) {
    SharedShadow& shadow = *current->block->shared_shadow;
    Cell landed{};  // earlier stamps are dropped: an access since the issue has been reported as a race already
    landed.write = stamp_of_copy(Copied::landed, code);
    landed.state = 1;
    auto [first, last] = shared_cells(address, bytes);
    for (size_t cell = first; cell <= last; ++cell) {
        Stamp& copy = shadow.copies[cell];
        if (copy.copied == Copied::no || copy.clock != number) continue;
        copy.copied = Copied::no;
        --shadow.cells_in_flight;
        shadow.cells[cell] = landed;
    }
}

static std::shared_ptr<const CopySource> source_now(const unsigned char* source, unsigned bytes, uintptr_t code) {
    auto now = std::make_shared<CopySource>();
    append_global_writes(reinterpret_cast<uintptr_t>(source), bytes, now->writes);
    std::memcpy(now->bytes, source, bytes);
    now->code = code;
    return now;
}

// A write to the source since the issue. One that nothing orders before the wait is a race of the copy's second read;
// this finds the others: of the thread itself, or with a barrier between, neither of which waits for the copy.
static void check_source(const AsyncCopy& copy, uintptr_t code) {
    auto address = reinterpret_cast<uintptr_t>(copy.source);
    std::vector<Stamp> writes;
    append_global_writes(address, copy.source_bytes, writes);
    auto same = [](const Stamp& a, const Stamp& b) {
        return a.block == b.block && a.linear == b.linear && a.clock == b.clock && a.epoch == b.epoch && a.code == b.code;
    };
    bool changed = std::memcmp(copy.before->bytes, copy.source, copy.source_bytes) != 0;
    for (const Stamp& write : writes) {
        bool is_old = false;
        for (const Stamp& old : copy.before->writes) is_old |= same(old, write);
        if (!write.clock || !is_ordered(write) || (is_old && !changed)) continue;
        report_overwritten_source(write, address, copy.source_bytes, copy.before->code);
        return;
    }
}

// What the checked build records at issue: the read of the source (as traffic), the write of the destination (as a race
// check against what other threads did before), then the ownership until the wait.
static uint32_t record_issue(uintptr_t destination, uintptr_t source, unsigned bytes, unsigned source_bytes,
                             uintptr_t code) {
    if (source_bytes) on_access(source, source_bytes, false, Order::plain, code);
    if (source_bytes != bytes && source % bytes)  // the address must be aligned even when fewer bytes are read
        report_access(Kind::misaligned, Space::global, code, source, bytes, false);
    on_access(destination, bytes, true, Order::copy_issue, code);
    return mark_in_flight(destination, bytes, code);
}

// The wait for a copy: its bytes arrive. Bytes beyond source_bytes are zero-filled, as the ignore-src form of cp.async
// does.
static void land(const AsyncCopy& copy, uintptr_t code) {
    if (launch->checked) {
        if (copy.source_bytes)  // the source must not have been overwritten since the issue
            on_access(reinterpret_cast<uintptr_t>(copy.source), copy.source_bytes, false, Order::copy_landing, code);
        if (copy.before) check_source(copy, code);
        mark_landed(copy.number, reinterpret_cast<uintptr_t>(copy.destination), copy.bytes, code);
    }
    std::memcpy(copy.destination, copy.source, copy.source_bytes);
    std::memset(copy.destination + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
}

// Lands every copy of the groups before `group`, oldest first.
static void land_before(uint32_t group, uintptr_t code) {
    Fiber& self = *current;
    self.last_code = code;
    if (launch->checked) settle_pending_race(self);
    size_t done = 0;
    while (done < self.copies.size() && self.copies[done].group < group) land(self.copies[done++], code);
    // Groups are committed in order, so what has landed is a prefix.
    self.copies.erase(self.copies.begin(), self.copies.begin() + static_cast<long>(done));
}

}  // namespace simt

using namespace simt;

// Issue. The copy joins the group that the next commit closes.
SIMT_EXPORT void simt_copy_async(void* destination, const void* source, unsigned bytes, unsigned source_bytes) {
    Fiber& self = *current;
    uintptr_t code = SIMT_CODE();
    auto to = reinterpret_cast<uintptr_t>(destination), from = reinterpret_cast<uintptr_t>(source);
    self.last_code = code;
    check_copy(to, from, bytes, source_bytes, code);
    uint32_t number = 0;
    if (launch->checked) number = record_issue(to, from, bytes, source_bytes, code);
    // fault on this line, not at the wait
    else if (source_bytes) (void)*static_cast<const volatile unsigned char*>(source);
    auto* bytes_from = static_cast<const unsigned char*>(source);
    bool is_checked = launch->checked && source_bytes && is_inside_global(from, source_bytes);
    self.copies.push_back({static_cast<unsigned char*>(destination), bytes_from, bytes, source_bytes, self.copy_group, number,
                           is_checked ? source_now(bytes_from, source_bytes, code) : nullptr});
}

SIMT_EXPORT void simt_copy_commit() { ++current->copy_group; }

// Waits until at most `num_groups` committed groups are in flight; uncommitted copies are not waited for.
SIMT_EXPORT void simt_copy_wait(unsigned num_groups) {
    uint32_t committed = current->copy_group;
    if (committed > num_groups) land_before(committed - num_groups, SIMT_CODE());
}

// Also for copies that no commit has closed: their group is copy_group itself.
SIMT_EXPORT void simt_copy_wait_all() { land_before(current->copy_group + 1, SIMT_CODE()); }
