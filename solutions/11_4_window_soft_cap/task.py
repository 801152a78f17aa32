"""11.4 A window and a soft cap: what the judge runs."""

import math

import torch

from course_lib.grading.exercise.dtypes import in_both_dtypes
from course_lib.grading.exercise.spec import Probe, exercise
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.cases import scale_of
from course_lib.grading.subjects.flash_attention import cases
from course_lib.grading.subjects.flash_attention_2 import cases as flash2
from course_lib.grading.subjects.flash_attention_2 import traffic
from course_lib.reference import attention as reference

from .diagnostics import CAP, CAP_SCALE, CAP_SCORE, SEEN, SEEN_WINDOW, diagnose

SCHEDULES = ("forward", "reverse")
BLOCK_M, BLOCK_N = 16, 32


def _case(name, num_q, num_kv, window, cap, values="normal", **options):
    return flash2.case_of(name, num_q, num_kv, values, window=window, cap=cap, **options)


def _inputs(case, gen):
    """q, k, v; in the probe of the cap one query and two keys, whose scores are CAP_SCORE and -CAP_SCORE."""
    tensors = flash2.forward_inputs(case, gen)
    if case.options.get("two_keys"):
        tensors = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
        tensors["q"][..., 0] = CAP_SCORE / CAP_SCALE
        tensors["k"][..., 0, 0], tensors["k"][..., 1, 0], tensors["v"][..., 0, :] = 1.0, -1.0, 1.0
    return tensors


def _run(case, tensors):
    flags = case.options["window"], case.options["cap"]
    return flash2.forward_run(case, tensors, flags=flags, block_m=BLOCK_M, block_n=BLOCK_N)


def _attention(case, tensors, dtype):
    """{"out", "lse"} in `dtype`, by the definition."""
    q, k, v = (tensors[name].to(dtype) for name in ("q", "k", "v"))
    scores = reference.rounded_scores(q, k, softmax_scale=scale_of(case, q.shape[-1]))
    scores = case.options["cap"] * torch.tanh(scores / case.options["cap"])
    position = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    key = torch.arange(k.shape[2])
    scores = scores.masked_fill((key > position) | (key < position - case.options["window"]), -torch.inf)
    m = scores.amax(dim=-1, keepdim=True)
    probs_unnorm = torch.exp(scores - torch.where(m.isneginf(), 0.0, m))
    l = probs_unnorm.sum(dim=-1, keepdim=True)
    out = probs_unnorm @ reference.of_each_query_head(v, q) / torch.where(l > 0, l, 1.0)
    return {"out": out, "lse": (m + torch.log(torch.where(l > 0, l, 1.0))).squeeze(-1)}


def _largest_score(case, inputs):
    """The largest score before the cap, or twice the cap: its tanh is a quotient of numbers near 1.

    Made from an exponential it is off by up to an ulp of 1, the score by an ulp of the cap; a rounded score by half.
    """
    return max(flash2.largest_score()(case, inputs), 2.0 * case.options["cap"])


def _tiles(case):
    return flash2.block_m_of(case, BLOCK_M), flash2.block_n_of(case, BLOCK_N)


