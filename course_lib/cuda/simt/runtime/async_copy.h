// Copies from global to shared memory that go on while their thread does (cp.async).
//
// The data lands as late as it may: at the wait for its group. So a kernel that does not wait reads what was there before.
// The race detector sees the destination written when the copy starts, under way until the wait, and written again there:
// an early overwrite, a missing wait and a missing barrier behind the wait are all findings (simt.md says why all three).
#pragma once
#include "shadow.h"

namespace simt {

inline bool is_shared_memory(uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(worker->shared_low) < worker->tls_bytes;
}

// The copy that has yet to write any of these bytes of shared memory, or null. An access there is a race whatever barriers
// there are: only the copy's wait ends it.
const Stamp* copy_under_way(const SharedShadow& shadow, uintptr_t offset, unsigned bytes);

}  // namespace simt
