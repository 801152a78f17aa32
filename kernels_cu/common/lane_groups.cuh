// lane_groups — decode by groups of lanes: each group keeps a state (m, l, acc) of the keys it saw; the states are merged at the end
//
// A group of LANES neighbouring lanes works on one key at a time, a lane on NUM columns of its row. m is the largest score so far,
// l the sum of the weights, acc (NUM) the weighted sum of V in the lane's columns, all relative to m.
// Device code only, no host headers.
#pragma once
#include "common/softmax_state.cuh"  // exp_shifted(score, m)

// region: score
// q k of one key, for all lanes of its group; all 32 lanes of the warp take part.
template <int LANES, int NUM>
__device__ __forceinline__ float group_score(const float (&q_reg)[NUM], const float (&k_reg)[NUM]) {
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < NUM; ++i) score += q_reg[i] * k_reg[i];
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) score += __shfl_xor_sync(ALL_LANES, score, offset);
    return score;
}
// endregion

// region: update
// The state takes in a key: its score, and its row of V.
template <int NUM>
__device__ __forceinline__ void update_state(float& m, float& l, float (&acc)[NUM], float score, const float (&v_reg)[NUM]) {
    const float m_new = fmaxf(m, score);
    const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);
    m = m_new;
    l = l * alpha + weight;
#pragma unroll
    for (int i = 0; i < NUM; ++i) acc[i] = acc[i] * alpha + weight * v_reg[i];
}
// endregion

// region: leave_state
// Each group leaves its state for the others; d is the lane's first column.
template <int GROUPS, int COLUMNS, int NUM>
__device__ __forceinline__ void leave_group_state(float (&m_smem)[GROUPS], float (&l_smem)[GROUPS], float (&acc_smem)[GROUPS][COLUMNS],
                                                  float m, float l, const float (&acc)[NUM], int group, int d) {
    if (d == 0) {
        m_smem[group] = m;
        l_smem[group] = l;
    }
#pragma unroll
    for (int i = 0; i < NUM; ++i) acc_smem[group][d + i] = acc[i];
}
// endregion

// region: merge
// The states of all groups as one, in one column.
template <int GROUPS, int COLUMNS, typename Column>
__device__ __forceinline__ void merge_groups(float& m_all, float& l_all, float& acc_all, const float (&m_smem)[GROUPS],
                                             const float (&l_smem)[GROUPS], const float (&acc_smem)[GROUPS][COLUMNS], Column column) {
    for (int i = 0; i < GROUPS; ++i) m_all = fmaxf(m_all, m_smem[i]);
    for (int i = 0; i < GROUPS; ++i) {
        const float weight = exp_shifted(m_smem[i], m_all);
        l_all += weight * l_smem[i];
        acc_all += weight * acc_smem[i][column];
    }
}
// endregion
