"""Random calls of course_lib.parallel: who has which part, and how many bytes are sent, by their definitions."""

import torch
import torch.nn.functional as F

from course_lib.parallel import context, expert, pipeline, wire_bytes
from course_lib.parallel import tensor as tp
from course_lib.parallel.disaggregated import transfer_bytes
from course_lib.parallel.tensor_model import model_bytes, shard_config
from tests.unit.random_case import SIZES, Case
from tests.unit.random_model import CONFIGS

RANKS = (1, 2, 3, 4)


def require_counts(*values, least=1):
    assert not any(isinstance(value, bool) or value != int(value) or value < least for value in values), "taken"


def ranks(r):
    num_ranks = r.choice(RANKS)
    return {"rank": r.randrange(num_ranks), "num_ranks": num_ranks}


def require_rank(a):
    require_counts(a["num_ranks"])
    require_counts(a["rank"], least=0)
    assert a["rank"] < a["num_ranks"], "a rank outside was taken"


def wide(*shape):
    return torch.randn(shape, dtype=torch.float64)


def _heads_of(r):
    def expected(a):
        require_rank(a)
        require_counts(a["num_heads"], a["num_kv_heads"])
        own = range(*(a["num_heads"] * (a["rank"] + step) // a["num_ranks"] for step in (0, 1)))
        assert a["num_heads"] % a["num_ranks"] == 0, "parts that are not equal were made"
        first, last = (head * a["num_kv_heads"] // a["num_heads"] for head in (own[0], own[-1]))
        return own, range(first, last + 1)

    arguments = ranks(r) | {"num_heads": r.choice((4, 8, 12)), "num_kv_heads": r.choice((1, 2, 4))}
    return Case(tp.heads_of, arguments, expected)


def _qkv(r):
    heads, kv_heads = r.choice(((4, 2), (4, 1), (4, 4)))
    arguments = {"qkv": wide((heads + 2 * kv_heads) * 3, 5), "num_heads": heads, "num_kv_heads": kv_heads}

    def expected(a):
        require_rank(a)
        q, k, v = (x.unflatten(0, (-1, a["head_dim"])) for x in _cut(a))
        own, kv = tp.heads_of(**{name: a[name] for name in ("rank", "num_ranks", "num_heads", "num_kv_heads")})
        return torch.cat([x[list(part)].flatten(0, 1) for x, part in ((q, own), (k, kv), (v, kv))])

    def _cut(a):
        sizes = [a["head_dim"] * count for count in (a["num_heads"], a["num_kv_heads"], a["num_kv_heads"])]
        assert sum(sizes) == len(a["qkv"]), "a matrix of another size was taken"
        return a["qkv"].split(sizes)

    return Case(tp.qkv_part, ranks(r) | arguments | {"head_dim": 3}, expected)


def _part_of(r):
    arguments = ranks(r) | {"x": wide(*(r.choice((4, 6, 12)) for _ in range(2))), "dim": r.choice((0, 1, -1, 2))}

    def expected(a):
        require_rank(a)
        size = a["x"].shape[a["dim"]] // a["num_ranks"]
        assert size * a["num_ranks"] == a["x"].shape[a["dim"]] and type(a["dim"]) is int, "unequal parts"
        return a["x"].narrow(a["dim"], a["rank"] * size, size)

    return Case(tp.part_of, arguments, expected)


def _groups(r):
    def expected(a):
        require_rank(a)
        parts = a["x"].split([int(size) for size in a["sizes"]])
        return torch.cat([part.view(a["num_ranks"], -1, *part.shape[1:])[a["rank"]] for part in parts if len(part)])

    return Case(tp.parts_of_groups, ranks(r) | {"x": wide(12, 2), "sizes": r.choice(([4, 8], (12,), [4, 4]))}, expected)


def _vocabulary(r):
    arguments = ranks(r) | {"table": torch.randn(r.choice(SIZES), 3)}

    def expected(a):
        require_rank(a)
        rows = -(-len(a["table"]) // a["num_ranks"])
        padded = F.pad(a["table"].double(), (0, 0, 0, rows * a["num_ranks"] - len(a["table"])))
        return padded[a["rank"] * rows : (a["rank"] + 1) * rows]

    return Case(tp.vocabulary_part, arguments, expected)


def _shards(r):
    order, num_ranks = r.choice(("contiguous", "zigzag", "striped")), r.choice(RANKS)
    arguments = {"x": wide(1, 2, r.choice((8, 12, 24)), 3), "num_ranks": num_ranks, "dim": 2, "order": order}

    def expected(a):
        require_counts(a["num_ranks"])
        n, size = a["num_ranks"], a["x"].shape[a["dim"]]
        chunks = n if a["order"] == "contiguous" else 2 * n
        assert size % chunks == 0 and size and a["order"] in context.ORDERS, "taken"
        first = a["x"].narrow(a["dim"], 0, size // chunks)
        last = a["x"].narrow(a["dim"], size - size // chunks, size // chunks)
        return a["x"], first if a["order"] == "contiguous" else torch.cat((first, last), a["dim"])

    return Case(_sharded, arguments, expected)


def _sharded(x, num_ranks, dim, order):
    first = context.shard(x, 0, num_ranks, dim=dim, order=order)
    parts = [first, *(context.shard(x, rank, num_ranks, dim=dim, order=order) for rank in range(1, num_ranks))]
    return context.unshard(parts, dim=dim, order=order), parts[0]


def _work(r):
    """What all ranks compute at all hops is half of all pairs, the diagonal counted by halves."""

    def expected(a):
        require_counts(a["num_ranks"])
        return (2.0 * a["num_ranks"]) ** 2 / 2

    arguments = {"num_ranks": r.choice(RANKS), "order": r.choice(("contiguous", "zigzag"))}
    return Case(_whole_work, arguments, expected)


def _whole_work(**arguments):
    return float(sum(map(sum, context.work(**arguments))))


def _visible(r):
    order = r.choice(("contiguous", "zigzag"))

    def expected(a):
        require_counts(a["rank"], a["source"], least=0)
        halves = {"all": (0, 1), "first": (0,), "last": (1,)}
        n = max(a["rank"], a["source"]) + 1
        chunks = [
            context.chunks_of(rank, n, a["order"]) * (1 + (a["order"] == "contiguous"))
            for rank in (a["rank"], a["source"])
        ]
        seen = {(i, j) for i in (0, 1) for j in (0, 1) if chunks[0][i] >= chunks[1][j]}
        if a["rank"] == a["source"]:
            return "all", "all", True
        for rows, keys in (("all", "all"), ("all", "first"), ("last", "all")):
            if seen == {(i, j) for i in halves[rows] for j in halves[keys]}:
                return rows, keys, False
        return None if not seen else "nothing fits"

    return Case(context.visible, {"rank": r.randrange(4), "source": r.randrange(4), "order": order}, expected)


def _ring_bytes(r):
    names = ("num_ranks", "num_tokens", "num_kv_heads", "head_dim", "itemsize")
    arguments = dict(zip(names, (r.choice(RANKS), r.choice((12, 24, 10)), 2, 8, r.choice((2, 4))), strict=True))

    def expected(a):
        require_counts(*(a[name] for name in names if name != "num_tokens"))
        require_counts(a["num_tokens"], least=0)
        assert a["num_tokens"] % a["num_ranks"] == 0, "parts that are not equal were counted"
        own = 2 * a["num_tokens"] * a["num_kv_heads"] * a["head_dim"] * a["itemsize"]
        return own * (a["num_ranks"] - 1) // a["num_ranks"]

    return Case(context.ring_bytes, arguments, expected)


def _ulysses_bytes(r):
    arguments = {"num_ranks": r.choice(RANKS), "num_tokens": 24, "num_heads": 12, "num_kv_heads": r.choice((1, 3, 12))}
    arguments |= {"head_dim": 8, "itemsize": r.choice((2, 4))}

    def expected(a):
        require_counts(*(value for name, value in a.items() if name != "num_tokens"))
        assert a["num_heads"] % a["num_ranks"] == 0, "heads that cannot be given were counted"
        heads = 2 * a["num_heads"] + 2 * max(a["num_kv_heads"], a["num_ranks"])
        own = a["num_tokens"] // a["num_ranks"] * heads * a["head_dim"] * a["itemsize"]
        return own - own // a["num_ranks"]

    return Case(context.ulysses_bytes, arguments, expected)


def _moe_bytes(r):
    num_ranks, num_experts = r.choice(((1, 4), (2, 4), (2, 6), (3, 4)))
    arguments = {"experts": torch.randint(-1 if r.random() < 0.2 else 0, num_experts, (r.choice(SIZES), 2))}
    arguments |= {"rank": r.randrange(num_ranks), "num_ranks": num_ranks, "num_experts": num_experts}
    arguments |= {"hidden": r.choice((8, 16)), "itemsize": 2}

    def expected(a):
        require_rank(a)
        require_counts(a["num_experts"], a["hidden"], a["itemsize"])
        owners = [range(a["num_ranks"])[int(e) * a["num_ranks"] // a["num_experts"]] for e in a["experts"].flatten()]
        assert (a["experts"] >= 0).all() and a["num_experts"] % a["num_ranks"] == 0, "taken"
        away = sum(owner != a["rank"] for owner in owners)
        return away * a["hidden"] * a["itemsize"], 8 * (a["num_experts"] - a["num_experts"] // a["num_ranks"])

    return Case(expert.moe_bytes, arguments, expected)


def _model_numbers(r):
    config = CONFIGS["llama"]
    arguments = {"config": config, "rank": 0, "num_ranks": r.choice((1, 2, 5)), "num_tokens": 7, "itemsize": 2}

    def expected(a):
        require_rank(a)
        require_counts(a["itemsize"])
        require_counts(a["num_tokens"], least=0)
        n, hidden = a["num_ranks"], a["num_tokens"] * 16 * 2 * (n_less := a["num_ranks"] - 1) / a["num_ranks"]
        sent = (5 * hidden + n_less * 3 * -(-29 // n)) * a["itemsize"]
        return 2 * 2 * a["num_tokens"] * 8 * a["itemsize"], sent, 24 // n if 24 % n == 0 else "unequal"

    return Case(_numbers_of_model, arguments, expected)


def _numbers_of_model(config, rank, num_ranks, num_tokens, itemsize):
    sent = model_bytes(config, num_ranks, num_tokens, 3, itemsize)
    return transfer_bytes(config, num_tokens, itemsize), sent, shard_config(config, rank, num_ranks).intermediate_size


def _step_bytes(r):
    def expected(a):
        require_rank(a)
        require_counts(a["num_micro"])
        require_counts(a["micro_bytes"], least=0)
        borders = (a["rank"] > 0) + (a["rank"] < a["num_ranks"] - 1)
        return a["num_micro"] * a["micro_bytes"] * borders

    return Case(pipeline.step_bytes, ranks(r) | {"num_micro": r.choice((1, 4)), "micro_bytes": 64}, expected)


def _wire_bytes(r):
    n = r.choice(RANKS)
    kinds = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "exchange", "barrier", "one_shot", "gather")

    def expected(a):
        require_counts(a["num_ranks"])
        require_counts(a["num_bytes"], least=0)
        n = a["num_ranks"]
        rounds = {"all_reduce": 2 * (n - 1) / n, "reduce_scatter": (n - 1) / n, "barrier": 0}
        rounds |= {"all_gather": n - 1, "one_shot": n - 1, "all_to_all": 1, "exchange": 1}
        return float(rounds[a["kind"]] * a["num_bytes"])

    return Case(wire_bytes, {"kind": r.choice(kinds), "num_bytes": 64, "num_ranks": n}, expected)


MAKERS = (
    _heads_of, _qkv, _part_of, _groups, _vocabulary, _shards, _work, _visible, _ring_bytes, _ulysses_bytes,
    _moe_bytes, _model_numbers, _step_bytes, _wire_bytes,
)  # fmt: skip
