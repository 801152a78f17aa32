"""Both engines, both languages, one answer: GPU, SIMT machine and torch agree on every kernel of the course."""

import pytest
import torch

from benchmarks.counters.counter_cases import CASES as ALL_CASES
from benchmarks.counters.counter_cases import Case
from course_lib import cuda, device
from course_lib.ops import softmax as ops

SHAPES = [(1, 1), (3, 31), (4, 128), (5, 129), (7, 1000), (2, 4097)]
SCORES = {
    "normal": lambda *shape: torch.randn(*shape),
    "rising": lambda *shape: torch.randn(*shape).sort(-1).values,
    "near +100": lambda *shape: torch.randn(*shape) + 100,
    "near -100": lambda *shape: torch.randn(*shape) - 100,
}


CASES = [case for case in ALL_CASES if isinstance(case, Case)]  # test_every_launch.py has what launchers plan


def to_gpu(arguments):
    return [item.cuda() if isinstance(item, torch.Tensor) else item for item in arguments]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gpu_and_simt_machine_agree(case, monkeypatch):
    kernel = cuda.load(case.path, case.kernel, defines=case.defines)
    on_gpu, on_cpu = to_gpu(case.make()), case.make()
    kernel(case.grid, case.block, *on_gpu)
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    assert device.engine() == "cpu"
    kernel(case.grid, case.block, *on_cpu)
    for first, second in zip(on_gpu, on_cpu, strict=True):
        if isinstance(first, torch.Tensor):
            torch.testing.assert_close(first.cpu(), second, rtol=2e-6, atol=1e-6, equal_nan=True)


def test_profile_takes_gpu_tensors_and_writes_back():
    case = CASES[0]
    kernel = cuda.load(case.path, case.kernel, defines=case.defines)
    x, out, n = to_gpu(case.make())
    report = kernel.profile(case.grid, case.block, x, out, n, outputs=(out,))
    assert report.ok and torch.equal(out, x[:n])


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("variant", ops.ROW_VARIANTS)
@pytest.mark.parametrize("scores", SCORES)
def test_softmax(variant, language, scores):
    for shape in SHAPES:
        x = SCORES[scores](*shape)
        got = ops.softmax(x.cuda(), variant=variant, language=language).cpu()
        torch.testing.assert_close(got.double(), x.double().softmax(-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_log_sum_exp(language):
    for shape in SHAPES:
        x = torch.randn(*shape).half()
        got = ops.log_sum_exp(x.cuda(), language=language).cpu()
        torch.testing.assert_close(got.double(), x.double().logsumexp(-1), rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize(("seq_len_q", "seq_len_kv", "lengths"), [(1, 1, [1, 0]), (7, 33, [33, 5]), (40, 20, [20, 3])])
def test_masked_softmax(language, seq_len_q, seq_len_kv, lengths):
    scores = torch.randn(2, seq_len_q, seq_len_kv)
    out, lse = ops.masked_softmax(scores.cuda(), torch.tensor(lengths, dtype=torch.int32).cuda(), language=language)
    rows = torch.arange(seq_len_q)[:, None]
    keys = torch.arange(seq_len_kv)[None, :]
    for batch, length in enumerate(lengths):
        hidden = keys > rows + length - seq_len_q
        masked = scores[batch].double().masked_fill(hidden, -torch.inf)
        want = masked.softmax(-1).nan_to_num(0.0)
        torch.testing.assert_close(out[batch].cpu().double(), want, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(lse[batch].cpu().double(), masked.logsumexp(-1), rtol=1e-5, atol=1e-5)
