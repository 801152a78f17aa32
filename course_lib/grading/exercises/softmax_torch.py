"""The exercises of chapter 03 in torch: merging two states, softmax times values in tiles, a counter-example.

May import: spec, magnitude, protocol, inputs, verdict, tolerance, reference, the shared readings.
"""

import torch

from ...reference import softmax as reference
from ..exercise import inputs, magnitude
from ..exercise.spec import Case, Exercise
from ..processes.protocol import Ref, Run
from . import torch_readings as readings

NEG_INF = float("-inf")
LIBRARY_SOFTMAX = tuple(
    f"torch.{name}"
    for name in (
        "softmax",
        "log_softmax",
        "logsumexp",
        "Tensor.softmax",
        "Tensor.log_softmax",
        "Tensor.logsumexp",
        "nn.functional.softmax",
        "nn.functional.log_softmax",
        "nn.functional.scaled_dot_product_attention",
    )
)


def _states(case, gen):
    """{"m_a", "l_a", "m_b", "l_b"}, each (num_states,)."""
    count = case.sizes["num_states"]
    m = [inputs.normal((count,), "float32", gen) * 3 + case.options.get(side, 0.0) for side in ("m_a", "m_b")]
    l = [1.0 + 40.0 * torch.rand(count, generator=gen) for _ in range(2)]
    tensors = {"m_a": m[0], "l_a": l[0], "m_b": m[1], "l_b": l[1]}
    for side in case.options.get("empty", ()):
        tensors[f"m_{side}"].fill_(NEG_INF)
        tensors[f"l_{side}"].zero_()
    return tensors | {name: torch.full((count,), value) for name, value in case.options.get("fixed", {}).items()}


def _merge_run(case, tensors):
    shape = tuple(tensors["m_a"].shape)
    arguments = tuple(Ref(name) for name in ("m_a", "l_a", "m_b", "l_b"))
    return Run(case.name, tensors, {"m": (shape, "float32"), "l": (shape, "float32")}, arguments)


def _merge_oracle(_case, tensors):
    m, l = reference.merge(**tensors)
    return {"m": m, "l": l}


def _merge_baseline(_case, tensors):
    m, l = reference.rounded_merge(**tensors)
    return {"m": m, "l": l}


def _merge_case(name, num_states=16, **options):
    return Case(name, {"num_states": num_states}, name, options=options)


MERGE = Exercise(
    id="03.1",
    title="Merge two states",
    language="python",
    entry="merge",
    signature="merge(m_a, l_a, m_b, l_b) -> (m, l)",
    contract=(
        "Four float32 tensors of one shape: the states (m, l) of two parts of a row, element by element. Returns (m, "
        "l) of "
        "both parts together. The identity is (-inf, 0) on either side; two identities give the identity."
    ),
    size_lines=4,
    minutes=5,
    solution="solutions/answers/03_1.py",
    cases=(
        _merge_case("one pair", 1),
        _merge_case("many pairs", 64),
        _merge_case("maxima near -100", m_a=-100.0, m_b=-100.0),
        _merge_case("maxima near +100", m_a=100.0, m_b=100.0),
        _merge_case("maxima near -3000", m_a=-3000.0, m_b=-3000.0),
        _merge_case("first far above", m_a=100.0, m_b=-100.0),
        _merge_case("second far above", m_a=-100.0, m_b=100.0),
        _merge_case("first empty", empty="a"),
        _merge_case("second empty", empty="b"),
        _merge_case("both empty", 2, empty="ab"),
    ),
    make_inputs=_states,
    make_run=_merge_run,
    oracle=_merge_oracle,
    baseline=_merge_baseline,
    rules={"m": "exact", "l": "weights"},
    largest_score=magnitude.of_inputs("m_a", "m_b"),
    hints=(
        "The new maximum is simple. Both sums were made relative to an older maximum: what does each need?",
        "A sum relative to m_a becomes a sum relative to m when it is multiplied by exp(m_a - m). The same for b.",
        "shift = torch.where(m == -torch.inf, 0.0, m); l = l_a * torch.exp(m_a - shift) + l_b * torch.exp(m_b - shift)",
    ),
    explanation=(
        "This one function is the heart of the course: lanes of a warp, tiles of a row, ring steps and split KV all "
        "merge "
        "with it. It is associative and has a neutral element, so any order and any grouping gives the same row."
    ),
    probes=readings.merge_probes(_merge_case),
    diagnose=readings.diagnose_merge,
)


def _tiles(case, gen):
    """{"scores": (num_rows, num_cols), "values": (num_cols, head_dim)}."""
    sizes = case.sizes
    shape = (sizes["num_rows"], sizes["num_cols"])
    scores = inputs.scores(case.values, shape, case.dtype, gen, at=case.options.get("at", 0))
    values = inputs.normal((sizes["num_cols"], sizes["head_dim"]), case.dtype, gen)
    columns = case.options.get("value_columns")
    return {"scores": scores, "values": values if columns is None else columns(sizes["num_cols"])}


