"""The online softmax for Numba's CUDA simulator; simt_speed.py times it. Importing this needs numba.

A module of its own: the simulator replaces the name `cuda` among a kernel's globals, so it must be one.
"""

from math import exp, inf

from numba import cuda, float32

BLOCK = 128


@cuda.jit
def shared_softmax_kernel(x, out, num_cols):
    """softmax of every row, one block a row, states merged through shared memory (the simulator has no shuffles)."""
    m_smem = cuda.shared.array(BLOCK, float32)  # (BLOCK,) one running maximum a thread
    l_smem = cuda.shared.array(BLOCK, float32)  # (BLOCK,) one running sum a thread
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    m, l = -inf, 0.0
    for col in range(thread, num_cols, BLOCK):
        score = x[row, col]
        m_new = max(m, score)
        l = l * exp(m - m_new) + exp(score - m_new)
        m = m_new
    m_smem[thread], l_smem[thread] = m, l
    cuda.syncthreads()  # separates each thread's write of its state from the reads of the tree
    half = BLOCK // 2
    while half > 0:
        if thread < half:
            m_a, m_b = m_smem[thread], m_smem[thread + half]
            m_new = max(m_a, m_b)
            l_smem[thread] = l_smem[thread] * exp(m_a - m_new) + l_smem[thread + half] * exp(m_b - m_new)
            m_smem[thread] = m_new
        cuda.syncthreads()  # separates one level of the tree from the next
        half //= 2
    for col in range(thread, num_cols, BLOCK):
        out[row, col] = exp(x[row, col] - m_smem[0]) / l_smem[0]
