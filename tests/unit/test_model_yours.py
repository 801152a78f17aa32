"""A model on a learner's answers from a work folder: the solutions stand for them."""

import pytest
import torch

from course_lib import checklist
from course_lib.errors import ModelError
from course_lib.grading.exercise import registry
from course_lib.grading.records import work
from course_lib.model import ModelConfig, Transformer
from course_lib.model.answers import ADAPTERS, newest
from course_lib.model.yours import compare, whose

LLAMA = ModelConfig("llama", 29, 64, 1, 2, 1, 32, 64, 32, tie_embeddings=False)
PROMPT = [3, 1, 28, 7, 7]
HALF = {"linear": "04.4", "decode": "09.6", "add_rms_norm": "12.1", "greedy": "12.4"}
FULL = {"attention": "07.3", "decode": "10.4", "rope": "12.2", "greedy": "12.4"}


@pytest.fixture
def passed(tmp_path, monkeypatch):
    """Store solutions of some exercises as answers that passed."""
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path))

    def store(*exercises):
        for exercise in exercises:
            text = checklist.solution_text(registry.get(exercise))
            work.save_text(f"answers/{exercise}", text, work.suffix_of(text))

    return store


def run(model):
    """Logits of a ragged prefill, a step and an extension, float32, and a token."""
    ids = torch.tensor([PROMPT, [5, 0, 9, 0, 0]])
    with torch.no_grad():
        cache = model.new_cache(2, 16)
        logits = [model.prefill(ids, [5, 3], cache), model.step(ids[:, 0], cache)]
        logits.append(model.extend(ids[:, :2], cache).flatten(0, 1))
        return torch.cat(logits).float(), model.kernels.greedy(logits[0])


@pytest.mark.parametrize("dtype, expected", [(torch.float16, HALF), (torch.float32, FULL)])
def test_all_answers_run_the_model(passed, dtype, expected):
    passed(*{exercise for choices in ADAPTERS.values() for exercise, _ in choices})
    model = Transformer.random(LLAMA, seed=2)
    model.weights.layers[0]["norm_1.weight"].add_(0.3)
    model = Transformer(model.weights.to(dtype=dtype))
    wanted, token = run(model)
    model.use("work", fallback="torch")
    got, ours = run(model)
    torch.testing.assert_close(got, wanted, rtol=0.02, atol=1e-5 if dtype == torch.float32 else 2e-3)
    assert torch.equal(ours, token)
    ran = {name for name, source, told in whose(model.kernels).rows if told and "yours" in told}
    assert ran == set(expected)
    for name, exercise in expected.items():
        assert set(getattr(model.kernels, name).ran) == {f"yours ({exercise})"}


def test_one_answer_and_none(passed):
    model = Transformer.random(LLAMA, seed=2)
    assert set(model.use("work", fallback="torch").kernels.sources.values()) == {"torch"}
    assert compare(model, PROMPT).note.startswith("No answer in work/ runs an operation")
    passed("06.4")
    model.use("work", fallback="torch")
    wanted = run(Transformer(model.weights))[0]
    torch.testing.assert_close(run(model)[0], wanted, rtol=1e-4, atol=1e-5)
    assert model.kernels.sources["attention"] == "yours (06.4)"
    assert dict(model.kernels.attention.ran) == {"yours (06.4)": 1}
    assert newest("07.3") is None


def test_losses_and_tokens(passed):
    passed("12.3", "12.4")
    model = Transformer.random(LLAMA, seed=2).use("work", fallback="torch")
    logits = torch.randn(3, 29, generator=torch.Generator().manual_seed(1))
    plain = Transformer(model.weights).kernels
    targets = torch.tensor([3, 0, 28])
    with torch.no_grad():
        torch.testing.assert_close(model.kernels.cross_entropy(logits, targets), plain.cross_entropy(logits, targets))
    numbers = (torch.tensor([1.0, 0.0, 0.7]), torch.tensor([0.1, 0.5, 0.8]))
    options = {"top_p": torch.tensor([0.9, 1.0, 0.6])}
    assert torch.equal(model.kernels.sample(logits, *numbers, **options), plain.sample(logits, *numbers, **options))
    model.kernels.sample(logits, *numbers, top_k=torch.tensor([1, 2, 3], dtype=torch.int32))
    assert dict(model.kernels.sample.ran) == {"yours (12.4)": 1, "torch": 1}
    loss = model.kernels.cross_entropy(logits.requires_grad_(), targets)
    loss.backward()
    assert dict(model.kernels.cross_entropy.ran) == {"yours (12.3)": 1, "torch": 1}


def test_the_table_counts_bytes(passed):
    passed("12.1")
    model = Transformer(Transformer.random(LLAMA, seed=2).weights.to(dtype=torch.float16))
    table = compare(model, PROMPT, num_runs=2)
    (row,) = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert row["operation"] == "add_rms_norm" and row["ran"] == "yours (12.1)"
    rows = 2 * 5 * 64  # bytes of x; weight is read once a row
    assert row["yours, bytes"] == 5 * rows
    assert 4 * rows < row["course, bytes"] <= 5 * rows and row["torch, bytes"] == 4 * rows + 128


def test_an_answer_that_fails_is_named(passed, tmp_path):
    passed("12.4")
    (path,) = (tmp_path / "answers" / "12.4").iterdir()
    path.write_text("def sample_top_p(logits, temperature, top_p, noise):\n    raise ValueError('no luck')\n")
    model = Transformer.random(LLAMA).use("work")
    with pytest.raises(ModelError, match=f"your answer to 12.4, {path.name}, failed in the model: no luck"):
        model.kernels.greedy(torch.zeros(1, 29))
