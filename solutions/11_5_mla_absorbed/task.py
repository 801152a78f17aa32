"""11.5 Multi-head latent attention, absorbed: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX

from . import diagnostics


def _case(name, num_heads, num_keys, head_dim, head_dim_v, rope_dim, latent_dim, *, level=1.0, shift=0.0, step=0.0):
    """`level`: about the standard deviation of the scores; `shift` is added to all of them, `step` for each head."""
    sizes = {"num_heads": num_heads, "num_keys": num_keys, "head_dim": head_dim, "head_dim_v": head_dim_v}
    sizes |= {"rope_dim": rope_dim, "latent_dim": latent_dim}
    return Case(name, sizes, "normal", options={"level": level, "shift": shift, "step": step})


def _inputs(case, gen):
    """The six tensors, float32; keys of the heads are about N(0, 1)."""
    heads, num_keys, dim, dim_v, rope_dim, latent = case.sizes.values()

    def normal(*shape, scale=1.0):
        return scale * torch.randn(shape, generator=gen)

    level = case.options["level"]
    shift = case.options["shift"] + case.options["step"] * torch.arange(heads)
    q_rope, rope_keys = normal(heads, rope_dim, scale=level), normal(num_keys, rope_dim)
    if shift.any():  # the first rope numbers are the same for all keys
        q_rope[:, 0], rope_keys[:, 0] = shift * (dim + rope_dim) ** 0.5, 1.0
    return {
        "q_nope": normal(heads, dim, scale=level), "q_rope": q_rope,
        "latents": normal(num_keys, latent), "rope_keys": rope_keys,
        "w_uk": normal(heads, dim, latent, scale=latent**-0.5),
        "w_uv": normal(heads, dim_v, latent, scale=latent**-0.5),
    }  # fmt: skip


def _run(case, tensors):
    heads, dim_v = case.sizes["num_heads"], case.sizes["head_dim_v"]
    outputs = {"out": ((heads, dim_v), "float32"), "lse": ((heads,), "float32")}
    return Run(case.name, tensors, outputs, tuple(map(Ref, diagnostics.NAMES)))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one head, one key", 1, 1, 4, 4, 2, 6),
        _case("all sizes 1", 1, 1, 1, 1, 1, 1),
        _case("two heads, three keys", 2, 3, 4, 4, 2, 8),
        _case("ragged", 3, 37, 10, 14, 6, 22),
        _case("values wider than keys", 4, 21, 6, 20, 4, 12),
        _case("latents narrower than keys", 3, 19, 24, 20, 2, 7),
        _case("a rope part as wide as the latent", 2, 15, 5, 6, 9, 9),
        _case("head_dim and latent_dim equal", 3, 18, 16, 16, 4, 16),
        _case("700 keys", 2, 700, 8, 6, 4, 16),
        _case("many heads and keys", 32, 200, 24, 20, 8, 64),
        _case("DeepSeek's head", 2, 40, 128, 128, 64, 512),
        _case("scores near -100", 3, 30, 8, 6, 4, 16, shift=-100.0),
        _case("scores near +100", 3, 30, 8, 6, 4, 16, shift=100.0),
        _case("heads 140 apart", 2, 30, 8, 6, 4, 16, shift=-70.0, step=140.0),
        _case("scores spread over hundreds", 3, 30, 8, 6, 4, 16, level=60.0),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: diagnostics.mla(tensors),
    baseline=lambda case, tensors: diagnostics.mla(tensors, torch.float32),
    rules={"out": "weights", "lse": "lse"},
    largest_score=diagnostics.largest_score,
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.absorbed_way,
    forbidden=LIBRARY_SOFTMAX,
)
