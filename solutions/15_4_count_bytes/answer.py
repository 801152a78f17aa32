import torch


def tensor_parallel(num_tokens, hidden_size, num_layers, itemsize, num_ranks):
    """Bytes that all ranks send: heads and columns split over the ranks."""
    ### BEGIN SOLUTION
    return num_layers * 2 * 2 * (num_ranks - 1) * num_tokens * hidden_size * itemsize
    ### END SOLUTION


def pipeline_parallel(num_tokens, hidden_size, num_layers, itemsize, num_ranks):
    """Bytes that all ranks send: layers split over the ranks."""
    ### BEGIN SOLUTION
    return (num_ranks - 1) * num_tokens * hidden_size * itemsize
    ### END SOLUTION


def expert_parallel(experts, hidden_size, itemsize, num_experts, num_ranks):
    """Bytes that all ranks send in one layer: tokens and experts split over the ranks."""
    ### BEGIN SOLUTION
    of_token = torch.arange(len(experts)) * num_ranks // len(experts)
    of_expert = experts * num_ranks // num_experts
    return 2 * (of_expert != of_token[:, None]).sum().item() * hidden_size * itemsize
    ### END SOLUTION


def context_parallel(num_tokens, num_kv_heads, head_dim, num_layers, itemsize, num_ranks):
    """Bytes that all ranks send: tokens split over the ranks, keys and values going round."""
    ### BEGIN SOLUTION
    return num_layers * (num_ranks - 1) * num_tokens * 2 * num_kv_heads * head_dim * itemsize
    ### END SOLUTION


def four_schemes(experts, num_experts, hidden_size, num_kv_heads, head_dim, num_layers, itemsize, num_ranks):
    """(tensor, pipeline, expert, context). Given: the judge reads it."""
    num_tokens = len(experts)
    tensor = tensor_parallel(num_tokens, hidden_size, num_layers, itemsize, num_ranks)
    pipeline = pipeline_parallel(num_tokens, hidden_size, num_layers, itemsize, num_ranks)
    expert = expert_parallel(experts, hidden_size, itemsize, num_experts, num_ranks)
    context = context_parallel(num_tokens, num_kv_heads, head_dim, num_layers, itemsize, num_ranks)
    return tensor, pipeline, expert, context
