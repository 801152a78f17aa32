import torch


def expert_offsets(experts, num_experts, block_m, max_tiles):
    """(offsets, order, places, tiles), int64, of experts (num_tokens, top_k) int64."""
    ### BEGIN SOLUTION
    pairs = experts.reshape(-1)
    numbers = torch.arange(len(pairs), device=pairs.device)
    chosen = pairs[:, None] == torch.arange(num_experts, device=pairs.device)  # (pair, expert)
    so_far = chosen.cumsum(0)  # pairs of each expert up to this one
    counts = so_far[-1]
    ends = counts.cumsum(0)
    offsets = torch.cat((torch.zeros_like(ends[:1]), ends))
    rank = so_far.gather(1, pairs[:, None])[:, 0] - 1  # among the pairs of its expert
    places = offsets[pairs] + rank
    order = torch.empty_like(places).scatter_(0, places, numbers)
    num_tiles = (counts + block_m - 1) // block_m
    last_tiles = num_tiles.cumsum(0)
    tile = torch.arange(max_tiles, device=pairs.device)
    expert = (tile[:, None] >= last_tiles).sum(1)
    exists = expert < num_experts
    inside = expert.clamp(max=num_experts - 1)
    first = offsets[inside] + (tile - (last_tiles - num_tiles)[inside]) * block_m
    tiles = torch.stack((torch.where(exists, expert, -1), torch.where(exists, first, -1)), dim=1)
    ### END SOLUTION
    return offsets, order, places.view(experts.shape), tiles
