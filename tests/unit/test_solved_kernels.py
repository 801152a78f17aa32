"""Every solved kernel exercise runs, and those in Triton compile for every architecture; CUDA has the compile gate."""

import pytest
import torch
from compiled_before import of_triton

from course_lib import solved
from course_lib.cuda import gate
from course_lib.grading.exercise import registry

ARCHITECTURES = tuple(arch for arch in gate.ARCHITECTURES if not arch.endswith("a"))  # Triton picks sm_90a itself


@pytest.mark.parametrize("exercise_id", [*solved.kernel_ids("cuda"), *solved.kernel_ids("triton")])
def test_it_runs(exercise_id):
    kernel = solved.solved(exercise_id)
    outputs = kernel.launch("cpu")
    for name in kernel.exercise.rules:
        assert name in outputs and outputs[name].numel() > 0
        assert not torch.isnan(outputs[name].double()).all()


@pytest.mark.parametrize("exercise_id", solved.kernel_ids("triton"))
def test_it_compiles_for_every_architecture(exercise_id, compiled_before):
    kernel = solved.solved(exercise_id)
    if compiled_before(of_triton(*kernel.request()), ARCHITECTURES):
        return
    for arch in ARCHITECTURES:
        compiled = kernel.compile_for(arch)
        assert compiled.cubin[:4] == b"\x7fELF" and 0 < compiled.registers <= 255, arch


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("exercise_id", ["07.2", "07.5", "07.6"])  # the others have one dtype
def test_it_compiles_in_half_precision_too(exercise_id, arch, compiled_before):
    kernel = solved.solved(exercise_id, dtype="float16")
    assert kernel.run.inputs["q"].dtype == torch.float16
    if compiled_before(of_triton(*kernel.request()), arch):
        return
    compiled = kernel.compile_for(arch)
    assert compiled.cubin[:4] == b"\x7fELF" and 0 < compiled.registers <= 255


def test_the_compile_gate_lists_the_answers_of_cuda_exercises():
    for exercise_id in solved.kernel_ids("cuda"):
        path = registry.ROOT / registry.get_document(exercise_id).solution
        assert path in gate.files(), f"{exercise_id}: no gate compiles {path}"
