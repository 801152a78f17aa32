// Asynchronous copies from global to shared memory (cp.async).
//
// The data arrives as late as the PTX ISA allows: at the wait for its group. A kernel that does not wait reads what was
// there before. The race detector sees the destination written at issue, in flight until the wait, and written again at
// the wait, so it finds all three errors of a double buffer: an early overwrite, a missing wait, a missing barrier
// after the wait. Data that is late but recorded only once would hide the missing barrier.
#pragma once
#include "shadow.h"

namespace simt {

inline bool is_shared_memory(uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(worker->shared_low) < worker->tls_bytes;
}

// The copy that has yet to write any of these bytes of shared memory, or null. Any access to them is a race, whatever
// barriers there are: only the wait of the copy's own thread ends it. `offset`: from the start of shared memory.
const Stamp* copy_in_flight(const SharedShadow& shadow, uintptr_t offset, unsigned bytes);

}  // namespace simt
