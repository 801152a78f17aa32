"""Chapter 00, the driving question: its one exercise, attention for a single query in torch.

May import: spec, magnitude, protocol, reference, attention_cases, attention_readings, probes.
"""

from ...reference import attention as reference
from ..exercise import magnitude, probes
from ..exercise.spec import Case, Exercise
from ..processes.protocol import Ref, Run
from ..subjects.attention.cases import qkv
from ..subjects.attention.diagnostics import diagnose_attention


def _sizes(seq_len_kv, head_dim):
    return {"seq_len_kv": seq_len_kv, "head_dim": head_dim}


def _case(name, seq_len_kv, head_dim, values="normal"):
    return Case(name, _sizes(seq_len_kv, head_dim), values)


def _inputs(case, gen):
    """{"q": (head_dim,), "k", "v": (seq_len_kv, head_dim)}, float32."""
    num_keys, head_dim = case.sizes["seq_len_kv"], case.sizes["head_dim"]
    return qkv(case, gen, (head_dim,), (num_keys, head_dim))


def _run(case, tensors):
    outputs = {"out": ((case.sizes["head_dim"],), "float32")}
    return Run(case.name, tensors, outputs, tuple(Ref(name) for name in ("q", "k", "v")))


def _one_row(function, tensors):
    """`function` of a matrix with one query row; the row of its result."""
    return {"out": function(tensors["q"][None, :], tensors["k"], tensors["v"])[0]}


ATTENTION_ROW = Exercise(
    id="00.1",
    title="Attention for one query",
    language="python",
    entry="attention_row",
    signature="attention_row(q, k, v) -> out",
    contract=(
        "q (head_dim,), k and v (seq_len_kv, head_dim), float32; returns softmax(k q / sqrt(head_dim)) v, (head_dim,), "
        "float32. torch.softmax may be used; scaled_dot_product_attention is off."
    ),
    size_lines=1,
    minutes=5,
    solution="solutions/answers/00_1.py",
    cases=(
        _case("one key, width 1", 1, 1),
        _case("one key", 1, 64),
        _case("two keys", 2, 8),
        _case("as many keys as columns", 16, 16),
        _case("ragged", 53, 64),
        _case("odd width", 37, 20),
        _case("more columns than keys", 48, 113),
        _case("rising scores", 53, 64, "rising"),
        _case("falling scores", 53, 64, "falling"),
        _case("scores near -100", 45, 32, "minus_100"),
        _case("scores near +100", 45, 32, "plus_100"),
        _case("one score of 120", 50, 32, "spikes"),
        _case("many keys", 1000, 32),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: _one_row(reference.attention, tensors),
    baseline=lambda case, tensors: _one_row(reference.rounded_attention, tensors),
    rules={"out": "weights"},
    largest_score=magnitude.of_attention(),
    hints=(
        "Read the formula aloud and put a finger on the line for each word. Which word has no line?",
        "The scores are products of head_dim numbers. The formula divides them by something before the softmax.",
        "scores = scores * q.shape[0] ** -0.5",
    ),
    explanation=(
        "A product of head_dim numbers of size 1 has the size sqrt(head_dim). Without the division the softmax of a "
        "wide head would give nearly all the weight to one key, and nothing could be learned from the others.\n\n"
        "Your function keeps one row of scores. For every query at once that row becomes the matrix of this chapter, "
        "and the rest of the course is about never writing it down."
    ),
    probes=(
        probes.key_counter(_sizes(53, 64)),
        probes.unity(_sizes(32, 64)),
        probes.ramp(_sizes(32, 64)),
        probes.stagnation(_sizes(4096, 8)),
    ),
    diagnose=diagnose_attention,
    forbidden=("torch.nn.functional.scaled_dot_product_attention", "torch._C._nn.scaled_dot_product_attention"),
)

EXERCISES = (ATTENTION_ROW,)
