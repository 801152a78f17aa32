// Layout of the tensors' copies. See arena.h.
#include "arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "fiber.h"

namespace simt {

constexpr uint64_t MIN_ZONE = 16 * 1024, MAX_ZONE = 1 << 20;
constexpr uint64_t POISONED = 4096;  // bytes of poison on each side of a tensor

static uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Bytes of red zone on each side.
static uint64_t zone(const Placement& tensor, bool checked) {
    if (!checked) return PAGE_BYTES;
    return round_up(std::clamp(tensor.bytes, MIN_ZONE, MAX_ZONE), PAGE_BYTES);
}

static uint64_t room(const Placement& tensor) { return round_up(tensor.bytes + 512, PAGE_BYTES); }

bool Arena::place(std::vector<Placement>& tensors, bool checked) {
    std::vector<uint64_t> layout{checked};
    uint64_t total = PAGE_BYTES;
    for (const Placement& tensor : tensors) {
        layout.push_back(tensor.bytes);
        total += 2 * zone(tensor, checked) + room(tensor);
    }
    bool reuse = base_ && layout == layout_ && !checked;
    if (!reuse) {
        release();
        void* memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        base_ = static_cast<unsigned char*>(memory);
        bytes_ = total;
        layout_ = layout;
    }
    unsigned char* at = base_;
    for (Placement& tensor : tensors) {
        uint64_t border = zone(tensor, checked);
        unsigned char* begin = at + border;
        unsigned char* end = begin + room(tensor);
        if (checked) {
            tensor.device = begin + tensor.misalignment;
            std::memset(tensor.device - POISONED, 0xff, POISONED);
            std::memset(tensor.device + tensor.bytes, 0xff, POISONED);
        } else {
            if (!reuse) {
                mprotect(at, border, PROT_NONE);
                mprotect(end, border, PROT_NONE);
            }
            uint64_t start = static_cast<uint64_t>(end - begin) - tensor.bytes;
            start = (start - tensor.misalignment % 16) / 16 * 16 + tensor.misalignment % 16;
            tensor.device = begin + start;
        }
        at = end + border;
    }
    return true;
}

// Page by page, and only what differs: of a pool that is mostly untouched, the rest takes no memory here either.
static void copy(unsigned char* to, const unsigned char* from, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += PAGE_BYTES) {
        uint64_t piece = std::min<uint64_t>(PAGE_BYTES, bytes - at);
        if (std::memcmp(to + at, from + at, piece)) std::memcpy(to + at, from + at, piece);
    }
}

void Arena::copy_in(const std::vector<Placement>& tensors) const {
    for (const Placement& tensor : tensors) copy(tensor.device, tensor.host, tensor.bytes);
}

void Arena::copy_out(const std::vector<Placement>& tensors) const {
    for (const Placement& tensor : tensors)
        if (tensor.writable) copy(tensor.host, tensor.device, tensor.bytes);
}

void Arena::release() {
    if (base_) munmap(base_, bytes_);
    base_ = nullptr;
    bytes_ = 0;
}

}  // namespace simt
