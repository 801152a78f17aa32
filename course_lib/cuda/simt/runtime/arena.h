// The kernel's copies of its tensors. A kernel never touches the caller's own memory.
//
// Fast build: each copy ends at the end of a page and an inaccessible page follows, so an access past the end faults
// instead of corrupting the process. Checked build: wide accessible red zones filled with poison on both sides;
// shadow.cpp reports the access and the launch goes on. Used by machine.cpp only.
#pragma once
#include <cstdint>
#include <vector>

namespace simt {

// One contiguous piece of the caller's memory and its copy.
struct Placement {
    unsigned char* host;
    uint64_t bytes;
    uint64_t misalignment;  // of the first byte, against a 256-byte boundary of its storage
    unsigned char* device = nullptr;  // the copy; set by Arena::place
};

class Arena {
public:
    bool place(std::vector<Placement>& tensors, bool checked);  // false: out of memory
    void copy_in(const std::vector<Placement>& tensors) const;
    void copy_out(const std::vector<Placement>& tensors) const;  // const parameters too: a cast gets round that
    void release();
    uintptr_t low() const { return reinterpret_cast<uintptr_t>(base_); }
    uintptr_t high() const { return low() + bytes_; }

private:
    unsigned char* base_ = nullptr;
    uint64_t bytes_ = 0;
    std::vector<uint64_t> layout_;  // key of the mapping: checked, then the sizes of the tensors
};

}  // namespace simt
