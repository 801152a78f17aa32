"""Random calls of course_lib.serving: requests, policies and engines, against tokens made without them."""

import math
from zlib import crc32

import torch

from course_lib.model import Sampling
from course_lib.serving import Request, Scheduler, ServingConfig, ServingEngine, agreement, default_config
from course_lib.serving.text import TextOutput
from course_lib.serving.trace import made_up_tokens, play
from tests.unit import random_model
from tests.unit.random_case import SIZES, Case

KINDS = {"name": str, "max_new_tokens": int, "priority": int, "arrival": float | int, "salt": str}


def require_counts(*values, least=1):
    assert not any(isinstance(value, bool) or value != int(value) or value < least for value in values), "taken"


def _tokens(values):
    """Tokens that a request may have, as ints."""
    values = [value.item() if isinstance(value, torch.Tensor) else value for value in values]
    assert all(type(value) is int and 0 <= value < 1 << 31 for value in values), "what is no token was taken"
    return values


def _request(r):
    arguments = {"name": "a", "prompt": tuple(r.randrange(9) for _ in range(r.choice(SIZES))), "max_new_tokens": 3}
    arguments |= {"sampling": Sampling(seed=r.randrange(9)), "eos": r.choice((None, 4, -1)), "stop": ("b", "cd")}
    arguments |= {"priority": r.choice((0, -2)), "arrival": r.choice((0.0, 2)), "salt": r.choice(("", "x"))}

    def expected(a):
        for name, kind in KINDS.items():
            assert isinstance(a[name], kind) and not isinstance(a[name], bool), "a wrong type was taken"
        assert isinstance(a["sampling"], Sampling) and math.isfinite(a["arrival"]), "a wrong value was taken"
        assert a["eos"] is None or type(a["eos"]) is int and a["eos"] >= 0, "a wrong eos was taken"
        assert isinstance(a["stop"], list | tuple) and all(a["stop"]), "a wrong stop was taken"
        return tuple(_tokens(a["prompt"])), tuple(a["stop"]), len(a["prompt"]) + a["max_new_tokens"] - 1

    return Case(_made_request, arguments, expected)


def _made_request(**arguments):
    request = Request(**arguments)
    return request.prompt, request.stop, request.max_computed


