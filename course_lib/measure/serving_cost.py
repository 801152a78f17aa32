"""What serving a model costs: cards, tokens a second and euro a million tokens, from bytes, FLOP and memory.

Every number is that of the roof: a step of decode takes as long as its bytes, its arithmetic and its all-reduces need,
with nothing else in the way. `share` says which part of it an engine reaches; measure yours.

May import: device, errors.
"""

import math
from dataclasses import dataclass

from ..device import GB, KNOWN_GPUS
from ..errors import CourseError

TENSOR_PARALLEL = (1, 2, 4, 8)  # cards of one host that share a model
USABLE = 0.9  # of a card's memory: the rest is for activations and the allocator
# GB/s one way between two cards: NVLink (A100 and H100 architecture whitepapers: half of the total), PCIe 4.0 x16
LINK_GBPS = {"A100": 300.0, "H100": 450.0, "H200": 450.0, "RTX 4090": 31.5, "L4": 31.5}


@dataclass(frozen=True)
class Shape:
    """What a model's cost depends on.

    Attributes
    ----------
    parameters, active : 10^9, of the whole model and those that one token uses
    num_layers, hidden_size, num_heads, head_dim : int
    kv_numbers : numbers that a token stores in a layer: 2 * num_kv_heads * head_dim, or the latent's width
    num_kv_heads : int; more cards than these hold the same keys twice. 1 for a latent
    experts, chosen : experts of a layer, and how many of them a token uses; 1 and 1 of a dense model
    source : of the numbers
    """

    parameters: float
    active: float
    num_layers: int
    hidden_size: int
    num_heads: int
    head_dim: int
    kv_numbers: int
    num_kv_heads: int
    experts: int = 1
    chosen: int = 1
    source: str = ""


_CONFIG = "its config.json and model card on Hugging Face"
MODELS = {
    "Llama 3.1 8B": Shape(8.03, 8.03, 32, 4096, 32, 128, 2048, 8, source=_CONFIG),
    "Llama 3.1 70B": Shape(70.6, 70.6, 80, 8192, 64, 128, 2048, 8, source=_CONFIG),
    "Qwen3 30B-A3B": Shape(30.5, 3.3, 48, 2048, 32, 128, 1024, 4, 128, 8, source=_CONFIG),
    "DeepSeek-V3": Shape(671.0, 37.0, 61, 7168, 128, 192, 576, 1, 256, 8, source="arXiv:2412.19437"),
}


@dataclass(frozen=True)
class Plan:
    """How many cards, and what they do.

    Attributes
    ----------
    cards, replicas, tensor_parallel : int; cards = replicas * tensor_parallel
    batch : users of the fullest replica
    seconds : dict, part of a step -> seconds: "weights", "keys and values", "arithmetic", "all-reduces"
    step_seconds : of one token for every user
    tokens_per_second : of all users
    euro_per_million : new tokens
    prompt_euro_per_million : tokens of prompts, on the same cards, bound by arithmetic
    """

    cards: int
    replicas: int
    tensor_parallel: int
    batch: int
    seconds: dict
    step_seconds: float
    tokens_per_second: float
    euro_per_million: float
    prompt_euro_per_million: float

    @property
    def limit(self):
        """The part of a step that takes longest."""
        return max(self.seconds, key=self.seconds.get)


def kv_bytes(shape, itemsize=2):
    """Bytes that a token's keys and values take in all layers."""
    return shape.num_layers * shape.kv_numbers * itemsize


def read_parameters(shape, batch):
    """Parameters, 10^9, that a step of `batch` tokens reads: of the experts those that some token has chosen."""
    if shape.experts == 1:
        return shape.parameters
    share = shape.chosen / shape.experts
    in_experts = (shape.parameters - shape.active) / (1.0 - share)
    return shape.parameters - in_experts * (1.0 - share) ** batch


def most_users(shape, card, tensor_parallel, context, weight_bytes=2.0):
    """Users of one replica whose keys and values fit beside the weights; 0 or less where none does."""
    gpu = KNOWN_GPUS[card]
    room = USABLE * gpu.memory_bytes - shape.parameters * GB * weight_bytes / tensor_parallel
    return math.floor(room / (kv_bytes(shape) * context / min(tensor_parallel, shape.num_kv_heads)))


def step_parts(shape, card, tensor_parallel, batch, context, weight_bytes=2.0, all_reduce_us=10.0):
    """{part of a decode step: seconds} of a replica; bytes and arithmetic overlap, all-reduces come on top.

    all_reduce_us : latency of one all-reduce, beside the time of its bytes
    """
    gpu, n = KNOWN_GPUS[card], tensor_parallel
    # region: parts
    rate = gpu.memory_gbps * GB
    kv = batch * context * kv_bytes(shape) / min(n, shape.num_kv_heads)
    flop = batch * (2.0 * shape.active * GB + 4.0 * shape.num_layers * shape.num_heads * shape.head_dim * context)
    all_reduce = all_reduce_us * 1e-6 + 2.0 * (n - 1) / n * batch * shape.hidden_size * 2 / (LINK_GBPS[card] * GB)
    return {
        "weights": read_parameters(shape, batch) * GB * weight_bytes / n / rate,
        "keys and values": kv / rate,
        "arithmetic": flop / n / (gpu.bf16_tflops * 1e12),
        "all-reduces": 2 * shape.num_layers * all_reduce if n > 1 else 0.0,
    }
    # endregion


def step_seconds(parts):
    """Seconds of a step: its bytes or its arithmetic, whichever takes longer, and its all-reduces."""
    return max(parts["weights"] + parts["keys and values"], parts["arithmetic"]) + parts["all-reduces"]


def plan(model, card, *, users, context, euro_per_hour, weight_bytes=2.0, share=1.0, all_reduce_us=10.0):
    """The fewest cards that hold all users at once, and what they cost; of equally many the fastest.

    Parameters
    ----------
    model, card : str, keys of MODELS and LINK_GBPS
    users, context : int, 1 or more; each user has `context` tokens in the cache
    euro_per_hour : of one card
    weight_bytes : of a parameter: 2 in half precision, 1 in fp8
    share : of the roof, from above 0 to 1

    Returns
    -------
    Plan

    Raises
    ------
    CourseError  eight cards do not hold the model and one user
    """
    shape, found = MODELS[model], []
    for n in TENSOR_PARALLEL:
        most = most_users(shape, card, n, context, weight_bytes)
        if most >= 1:
            replicas = -(-users // most)
            parts = step_parts(shape, card, n, -(-users // replicas), context, weight_bytes, all_reduce_us)
            found.append((n * replicas, step_seconds(parts), n, replicas, parts))
    if not found:
        need = shape.parameters * weight_bytes + kv_bytes(shape) * context / GB
        raise CourseError(
            f"{model} with one user of {context:,} tokens takes {need:,.0f} GB; eight {card} have "
            f"{8 * USABLE * KNOWN_GPUS[card].memory_bytes / GB:,.0f} GB to use."
        )
    cards, seconds, n, replicas, parts = min(found, key=lambda one: one[:2])
    rate = share * users / seconds
    price = cards * euro_per_hour / 3600.0
    prompt_flop = 2.0 * shape.active * GB + 2.0 * shape.num_layers * shape.num_heads * shape.head_dim * context
    prompt_rate = share * cards * KNOWN_GPUS[card].bf16_tflops * 1e12 / prompt_flop
    batch = -(-users // replicas)
    return Plan(cards, replicas, n, batch, parts, seconds / share, rate, 1e6 * price / rate, 1e6 * price / prompt_rate)
