"""13.1 A block of GPT-2 from its checkpoint: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics


def _case(name, num_heads, head_dim, seq_len, inner=None, batch_size=1, **options):
    sizes = {"batch_size": batch_size, "seq_len": seq_len, "num_heads": num_heads, "head_dim": head_dim}
    sizes["intermediate_size"] = inner or 4 * num_heads * head_dim
    return Case(name, sizes, options.pop("values", "normal"), "float32", options)


def _inputs(case, gen):
    """x and the twelve tensors of a block, float32, in the order of a checkpoint."""
    sizes, level, spread = case.sizes, case.options.get("level", 0.0), case.options.get("spread", 1.0)
    hidden, inner = sizes["num_heads"] * sizes["head_dim"], sizes["intermediate_size"]

    def normal(*shape, scale=1.0):
        return scale * torch.randn(shape, generator=gen)

    x = level + spread * normal(sizes["batch_size"], sizes["seq_len"], hidden)
    root = hidden**-0.5
    tensors = _layer(normal, hidden, inner, root)
    if "low" in case.options:  # the first number of each head is the same in all rows: it lowers all scores alike
        first = torch.arange(0, hidden, sizes["head_dim"])
        low = (case.options["low"] * sizes["head_dim"] ** 0.5) ** 0.5
        for third, value in ((0, low), (1, -low)):
            tensors["c_attn_weight"][:, third * hidden + first] = 0.0
            tensors["c_attn_bias"][third * hidden + first] = value
    return {"x": x} | tensors


def _layer(normal, hidden, inner, root):
    """The twelve tensors of a block, in the order of a checkpoint."""
    return {
        "ln_1_weight": 1.0 + normal(hidden, scale=0.3), "ln_1_bias": normal(hidden, scale=0.3),
        "c_attn_weight": normal(hidden, 3 * hidden, scale=1.5 * root), "c_attn_bias": normal(3 * hidden, scale=0.5),
        "c_proj_weight": normal(hidden, hidden, scale=root), "c_proj_bias": normal(hidden, scale=0.3),
        "ln_2_weight": 1.0 + normal(hidden, scale=0.3), "ln_2_bias": normal(hidden, scale=0.3),
        "c_fc_weight": normal(hidden, inner, scale=2.0 * root), "c_fc_bias": normal(inner, scale=0.3),
        "mlp_proj_weight": normal(inner, hidden, scale=inner**-0.5), "mlp_proj_bias": normal(hidden, scale=0.3),
    }  # fmt: skip


def _run(case, tensors):
    arguments = (*map(Ref, tensors), case.sizes["num_heads"])
    return Run(case.name, tensors, {"out": (tuple(tensors["x"].shape), "float32")}, arguments)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one head, one row", 1, 8, 1),
        _case("two heads of four, eight numbers a row", 2, 4, 5),
        _case("as many heads as head_dim, two sequences", 6, 6, 7, batch_size=2),
        _case("three heads, ragged", 3, 20, 37, batch_size=3),
        _case("heads of one number", 4, 1, 9),
        _case("an inner size of its own", 2, 16, 11, inner=50),
        _case("an inner size below the hidden one", 2, 16, 11, inner=7),
        _case("an inner size above four times the hidden one", 1, 8, 5, inner=50),
        _case("rows near zero", 2, 8, 6, spread=1e-3),
        _case("rows near 100", 2, 32, 9, level=100.0),
        _case("scores near -16,384", 2, 4, 9, low=2.0**14),
        _case("one long sequence", 1, 8, 600),
        late(_case("a block of the size of GPT-2", 12, 64, 20)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, t: diagnostics.block({n: x.double() for n, x in t.items()}, case.sizes["num_heads"]),
    baseline=lambda case, t: diagnostics.block(t, case.sizes["num_heads"]),
    rules={"out": "forward"},
    diagnose=diagnostics.diagnose,
)
