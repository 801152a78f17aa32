// Cooperative groups on the SIMT machine: thread_block, thread_block_tile, coalesced_group, and a thread's place in the grid.
//
// Every member is always_inline, so that a finding names the kernel's line. A grid group cannot sync: that takes a cooperative
// launch, which the course does not make. Source of names and meanings: CUDA C++ Programming Guide, "Cooperative Groups".
#pragma once
#include "simt/machine.h"

#define SIMT_MEMBER inline __attribute__((always_inline))

namespace cooperative_groups {
namespace simt {
// A value of up to 16 bytes from another lane; mode and width as of simt_shuffle.
template <class T>
SIMT_MEMBER T shuffled(unsigned mask, int mode, T value, int operand, int width) {
    static_assert(sizeof(T) <= 16, "shfl of a group takes values of at most 16 bytes on the SIMT machine");
    T result;
    simt_shuffle(mask, mode, operand, width, &value, &result, sizeof(T));
    return result;
}
SIMT_MEMBER unsigned below(unsigned mask) { return mask & ((1u << simt_lane()) - 1u); }  // the lanes of mask before this one
SIMT_MEMBER unsigned rank_in_block() {
    const SimtIndex at = simt_thread_index(), size = simt_block_size();
    return (at.z * size.y + at.y) * size.x + at.x;
}
SIMT_MEMBER unsigned block_threads() {
    const SimtIndex size = simt_block_size();
    return size.x * size.y * size.z;
}
}  // namespace simt

class thread_block {
  public:
    SIMT_MEMBER static void sync() { simt_barrier(0, 0); }
    SIMT_MEMBER static unsigned thread_rank() { return simt::rank_in_block(); }
    SIMT_MEMBER static unsigned num_threads() { return simt::block_threads(); }
    SIMT_MEMBER static unsigned size() { return num_threads(); }
    SIMT_MEMBER static dim3 thread_index() { return simt_as_dim3(simt_thread_index()); }
    SIMT_MEMBER static dim3 group_index() { return simt_as_dim3(simt_block_index()); }
    SIMT_MEMBER static dim3 dim_threads() { return simt_as_dim3(simt_block_size()); }
    SIMT_MEMBER static dim3 group_dim() { return dim_threads(); }
};
SIMT_MEMBER thread_block this_thread_block() { return thread_block(); }

class grid_group {
  public:
    SIMT_MEMBER static unsigned long long block_rank() {
        const SimtIndex at = simt_block_index(), size = simt_grid_size();
        return (static_cast<unsigned long long>(at.z) * size.y + at.y) * size.x + at.x;
    }
    SIMT_MEMBER static unsigned long long num_blocks() {
        const SimtIndex size = simt_grid_size();
        return static_cast<unsigned long long>(size.x) * size.y * size.z;
    }
    SIMT_MEMBER static unsigned long long thread_rank() { return block_rank() * simt::block_threads() + simt::rank_in_block(); }
    SIMT_MEMBER static unsigned long long num_threads() { return num_blocks() * simt::block_threads(); }
    SIMT_MEMBER static unsigned long long size() { return num_threads(); }
    SIMT_MEMBER static bool is_valid() { return false; }  // it cannot sync
    template <bool LAUNCHED_COOPERATIVELY = false>
    SIMT_MEMBER static void sync() {
        static_assert(LAUNCHED_COOPERATIVELY, "grid.sync() takes a cooperative launch, which the course does not make");
    }
};
SIMT_MEMBER grid_group this_grid() { return grid_group(); }

// SIZE consecutive threads of a block, all in one warp.
template <unsigned SIZE, class PARENT = void>
class thread_block_tile {
    static_assert(SIZE >= 1 && SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    SIMT_MEMBER static unsigned mask() {
        return (SIZE == 32 ? 0xffffffffu : (1u << (SIZE & 31)) - 1u) << (simt_lane() & ~(SIZE - 1u));
    }
    SIMT_MEMBER static void sync() { simt_syncwarp(mask()); }
    SIMT_MEMBER static unsigned thread_rank() { return simt_lane() & (SIZE - 1u); }
    SIMT_MEMBER static constexpr unsigned num_threads() { return SIZE; }
    SIMT_MEMBER static constexpr unsigned size() { return SIZE; }
    SIMT_MEMBER static unsigned meta_group_rank() { return simt::rank_in_block() / SIZE; }
    SIMT_MEMBER static unsigned meta_group_size() { return (simt::block_threads() + SIZE - 1) / SIZE; }
    template <class T>
    SIMT_MEMBER static T shfl(T value, int rank) { return simt::shuffled(mask(), 0, value, rank, SIZE); }
    template <class T>
    SIMT_MEMBER static T shfl_up(T value, unsigned delta) { return simt::shuffled(mask(), 1, value, static_cast<int>(delta), SIZE); }
    template <class T>
    SIMT_MEMBER static T shfl_down(T value, unsigned delta) { return simt::shuffled(mask(), 2, value, static_cast<int>(delta), SIZE); }
    template <class T>
    SIMT_MEMBER static T shfl_xor(T value, unsigned lane_mask) {
        return simt::shuffled(mask(), 3, value, static_cast<int>(lane_mask), SIZE);
    }
    SIMT_MEMBER static unsigned ballot(int predicate) { return simt_ballot(mask(), predicate) >> (simt_lane() & ~(SIZE - 1u)); }
    SIMT_MEMBER static int any(int predicate) { return simt_ballot(mask(), predicate) != 0; }
    SIMT_MEMBER static int all(int predicate) { return simt_ballot(mask(), !predicate) == 0; }
    template <class T>
    SIMT_MEMBER static unsigned match_any(T value) {
        return simt_match_any(mask(), simt_match_key(value)) >> (simt_lane() & ~(SIZE - 1u));
    }
};

template <unsigned SIZE>
SIMT_MEMBER thread_block_tile<SIZE, thread_block> tiled_partition(const thread_block&) { return {}; }
template <unsigned SIZE, unsigned OUTER, class PARENT>
SIMT_MEMBER thread_block_tile<SIZE, thread_block_tile<OUTER, PARENT>> tiled_partition(const thread_block_tile<OUTER, PARENT>&) {
    static_assert(SIZE <= OUTER, "a tile is a part of the group it is taken from");
    return {};
}

// The lanes of a warp that were together when it was made; ranks count them from the lowest lane.
class coalesced_group {
  public:
    SIMT_MEMBER explicit coalesced_group(unsigned lanes) : lanes_(lanes) {}
    SIMT_MEMBER void sync() const { simt_syncwarp(lanes_); }
    SIMT_MEMBER unsigned mask() const { return lanes_; }
    SIMT_MEMBER unsigned thread_rank() const { return __builtin_popcount(simt::below(lanes_)); }
    SIMT_MEMBER unsigned num_threads() const { return __builtin_popcount(lanes_); }
    SIMT_MEMBER unsigned size() const { return num_threads(); }
    SIMT_MEMBER unsigned meta_group_rank() const { return 0; }
    SIMT_MEMBER unsigned meta_group_size() const { return 1; }
    template <class T>
    SIMT_MEMBER T shfl(T value, int rank) const { return simt::shuffled(lanes_, 0, value, lane_of(rank), 32); }
    template <class T>
    SIMT_MEMBER T shfl_up(T value, unsigned delta) const {
        const int rank = static_cast<int>(thread_rank()) - static_cast<int>(delta);
        return simt::shuffled(lanes_, 0, value, lane_of(rank < 0 ? static_cast<int>(thread_rank()) : rank), 32);
    }
    template <class T>
    SIMT_MEMBER T shfl_down(T value, unsigned delta) const {
        const unsigned rank = thread_rank() + delta;
        return simt::shuffled(lanes_, 0, value, lane_of(static_cast<int>(rank < num_threads() ? rank : thread_rank())), 32);
    }
    SIMT_MEMBER unsigned ballot(int predicate) const {
        const unsigned votes = simt_ballot(lanes_, predicate);
        unsigned packed = 0, rank = 0;
        for (unsigned rest = lanes_; rest; rest &= rest - 1, ++rank) packed |= (votes >> __builtin_ctz(rest) & 1u) << rank;
        return packed;
    }
    SIMT_MEMBER int any(int predicate) const { return simt_ballot(lanes_, predicate) != 0; }
    SIMT_MEMBER int all(int predicate) const { return simt_ballot(lanes_, !predicate) == 0; }

  private:
    SIMT_MEMBER int lane_of(int rank) const {
        unsigned rest = lanes_;
        for (int i = 0; i < rank && rest; ++i) rest &= rest - 1;
        return rest ? __builtin_ctz(rest) : 0;
    }
    unsigned lanes_;
};
SIMT_MEMBER coalesced_group coalesced_threads() { return coalesced_group(simt_active_mask()); }

template <class GROUP>
SIMT_MEMBER void sync(const GROUP& group) { group.sync(); }
template <class GROUP>
SIMT_MEMBER unsigned thread_rank(const GROUP& group) { return static_cast<unsigned>(group.thread_rank()); }
template <class GROUP>
SIMT_MEMBER unsigned group_size(const GROUP& group) { return static_cast<unsigned>(group.size()); }
}  // namespace cooperative_groups
