"""Every Triton twin compiles to machine code for the architectures of its step, without a GPU."""

import pytest
import torch

from course_lib.cuda.gate import stored
from course_lib.cuda.steps import steps
from course_lib.ops import gate
from course_lib.triton import source

STEMS = [step.stem for step in steps() if step.twins]


@pytest.fixture(scope="module")
def launches():
    return gate.twin_launches()


def test_every_twin_has_an_example(launches):
    twins = {twin for step in steps() for twin in step.twins}
    raw = [source.raw(launch.function) for planned in launches.values() for launch in planned]
    assert {(one.__module__.split(".")[-1], one.__name__) for one in raw} == twins
    assert list(launches) and set(launches) == set(STEMS)


@pytest.mark.parametrize("stem", STEMS)
def test_twin_compiles_for_every_architecture(stem, launches):
    if stored().get((stem, "triton")) == gate.digest(stem, launches[stem]):  # the same text under the same Triton
        return
    archs = set()
    for compiled in gate.compile_twin(stem, launches[stem]):
        archs.add(compiled.arch)
        assert compiled.cubin[:4] == b"\x7fELF" and 0 < compiled.registers <= 255
        assert gate.spilled(compiled) == 0, f"{stem} spills {compiled.spill_bytes} bytes on {compiled.arch}"
    assert archs == set(gate.architectures(stem))


def test_types_and_constants_come_from_the_launch(launches):
    [forward] = [one for one in launches["flash_attention_2/10_heavy_first"] if one.arguments[0].shape[3] == 128]
    signature, constexprs, options = gate.request(forward)
    assert signature["q"] == "*bf16" and signature["lse_ptr"] == "*fp32" and signature["softmax_scale"] == "fp32"
    assert signature["seq_len_q"] == "i32" and signature["stride_q_row"] == "i32:16"
    assert constexprs["CAUSAL"] is True and constexprs["HEAD_DIM"] == 128 and "BLOCK_M" in constexprs
    assert options["num_warps"] >= 4 and not set(options) & {*signature, *constexprs}
    assert gate.request(forward, wide=True)[0]["stride_q_row"] == "i64:16"


def test_head_dims_and_types_that_the_gate_covers(launches):
    covered = {
        (stem, launch.constants.get("HEAD_DIM"), next(x.dtype for x in launch.arguments if isinstance(x, torch.Tensor)))
        for stem, planned in launches.items()
        for launch in planned
    }
    both = "decode/01_single_pass", "decode/04_grouped_heads", "paged/04_paged_grouped", "paged/05_paged_prefill"
    for stem in both:
        assert {(stem, 64, torch.float16), (stem, 128, torch.bfloat16)} <= covered
    assert ("paged/06_quantised_kv", 128, torch.bfloat16) in covered
    assert ("attention/06_flash_attention_1", 64, torch.float32) in covered
    assert ("flash_attention_2/01_loop_order", 64, torch.float16) in covered


def test_a_twin_is_compiled_again_when_anything_has_changed(monkeypatch, launches):
    stem = "decode/04_grouped_heads"
    planned = launches[stem][:1]
    before = gate.digest(stem, planned)
    assert gate.digest(stem, launches[stem]) != before
    with monkeypatch.context() as other:
        other.setitem(planned[0].constants, "BLOCK_N", 16)
        assert gate.digest(stem, planned) != before
    for name, value in (("architectures", lambda _: ("sm_90",)), ("version", lambda _: "99")):
        with monkeypatch.context() as other:
            other.setattr(gate, name, value)
            assert gate.digest(stem, planned) != before
    captured = source.capture(planned[0].function)
    key, (file, line, text) = next(iter(captured.functions.items()))
    captured.functions[key] = file, line, text + "  # more"
    monkeypatch.setattr(source, "capture", lambda _: captured)
    assert gate.digest(stem, planned) != before
