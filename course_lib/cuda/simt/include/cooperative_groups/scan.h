// <cooperative_groups/scan.h> of the SIMT machine: sums (or another operation) over the threads up to this one, or before it.
#pragma once
#include "cooperative_groups/reduce.h"

namespace cooperative_groups {
template <class GROUP, class T, class OP>
SIMT_MEMBER T inclusive_scan(const GROUP& group, T value, OP&& op) {
    for (unsigned distance = 1; distance < group.size(); distance *= 2) {
        const T other = group.shfl_up(value, distance);
        if (group.thread_rank() >= distance) value = op(other, value);
    }
    return value;
}
template <class GROUP, class T>
SIMT_MEMBER T inclusive_scan(const GROUP& group, T value) { return inclusive_scan(group, value, plus<T>()); }

// The first thread's result is T().
template <class GROUP, class T, class OP>
SIMT_MEMBER T exclusive_scan(const GROUP& group, T value, OP&& op) {
    const T before = group.shfl_up(inclusive_scan(group, value, op), 1);
    return group.thread_rank() == 0 ? T() : before;
}
template <class GROUP, class T>
SIMT_MEMBER T exclusive_scan(const GROUP& group, T value) { return exclusive_scan(group, value, plus<T>()); }
}  // namespace cooperative_groups
