"""The solved kernels of the exercises: a GPU and the SIMT machine give the same numbers; those in Triton run."""

import pytest
import torch

from course_lib import solved

RELATIVE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}  # of the largest number; integers: exact


@pytest.mark.parametrize("exercise_id", solved.kernel_ids("cuda"))
def test_engines_agree(exercise_id, monkeypatch):
    kernel = solved.solved(exercise_id)
    on_gpu = kernel.launch("cuda")
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    on_cpu = kernel.launch("cpu")
    for name in kernel.exercise.rules:
        scale = max(1.0, on_cpu[name].double().nan_to_num(posinf=0.0, neginf=0.0).abs().max().item())
        limit = RELATIVE.get(on_cpu[name].dtype, 0.0) * scale
        torch.testing.assert_close(on_gpu[name], on_cpu[name], rtol=0, atol=limit, equal_nan=True)


@pytest.mark.parametrize("exercise_id", solved.kernel_ids("triton"))
def test_a_triton_answer_runs(exercise_id):
    outputs = solved.solved(exercise_id).launch("cuda")
    assert all(not torch.isnan(value.double()).all() for value in outputs.values())
