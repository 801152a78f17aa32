// work_item — the unit of work of an attention engine: some query rows, and some of the keys that they see
//
// The query heads of a group and the tokens are packed: row r of an item is token first_token + r / group, head
// kv_head * group + r % group, so that all rows of an item share their keys. A token whose keys are split over several items has a
// part from each, part s of token t and head h being number (token_parts[t] + s) * H + h of the scratch; the block whose item is
// the last of a token merges its parts. Device code only, no host headers.
#pragma once
#include "common/constants.cuh"
#define WORK_ITEM_INTS 12  // of items, and of a WorkItem

// region: work_item
struct WorkItem {
    int request;                     // the row of the block table that holds the keys
    int kv_head;
    int first_token, num_rows;       // in q and out; rows are whole tokens
    int first_key, end_key;          // the item's keys; none: end_key == first_key
    int first_position;              // of the first token in its request: under a causal mask it sees the keys up to there
    int part, whole;                 // which part of its tokens; whole: the only one
    int narrow;                      // 1: few rows, as the columns of the products; 0: as their rows
    int seq_len_kv, first_mask_bit;  // a custom mask: bit token * seq_len_kv + key after that of the item's first token
};
// endregion

// region: rows
// The packed rows of an item, counted from its first.
template <int GROUP_>
struct PackedRows {
    int first_token, first_head, first_position, num_heads;
    __device__ __forceinline__ PackedRows(const WorkItem& item, int num_heads_)
        : first_token(item.first_token), first_head(item.kv_head * GROUP_), first_position(item.first_position),
          num_heads(num_heads_) {}
    __device__ __forceinline__ int position(int row) const { return first_position + row / GROUP_; }
    __device__ __forceinline__ int head(int row) const { return first_head + row % GROUP_; }
    __device__ __forceinline__ long long token(int row) const { return first_token + row / GROUP_; }
    __device__ __forceinline__ long long out_row(int row) const { return token(row) * num_heads + head(row); }
};
// endregion
