def block_sizes(sram_bytes, head_dim):
    """(block_m, block_n): the largest block_n whose fp32 tiles fit, with block_m = min(block_n, head_dim)."""

    ### BEGIN SOLUTION
    def needed_bytes(block_n):
        block_m = min(block_n, head_dim)
        return 4 * (2 * block_m * head_dim + 2 * block_n * head_dim + block_m * block_n)

    block_n = 1
    while needed_bytes(block_n + 1) <= sram_bytes:
        block_n += 1
    ### END SOLUTION
    return min(block_n, head_dim), block_n
