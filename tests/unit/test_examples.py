"""Every step has an example launch in every language it has, so that the sanitizer watches the whole course."""

import pytest

from course_lib.cuda import steps
from course_lib.ops.examples import examples
from course_lib.triton_kernels import load


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_every_step_has_an_example(language):
    declared = {step.stem for step in steps.steps() if language in step.languages}
    launched = {example.stem for example in examples("cpu") if example.language == language}
    assert launched == declared, f"missing: {sorted(declared - launched)}; unknown: {sorted(launched - declared)}"


def test_examples_have_names_of_their_own():
    names = [example.name for example in examples("cpu")]
    assert len(names) == len(set(names))


def test_an_example_plans_what_its_name_says():
    [example] = [one for one in examples("cpu") if one.name == "softmax/02_online triton"]
    assert example.plan().function is load("softmax/02_online")


def test_a_header_declares_the_step():
    step = steps.step("paged/06_quantised_kv")
    assert step.kernels == ("quantised_kv_kernel",) and step.languages == ("cuda", "triton")
    assert step.twins == (("paged_quantised", "quantised_kv_kernel"), ("paged", "reduce_kernel"))
    assert {"HEAD_DIM", "ELEMENT", "KV", "NUM_Q_PER_KV"} <= step.macros
    assert {variant["HEAD_DIM"] for variant in step.variants} == {"64", "128"}
    assert "BLOCK" not in steps.step("softmax/03_online_warp").macros


def test_every_declared_twin_is_there_and_unknown_ones_are_named():
    for step in steps.steps():
        for _, name in step.twins:
            assert load(step.stem, name).fn.__name__ == name
    with pytest.raises(KeyError, match="combine_kernel"):
        load("decode/02_split_kv")
    with pytest.raises(KeyError, match="02_online"):
        steps.step("softmax/02")
