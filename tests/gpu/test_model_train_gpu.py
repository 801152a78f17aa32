"""Training on the GPU in hand: a recorded step is the eager one, and the course's kernels learn as torch's do."""

import numpy as np
import pytest

from course_lib.model import train
from course_lib.model.config import ModelConfig

STEPS = 30
TINY = ModelConfig("gpt2", 64, 128, 2, 2, 2, 64, 512, 64)  # vocabulary 64, width 128, 2 layers, 2 heads, context 64


def losses(monkeypatch, kernels, graph):
    monkeypatch.setitem(train.SIZES, "tiny", TINY)
    steps = np.random.default_rng(0).integers(1, 3, 5000)
    tokens = (np.cumsum(steps) % TINY.vocab_size).astype(np.uint16)
    recipe = train.Recipe("tiny", STEPS, batch_size=8, warm_up=5, dropout=0.0, kernels=kernels, validate_every=10)
    run = train.Run(recipe, tokens, tokens[:1000], "cuda", graph)
    train.train(run, report=lambda line: None)
    assert int(run.number) == STEPS
    return run.losses.tolist()


@pytest.mark.parametrize("kernels", ["torch", "course"])
def test_a_recorded_step_is_the_eager_one(kernels, monkeypatch):
    recorded, eager = (losses(monkeypatch, kernels, graph) for graph in (True, False))
    assert eager[0] > 4 and eager[-1] < 2.5
    assert recorded == pytest.approx(eager, abs=0.03)


def test_the_courses_kernels_learn_as_torchs_do(monkeypatch):
    course, torchs = (losses(monkeypatch, kernels, True) for kernels in ("course", "torch"))
    assert course == pytest.approx(torchs, abs=0.03)
