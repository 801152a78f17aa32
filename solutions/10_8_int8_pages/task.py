"""10.8 Attention over pages of bytes: what the judge runs."""

from dataclasses import replace

import torch

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.paged import cases, diagnostics, extent
from course_lib.grading.subjects.paged.guesses import fits
from course_lib.reference import quantised_kv

SMALL = ("k_pages", "v_pages", "k_scales", "v_scales")


def _inputs(case, gen):
    """{"q", "k_pages", "v_pages" int8, "k_scales", "v_scales", "block_table", "seq_lens"}.

    Rows differ in size, so no two scales are equal; slots without a token hold random bytes and a NaN scale.
    """
    tensors = cases.inputs(case, gen)
    for name in ("k", "v"):
        pages = tensors[f"{name}_pages"]
        unused = pages.isnan().any(dim=3)
        if case.options.get("zero_rows"):
            pages = torch.where(torch.arange(pages.shape[1])[:, None, None] % 2 == (name == "v"), pages, 0.0 * pages)
        if name == "v" and case.values not in ("zeros", "step") and not {"slots", "faint"} & case.options.keys():
            pages = pages * torch.exp(torch.randn(pages.shape[:3], generator=gen))[..., None]
        small, scales = quantised_kv.quantise(pages, torch.int8)
        scales = torch.where((small == 0).all(dim=3), 0.0, scales) * case.options.get("size", 1.0)
        noise = torch.randint(-128, 128, small.shape, generator=gen).to(torch.int8)
        tensors[f"{name}_pages"] = torch.where(unused[..., None], noise, small)
        tensors[f"{name}_scales"] = torch.where(unused, torch.nan, scales)
    return tensors


def _restored(tensors, k=True, v=True, k_scales=None, v_scales=None):
    """The tensors with pools in float64, as bytes times scale; without the scale where k or v is False."""
    k_scales = tensors["k_scales"] if k_scales is None else k_scales
    v_scales = tensors["v_scales"] if v_scales is None else v_scales
    restored = dict(tensors)
    for name, scales, used in (("k", k_scales, k), ("v", v_scales, v)):
        pages = tensors[f"{name}_pages"]
        restored[f"{name}_pages"] = quantised_kv.restored(pages, scales) if used else pages.double()
    return restored


def _oracle(case, tensors):
    return cases.oracle(case, _restored(tensors))


def _baseline(case, tensors):
    whole = _restored(tensors)
    return cases.baseline(case, whole | {name: whole[name].float() for name in ("k_pages", "v_pages")})


def _run(case, tensors):
    group = case.sizes["num_heads"] // case.sizes["num_kv_heads"]
    first, names = extent.first_page(case), ("q", *SMALL, "block_table", "seq_lens", "out", "lse")
    refs = (Ref(name, before=first * tensors[name].stride(0) if name in SMALL else 0) for name in names)
    arguments = (*refs, group, tensors["block_table"].shape[1], cases.scale(case))
    constants = {"HEAD_DIM": cases.head_dim(case), "PAGE_SIZE": case.sizes["page_size"]}
    grid = cases.grid(case, tensors)
    return Run(
        case.name, extent.given(case, tensors, SMALL), cases.outputs(tensors), arguments, grid=grid, constants=constants
    )


_GUESSES = (
    ("k_scale_missing", lambda t: _restored(t, k=False), "the bytes of k without their scale"),
    ("v_scale_missing", lambda t: _restored(t, v=False), "the bytes of v without their scale"),
    ("scales_missing", lambda t: _restored(t, k=False, v=False), "the bytes of k and v without any scale"),
    ("scales_swapped", lambda t: _restored(t, k_scales=t["v_scales"], v_scales=t["k_scales"]),
     "scales of k and v that are swapped"),
    ("one_scale_for_both", lambda t: _restored(t, v_scales=t["k_scales"]), "the scale of k for v as well"),
    ("one_scale_for_both", lambda t: _restored(t, k_scales=t["v_scales"]), "the scale of v for k as well"),
    ("scale_of_head_0", lambda t: _restored(t, k_scales=_head_0(t["k_scales"]), v_scales=_head_0(t["v_scales"])),
     "the scales of key-value head 0 for every head"),
    ("scale_squared", lambda t: _restored(t, v_scales=t["v_scales"] ** 2), "v times its scale twice"),
    ("scale_squared", lambda t: _restored(t, k_scales=t["k_scales"] ** 2), "k times its scale twice"),
    ("scale_of_the_page", lambda t: _restored(t, k_scales=_slot_0(t["k_scales"]), v_scales=_slot_0(t["v_scales"])),
     "the scales of slot 0 for a whole page"),
    ("scale_of_the_page", lambda t: _restored(t, k_scales=_slot_0(t["k_scales"])), "k times the scale of slot 0"),
    ("scale_of_the_page", lambda t: _restored(t, v_scales=_slot_0(t["v_scales"])), "v times the scale of slot 0"),
    ("scale_of_head_0", lambda t: _restored(t, k_scales=_head_0(t["k_scales"])), "k times the scale of head 0"),
    ("scale_of_head_0", lambda t: _restored(t, v_scales=_head_0(t["v_scales"])), "v times the scale of head 0"),
    ("sign_lost", lambda t: _restored(t | {n: t[n].view(torch.uint8).double() for n in ("k_pages", "v_pages")}),
     "bytes from 0 to 255: they are signed"),
    ("query_rounded", lambda t: _restored(t) | {"q": (t["q"] + 0.5).floor()}, "q rounded to whole numbers as well"),
    ("scale_of_the_page", lambda t: _restored(t, k_scales=_largest(t["k_scales"]), v_scales=_largest(t["v_scales"])),
     "the largest scale of its page for every row"),
    ("scale_of_the_page", lambda t: _restored(t, k_scales=_largest(t["k_scales"])), "k times the largest scale of its "
     "page"),
    ("scale_of_the_page", lambda t: _restored(t, v_scales=_largest(t["v_scales"])), "v times the largest scale of its "
     "page"),
    ("low_precision", lambda t: _restored(t, k_scales=_half(t["k_scales"]), v_scales=_half(t["v_scales"])),
     "the scales of k and v rounded to half"),
    ("low_precision", lambda t: _restored(t, k_scales=_half(t["k_scales"])), "the scale of k rounded to half"),
    ("low_precision", lambda t: _restored(t, v_scales=_half(t["v_scales"])), "the scale of v rounded to half"),
)  # fmt: skip


