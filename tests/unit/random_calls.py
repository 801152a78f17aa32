"""Random calls of the public functions of ops, model, serving and parallel: a right result or the course's sentence.

    python -m tests.unit.random_calls 1000 [SEED]

Each call begins as a right one and may have an argument replaced by what does not belong there. A call that returns is
compared with float64; whatever raises must be a CourseError with a sentence. Prints the counts.
"""

import copy
import inspect
import random
import sys
import time

import torch

from course_lib.errors import CourseError
from course_lib.ops import (
    activation,
    attention,
    cross_entropy,
    decode,
    embedding,
    first_kernels,
    matmul,
    norm,
    paged,
    paged_prefill,
    softmax,
)
from tests.unit import (
    random_gradients,
    random_layers,
    random_loads,
    random_model,
    random_parallel,
    random_serving,
    random_stores,
    random_writes,
)
from tests.unit.random_case import LANGUAGES, SIZES, WRONG, Case, alike, spoiled


def _rows(r):
    return torch.randn(r.choice(SIZES), r.choice(SIZES))


def _weights(a):
    wide = a["x"].double()
    return wide.softmax(-1).masked_fill(wide.isneginf().all(-1, keepdim=True), 0.0)


def _softmax(r):
    x = _rows(r)
    if r.random() < 0.3:
        x[0, 0] = float("nan")
    variant = r.choice(softmax.ROW_VARIANTS)
    return Case(softmax.softmax, {"x": x, "variant": variant}, _weights)


def _add(r):
    x = torch.randn(r.choice((5, 128, 200)))
    arguments = {"x": x, "y": torch.randn_like(x), "block": r.choice((32, 64, 128))}
    return Case(first_kernels.add, arguments, lambda a: a["x"] + a["y"])


def _row_sum(r):
    return Case(first_kernels.row_sum, {"x": _rows(r)}, lambda a: a["x"].double().sum(-1))


def _matmul(r):
    m, n, k = (r.choice((1, 5, 16)) for _ in range(3))
    arguments = {"a": torch.randn(m, k), "b": torch.randn(k, n), "variant": "01_naive"}
    return Case(matmul.matmul, arguments, lambda a: a["a"].double() @ a["b"].double())


def _attention(r):
    heads, keys = r.choice((1, 2)), r.choice(SIZES)
    q = torch.randn(1, heads, r.choice((1, 4)), 16)
    arguments = {"q": q, "k": torch.randn(1, heads, keys, 16), "v": torch.randn(1, heads, keys, 16)}
    arguments |= {"softmax_scale": r.choice((None, 0.3)), "variant": r.choice(("01_naive", "05_grouped_query"))}

    def expected(a):
        scale = 0.25 if a["softmax_scale"] is None else a["softmax_scale"]
        scores = a["q"].double() @ a["k"].double().transpose(-1, -2) * float(scale)
        return _weights({"x": scores}) @ a["v"].double()

    return Case(attention.attention, arguments, expected)


def _scores(a, k, v, one):
    """(out, lse) of one sequence's query over k and v (tokens, heads, head_dim) that it reads."""
    scale = 0.125 if a.get("softmax_scale") is None else float(a["softmax_scale"])
    group = a["q"].shape[1] // k.shape[1]
    k, v = k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = torch.einsum("hd,nhd->hn", a["q"][one].double(), k) * scale
    weights = scores.softmax(-1) if len(k) else scores
    weights = weights.masked_fill(scores.isneginf().all(-1, keepdim=True), 0.0)  # as a row that sees nothing
    return torch.einsum("hn,nhd->hd", weights, v), scores.logsumexp(-1)


def _stacked(rows):
    out, lse = zip(*rows, strict=True)
    return torch.stack(out), torch.stack(lse)


