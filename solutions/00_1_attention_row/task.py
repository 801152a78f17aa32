"""00.1 Attention for one query: what the judge runs."""

from course_lib.grading.exercise import magnitude, probes
from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.attention.cases import qkv
from course_lib.grading.subjects.softmax.library import LIBRARY_ATTENTION
from course_lib.reference import attention as reference

from .diagnostics import diagnose


def _sizes(seq_len_kv, head_dim):
    return {"seq_len_kv": seq_len_kv, "head_dim": head_dim}


def _case(name, seq_len_kv, head_dim, values="normal", **options):
    return Case(name, _sizes(seq_len_kv, head_dim), values, options=options)


def _inputs(case, gen):
    """{"q": (head_dim,), "k", "v": (seq_len_kv, head_dim)}, float32; with the option "twice" every key comes twice."""
    num_keys, head_dim = case.sizes["seq_len_kv"], case.sizes["head_dim"]
    tensors = qkv(case, gen, (head_dim,), (num_keys, head_dim))
    if case.options.get("twice"):
        tensors["k"] = tensors["k"][: num_keys // 2].repeat(2, 1)
    return tensors


def _run(case, tensors):
    outputs = {"out": ((case.sizes["head_dim"],), "float32")}
    return Run(case.name, tensors, outputs, tuple(Ref(name) for name in ("q", "k", "v")))


def _one_row(function, tensors):
    """`function` of a matrix with one query row; the row of its result."""
    return {"out": function(tensors["q"][None, :], tensors["k"], tensors["v"])[0]}


EXERCISE = exercise(
    __file__,
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
        _case("scores near -12000", 45, 80, "minus_12000"),
        _case("scores near +100", 45, 32, "plus_100"),
        _case("scores near +12000", 29, 113, "plus_12000"),
        _case("one score of 120", 50, 32, "spikes"),
        _case("two high scores", 30, 32, "two_high"),
        _case("q = 0", 21, 12, "zeros"),
        _case("every key twice", 26, 24, twice=True),
        _case("wide", 3, 2100),
        _case("many keys", 9000, 8),
        _case("one high score, many low ones", 9000, 8, "high_by_14", v="halves"),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: _one_row(reference.attention, tensors),
    baseline=lambda case, tensors: _one_row(reference.rounded_attention, tensors),
    rules={"out": "weights"},
    largest_score=magnitude.of_attention(),
    probes=(
        probes.key_counter(_sizes(53, 64)),
        probes.unity(_sizes(32, 64)),
        probes.ramp(_sizes(32, 64)),
        probes.stagnation(_sizes(4096, 8)),
    ),
    diagnose=diagnose,
    forbidden=(
        "torch.nn.functional.scaled_dot_product_attention",
        "torch._C._nn.scaled_dot_product_attention",
        *LIBRARY_ATTENTION,
    ),
)