def _tiles_run(case, tensors):
    shape = (tensors["scores"].shape[0], tensors["values"].shape[1])
    arguments = (Ref("scores"), Ref("values"), case.sizes["block_n"])
    return Run(case.name, tensors, {"out": (shape, "float32")}, arguments)


def _tiles_case(name, num_rows, num_cols, head_dim, block_n, values="normal"):
    sizes = {"num_rows": num_rows, "num_cols": num_cols, "head_dim": head_dim, "block_n": block_n}
    return Case(name, sizes, values)


WEIGHTED_SUM = Exercise(
    id="03.3",
    title="Softmax times values, in tiles",
    language="python",
    entry="softmax_weighted_sum",
    signature="softmax_weighted_sum(scores, values, block_n) -> out",
    contract=(
        "scores (num_rows, num_cols), values (num_cols, head_dim), float32; returns softmax(scores) @ values, "
        "(num_rows, head_dim), without holding the weights of more than block_n columns. A row of -inf only gives 0. "
        "torch's own softmax and logsumexp are off, and the judge watches what its other operators make."
    ),
    size_lines=10,
    minutes=15,
    solution="solutions/answers/03_3.py",
    cases=(
        _tiles_case("one element", 1, 1, 1, 16),
        _tiles_case("exactly one tile", 3, 16, 4, 16),
        _tiles_case("one below a tile", 3, 15, 4, 16),
        _tiles_case("one above a tile", 5, 33, 8, 16),
        _tiles_case("row shorter than a tile", 4, 9, 5, 32),
        _tiles_case("tiles of one column", 3, 7, 4, 1),
        _tiles_case("rising scores", 5, 53, 8, 8, "rising"),
        _tiles_case("falling scores", 5, 53, 8, 8, "falling"),
        _tiles_case("scores near -100", 4, 45, 8, 16, "minus_100"),
        _tiles_case("scores near -3000", 4, 45, 8, 16, "minus_3000"),
        _tiles_case("scores near +100", 4, 45, 8, 16, "plus_100"),
        _tiles_case("one large score a row", 5, 50, 8, 16, "spikes"),
        _tiles_case("masked scores", 6, 50, 8, 16, "masked"),
        _tiles_case("rows that start masked", 5, 50, 8, 16, "leading_masked"),
        _tiles_case("ragged", 37, 203, 20, 24),
    ),
    make_inputs=_tiles,
    make_run=_tiles_run,
    oracle=lambda case, tensors: {"out": reference.weighted_sum(**tensors)},
    baseline=lambda case, tensors: {"out": reference.rounded_weighted_sum(**tensors)},
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("scores"),
    hints=(
        "Three things run along: m, l and acc. When the maximum grows, what must happen to the other two?",
        "alpha = exp(m - m_new) multiplies l and acc alike; then the tile's own terms are added. Divide once, at the "
        "end.",
        "l = l * alpha + probs_unnorm.sum(dim=1, keepdim=True); acc = acc * alpha + probs_unnorm @ values[start : "
        "start + block_n]",
    ),
    explanation=(
        "acc is to l as the weighted sum is to the plain one: both are sums of exp(score - m) times something, so both "
        "take "
        "the same alpha. With scores computed tile by tile from q and k, this loop is FlashAttention for one tile of "
        "queries."
    ),
    probes=readings.tile_probes(),
    diagnose=readings.diagnose_tiles,
    ledger_rule=readings.one_tile_of_weights,
    forbidden=LIBRARY_SOFTMAX,
)

COUNTER_EXAMPLE = Exercise(
    id="03.7",
    title="A row that breaks a wrong kernel",
    language="python",
    entry="counter_example",
    signature="counter_example() -> row",
    contract=(
        "Returns a float32 tensor (num_cols,) of at most 4,096 finite scores. On it a softmax that starts its running "
        "maximum at 0 must be off by more than 0.01 in some weight, or not a number, while the softmax that starts at "
        "-inf is right."
    ),
    size_lines=3,
    minutes=10,
    solution="solutions/answers/03_7.py",
    cases=(Case("your row", {}),),
    make_inputs=lambda case, gen: {},
    make_run=lambda case, tensors: Run(case.name, tensors, {"row": ((-1,), "float32")}, ()),
    oracle=lambda case, tensors: {},
    baseline=lambda case, tensors: {},
    rules={},
    hints=(
        "What does the wrong kernel compute when every score is positive? When the largest is negative?",
        "With m = 0 the terms are exp(score). When do they vanish in float32 although their ratio is ordinary?",
        "exp(-104) is 0 in float32: every score below that, all at once.",
    ),
    explanation=(
        "As long as one score is at least 0 the start at 0 does no harm, which is why random tests pass. Negative rows "
        "first lose "
        "digits (below about -87 the terms are subnormal) and then everything. The neutral element of max is -inf."
    ),
    accept=readings.accept_counter_example,
)