def _config(r):
    arguments = {"num_pages": r.choice((1, 64)), "page_size": r.choice((1, 16)), "max_num_tokens": 64}
    arguments |= {"max_num_seqs": 8, "max_chunk": r.choice((None, 3)), "max_model_len": r.choice((None, 9))}
    arguments |= {"admission": r.choice(("reserve", "optimistic")), "watermark": r.choice((0, 0.1, 1.0))}
    arguments |= {"prefix": r.choice((None, "hash")), "chunked": r.random() < 0.5, "overlap": r.random() < 0.5}
    arguments |= {"speculate": r.choice((0, 2)), "num_swap_pages": 2, "preempt": r.choice(("swap", "recompute"))}

    def expected(a):
        require_counts(*(a[name] for name in ("num_pages", "page_size", "max_num_tokens", "max_num_seqs")))
        require_counts(*(a[name] or 1 for name in ("max_chunk", "max_model_len")))
        require_counts(a["speculate"], a["num_swap_pages"], least=0)
        assert 0 <= a["watermark"] < 1 and not isinstance(a["watermark"], bool), "a wrong watermark was taken"
        assert type(a["overlap"]) is bool and type(a["chunked"]) is bool, "a wrong flag was taken"
        return -(-33 // a["page_size"]), 2 if a["overlap"] and not a["speculate"] else 1

    return Case(_pages_of_config, arguments, expected)


def _pages_of_config(**arguments):
    config = ServingConfig(**arguments)
    return config.pages_for(33), config.max_in_flight


def _made_up(prompt, count, eos, vocab_size=1000):
    """Each token is the check sum of all before it."""
    known = [int(token) for token in prompt]
    while len(known) < len(prompt) + count:
        known.append(crc32(b"".join(token.to_bytes(4, "little") for token in known)) % vocab_size)
        if known[-1] == eos:
            break
    return known[len(prompt) :]


def _play(r):
    arguments = {"prompt": tuple(r.randrange(99) for _ in range(r.choice((0, 1, 9, 30)))), "max_new_tokens": 4}
    arguments |= {"eos": r.choice((None, 7)), "num_pages": r.choice((4, 12)), "page_size": r.choice((2, 4))}
    arguments |= {"prefix": r.choice((None, "hash", "radix")), "speculate": r.choice((0, 2)), "arrival": 0.5}

    def expected(a):
        count = a["max_new_tokens"]
        require_counts(a["num_pages"], a["page_size"])
        fits = -(-(len(a["prompt"]) + count - 1) // a["page_size"]) <= a["num_pages"]
        if not len(a["prompt"]) or count < 1 or not fits:
            return ["other"], True  # refused in a sentence
        tokens = _made_up(_tokens(a["prompt"]), count, a["eos"])
        return ["a", "other"], tokens

    return Case(_played, arguments, expected)


def _played(prompt, max_new_tokens, eos, arrival, **config):
    request = Request("a", prompt, max_new_tokens, eos=eos, arrival=arrival)
    trace = play(ServingConfig(max_num_tokens=16, max_num_seqs=4, **config), [request, Request("other", (1, 2), 2)])
    tokens = trace.served["a"].tokens if "a" in trace.served else len(trace.refused["a"]) > 20
    assert "a" in trace.refused or tokens == made_up_tokens(request)
    return sorted(trace.served), tokens


def _serve(r):
    model = random_model.model(r.choice(list(random_model.CONFIGS)))
    arguments = {"model": model, "prompt": tuple(random_model.prompt_of(r)), "max_new_tokens": r.choice((1, 4))}
    arguments |= {"sampling": r.choice((Sampling(), random_model.sampling_of(r))), "eos": r.choice((None, 3))}
    arguments |= {"num_pages": 32, "page_size": r.choice((1, 4)), "speculate": r.choice((0, 2))}

    def expected(a):
        require_counts(a["num_pages"], a["page_size"], a["max_new_tokens"])
        weights, prompt = a["model"].weights, _tokens(a["prompt"])
        tokens = random_model.plain_tokens(weights, prompt, a["max_new_tokens"], a["sampling"], a["eos"])
        return {"a": tokens, "b": random_model.plain_tokens(weights, [5, 6], 3, Sampling(), None)}

    return Case(_served, arguments, expected)


def _served(model, prompt, max_new_tokens, sampling, eos, **config):
    engine = ServingEngine(model, config=default_config(model, max_num_seqs=4, **config))
    return engine.run([Request("a", prompt, max_new_tokens, sampling, eos), Request("b", (5, 6), 3)])


def _add(r):
    """What is no request, and names that are none."""
    request = Request("a", (1, 2), 2)
    config = ServingConfig(4)

    def add(request, name):
        scheduler = Scheduler(config)
        sequence = scheduler.add(request)
        return sequence.num_tokens, scheduler.abort(name) is not None

    return Case(add, {"request": request, "name": r.choice("ab")}, lambda a: (2, a["name"] == "a"))


def _agreement(r):
    arguments = {"tokens": {"a": [1, 2, 3], "b": [r.randrange(3)]}, "wanted": {"a": [1, 2, 4], "b": [1]}}
    if r.random() < 0.2:
        arguments["wanted"]["c"] = [1]

    def expected(a):
        if not a["wanted"]:
            return 1.0
        return (2 + (a["tokens"]["b"] == [1])) / 4

    return Case(agreement, arguments, expected)


def _stops(r):
    tokenizer = random_model.tokenizer()
    text = r.choice(("one two three", "a\nb c\nd", "déjà vu"))
    arguments = {"tokens": tokenizer.encode(text).ids, "stop": r.choice(((), (" ",), ["\n", "two"], ["x"], [""]))}

    def expected(a):
        text = tokenizer.decode([int(token) for token in a["tokens"]])
        assert isinstance(a["stop"], list | tuple) and all(a["stop"]), "a wrong stop was taken"
        return text[: min([text.find(each) for each in a["stop"] if each in text], default=len(text))]

    return Case(_stopped, arguments, expected)


def _stopped(tokens, stop):
    output = TextOutput(random_model.tokenizer(), stop)
    return output.add(tokens) + output.finish()


MAKERS = (
    _request, _config, _play, _serve, _add, _agreement, _stops,
)  # fmt: skip
