// <cooperative_groups/memcpy_async.h> of the SIMT machine: the group copies from global to shared memory; wait() before use.
#pragma once
#include "simt/group_copy.h"

namespace cooperative_groups {
// num_bytes from src in global memory to dst in shared memory. Every thread of the group calls it.
template <class GROUP, class T, class U>
SIMT_MEMBER void memcpy_async(const GROUP& group, T* dst, const U* src, size_t num_bytes) {
    simt_group_copy::copy(group.thread_rank(), group.size(), dst, src, num_bytes);
    simt_copy_commit();
}

// All copies of the group have arrived, and all its threads are here.
template <class GROUP>
SIMT_MEMBER void wait(const GROUP& group) {
    simt_copy_wait_all();
    group.sync();
}
// All but the last STAGES of them.
template <unsigned STAGES, class GROUP>
SIMT_MEMBER void wait_prior(const GROUP& group) {
    simt_copy_wait(STAGES);
    group.sync();
}
}  // namespace cooperative_groups
