"""The exercises of chapter 06 in torch: the update of one tile, the forward pass of one head.

May import: spec, magnitude, protocol, inputs, verdict, reference, flash_cases, flash_readings, the names that are off.
"""

import torch

from ...reference import softmax as reference
from ..exercise import inputs, magnitude
from ..exercise.spec import Case, Exercise, Probe
from ..processes.protocol import Ref, Run
from ..report.verdict import Diagnosis
from ..subjects.flash_attention import cases as cases
from ..subjects.flash_attention import diagnostics as readings
from ..subjects.softmax.diagnostics import by_shift
from ..subjects.softmax.library import LIBRARY_SOFTMAX

NEG_INF = float("-inf")
ARGUMENTS = ("m", "l", "out", "scores", "values")


def _state(case, gen):
    """A state (m, l, out) of keys that are gone, and the scores and values of one tile."""
    num_rows, block_n, head_dim = case.sizes.values()
    m = inputs.normal((num_rows,), "float32", gen) + case.options.get("m", 0.0)
    l = 1.0 + 30.0 * torch.rand(num_rows, generator=gen)
    out, values = (inputs.normal(shape, "float32", gen) for shape in ((num_rows, head_dim), (block_n, head_dim)))
    scores = inputs.scores(case.values, (num_rows, block_n), "float32", gen)
    tensors = dict(zip(ARGUMENTS, (m, l, out, scores, values), strict=True))
    if case.options.get("empty"):
        m.fill_(NEG_INF)
        l.zero_()
        out.zero_()
    if case.options.get("masked"):
        scores.fill_(NEG_INF)
    return tensors | {name: torch.tensor(value) for name, value in case.options.get("fixed", {}).items()}


def _updated(tensors):
    """{"m", "l", "out"} in the dtype of the tensors."""
    m, l, out, scores, values = (tensors[name] for name in ARGUMENTS)
    tile_m = scores.amax(dim=1)
    shift = torch.where(tile_m == NEG_INF, torch.zeros_like(tile_m), tile_m)
    probs = torch.exp(scores - shift[:, None])
    m_new, l_new = reference.rounded_merge(m, l, tile_m, probs.sum(dim=1))
    new_shift = torch.where(m_new == NEG_INF, torch.zeros_like(m_new), m_new)
    old, new = l * torch.exp(m - new_shift), torch.exp(tile_m - new_shift)
    acc = old[:, None] * out + new[:, None] * (probs @ values)
    return {
        "m_new": m_new,
        "l_new": l_new,
        "out_new": acc / torch.where(l_new > 0, l_new, torch.ones_like(l_new))[:, None],
    }


def _update_case(name, num_rows=5, block_n=16, head_dim=8, values="normal", **options):
    return Case(name, {"num_rows": num_rows, "block_n": block_n, "head_dim": head_dim}, values, options=options)


def _update_run(case, tensors):
    rows = (case.sizes["num_rows"],)
    new = {"m_new": (rows, "float32"), "l_new": (rows, "float32"), "out_new": (tuple(tensors["out"].shape), "float32")}
    return Run(case.name, tensors, new, tuple(Ref(name) for name in ARGUMENTS))


_OLD_SUM = 5.0
_STEP = _update_case(
    "step",
    1,
    readings.TILE,
    2,
    fixed={
        "m": [0.0],
        "l": [_OLD_SUM],
        "out": [[1.0, 0.0]],
        "scores": [[1.0] * readings.TILE],
        "values": [[0.0, 1.0]] * readings.TILE,
    },
)


def _diagnose_update(evidence):
    """Diagnosis of a wrong update, or None."""
    step = evidence.readings.get("step")
    start = f"A state of {_OLD_SUM:g} keys with score 0 and a tile of {readings.TILE} with score 1:"
    found = None
    if step is not None and step["m"] == 1.0:
        found = readings.say_factors(*step["out"], _OLD_SUM, start)
        right = _OLD_SUM * readings.ALPHA + readings.TILE
        if found is None and abs(step["l"] - right) > 1e-2:
            return Diagnosis("l_wrong", f"{start} out is right, l must be {right:.4g} and is {step['l']:.4g}.")
    return found or _by_m(evidence, step, start) or by_shift(evidence) or _by_empty(evidence)


def _by_m(evidence, step, start):
    if step is not None and step["m"] != 1.0:
        return Diagnosis("m_wrong", f"{start} m must be max(0, 1) = 1 and is {step['m']:.4g}.")
    if [
        case
        for case in evidence.failing()
        if not case.comparisons["m_new"].passed and not case.case.options.get("masked")
    ]:
        return Diagnosis(
            "tile_local_max",
            f"{start} right. When the old m is the larger one, m is wrong: it must never fall, m_new = max(m, maximum "
            "of the tile).",
        )
    return None


def _by_empty(evidence):
    failing = [case for case in evidence.failing() if case.case.options]
    if not failing or any(not case.case.options for case in evidence.failing()):
        return None
    both = all(case.case.options.get("empty") and case.case.options.get("masked") for case in failing)
    if both:
        return Diagnosis(
            "masked_row",
            "Nothing seen before and nothing visible now: m stays -inf, l and out stay 0. -inf - -inf and 0 / 0 are "
            "NaN.",
        )
    return Diagnosis("empty_state", f"Wrong in the case {failing[0].case.name!r}: exp(-inf - -inf) is NaN there.")


