// Layout of the tensors' copies. See arena.h.
#include "arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "fiber.h"

namespace simt {

constexpr uint64_t MIN_RED_ZONE = 16 * 1024, MAX_RED_ZONE = 1 << 20;  // bytes
// Bytes of poison on each side of a tensor. 0xff is NaN in every floating type: a value read out of bounds shows in the
// result. The rest of a red zone is never filled, so its pages take no memory.
constexpr uint64_t POISON_BYTES = 4096;

static uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Bytes of red zone on each side: as wide as the tensor, so that one stride too many still names this tensor.
static uint64_t red_zone_bytes(const Placement& tensor, bool checked) {
    if (!checked) return PAGE_BYTES;
    return round_up(std::clamp(tensor.bytes, MIN_RED_ZONE, MAX_RED_ZONE), PAGE_BYTES);
}

// 512 more than the tensor: `misalignment` is below 256, and `tensor.bytes` may be 0.
static uint64_t storage_bytes(const Placement& tensor) { return round_up(tensor.bytes + 512, PAGE_BYTES); }

// Sets `device` of every tensor. Order in memory: red zone, storage, red zone, for one tensor after the other.
bool Arena::place(std::vector<Placement>& tensors, bool checked) {
    std::vector<uint64_t> layout{checked};
    uint64_t total = PAGE_BYTES;
    for (const Placement& tensor : tensors) {
        layout.push_back(tensor.bytes);
        total += 2 * red_zone_bytes(tensor, checked) + storage_bytes(tensor);
    }
    // The fast build keeps the mapping and its protections for the next launch of the same sizes.
    bool reuse = base_ && layout == layout_ && !checked;
    if (!reuse) {
        release();
        void* memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        base_ = static_cast<unsigned char*>(memory);
        bytes_ = total;
        layout_ = layout;
    }
    unsigned char* next = base_;
    for (Placement& tensor : tensors) {
        uint64_t red_zone = red_zone_bytes(tensor, checked);
        unsigned char* begin = next + red_zone;
        unsigned char* end = begin + storage_bytes(tensor);
        if (checked) {
            tensor.device = begin + tensor.misalignment;
            // The red zones are plain memory here: access.cpp reports, the kernel reads poison and goes on.
            std::memset(tensor.device - POISON_BYTES, 0xff, POISON_BYTES);
            std::memset(tensor.device + tensor.bytes, 0xff, POISON_BYTES);
        } else {
            if (!reuse) {
                mprotect(next, red_zone, PROT_NONE);
                mprotect(end, red_zone, PROT_NONE);
            }
            // As close to the end of the page as the address modulo 16 allows: vector accesses need the caller's
            // alignment.
            uint64_t start = static_cast<uint64_t>(end - begin) - tensor.bytes;
            start = (start - tensor.misalignment % 16) / 16 * 16 + tensor.misalignment % 16;
            tensor.device = begin + start;
        }
        next = end + red_zone;
    }
    return true;
}

// Copies page by page and only pages that differ: comparing a fresh page maps the shared zero page, writing it takes
// memory, and most of a large pool is zero.
static void copy_changed(unsigned char* to, const unsigned char* from, uint64_t bytes) {
    for (uint64_t offset = 0; offset < bytes; offset += PAGE_BYTES) {
        uint64_t piece = std::min<uint64_t>(PAGE_BYTES, bytes - offset);
        if (std::memcmp(to + offset, from + offset, piece)) std::memcpy(to + offset, from + offset, piece);
    }
}

void Arena::copy_in(const std::vector<Placement>& tensors) const {
    for (const Placement& tensor : tensors) copy_changed(tensor.device, tensor.host, tensor.bytes);
}

void Arena::copy_out(const std::vector<Placement>& tensors) const {
    for (const Placement& tensor : tensors) copy_changed(tensor.host, tensor.device, tensor.bytes);
}

void Arena::release() {
    if (base_) munmap(base_, bytes_);
    base_ = nullptr;
    bytes_ = 0;
}

}  // namespace simt
