"""What a model reads and computes a step, by formula, and the time that a card needs at least.

May import: device.
"""

from dataclasses import dataclass

from ..device import known

# of datasheet rates: an H200 reaches 4.35 of 4.8 TB/s and 790 of 989 TFLOP/s in bf16
READ_SHARE, MATMUL_SHARE = 0.906, 0.80


@dataclass(frozen=True)
class Costs:
    """Of one model.

    Attributes
    ----------
    weight_bytes : int, read by every step: all matrices, the head among them, but no table of ids
    kv_bytes : int, keys and values of one token in all layers
    flops : int, products of one token in the layers, without attention
    """

    weight_bytes: int
    kv_bytes: int
    flops: int

    @classmethod
    def of(cls, config, itemsize=2):
        """Costs of a ModelConfig whose numbers have `itemsize` bytes."""
        hidden, inner = config.hidden_size, config.intermediate_size
        mlp = (2 if config.architecture == "gpt2" else 3) * hidden * inner
        layers = config.num_layers * (hidden * (config.q_size + 2 * config.kv_size) + config.q_size * hidden + mlp)
        head = config.vocab_size * hidden
        return cls(itemsize * (layers + head), itemsize * 2 * config.num_layers * config.kv_size, 2 * layers)


def card_rates(name):
    """(bytes a second, FLOP a second) that a card of this name is known to reach, or None."""
    card = known(name)
    if card is None or not card.bf16_tflops:
        return None
    return READ_SHARE * card.memory_gbps * 1e9, MATMUL_SHARE * card.bf16_tflops * 1e12


def roof_seconds(config, requests, rates):
    """The least time of a list of requests that are there from the start.

    The longest output decides the number of steps, each of which reads the weights once; each produced token reads
    the keys and values before it; prompts cost their products. Nothing is counted twice, and nothing for attention's
    arithmetic or the host.
    """
    costs, (read, compute) = Costs.of(config), rates
    keys = sum(_keys_read(len(item.prompt), item.max_new_tokens) for item in requests)
    steps = max(item.max_new_tokens for item in requests)
    prompts = sum(len(item.prompt) for item in requests)
    return (costs.kv_bytes * keys + costs.weight_bytes * steps) / read + costs.flops * prompts / compute


def _keys_read(prompt, new):
    """Keys that the steps after the prefill read: prompt + 1 for the second token, and one more each."""
    return sum(prompt + index for index in range(1, new))
