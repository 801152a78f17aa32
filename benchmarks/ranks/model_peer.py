"""A plain Llama in torch, cut by torch.distributed.tensor.parallel: what a user of torch writes.

The projections are Colwise and Rowwise layers of DTensor, attention is scaled_dot_product_attention on this rank's
heads, and the cache is a tensor of fixed size.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """One layer; the number of heads follows from what the projections give."""

    def __init__(self, config):
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.head_dim, self.eps = config.head_dim, config.norm_eps
        self.norm_1, self.norm_2 = (nn.Parameter(torch.ones(hidden)) for _ in range(2))
        self.q = nn.Linear(hidden, config.q_size, bias=False)
        self.k = nn.Linear(hidden, config.kv_size, bias=False)
        self.v = nn.Linear(hidden, config.kv_size, bias=False)
        self.o = nn.Linear(config.q_size, hidden, bias=False)
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x, cos, sin, cache, position):
        """x (batch_size, num_new, hidden_size); cache: (k, v), (batch_size, heads, capacity, head_dim) each."""
        y = F.rms_norm(x, self.norm_1.shape, self.norm_1, self.eps)
        q, k, v = (p(y).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        end = position + x.shape[1]
        cache[0][:, :, position:end], cache[1][:, :, position:end] = k, v
        keys, values = (part[:, :, :end] for part in cache)
        out = F.scaled_dot_product_attention(q, keys, values, is_causal=position == 0, enable_gqa=True)
        x = x + self.o(out.transpose(1, 2).flatten(2))
        y = F.rms_norm(x, self.norm_2.shape, self.norm_2, self.eps)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def turned(x, cos, sin):
    """x with rotary positions, pairs (i, i + head_dim / 2)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Llama(nn.Module):
    """Embedding, layers, norm, head."""

    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm, self.eps = nn.Parameter(torch.ones(config.hidden_size)), config.norm_eps
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids, tables, caches, position):
        """Logits of the last token of each row; tables: cosines and sines of all positions."""
        cos, sin = (table[position : position + ids.shape[1]] for table in tables)
        x = self.embedding(ids)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cos, sin, cache, position)
        return self.head(F.rms_norm(x[:, -1], self.norm.shape, self.norm, self.eps))


class Peer:
    """The model on all ranks, and its calls."""

    def __init__(self, world, config):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        self.config, self.device, self.n = config, world.device, world.num_ranks
        self.dtype = torch.bfloat16 if world.device.type == "cuda" else torch.float32
        mesh = init_device_mesh(world.device.type, (self.n,))
        with torch.device(self.device):
            before = torch.get_default_dtype()
            torch.set_default_dtype(self.dtype)
            try:
                model = Llama(config).requires_grad_(False).eval()
            finally:
                torch.set_default_dtype(before)
        plan = {name: ColwiseParallel() for name in ("q", "k", "v", "gate", "up")}
        plan |= {name: RowwiseParallel() for name in ("o", "down")}
        for layer in model.layers:
            parallelize_module(layer, mesh, plan)
        ends = {"embedding": RowwiseParallel(input_layouts=Replicate())}
        ends |= {"head": ColwiseParallel(output_layouts=Replicate())}
        self.model = parallelize_module(model, mesh, ends)
        half = torch.arange(config.head_dim // 2, device=self.device) * (-2.0 / config.head_dim)
        angles = torch.arange(config.max_positions, device=self.device)[:, None] * config.rope_theta**half
        self.tables = angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def caches(self, batch_size, capacity):
        shape = (batch_size, max(1, self.config.num_kv_heads // self.n), capacity, self.config.head_dim)
        new = lambda: torch.zeros(shape, dtype=self.dtype, device=self.device)  # noqa: E731
        return [(new(), new()) for _ in self.model.layers]

    def prefill(self, tokens):
        """The function that runs a prompt."""
        ids, caches = torch.zeros(1, tokens, dtype=torch.int64, device=self.device), self.caches(1, tokens)
        return lambda: self.model(ids, self.tables, caches, 0)

    def decode(self, batch_size, tokens):
        """The function that makes one token of each row, at the position `tokens`."""
        ids = torch.zeros(batch_size, 1, dtype=torch.int64, device=self.device)
        caches = self.caches(batch_size, tokens + 1)

        def step():
            ids.copy_(self.model(ids, self.tables, caches, tokens).argmax(-1, keepdim=True))

        return step
