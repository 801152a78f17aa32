"""The Transformer of course_lib.model with its layers cut over the ranks: prefill and decode as on one.

    model = TensorParallel.shard(world, weights)      # every rank has the whole weights, and keeps its part
    tokens = generate(model, prompts)                 # every rank calls it, and gets the same tokens

A layer has two all-reduces, of the attention's and of the MLP's output; the embedding has a third kind, and the logits
an all-gather. Everything else of the forward pass is unchanged: it sees a model with fewer heads and a narrower MLP.

May import: errors, expect, model, ops.linear_all_reduce, parallel.checked, parallel.tensor, parallel.world, torch.
"""

import dataclasses

import torch
import torch.nn.functional as F

from .. import expect
from ..errors import ModelError
from ..model import ModelConfig, Transformer, Weights, few_tokens
from ..ops.linear_all_reduce import linear_all_reduce, takes
from . import tensor as tp
from .checked import counted, require_parts
from .world import require_world


class _ShardConfig(ModelConfig):
    """A ModelConfig of one rank: its heads together are narrower than hidden_size, in GPT-2 too."""

    def __post_init__(self):
        pass


@counted
def shard_config(config, rank, num_ranks):
    """What one rank computes, as a config: its heads and its part of the MLP; all else is whole."""
    expect.kind("config", config, ModelConfig, error=ModelError)
    require_parts("intermediate_size", config.intermediate_size, num_ranks, "ranks")
    queries, kv = tp.heads_of(rank, num_ranks, config.num_heads, config.num_kv_heads)
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    values |= {"num_heads": len(queries), "num_kv_heads": len(kv)}
    return _ShardConfig(**values | {"intermediate_size": config.intermediate_size // num_ranks})


@counted
def shard_weights(weights, rank, num_ranks):
    """The Weights of a rank; norms, positions and the biases of row-parallel layers are whole on every rank."""
    expect.kind("weights", weights, Weights, error=ModelError)
    config, tensors = weights.config, {}
    shape = (config.num_heads, config.num_kv_heads, config.head_dim)
    inner = (config.intermediate_size,) * (2 if config.architecture == "llama" else 1)
    for name, tensor in weights.tensors.items():
        short = name.split(".", 2)[2] if name.startswith("layers.") else name
        if short in ("embedding.weight", "head.weight"):
            tensor = tp.vocabulary_part(tensor, rank, num_ranks)
        elif short in ("qkv.weight", "qkv.bias"):
            tensor = tp.qkv_part(tensor, rank, num_ranks, *shape)
        elif short in ("up.weight", "up.bias"):
            tensor = tp.parts_of_groups(tensor, inner, rank, num_ranks)
        elif short in ("out.weight", "down.weight"):
            tensor = tp.part_of(tensor, rank, num_ranks, dim=1)
        tensors[name] = tensor
    return Weights(shard_config(config, rank, num_ranks), tensors)


class TensorParallel(Transformer):
    """One rank's part of a Transformer.

    Attributes
    ----------
    world : World
    whole : ModelConfig of the whole model; `config` is that of this rank
    """

    def __init__(self, world, weights, whole, kernels=None):
        super().__init__(weights, kernels)
        self.world, self.whole = world, whole

    @classmethod
    def shard(cls, world, weights, kernels=None):
        """The part of this rank, of weights that every rank has."""
        require_world(world)
        return cls(world, shard_weights(weights, world.rank, world.num_ranks), weights.config, kernels)

    def _embed(self, ids, positions):
        x = tp.embedding(self.world, ids, self.weights["embedding.weight"], self.whole.vocab_size)
        if self.config.architecture == "llama":
            return x
        return x + F.embedding(positions, self.weights["positions.weight"])

    def _linear(self, layer, name, x):
        if name not in ("out", "down"):
            return super()._linear(layer, name, x)
        partial = self.kernels.linear(x, layer[f"{name}.weight"])
        whole, bias = self.world.all_reduce(partial, label=name), layer.get(f"{name}.bias")
        return whole if bias is None else whole + bias

    def _add(self, layer, name, x, residual, few):
        """Of few tokens the sum over the ranks is added to the residual where it arrives.

        In the product's launch where the world has an inbox for that, else in one after it.
        """
        if not few:
            return super()._add(layer, name, x, residual, few)
        weight, inbox = layer[f"{name}.weight"], self.world.products
        if inbox is not None and takes(len(x), weight, inbox):
            options = {"bias": layer.get(f"{name}.bias"), "residual": residual, "out": residual}
            num_bytes = len(x) * len(weight) * torch.float32.itemsize
            self.world.within_kernel(num_bytes, lambda: linear_all_reduce(x, weight, inbox, **options), label=name)
            return None, residual
        partial = few_tokens.product(layer, name, x, with_bias=self.world.rank == 0)
        return None, self.world.all_reduce_add(partial, residual, label=name)

    def _whole_logits(self, logits):
        """The same on every rank, of those that each has of its part of the vocabulary."""
        return self.world.all_gather(logits, dim=1, label="logits")[:, : self.whole.vocab_size].contiguous()


@counted
def model_bytes(config, num_ranks, num_tokens, num_logits, itemsize):
    """Bytes that each rank sends in a forward pass of `num_tokens` tokens that gives `num_logits` rows of logits."""
    expect.kind("config", config, ModelConfig, error=ModelError)
    n = num_ranks
    hidden_states = (2 * config.num_layers + 1) * 2 * (n - 1) * num_tokens * config.hidden_size / n
    return (hidden_states + (n - 1) * num_logits * -(-config.vocab_size // n)) * itemsize
