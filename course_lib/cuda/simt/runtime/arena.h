// Where a kernel sees its tensors: copies between red zones, never the caller's own memory.
//
// The fast build gets each copy with its end at the end of a page that is followed by an untouchable one, so that a stray
// access past the end faults instead of corrupting the process. The checked build gets wide red zones of poison.
#pragma once
#include <cstdint>
#include <vector>

namespace simt {

struct Placement {
    unsigned char* host;
    uint64_t bytes;
    uint64_t misalignment;  // of the first byte against a 256-byte boundary of its storage
    bool writable;
    unsigned char* device = nullptr;
};

class Arena {
public:
    bool place(std::vector<Placement>& tensors, bool checked);  // false: no memory
    void copy_in(const std::vector<Placement>& tensors) const;
    void copy_out(const std::vector<Placement>& tensors) const;
    void release();
    uintptr_t low() const { return reinterpret_cast<uintptr_t>(base_); }
    uintptr_t high() const { return low() + bytes_; }

private:
    unsigned char* base_ = nullptr;
    uint64_t bytes_ = 0;
    std::vector<uint64_t> layout_;  // what the mapping was made for
};

}  // namespace simt