def _decode(r):
    batch, capacity = r.choice((1, 2)), r.choice((4, 20))
    lens = torch.randint(-1, capacity + 2, (batch,), dtype=torch.int32)  # sometimes outside
    k, v = (torch.randn(batch, 1, capacity, 64).half() for _ in range(2))
    arguments = {"q": torch.randn(batch, 2, 64).half(), "k": k, "v": v, "seq_lens": lens}
    arguments |= {"variant": r.choice(decode.VARIANTS), "max_seq_len": r.choice((None, capacity, 3))}

    def expected(a):
        lens = a["seq_lens"].tolist()
        assert all(0 <= n <= a["k"].shape[2] for n in lens), "a length outside was taken"
        assert a["max_seq_len"] is None or max(lens) <= a["max_seq_len"], "max_seq_len cut a sequence"
        cut = [[x[one, :, :n].transpose(0, 1) for x in (a["k"], a["v"])] for one, n in enumerate(lens)]
        return _stacked(_scores(a, *kv, one) for one, kv in enumerate(cut))

    return Case(decode.decode_attention, arguments, expected, 2e-2)


def _paged(r):
    batch, table = r.choice((1, 2)), torch.randint(-1, 7, (2, 3), dtype=torch.int32)  # the pool has 6 pages
    lens = torch.randint(0, 26, (batch,), dtype=torch.int32)  # 24 tokens fit
    k, v = (torch.randn(6, 8, 1, 64).half() for _ in range(2))
    arguments = {"q": torch.randn(batch, 2, 64).half(), "k_pages": k, "v_pages": v, "block_table": table[:batch]}
    arguments |= {"seq_lens": lens, "variant": r.choice(paged.DECODE_VARIANTS)}

    def expected(a):
        rows = []
        for one, n in enumerate(a["seq_lens"].tolist()):
            assert 0 <= n <= 24, "a length outside was taken"
            pages = a["block_table"][one, : -(-n // 8)].long()
            assert not len(pages) or (pages.min() >= 0 and pages.max() < 6), "a page outside was taken"
            rows.append(_scores(a, *(a[name][pages].reshape(-1, 1, 64)[:n] for name in ("k_pages", "v_pages")), one))
        return _stacked(rows)

    return Case(paged.paged_attention, arguments, expected, 2e-2)


def _prefill(r):
    starts = torch.tensor(r.choice(([0, 2, 5], [0, 5, 5], [0, 3, 2], [1, 2, 5], [0, 2, 6])), dtype=torch.int32)
    k, v = (torch.randn(6, 8, 1, 64).half() for _ in range(2))
    arguments = {"q": torch.randn(5, 2, 64).half(), "k_pages": k, "v_pages": v, "cu_seqlens_q": starts}
    arguments |= {"block_table": torch.arange(6, dtype=torch.int32).reshape(2, 3), "max_seq_len_q": r.choice((1, 3, 5))}
    arguments["seq_lens"] = torch.tensor([9, 20], dtype=torch.int32)

    def expected(a):
        lengths = a["cu_seqlens_q"].diff().tolist()
        assert a["cu_seqlens_q"].tolist()[::2] == [0, 5] and min(lengths) >= 0, "starts outside were taken"
        assert max(lengths) <= a["max_seq_len_q"], "max_seq_len_q cut a sequence"
        rows, row = [], 0
        for one, count in enumerate(lengths):
            for place in range(count):
                n = int(a["seq_lens"][one]) - count + place + 1
                pages = a["block_table"][one].long()
                kv = (a[name][pages].reshape(-1, 1, 64)[:n] for name in ("k_pages", "v_pages"))
                rows.append(_scores(a, *kv, row))
                row += 1
        return _stacked(rows)

    return Case(paged_prefill.paged_prefill, arguments, expected, 2e-2)


def _rms_norm(r):
    x = _rows(r)

    def expected(a):
        wide = a["x"].double()
        return wide * (wide.square().mean(-1, keepdim=True) + a["eps"]).rsqrt() * a["weight"]

    return Case(norm.rms_norm, {"x": x, "weight": torch.randn(x.shape[1]), "eps": 1e-5}, expected)


def _gelu(r):
    gelu = torch.nn.functional.gelu
    return Case(activation.gelu_tanh, {"x": _rows(r)}, lambda a: gelu(a["x"].double(), approximate="tanh"))


def _swiglu(r):
    x = _rows(r)
    arguments = {"gate": x, "up": torch.randn_like(x), "activation": r.choice(("silu", "gelu_tanh"))}

    def expected(a):
        gate, up = (a["gate"], a["up"]) if a["up"] is not None else a["gate"].chunk(2, -1)
        gate = gate.double()
        silu = a["activation"] == "silu"
        bent = torch.nn.functional.silu(gate) if silu else torch.nn.functional.gelu(gate, approximate="tanh")
        return bent * up.double()

    return Case(activation.swiglu, arguments, expected)


def _cross_entropy(r):
    logits = _rows(r)
    targets = torch.randint(-1, logits.shape[1] + 1, logits.shape[:1])  # sometimes outside
    targets[torch.rand(len(targets)) < 0.2] = -100

    def expected(a):
        options = {"ignore_index": a["ignore_index"], "label_smoothing": a["label_smoothing"], "reduction": "none"}
        wide = a["logits"].double()
        lse = wide.logsumexp(-1).masked_fill(a["targets"] == a["ignore_index"], 0.0)
        return torch.nn.functional.cross_entropy(wide, a["targets"].long(), **options), lse

    arguments = {"logits": logits, "targets": targets, "ignore_index": -100, "label_smoothing": r.choice((0.0, 0.1))}
    return Case(cross_entropy.cross_entropy, arguments, expected)


def _embedding(r):
    table = torch.randn(7, r.choice(SIZES))
    ids = torch.randint(-1, 8, (r.choice(SIZES),))  # sometimes outside

    def expected(a):
        inside = (a["ids"] >= 0) & (a["ids"] < len(a["table"]))  # another id gives zeros
        return a["table"][a["ids"].long() * inside].masked_fill(~inside[..., None], 0.0)

    return Case(embedding.embedding, {"ids": ids, "table": table}, expected)


MAKERS = (
    _softmax,
    _add,
    _row_sum,
    _matmul,
    _attention,
    _decode,
    _paged,
    _prefill,
    _rms_norm,
    _gelu,
    _swiglu,
    _cross_entropy,
    _embedding,
    *random_layers.MAKERS,
    *random_gradients.MAKERS,
    *random_writes.MAKERS,
)
_OTHERS = random_model, random_stores, random_serving, random_loads, random_parallel
ROOMS = tuple(maker for module in _OTHERS for maker in module.MAKERS)  # of model, serving and parallel


def call(r, makers=MAKERS):
    """One random call; a sentence of what is wrong with it, "" for a refusal, None for a right result."""
    case = r.choice(makers)(r)
    arguments = dict(case.arguments)
    if "variant" not in arguments and "language" in inspect.signature(case.function).parameters:
        arguments["language"] = r.choice(LANGUAGES)
    chance, name = r.random(), r.choice(list(arguments))
    if chance < 0.4:
        arguments[name] = r.choice(WRONG)
    elif chance < 0.7:
        arguments[name] = spoiled(r, arguments[name])
    given = copy.deepcopy(arguments)  # a function may work in place
    shown = f"{case.function.__name__}({', '.join(f'{k}={_short(v)}' for k, v in arguments.items())})"
    try:
        got = case.function(**arguments)
    except CourseError as error:
        return "" if len(str(error)) > 20 and "\n" not in str(error)[:20] else f"{shown}: no sentence: {error}"
    except Exception as error:
        return f"{shown}: {type(error).__name__}: {error}"
    try:
        expected = case.expected(given)
    except Exception as error:
        return f"{shown}: returned, but {error}"
    infinite = any(isinstance(x, torch.Tensor) and x.isinf().any() for x in given.values())
    return None if alike(case, got, expected, infinite) else f"{shown}: a wrong number"


def _short(value):
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)[:40]


def run(count, seed=0, makers=MAKERS):
    """(right results, refusals, sentences of what is wrong) of `count` calls."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    found = [call(r, makers) for _ in range(count)]
    return found.count(None), found.count(""), [one for one in found if one]


if __name__ == "__main__":
    started = time.perf_counter()
    right, refused, wrong = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, MAKERS + ROOMS)
    print(*wrong, sep="\n")
    print(f"{right} right, {refused} refused, {len(wrong)} wrong, in {time.perf_counter() - started:.0f} s")
    sys.exit(bool(wrong))