UPDATE = Exercise(
    id="06.1",
    title="The (m, l, O) update of one tile",
    language="python",
    entry="update",
    signature="update(m, l, out, scores, values) -> (m_new, l_new, out_new)",
    contract=(
        "m and l (num_rows,), out (num_rows, head_dim): the state after some keys, out already divided by l. scores "
        "(num_rows, block_n), scaled, -inf where masked, and values (block_n, head_dim): the next tile. All float32. "
        "Returns the state of all keys together. The state of no keys is (-inf, 0, 0). torch's softmax is off."
    ),
    size_lines=7,
    minutes=15,
    solution="solutions/answers/06_1.py",
    cases=(
        _update_case("one row, one key", 1, 1, 1),
        _update_case("a tile", 5, 16, 8),
        _update_case("a wide tile", 7, 40, 20),
        _update_case("scores near -100", values="minus_100", m=-100.0),
        _update_case("scores near +100", values="plus_100", m=100.0),
        _update_case("old maximum far above", m=200.0),
        _update_case("old maximum far below", m=-200.0),
        _update_case("the first tile", empty=True),
        _update_case("a masked tile", masked=True),
        _update_case("nothing seen yet, masked tile", empty=True, masked=True),
    ),
    make_inputs=_state,
    make_run=_update_run,
    oracle=lambda case, tensors: _updated({name: tensor.double() for name, tensor in tensors.items()}),
    baseline=lambda case, tensors: _updated(tensors),
    rules={"m_new": "exact", "l_new": "weights", "out_new": "weights"},
    largest_score=magnitude.of_inputs("m", "scores"),
    hints=(
        "Three lines of chapter 03 give m_new, alpha and l_new. out is a mean of l keys: how much does it weigh beside "
        "the new keys?",
        "l * alpha is what the old keys weigh together, measured against m_new. The new numerator is l * alpha * out + "
        "probs_unnorm @ values.",
        "out_new = ((l * alpha)[:, None] * out + probs_unnorm @ values) / l_new[:, None], with shift = torch.where("
        "m_new == -torch.inf, 0.0, m_new) in both exponentials, and 1 in place of l_new = 0.",
    ),
    explanation=(
        "out is kept divided, as in the paper, so it is a valid attention output over the keys seen so far at every "
        "moment. The price is one division of every number of out at every tile; chapter 07 keeps acc undivided and "
        "divides once."
    ),
    probes=(
        Probe(
            "step",
            _STEP,
            lambda _inputs, outputs: {
                "m": outputs["m_new"].item(),
                "l": outputs["l_new"].item(),
                "out": outputs["out_new"].double()[0].tolist(),
            },
        ),
    ),
    diagnose=_diagnose_update,
    forbidden=LIBRARY_SOFTMAX,
)


def _one_head(num_q, num_kv):
    return {"seq_len_q": num_q, "seq_len_kv": num_kv, "head_dim": 8, "block_m": 8, "block_n": readings.TILE}


FORWARD_TORCH = Exercise(
    id="06.2",
    title="FlashAttention-1 in torch tiles",
    language="python",
    entry="flash_attention_1",
    signature="flash_attention_1(q, k, v, block_m, block_n) -> (out, lse)",
    contract=(
        "q (seq_len_q, head_dim), k and v (seq_len_kv, head_dim), float32, one head, no mask. Returns out like q and "
        "lse (seq_len_q,), natural log. K and V in tiles of block_n outside, Q in tiles of block_m inside; no more "
        "than block_m * block_n scores at a time. The scale is head_dim**-0.5. torch's softmax, logsumexp and "
        "scaled_dot_product_attention are off."
    ),
    size_lines=11,
    minutes=20,
    solution="solutions/answers/06_2.py",
    cases=(
        cases.head_case("one query, one key", 1, 1),
        cases.head_case("exactly one tile", 8, 16),
        cases.head_case("one below a tile", 7, 15),
        cases.head_case("one above a tile", 9, 17),
        cases.head_case("tiles of one", 3, 5, block_m=1, block_n=1),
        cases.head_case("ragged", 37, 53, 20),
        cases.head_case("more queries than keys", 50, 20),
        cases.head_case("one query", 1, 45),
        cases.head_case("rising scores", 9, 53, values="rising"),
        cases.head_case("falling scores", 9, 53, values="falling"),
        cases.head_case("scores near -100", 5, 45, values="minus_100"),
        cases.head_case("scores near +100", 5, 45, values="plus_100"),
        cases.head_case("one score of 120", 9, 50, values="spikes"),
        cases.head_case("long", 113, 203, 16, 24, 32),
    ),
    make_inputs=cases.head_inputs,
    make_run=cases.head_run,
    oracle=cases.oracle(),
    baseline=cases.baseline(),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    hints=(
        "Two loops around the update of 06.1. Which of m, l and out belong to the tile of queries that you hold?",
        "rows = slice(q_start, q_start + block_m): read m[rows], l[rows], out[rows], update them, write them back.",
        "scores = q[rows] @ k_tile.T * q.shape[1] ** -0.5; then old_sum = l[rows] * torch.exp(m[rows] - m_new) and "
        "out[rows] = (old_sum[:, None] * out[rows] + probs_unnorm @ v_tile) / l_new[:, None]",
    ),
    explanation=(
        "Count what your inner loop touches: a tile of q, and of out there and back, once for every tile of K and V. "
        "That is the Theta(N^2 d^2 / M) of the paper: N / block_n times N d numbers, and block_n is M / 4 d."
    ),
    probes=readings.tile_probes(_one_head),
    diagnose=readings.diagnose_tiles,
    ledger_rule=readings.one_tile_of_scores,
    forbidden=LIBRARY_SOFTMAX,
    tile=lambda case: (case.sizes["block_m"], case.sizes["head_dim"]),
)
