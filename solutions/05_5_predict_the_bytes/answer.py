def attention_bytes(batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, itemsize):
    """Bytes of global memory traffic: in five launches, with the softmax fused, and with no matrix at all."""
    ### BEGIN SOLUTION
    matrix = batch_size * num_heads * seq_len_q * seq_len_kv * itemsize  # scores, or weights
    queries = batch_size * num_heads * seq_len_q * head_dim * itemsize  # q, or the result
    keys = batch_size * num_kv_heads * seq_len_kv * head_dim * itemsize  # k, or v
    never = 2 * queries + 2 * keys
    fused = never + 4 * matrix  # scores written, read; weights written, read
    naive = never + 8 * matrix  # scale and mask read and write the matrix once more each
    ### END SOLUTION
    return naive, fused, never
