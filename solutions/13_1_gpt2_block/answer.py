import torch
import torch.nn.functional as F


def gpt2_block(
    x, ln_1_weight, ln_1_bias, c_attn_weight, c_attn_bias, c_proj_weight, c_proj_bias,
    ln_2_weight, ln_2_bias, c_fc_weight, c_fc_bias, mlp_proj_weight, mlp_proj_bias, num_heads,
):  # fmt: skip
    """x (batch_size, seq_len, hidden_size) after one block of GPT-2, with the weights as its checkpoint holds them."""
    ### BEGIN SOLUTION
    hidden = (x.shape[-1],)
    normed = F.layer_norm(x, hidden, ln_1_weight, ln_1_bias, eps=1e-5)
    qkv = normed @ c_attn_weight + c_attn_bias
    q, k, v = (part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in torch.chunk(qkv, 3, dim=-1))
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + heads.transpose(1, 2).flatten(2) @ c_proj_weight + c_proj_bias
    normed = F.layer_norm(x, hidden, ln_2_weight, ln_2_bias, eps=1e-5)
    inner = F.gelu(normed @ c_fc_weight + c_fc_bias, approximate="tanh")
    return x + inner @ mlp_proj_weight + mlp_proj_bias
    ### END SOLUTION
