"""07.7 The forward pass on tensor cores, one warp: what the judge runs."""

from course_lib.grading.exercise import probes
from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise, late
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.flash_attention_2 import cases as flash2_cases
from course_lib.grading.subjects.flash_attention_2.diagnostics import diagnose_forward

from . import fragments
from .fragments import HEAD_DIM, TILE
from .promises import as_promised

SLIGHT = 0.5  # error of out when scores near 100 are rounded to half


def _sizes(num_q, num_kv):
    return dict(zip(cases.SIZES, (1, 1, 1, num_q, num_kv, HEAD_DIM), strict=True))


def _case(name, num_q, num_kv, values="normal", schedules=("forward",), heads=(1, 1, 1), **options):
    return flash2_cases.half_case(name, (*heads, num_q, num_kv, HEAD_DIM), values, schedules, block_m=TILE, **options)


def _inputs(case, gen):
    return fragments.made(case, flash2_cases.forward_inputs(case, gen))


def _run(case, tensors):
    run = flash2_cases.forward_run(case, tensors, block_m=TILE, block=(32, 1, 1))
    run.constants.clear()  # the kernel itself defines the sizes of its tiles
    return run


def _in_half(probe):
    """A probe on half precision."""
    case = probe.case
    halves = type(case)(case.name, case.sizes, case.values, "float16", case.options, case.schedules)
    return type(probe)(probe.name, halves, probe.read)


def _by_half_scores(evidence):
    """Scores near 100 and -100 a little off, and NaN where they lie below what half precision holds."""
    failing = {case.case.values: case.comparisons["out"] for case in evidence.failing()}
    near = [failing[name].max_error for name in ("minus_100", "plus_100") if name in failing]
    far = failing.get("below_1e9")
    if len(near) < 2 or not max(near) < SLIGHT or far is None or abs(far.got) < float("inf"):
        return None
    return Diagnosis(
        "rounded_to_half",
        f"Scores near 100 and -100 give out off by up to {max(near):.2g}, and scores below -1e9 give {far.got}: scores "
        "are rounded to half, which is off by up to 0.03 at 100 and holds nothing beyond 65,504. Only the weights are "
        "rounded, for the second product.",
    )


def _by_half_queries(evidence):
    """Right where softmax_scale is a power of two, a little off with 0.3, and no number with 2^80."""
    failing = {case.case.options.get("scale"): case.comparisons for case in evidence.failing()}
    if failing.keys() != {0.3, flash2_cases.FARTHER}:
        return None
    near, far = max(c.max_error for c in failing[0.3].values()), failing[flash2_cases.FARTHER]["out"]
    if not near < SLIGHT or abs(far.got) < float("inf"):
        return None
    return Diagnosis(
        "rounded_to_half",
        f"Right with a softmax_scale of 1 / 8 and 0.5, also for scores near 100 and -100; off by up to {near:.2g} with "
        f"0.3, and {far.got} with 2^80: q or k was multiplied by softmax_scale and rounded to half, which is exact "
        "for powers of two that half can hold. Only the weights are rounded: the float scores take softmax_scale.",
    )


def _diagnose(evidence):
    looks = (_by_half_scores, _by_half_queries, fragments.diagnose_fragments, diagnose_forward)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


EXERCISE = exercise(
    __file__,
    cases=(
        *cases.tile_edges(_case, ALL_SCHEDULES, TILE, TILE),
        late(_case("ragged, grouped heads", 37, 53, schedules=(), heads=(1, 4, 2))),
        _case("more queries than keys", 50, 20),
        *cases.score_cases(_case),
        _case("scores below -1e30", 9, 53, "below_1e9", scale=flash2_cases.FARTHER),
        _case("weights below 1e-6", 3, 37, "zeros", light=-14.2, v_shift=1000.0),
        _case("scores near +100", 5, 45, "plus_100"),
        _case("one score of 120", 9, 50, "spikes"),
        late(_case("several batches", 21, 35, schedules=("random",), heads=(2, 2, 1))),
        _case("groups of three", 2, 18, heads=(1, 6, 2)),
        _case("softmax_scale 0.3", 5, 21, "plus_100", scale=0.3),
        _case("softmax_scale 0.5", 3, 20, scale=0.5),
        late(_case("1,040 queries", 1040, 3)),
        late(fragments.heavy_case()),
        late(_case("one query, 4,200 keys", 1, 4200, rise=2.2e-4, long=True)),  # exp(-rise) in half is 1
        _case("weights of 1/4,000", 1, 18, "zeros", exponent=flash2_cases.EXPONENT, v_shift=1000.0),
    ),
    make_inputs=_inputs,
    make_run=_run,
    **flash2_cases.judged(),
    unread=flash2_cases.unread,
    probes=(
        *(_in_half(probe) for probe in diagnostics.tile_probes(_sizes)),
        _in_half(probes.other_scale(_sizes(1, TILE))),
        masks.head_probe(_case("heads", 1, 3, "zeros", (), heads=(2, 4, 2), v_of_head=True)),
        *fragments.fragment_probes(),
    ),
    diagnose=_diagnose,
    bound_bytes=cases.bound,
    ledger_rule=as_promised,
    usual_bytes=lambda case: flash2_cases.usual_bytes(case, block_m=TILE),
    question="Which tile is read more often than once by a warp?",
    tile=lambda case: (TILE, 8),
)
