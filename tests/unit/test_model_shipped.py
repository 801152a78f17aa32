"""The models that ship with the course: their files, their loss, transformers' logits, the text that they write."""

import json
import re
from pydoc_data.topics import topics

import pytest
import torch

from course_lib.errors import ModelError
from course_lib.model import Sampling, generate
from course_lib.model.card import END, loss_of_text
from course_lib.model.shipped import SHIPPED, folder, load_shipped, loss_curve
from course_lib.model.train import SIZES

NAMES = ("small", "draft")


@pytest.fixture(scope="module", params=NAMES)
def shipped(request):
    """(name, model in float32, tokenizer, card)."""
    card = (folder(request.param) / "README.md").read_text("utf-8")
    return request.param, *load_shipped(request.param, dtype=torch.float32), card


def stated(card, row):
    """The first number of a row of the card."""
    return float(re.search(rf"^\| {row} \| ([\d,.]+\d)", card, re.MULTILINE)[1].replace(",", ""))


def test_both_models_are_small_and_share_their_vocabulary():
    assert sorted(path.name for path in SHIPPED.iterdir()) == sorted(NAMES)
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) <= 10_000_000
    small, draft = (folder(name) / "tokenizer.json" for name in NAMES)
    assert small.read_bytes() == draft.read_bytes()
    with pytest.raises(ModelError, match="no model 'large' ships with the course; there are: draft, small."):
        folder("large")


def test_the_card_says_what_is_stored(shipped):
    name, model, tokenizer, card = shipped
    assert model.config == SIZES[name] and tokenizer.get_vocab_size() == model.config.vocab_size
    assert stated(card, "parameters") == model.weights.num_parameters
    assert {x.dtype for x in load_shipped(name)[0].weights.tensors.values()} == {torch.bfloat16}
    assert re.search(r"sha256 of the text \| [0-9a-f]{64} \|", card) and "Python Software Foundation" in card
    curve = loss_curve(name)
    best = min(row["validation_loss"] for row in curve if row["validation_loss"] is not None)
    assert stated(card, "validation loss") == pytest.approx(best, abs=1e-4)
    assert curve[0]["loss"] > 6 and curve[-1]["loss"] < 4 and f"AdamW, {curve[-1]['step']} steps of" in card


def test_the_loss_of_the_excerpt_is_the_cards(shipped):
    name, model, tokenizer, card = shipped
    loss = loss_of_text(model, tokenizer, (folder(name) / "excerpt.txt").read_text("utf-8"))
    assert loss == pytest.approx(stated(card, "loss of excerpt.txt"), abs=5e-4)


def test_transformers_gives_the_same_logits(shipped):
    import transformers

    name, model, tokenizer, _ = shipped
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder(name), dtype=torch.float32).eval()
    ids = torch.tensor([[END, *tokenizer.encode("The lambda expression yields a function object.").ids]])
    with torch.no_grad():
        torch.testing.assert_close(model.forward(ids), theirs(ids).logits, rtol=0, atol=2e-4)
    assert json.loads((folder(name) / "config.json").read_text())["eos_token_id"] == END


def test_it_writes_words_of_pythons_documentation(shipped):
    _, model, tokenizer, _ = shipped
    prompt = [END, *tokenizer.encode("The for statement").ids]
    known = set(re.findall(r"[a-z]+", " ".join(topics.values()).lower()))
    rows = generate(model, [prompt] * 4, max_new_tokens=60, sampling=[Sampling(0.7, seed=seed) for seed in range(4)])
    text = " ".join(tokenizer.decode(row) for row in rows)
    words = re.findall(r"[a-z]+", text.lower())
    assert len(words) > 60 and sum(word in known for word in words) > 0.85 * len(words), text
    assert len(set(words)) > 30, text


def test_the_courses_kernels_learn_as_torchs_do():
    """Their curves differ by less than a twentieth of what another seed changes."""
    files = ("curve_course.csv", "curve_torch.csv", "curve_torch_seed_1.csv")
    course, torchs, other = ([row["loss"] for row in loss_curve("small", file)] for file in files)
    assert len(course) == len(torchs) == len(other) == 20 and course[0] > 8 > 5 > course[-1]
    apart, noise = (sum(abs(a - b) for a, b in zip(torchs, each, strict=True)) / 20 for each in (course, other))
    assert apart < 1e-3 and noise > 20 * apart
