// Copies by the threads of a group on the SIMT machine: cp.async from global to shared memory, plain copies elsewhere.
#pragma once
#include "simt/groups.h"

namespace simt_group_copy {
SIMT_MEMBER bool multiples(const void* dst, const void* src, size_t num_bytes, size_t unit) {
    return (reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src) | num_bytes) % unit == 0;
}

// Thread `rank` of `num_threads` copies its units, one round after the other.
SIMT_MEMBER void copy(unsigned rank, unsigned num_threads, void* dst, const void* src, size_t num_bytes) {
    char* to = static_cast<char*>(dst);
    const char* from = static_cast<const char*>(src);
    const unsigned unit = multiples(dst, src, num_bytes, 16) ? 16 : multiples(dst, src, num_bytes, 8) ? 8
                          : multiples(dst, src, num_bytes, 4) ? 4 : 1;
    for (size_t at = static_cast<size_t>(rank) * unit; at < num_bytes; at += static_cast<size_t>(num_threads) * unit) {
        if (unit > 1) {
            simt_copy_async(to + at, from + at, unit, unit);
        } else {
            to[at] = from[at];
        }
    }
}
}  // namespace simt_group_copy
