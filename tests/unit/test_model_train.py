"""Training the small model: the corpus, the curve, the course's gradients against torch's, the files."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from course_lib.errors import CourseError, UnsupportedError
from course_lib.model import Transformer, card, corpus, random_weights, train
from course_lib.model.config import ModelConfig
from course_lib.model.training_kernels import training_kernels
from course_lib.model.weights import table

TINY = ModelConfig("gpt2", 64, 32, 1, 2, 2, 16, 128, 8)  # vocabulary 64, width 32, a layer, two heads, context 8
RECIPE = train.Recipe("tiny", steps=40, batch_size=8, learning_rate=1e-2, warm_up=5, dropout=0.1, validate_every=20)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(train.SIZES, "tiny", TINY)


def tokens(count=400):
    """Every token is the one before plus 1 or 2."""
    steps = np.random.default_rng(0).integers(1, 3, count)
    return (np.cumsum(steps) % TINY.vocab_size).astype(np.uint16)


def curve_of(recipe):
    kept, curve = train.train(train.Run(recipe, tokens(), tokens(100)), report=lambda line: None)
    return kept, curve


def losses(curve):
    return [(point.step, point.loss, point.validation_loss) for point in curve]


def test_the_loss_falls_and_a_seed_gives_one_curve():
    kept, curve = curve_of(RECIPE)
    assert [point.step for point in curve] == [10, 20, 30, 40]
    assert curve[0].loss > 3.5 and curve[-1].validation_loss < 1.5  # log(64) = 4.2; log(2) = 0.7 is the least
    assert losses(curve_of(RECIPE)[1]) == losses(curve)
    assert losses(curve_of(replace(RECIPE, seed=1))[1]) != losses(curve)


def test_the_checkpoint_is_the_one_of_the_lowest_validation_loss(monkeypatch):
    run, found = train.Run(RECIPE, tokens(), tokens(100)), iter([1.0, 2.0])
    monkeypatch.setattr(run, "validate", lambda: next(found))
    kept, _ = train.train(run, report=lambda line: None)
    halfway = train.Run(RECIPE, tokens(), tokens(100))
    for _ in range(20):
        halfway.step()
    assert all(torch.equal(kept[name], x) for name, x in halfway.weights.tensors.items())


def test_the_learning_rate_rises_then_falls_to_a_tenth():
    rates = [train.learning_rate(replace(RECIPE, steps=105), step) for step in range(105)]
    assert rates[:5] == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.01])
    assert rates[5] == pytest.approx(0.01) and rates[55] == pytest.approx(0.0055)
    assert rates[104] == pytest.approx(0.001, rel=0.01)


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(CourseError, match="train has 8 tokens up to .*expected more than 8, each below 64"):
        train.Run(RECIPE, tokens(8), tokens(100))
    with pytest.raises(UnsupportedError, match="'mine' has no embedding; choose one of torch, course"):
        training_kernels("mine")


def test_gradients_of_the_courses_kernels_are_torchs():
    config = replace(TINY, hidden_size=128, head_dim=64, intermediate_size=256)  # compiled elsewhere too
    weights, generator = random_weights(config), torch.Generator().manual_seed(1)
    for x in weights.tensors.values():
        x += 0.1 * torch.randn(x.shape, generator=generator)
        x.requires_grad_()
    ids, targets = torch.randint(0, config.vocab_size, (2, 2, 8), generator=generator)
    found = []
    for backend in ("course", "torch"):
        kernels = training_kernels(backend)
        loss = kernels.cross_entropy(Transformer(weights, kernels).forward(ids).flatten(0, 1), targets.flatten())
        found.append((loss.detach(), torch.autograd.grad(loss, list(weights.tensors.values()))))
    (ours, our_gradients), (theirs, their_gradients) = found
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    for name, a, b in zip(weights.tensors, our_gradients, their_gradients, strict=True):
        assert b.abs().max() > 1e-3, name
        torch.testing.assert_close(a, b, rtol=0, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}")


def test_the_course_runs_its_own_kernels(monkeypatch):
    assert training_kernels("course").sources == dict.fromkeys(training_kernels("course").sources, "course") | {
        "linear": "torch"
    }
    kernels = training_kernels("torch", dropout=0.5)
    x = kernels.gelu(torch.ones(1000))
    assert 400 < (x == 0).sum() < 600 and x.max() == pytest.approx(2 * 0.8412, abs=1e-3)


def test_sizes():
    counts = {
        name: sum(np.prod(entry.shape) for entry in table(train.SIZES[name])) for name in ("small", "draft", "nano")
    }
    assert counts == {"small": 3_554_304, "draft": 986_624, "nano": 366_336}


SOURCE = '''
"""A module."""
import os

def f(a, *, b=2) -> int:
    """Say one thing.

    And more.
    """
    return 1

def g(x):
    return x

class C(Base):
    def m(self):
        """A method."""
'''
EXTRACTED = '''"""A module."""

def f(a, *, b=2) -> int:
    """Say one thing.

    And more."""

class C(Base):

    def m(self):
        """A method."""'''


def test_docstrings_come_with_their_signatures():
    assert corpus.docstrings(SOURCE) == EXTRACTED
    assert corpus.docstrings("x = 1") == "" and corpus.docstrings("print 'old'") == ""
    assert corpus.tidy("\n a \t\n\n\n\nb\n\n") == " a\n\nb\n"


def test_documents_have_one_order_and_a_hash(tmp_path):
    (tmp_path / "lib" / "test").mkdir(parents=True)
    for name, text in {"b.py": '"""B."""', "a.py": '"""A."""', "test/c.py": '"""C."""', "d.py": "x = 1"}.items():
        (tmp_path / "lib" / name).write_text(text)
    (tmp_path / "01.md").write_text("# One")
    found = corpus.documents(tmp_path, tmp_path / "lib")
    names = [document.name for document in found]
    assert names[0] == "chapters/01.md" and names[-2:] == ["docstrings/a.py", "docstrings/b.py"]
    assert "topics/for" in names and names[1:-2] == sorted(names[1:-2])
    changed = [*found[:-1], corpus.Document("docstrings/b.py", "other")]
    assert (
        corpus.facts(found) == corpus.facts(list(found)) and corpus.facts(found).sha256 != corpus.facts(changed).sha256
    )


@pytest.fixture(scope="module")
def small_corpus(tmp_path_factory):
    """A folder as corpus.main writes it, of a few documents."""
    folder = tmp_path_factory.mktemp("corpus")
    found = [
        corpus.Document(f"topics/{number}", f"Line {number} says for x in range({number}):\n" * 9)
        for number in range(40)
    ]
    return folder, found, corpus.write(folder, found, vocab_size=300)


def test_tokens_are_the_documents(small_corpus):
    folder, found, described = small_corpus
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    packed = np.load(folder / "train.npy")
    assert packed.dtype == np.uint16 and packed[0] == 0 and len(packed) == described.train_tokens
    kept = [document.text for document in found if not document.held_out]
    assert tokenizer.decode_batch(np.split(packed, np.flatnonzero(packed == 0))[1:]) == kept
    assert 0 < described.held_out_documents < 10 and described.documents == 40
    assert tokenizer.decode(tokenizer.encode("naïve ☃\x00").ids) == "naïve ☃\x00"


def test_a_corpus_without_enough_text_is_refused(tmp_path):
    few = [corpus.Document(f"topics/{number}", "a b") for number in range(40)]
    with pytest.raises(CourseError, match="gives 258 tokens; expected vocab_size=300"):
        corpus.write(tmp_path, few, vocab_size=300)
    with pytest.raises(CourseError, match="1 documents to learn from and 0 held out"):
        corpus.write(tmp_path, few[:1])


def test_the_written_model_is_the_trained_one(small_corpus, tmp_path, monkeypatch):
    from safetensors.torch import load_file

    size = replace(TINY, vocab_size=300)
    monkeypatch.setitem(train.SIZES, "tiny", size)
    monkeypatch.setattr(card, "PROMPTS", ("Line",))
    folder = small_corpus[0]
    options = "--size tiny --steps 10 --batch-size 2 --warm-up 2 --validate-every 10 --device cpu --minutes 5"
    train.main(["--data", str(folder), "--out", str(tmp_path / "model"), *options.split()])
    stored = load_file(tmp_path / "model/model.safetensors")
    assert stored["transformer.h.0.attn.c_attn.weight"].shape == (32, 96) and len(stored) == 16
    assert {x.dtype for x in stored.values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "model/config.json").read_text())["n_embd"] == 32
    lines = (tmp_path / "model/curve.csv").read_text().splitlines()
    assert lines[0] == "step,learning_rate,loss,validation_loss,step_ms" and len(lines) == 2
    text = (tmp_path / "model/README.md").read_text()
    assert small_corpus[2].sha256 in text and "--seed 0" in text and "Python Software Foundation" in text
