"""13.4 A block of Llama from its checkpoint: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NUMBERS = ("num_heads", "num_kv_heads", "theta", "eps")


def _case(name, heads, head_dim, seq_len, inner, batch_size=1, start=0, theta=10000.0, eps=1e-5, **options):
    """`heads`: (num_heads, num_kv_heads); `start`: the position of the first row."""
    sizes = {"batch_size": batch_size, "seq_len": seq_len, "num_heads": heads[0], "num_kv_heads": heads[1]}
    sizes |= {"head_dim": head_dim, "intermediate_size": inner}
    return Case(name, sizes, "normal", "float32", {"start": start, "theta": theta, "eps": eps, **options})


def _inputs(case, gen):
    """x, positions and the nine tensors of a block, in the order of `llama_block`."""
    batch_size, seq_len, num_heads, num_kv_heads, head_dim, inner = case.sizes.values()
    hidden, shared = num_heads * head_dim, num_kv_heads * head_dim

    def normal(*shape, scale=1.0):
        return scale * torch.randn(shape, generator=gen)

    root = hidden**-0.5
    tensors = _tensors(case, normal, hidden, shared, root)
    if "low" in case.options:  # column 0 is large, and lowers all scores by the pair that turns least
        last, low = head_dim // 2 - 1, (case.options["low"] * head_dim**0.5) ** 0.5
        tensors["x"][..., 0], tensors["input_norm"][0] = 100.0, 1.0
        for name, value in (("q_proj", low * root), ("k_proj", -low * root)):
            tensors[name][last::head_dim] = 0.0
            tensors[name][last::head_dim, 0] = value
    return tensors


def _tensors(case, normal, hidden, shared, root):
    batch_size, seq_len, _, _, _, inner = case.sizes.values()
    positions = case.options["start"] + torch.arange(seq_len)
    if case.options.get("uneven"):  # the first half below 40, the others from 900 to 1,000
        early = normal(40).argsort()[: seq_len // 2]
        positions = torch.cat((early, 900 + normal(101).argsort()[len(early) : seq_len])).sort().values
    return {
        "x": case.options.get("level", 0.0) + case.options.get("spread", 1.0) * normal(batch_size, seq_len, hidden),
        "positions": positions,
        "input_norm": 1.0 + normal(hidden, scale=0.3),
        "q_proj": normal(hidden, hidden, scale=1.5 * root),
        "k_proj": normal(shared, hidden, scale=1.5 * root),
        "v_proj": normal(shared, hidden, scale=root),
        "o_proj": normal(hidden, hidden, scale=root),
        "post_norm": 1.0 + normal(hidden, scale=0.3),
        "gate_proj": normal(inner, hidden, scale=2.0 * root),
        "up_proj": normal(inner, hidden, scale=root),
        "down_proj": normal(hidden, inner, scale=inner**-0.5),
    }


def _numbers(case):
    return {name: (case.sizes | case.options)[name] for name in NUMBERS}


def _run(case, tensors):
    arguments = (*map(Ref, tensors), *_numbers(case).values())
    return Run(case.name, tensors, {"out": (tuple(tensors["x"].shape), "float32")}, arguments)


EXERCISE = exercise(
    __file__,
    cases=(
        # one sequence is too few numbers to show the baseline's error: 2 of 1,500 seeds refused the solution
        _case("one head, eight sequences of one row", (1, 1), 2, 1, 3, batch_size=8, start=5),
        _case("two heads of four", (2, 2), 4, 5, 24),
        _case("two sequences, two heads for one", (2, 1), 8, 7, 40, batch_size=2, start=9),
        _case("six heads for two", (6, 2), 6, 11, 50, start=3, theta=500.0),
        _case("twelve heads for three, positions from 500", (12, 3), 8, 20, 200, start=500, theta=500000.0),
        _case("positions with gaps, to 1,000", (4, 2), 16, 13, 30, uneven=True, eps=1e-6),
        _case("rows near zero", (2, 1), 8, 6, 17, spread=1e-3),
        _case("rows near zero, eps 1e-3", (2, 1), 8, 6, 17, spread=1e-2, eps=1e-3, start=2),
        _case("rows near 3", (2, 2), 16, 9, 64, level=3.0, batch_size=3),
        _case("an inner size below the hidden one", (2, 2), 16, 9, 7, theta=100.0),
        _case("eight heads for one", (8, 1), 2, 6, 20),
        _case("head_dim 128", (1, 1), 128, 4, 40),
        _case("scores near -16,384", (2, 1), 16, 9, 20, theta=1e6, low=2.0**14),
        _case("one long sequence", (1, 1), 8, 300, 20, start=40),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: diagnostics.oracle(tensors, **_numbers(case)),
    baseline=lambda case, tensors: diagnostics.block(tensors, **_numbers(case)),
    rules={"out": "forward"},
    diagnose=lambda evidence: diagnostics.diagnose(evidence, _numbers),
)
