"""Random calls of course_lib.model: configurations, weights, caches and text."""

import math

import torch

from course_lib.model import Kernels, KVCache, ModelConfig, TextStream, random_weights
from course_lib.model.packed import pack
from course_lib.model.shipped import folder, loss_curve
from course_lib.reference import w4a16 as reference_w4a16
from tests.unit.random_case import SIZES, Case
from tests.unit.random_model import CONFIGS, VOCABULARY, require_whole, tokenizer


def _config(r):
    arguments = {"architecture": r.choice(("gpt2", "llama")), "vocab_size": r.choice(SIZES), "hidden_size": 16}
    arguments |= {"num_layers": r.choice(SIZES), "num_heads": r.choice((2, 4)), "num_kv_heads": 2, "head_dim": 8}
    arguments |= {"intermediate_size": 24, "max_positions": 20, "norm_eps": r.choice((1e-5, 0.0)), "rope_theta": 1e4}
    arguments["tie_embeddings"] = r.random() < 0.5

    def expected(a):
        counts = [value for name, value in a.items() if name.startswith(("num", "head", "vocab", "hidden", "max"))]
        require_whole(*counts)
        assert min(counts) >= 1 and 0 < a["norm_eps"] < math.inf and 0 < a["rope_theta"] < math.inf, "taken"
        assert a["num_heads"] % a["num_kv_heads"] == 0 and type(a["tie_embeddings"]) is bool, "taken"
        return a["num_heads"] * a["head_dim"], a["num_kv_heads"] * a["head_dim"], a["vocab_size"]

    return Case(_sizes_of_config, arguments, expected)


def _sizes_of_config(**arguments):
    config = ModelConfig(**arguments)
    again = ModelConfig.from_hugging_face(config.to_hugging_face())
    assert again == config or config.architecture == "gpt2"  # which stores no rope_theta
    return config.q_size, config.kv_size, again.vocab_size


def _hugging_face(r):
    values = CONFIGS[r.choice(list(CONFIGS))].to_hugging_face()
    name = r.choice([name for name, value in values.items() if isinstance(value, int | float)])

    def read(**changed):
        return ModelConfig.from_hugging_face(values | changed).to_hugging_face()[name]

    def expected(a):
        kind = type(values[name])
        assert a[name] is None or type(a[name]) in (kind, int) and kind is not bool or type(a[name]) is kind, "taken"
        return read(**a) if a[name] is None else kind(a[name])  # where it is missing it has a default

    return Case(read, {name: values[name]}, expected)


def _cache(r):
    def expected(a):
        require_whole(a["batch_size"], a["capacity"])
        return 2 * 2 * (a["batch_size"] * a["capacity"] + 1) * 16 * 4, a["capacity"]

    return Case(_size_of_cache, {"config": CONFIGS["gpt2"], "batch_size": 2, "capacity": r.choice(SIZES)}, expected)


def _size_of_cache(**arguments):
    cache = KVCache(**arguments)
    return cache.num_bytes, cache.capacity


def _random_weights(r):
    def expected(a):
        require_whole(a["seed"])
        generator, std = torch.Generator().manual_seed(a["seed"]), a["std"]
        return torch.empty(VOCABULARY, 16, dtype=a["dtype"]).normal_(0.0, std, generator=generator)

    arguments = {
        "config": CONFIGS["gpt2"],
        "seed": r.randrange(9),
        "std": 0.02,
        "dtype": torch.float32,
        "device": "cpu",
    }
    return Case(_first_weights, arguments, expected)


def _first_weights(**arguments):
    return random_weights(**arguments)["embedding.weight"]


def _pack(r):
    group = r.choice((32, 64))
    arguments = {"weight": torch.randn(r.choice((1, 5)), r.choice((64, 96))), "group": group}

    def expected(a):
        levels, scales, zeros = reference_w4a16.quantise(a["weight"], a["group"])
        scales, zeros = (x.float().T[..., None] for x in (scales, zeros))
        return ((levels.unflatten(1, (-1, a["group"])) - zeros) * scales).flatten(1).to(a["weight"].dtype)

    return Case(_packed, arguments, expected)


def _packed(**arguments):
    return pack(**arguments).dense()


def _text(r):
    tokens = tokenizer().encode(r.choice(("one two three", "déjà vu", "日本 語", ""))).ids[: r.choice(SIZES)]

    def text(tokens):
        stream = TextStream(tokenizer())
        return "".join(stream.add(token) for token in (tokens if isinstance(tokens, list) else [tokens]))

    def expected(a):
        tokens = a["tokens"] if isinstance(a["tokens"], list) else [a["tokens"]]
        require_whole(*tokens)
        given, whole = text(tokens), tokenizer().decode([int(token) for token in tokens])
        return given if whole.startswith(given) and len(whole) - len(given) < 4 else whole

    return Case(text, {"tokens": tokens}, expected)


def _kernels(r):
    def expected(a):
        assert a["backend"] in ("torch", "course", "fast") and a["few_tokens"] in (None, True, False), "taken"
        return {"torch": "torch", "course": "course", "fast": "torch"}[a["backend"]]

    arguments = {"backend": r.choice(("torch", "course", "fast")), "few_tokens": r.choice((None, True, False))}
    return Case(_source_of_linear, arguments, expected)


def _source_of_linear(**arguments):
    return Kernels(**arguments).sources["linear"]


def _curve(r):
    def expected(a):
        with open(folder(a["name"]) / a["file"], encoding="utf-8") as lines:
            return len(list(lines)) - 1

    arguments = {"name": r.choice(("small", "large")), "file": r.choice(("curve.csv", "curve_torch.csv", "no.csv"))}
    return Case(_length_of_curve, arguments, expected)


def _length_of_curve(**arguments):
    return len(loss_curve(**arguments))


MAKERS = (
    _config, _hugging_face, _cache, _random_weights, _pack, _text, _kernels, _curve,
)  # fmt: skip