def _half(scales):
    return scales.half().float()


def _largest(scales):
    """The largest scale of the slots of a page that hold tokens."""
    return scales.nan_to_num(0.0).amax(dim=1, keepdim=True).expand_as(scales)


def _head_0(scales):
    return scales[:, :, :1].expand_as(scales)


def _slot_0(scales):
    return scales[:, :1].expand_as(scales)


def _by_scales(evidence):
    """Which wrong use of the scales gives these very numbers, in every case that is wrong."""
    normal = [case for case in evidence.cases if case.comparisons and case.case.values == "normal"]
    failing = sorted((case for case in normal if not case.passed), key=lambda case: case.elements)
    guesses = [(code, guess, words, {}) for code, guess, words in _GUESSES]
    guesses += [("scale_missing", _restored, "scores that are not multiplied by softmax_scale", {"scale": 1.0})]
    for code, guess, words, options in guesses:
        if failing and all(_is_so(case, guess, options) for case in normal):
            comparison = next(c for c in failing[-1].comparisons.values() if not c.passed)
            return Diagnosis(
                code,
                f"In the case {failing[-1].case.name!r} comes {comparison.got:.4g} in place of "
                f"{comparison.expected:.4g}. All of out and lse is what attention gives with {words}. k is k_pages * "
                "k_scales, v is v_pages * v_scales, each row with its own scale; q is float.",
            )
    return _by_weighted_l(failing) or _by_small_scales(evidence) or _by_rounded_weights(normal)


def _is_so(case, guess, options):
    return fits(case, cases.oracle(replace(case.case, options=case.case.options | options), guess(case.inputs)))


def _by_weighted_l(failing):
    """The scale of v in the weights, and so in l: v comes out as a mean of bytes."""
    for case in failing:
        tensors = case.inputs
        whole = _restored(tensors, v=False)
        right, out = cases.oracle(case.case, whole), case.first.outputs
        if bool(case.comparisons["lse"].passed) or not case.case.name.startswith("one token"):
            continue
        if torch.allclose(right["out"], out["out"].double(), atol=1e-3, rtol=1e-3):
            return Diagnosis(
                "v_scale_in_l",
                f"In the case {case.case.name!r} out is {out['out'].flatten()[0]:.4g}, the byte itself: l was "
                "multiplied by the scale of v as well, so it cancels. l is the sum of the weights alone.",
            )
    return None


def _by_small_scales(evidence):
    """Wrong where scales are tiny, and nowhere else."""
    failing = evidence.failing()
    if not failing or any("size" not in one.case.options or not one.comparisons for one in failing):
        return None
    one = failing[0]
    name, comparison = one.first_wrong
    largest = {name: one.inputs[f"{name}_scales"].nan_to_num(0.0).max().item() for name in "kv"}
    which = (
        f"v_scales are {largest['v']:.2g} at most: is the scale of v kept from falling below a number?"
        if one.comparisons["lse"].passed
        else f"k_scales are {largest['k']:.2g} at most and softmax_scale is {cases.scale(one.case):,.0f}: is the first "
        "kept from falling below a number, or the second from exceeding one?"
    )
    return Diagnosis(
        "scale_bounded",
        f"Right for scales of usual size. In the case {one.case.name!r} {name} is {comparison.got:.4g} in place of "
        f"{comparison.expected:.4g}, and {which}",
    )


