"""Random calls of course_lib.model: tokens and logits against a plain forward pass in float64."""

import dataclasses
import functools
import math

import torch
import torch.nn.functional as F

from course_lib.model import (
    ModelConfig,
    ModelDraft,
    NgramDraft,
    Sampling,
    Transformer,
    generate,
    load_tokenizer,
    speculate,
)
from course_lib.model.shipped import folder
from course_lib.reference import sampling as reference_sampling
from course_lib.reference.rope import rope
from tests.unit.random_case import Case

CONTEXT, VOCABULARY = 20, 29
CONFIGS = {
    "gpt2": ModelConfig("gpt2", VOCABULARY, 16, 2, 2, 2, 8, 24, CONTEXT),
    "llama": ModelConfig("llama", VOCABULARY, 16, 2, 4, 2, 4, 24, CONTEXT, tie_embeddings=False),
}


@functools.cache
def model(name, seed=1):
    """In float64, with weights so large that the next token depends on all before it."""
    made = Transformer.random(CONFIGS[name], seed, dtype=torch.float64)
    for tensor in made.weights.tensors.values():
        tensor.mul_(12.0 if tensor.ndim == 2 else 1.0)
    return made


@functools.cache
def tokenizer():
    return load_tokenizer(folder())


def plain_logits(weights, ids):
    """Logits (len(ids), vocab_size) by the definition of the two architectures."""
    config, t = weights.config, weights.tensors
    gpt2, places, x = config.architecture == "gpt2", torch.arange(len(ids)), t["embedding.weight"][ids]
    x = x + t["positions.weight"][: len(ids)] if gpt2 else x

    def norm(x, name):
        x = x - x.mean(-1, keepdim=True) if gpt2 else x
        x = x / (x.square().mean(-1, keepdim=True) + config.norm_eps).sqrt()
        return x * t[f"{name}.weight"] + t.get(f"{name}.bias", 0.0)

    def times(x, name):
        return x @ t[f"{name}.weight"].T + t.get(f"{name}.bias", 0.0)

    for layer in range(config.num_layers):
        own = f"layers.{layer}."
        sizes = (config.q_size, config.kv_size, config.kv_size)
        heads = times(norm(x, own + "norm_1"), own + "qkv").split(sizes, -1)
        q, k, v = (part.unflatten(-1, (-1, config.head_dim)) for part in heads)
        if not gpt2:
            q, k = (rope(each, places, config.head_dim, base=config.rope_theta) for each in (q, k))
        k, v = (each.repeat_interleave(config.num_heads // config.num_kv_heads, 1) for each in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / config.head_dim**0.5
        seen = scores.masked_fill(places[None, :] > places[:, None], -torch.inf).softmax(-1)
        x = x + times(torch.einsum("hij,jhd->ihd", seen, v).flatten(1), own + "out")
        inner = times(norm(x, own + "norm_2"), own + "up")
        gate, up = inner.chunk(2, -1)
        x = x + times(F.gelu(inner, approximate="tanh") if gpt2 else F.silu(gate) * up, own + "down")
    return norm(x, "norm") @ weights.head.T


def plain_tokens(weights, prompt, count, sampling, eos):
    """The new tokens of one prompt, one forward pass each."""
    ids, noise = [int(token) for token in prompt], sampling.noise(count)
    options = {name: torch.tensor([getattr(sampling, name)]) for name in ("temperature", "top_k", "top_p", "min_p")}
    while len(ids) < len(prompt) + count:
        assert all(0 <= token < VOCABULARY for token in ids) and len(ids) <= CONTEXT, "what is no prompt was taken"
        kept = reference_sampling.kept_probabilities(plain_logits(weights, ids)[-1:], **options)
        ids.append(int(reference_sampling.sample(kept, noise[len(ids) - len(prompt)][None])))
        if ids[-1] == eos:
            break
    return ids[len(prompt) :]


def prompt_of(r, longest=9):
    return [r.randrange(-1 if r.random() < 0.03 else 0, VOCABULARY) for _ in range(r.randint(1, longest))]


def sampling_of(r):
    return Sampling(r.choice((0, 0.7, 1.5)), r.choice((0, 3)), r.choice((1, 0.8)), r.choice((0, 0.1)), r.randrange(99))


def require_whole(*values):
    assert not any(isinstance(value, bool) or value != int(value) for value in values), "no whole number was taken"


def _generate(r):
    prompts = [prompt_of(r) for _ in range(r.choice((1, 2, 3)))]
    arguments = {"model": model(r.choice(list(CONFIGS))), "prompts": prompts, "max_new_tokens": r.choice((0, 1, 5))}
    arguments["sampling"] = r.choice((None, sampling_of(r), [sampling_of(r) for _ in prompts]))
    arguments["eos"] = r.choice((None, r.randrange(VOCABULARY)))

    def expected(a):
        require_whole(a["max_new_tokens"], a["eos"] or 0)
        rows = a["sampling"] if isinstance(a["sampling"], list) else [a["sampling"] or Sampling()] * len(a["prompts"])
        pairs = zip(a["prompts"], rows, strict=True)
        return [plain_tokens(a["model"].weights, p, a["max_new_tokens"], row, a["eos"]) for p, row in pairs]

    return Case(generate, arguments, expected)


def _speculate(r):
    name = r.choice(list(CONFIGS))
    draft = r.choice((NgramDraft(r.choice((1, 3))), ModelDraft(model(name, 2))))
    arguments = {"model": model(name), "prompt": prompt_of(r), "draft": draft, "max_new_tokens": r.choice((0, 1, 6))}
    arguments |= {"num_draft": r.choice((1, 3)), "eos": r.choice((None, r.randrange(VOCABULARY)))}

    def expected(a):
        require_whole(a["max_new_tokens"], a["num_draft"], a["eos"] or 0)
        return plain_tokens(a["model"].weights, a["prompt"], a["max_new_tokens"], Sampling(), a["eos"])

    return Case(_tokens_of_speculate, arguments, expected)


def _tokens_of_speculate(**arguments):
    return speculate(**arguments)[0]


def _forward(r):
    one = model(r.choice(list(CONFIGS)))
    ids = torch.randint(-1 if r.random() < 0.1 else 0, VOCABULARY, (r.choice((1, 2)), r.choice((1, 5, CONTEXT))))

    def expected(a):
        assert a["ids"].min() >= 0, "a token outside was taken"
        rows = torch.stack([plain_logits(one.weights, row) for row in a["ids"].long()])
        return rows[:, -1:] if a["last"] else rows

    return Case(one.forward, {"ids": ids.to(r.choice((torch.int64, torch.int32))), "last": r.random() < 0.5}, expected)


def _cached(r):
    """A prefill, two more tokens, and one more."""
    batch_size, length = r.choice((1, 2)), r.choice((1, 4, 17))
    one = model(r.choice(list(CONFIGS)))
    arguments = {"ids": torch.randint(VOCABULARY, (batch_size, length)), "new": torch.randint(0, 29, (batch_size, 2))}
    arguments |= {"lengths": [r.randint(0 if r.random() < 0.1 else 1, length) for _ in range(batch_size)]}
    arguments |= {"next_ids": torch.randint(0, 29, (batch_size,)), "capacity": r.choice((20, 21, 30))}

    def cached(ids, lengths, new, next_ids, capacity):
        cache = one.new_cache(batch_size, capacity)
        return one.prefill(ids, lengths, cache), one.extend(new, cache), one.step(next_ids, cache)

    def expected(a):
        rows = []
        for row, length in enumerate(list(a["lengths"])):
            assert 1 <= length <= a["ids"].shape[1] and a["ids"].shape[1] + 3 <= CONTEXT, "a wrong length was taken"
            ids = [*a["ids"][row, :length].tolist(), *a["new"][row].tolist(), int(a["next_ids"][row])]
            logits, more = plain_logits(one.weights, ids), a["new"].shape[1]
            rows.append((logits[length - 1], logits[length : length + more], logits[-1]))
        return tuple(torch.stack(each) for each in zip(*rows, strict=True))

    return Case(cached, arguments, expected)


def _sampling(r):
    arguments = {"temperature": r.choice((0, 0.7, -1.0)), "top_k": r.choice((0, 5)), "top_p": r.choice((1, 0.5, 1.1))}
    arguments |= {"min_p": r.choice((0, 0.2)), "seed": r.choice((0, 7, -3, 1 << 70))}

    def expected(a):
        require_whole(a["top_k"], a["seed"])
        shares = a["top_p"], a["min_p"]
        assert 0 <= a["temperature"] < math.inf and a["top_k"] >= 0 and all(0 <= p <= 1 for p in shares), "taken"
        assert not any(isinstance(value, bool | str) for value in a.values()), "of another type"
        return tuple(a.values())

    return Case(_fields_of_sampling, arguments, expected)


def _fields_of_sampling(**arguments):
    return dataclasses.astuple(Sampling(**arguments))


MAKERS = (
    _generate, _speculate, _forward, _cached, _sampling,
)  # fmt: skip