def tiles_visited(num_q, num_kv, window, block_m=BLOCK_M, block_n=BLOCK_N):
    """Tiles of keys that hold a visible pair, for each tile of queries."""
    visited = []
    for start in range(0, num_q, block_m):
        first = max(start + num_kv - num_q - window, 0)
        end = min(start + block_m, num_q) + num_kv - num_q
        visited.append(max(-(-end // block_n) - first // block_n, 0) if end > 0 else 0)
    return visited


def _visited(case):
    return tiles_visited(case.sizes["seq_len_q"], case.sizes["seq_len_kv"], case.options["window"], *_tiles(case))


def _keys_read(case, late=0):
    """Keys of those tiles, all tiles of queries together; with `late` tiles more for each."""
    num_kv, block_n = case.sizes["seq_len_kv"], _tiles(case)[1]
    return sum(min((tiles + late) * block_n, num_kv) for tiles in _visited(case))


def _turns(case):
    """Fewest turns of all loops over keys: tiles that begin at the first visible key, wherever it is."""
    (block_m, block_n), window = _tiles(case), case.options["window"]
    num_q, num_kv = case.sizes["seq_len_q"], case.sizes["seq_len_kv"]
    ends = ((start, min(start + block_m, num_q) + num_kv - num_q) for start in range(0, num_q, block_m))
    return sum(-(-max(end - max(start + num_kv - num_q - window, 0), 0) // block_n) for start, end in ends)


def _way(case, ledger):
    """Diagnosis or None: everything that the contract says of reads, writes and products."""
    batch_size, num_heads, _, _, _, head_dim = case.sizes.values()
    tiles = _tiles(case)
    fewest = 2 * batch_size * num_heads * head_dim * _turns(case) * math.prod(tiles)
    return (
        _skipped(case, ledger)
        or traffic.written_once(case, ledger, tiles[0])
        or traffic.products(case, ledger, fewest, tiles)
    )


def _skipped(case, ledger):
    """Diagnosis or None: tiles without a visible pair are neither read nor multiplied; one for a tile of queries is."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    block_n, visited, heads = _tiles(case)[1], _visited(case), batch_size * num_heads
    keys = (ledger["global_load"]["bytes"] / (heads * head_dim * 4) - num_q) / 2  # beside q: rows of k and v
    made = sum(dot["count"] for dot in ledger["dots"]) / 2 / heads
    start = f"The values are right, but in the case {case.name!r} "
    end = (
        f"of {len(visited) * -(-num_kv // block_n)} pairs of tiles only {sum(visited)} hold a visible pair "
        f"(window_left {case.options['window']}). The loop begins at the tile of the first key that the tile's first "
        "query sees, and ends after the last key of its last query."
    )
    if keys > _keys_read(case, late=1):
        return Diagnosis("no_tile_skipped", f"{start}{keys / block_n:.3g} tiles of keys were read: {end}")
    if made > sum(visited) + len(visited):
        return Diagnosis("no_tile_skipped", f"{start}{made:.4g} tiles of scores were multiplied: {end}")
    return None


def _seen_probe():
    """Equal scores and v = 1, 2, 3, …: first and last key, and lse, of each query."""
    case = cases.case("seen", *SEEN, "zeros", v="key_numbers", window=SEEN_WINDOW, cap=20.0)

    def read(_inputs, outputs):
        means, lse = outputs["out"].double()[0, 0, :, 0], outputs["lse"].double()[0, 0]
        half = (lse.exp() - 1) / 2
        return torch.stack([means - 1 - half, means - 1 + half, lse], 1).tolist()

    return Probe("seen", case, read)


def _cap_probe():
    """One query, scores 3 and -3, soft_cap 2: by how much the two differ in the softmax."""
    case = cases.case("cap", 2, 2, "zeros", two_keys=True, window=5, cap=CAP, scale=CAP_SCALE)

    def read(_inputs, outputs):
        weight = outputs["out"].double()[0, 0, 1, 0].item()  # of the second query, which sees both
        return math.log(weight / (1 - weight)) if 0 < weight < 1 else math.nan

    return Probe("cap", case, read)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one query, one key", 1, 1, 3, 50.0, schedules=SCHEDULES),
        _case("square, a window of 8", 33, 33, 7, 20.0, schedules=SCHEDULES),
        _case("each query its own key", 20, 40, 0, 5.0),
        _case("two keys a query", 37, 53, 1, 20.0, heads=(1, 2, 1)),
        _case("more queries than keys", 70, 20, 7, 20.0),
        _case("one query of many keys", 1, 300, 100, 20.0),
        _case("a window past the first key", 40, 75, 5000, 2.0),
        _case("a window of exactly a tile", 96, 96, 31, 20.0),
        _case("tiles of 32 queries", 70, 100, 16, 20.0, block_m=32),
        _case("tiles of 64 queries", 70, 100, 31, 20.0, block_m=64),
        _case("tiles of 16 keys", 80, 80, 16, 20.0, block_n=16),
        _case("tiles of 64 keys, head_dim 40", 40, 200, 31, 20.0, block_n=64, head_dim=40),
        _case("head_dim 64", 18, 65, 16, 20.0, head_dim=64),
        _case("softmax_scale 0.3, a cap of 0.5", 5, 60, 16, 0.5, scale=0.3),
        _case("a cap of 1,000, head_dim 9", 5, 60, 16, 1000.0, head_dim=9),
        _case("groups of three", 2, 50, 7, 5.0, heads=(2, 6, 2)),
        _case("scores near -100", 35, 75, 16, 50.0, "minus_100"),
        _case("scores near +100", 35, 75, 16, 50.0, "plus_100"),
        _case("scores near -12000", 18, 45, 16, 1000.0, "minus_12000"),
        _case("rising scores", 40, 75, 31, 20.0, "rising"),
        _case("one score of 120, a cap of 1.25", 35, 50, 16, 1.25, "spikes"),
        _case("20 queries, 2100 keys", 20, 2100, 1100, 20.0, block_m=32, block_n=128, long=True),
    ),
    make_inputs=_inputs,
    make_run=_run,
    **in_both_dtypes(_attention),
    rules={"out": "weights", "lse": "lse"},
    largest_score=_largest_score,
    probes=(_seen_probe(), _cap_probe()),
    diagnose=diagnose,
    bound_bytes=cases.bound,
    usual_bytes=lambda case: flash2.usual_bytes(case, block_m=_tiles(case)[0], keys_read=_keys_read(case)),
    question="Where does the loop of a tile of queries over the keys begin, and where does it end?",
    tile=lambda case: (_tiles(case)[0], case.sizes["head_dim"]),
    ledger_rule=_way,
)