def _by_rounded_weights(normal):
    """A single key has weight 1: v times its scale, rounded to half."""
    errors = []
    for one in normal:
        rounded = _oracle(one.case, one.inputs | {"v_scales": _half(one.inputs["v_scales"])})["out"]
        single = one.inputs["seq_lens"] == 1
        got, want, right = (out[single].double() for out in (one.first.outputs["out"], rounded, one.ref["out"]))
        if not one.comparisons["lse"].passed or not torch.allclose(got, want, rtol=1e-6, atol=0.0):
            return None
        errors.append(((want - right).abs().amax() / right.abs().amax()).item() if bool(single.any()) else 0.0)
    if max(errors, default=0.0) < 1e-5:
        return None
    return Diagnosis(
        "low_precision",
        f"lse is right. Where a sequence has a single token, of weight 1, out is off by {max(errors):.1e}, and is the "
        "bytes times a scale that half precision holds; where it has more, it is not what rounded scales give. The "
        "weight times the scale of v was rounded to half: keep the product float.",
    )


def _by_sum(evidence):
    """out times exp(lse), which is the sum of weighted rows, is right, and the sum of the weights is not."""
    failing = evidence.failing_by_values()
    for one in failing:
        out, lse, right, right_lse = (
            tensors[name].double() for tensors in (one.first.outputs, one.ref) for name in ("out", "lse")
        )
        used = one.inputs["seq_lens"] > 0
        rows = out[used] * torch.exp(lse - right_lse)[used][..., None]
        off = (rows - right[used]).abs().amax() / right.abs().amax()
        if any(comparison.passed for comparison in one.comparisons.values()) or not off <= 1e-3:
            return None
    if not failing:
        return None
    case, comparisons = failing[0].case, failing[0].comparisons
    out, lse = (f"{name} is {c.got:.4g} in place of {c.expected:.4g}" for name, c in comparisons.items())
    return Diagnosis(
        "sum_of_weights",
        f"In the case {case.name!r} {out} and {lse}, but out times exp(lse) is right, and so it is in every case: acc "
        "is right, and l alone is wrong. l is the sum of the weights, each once; no scale of v has a part in it.",
    )


def _diagnose(evidence):
    return _by_scales(evidence) or diagnostics.diagnose(evidence) or _by_sum(evidence)


_PROBES = ("slots of v", "head map", "tiles", "ramp", "equal lse", "one score")


def _probes():
    """Those of paging whose numbers a byte holds well enough."""
    return tuple(probe for probe in diagnostics.probes() if probe.name in _PROBES)


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one token", (1,), heads=(1, 1), schedules=("forward", "reverse")),
        cases.case("one below a page", (3,), heads=(1, 1)),
        cases.case("exactly one page", (4,), heads=(1, 1)),
        cases.case("one above a page", (5,), heads=(1, 1)),
        cases.case("mixed lengths, grouped heads", (15, 1, 8), heads=(4, 2), schedules=("forward", "reverse")),
        cases.case("a sequence without tokens", (0, 6), heads=(1, 1)),
        cases.case("rising scores", (15,), heads=(1, 1), values="rising"),
        cases.case("scores near -100", (13,), heads=(1, 1), values="minus_100"),
        cases.case("scores near +100", (13,), heads=(1, 1), values="plus_100"),
        cases.case("table that ends in -1", (10,), heads=(1, 1), minus_one=True),
        cases.case("pages of 16, head_dim 64", (20, 16), 16, (2, 2), head_dim=64),
        cases.case("pages of 1, head_dim 16", (3,), 1, (3, 1), head_dim=16),
        cases.case("softmax_scale of another size", (6,), heads=(1, 1), scale=0.4),
        cases.case("rows of zeros", (7,), heads=(1, 1), zero_rows=True),
        cases.case("numbers near 1e-5", (6,), heads=(1, 1), size=1e-5, scale=4e4),
        cases.case("falling scores", (15,), heads=(1, 1), values="falling"),
        cases.case("one score of 120", (18,), heads=(1, 1), values="spikes"),
        *cases.ends(),
        cases.case("scores of -32,512 and 32,512", (4, 5), scale=0.25, level=cases.LEVEL, late=True),
        cases.far_below((4, 5)),
        cases.case("keys of tiny weight", (40,), 16, (1, 1), faint=True, late=True),
        cases.case("70 pages of 64", (4475,), 64, (1, 1), "step", late=True, at=4473, times=60.0),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_oracle,
    baseline=_baseline,
    rules={"out": "weights", "lse": "lse"},
    unread=cases.unread,
    largest_score=lambda case, tensors: cases.largest_score(case, _restored(tensors)),
    probes=_probes(),
    diagnose=_diagnose,
    explain=extent.explain,
    ledger_rule=cases.traffic,
    tile=lambda case: (1, cases.head_dim(case)),
)
