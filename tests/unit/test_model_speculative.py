"""Speculative decoding: greedily the model's own tokens, sampled the model's own distribution."""

import pytest
import torch

from course_lib.errors import ModelError
from course_lib.model import ModelConfig, ModelDraft, NgramDraft, Sampling, Transformer, generate, speculate
from course_lib.model.speculative import _Rule

SMALL = ModelConfig("gpt2", 13, 16, 1, 2, 2, 8, 16, 64)


def random_model(seed, num_layers=1, vocab_size=13):
    config = ModelConfig("gpt2", vocab_size, 16, num_layers, 2, 2, 8, 16, 64)
    model = Transformer.random(config, seed)
    for tensor in model.weights.tensors.values():
        tensor.mul_(8.0 if tensor.ndim == 2 else 1.0)
    return model


@pytest.fixture(scope="module")
def model():
    return random_model(1, num_layers=2)


DRAFTS = {
    "another model": lambda model: ModelDraft(random_model(2)),
    "the model itself": lambda model: ModelDraft(model),
    "look-up": lambda model: NgramDraft(2),
}


@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("prompt", [[3], [1, 2, 3, 1, 2, 3, 1]])
def test_greedy_tokens_are_the_models(model, name, prompt):
    expected = generate(model, [prompt], max_new_tokens=24)[0]
    for num_draft in (1, 3, 4):
        tokens, counts = speculate(model, prompt, DRAFTS[name](model), max_new_tokens=24, num_draft=num_draft)
        assert tokens == expected
        assert counts.rounds + counts.accepted == 24
        if name == "the model itself":
            assert counts.accepted == counts.proposed > 0


def test_look_up_proposes_what_followed():
    draft = NgramDraft(2)
    assert draft.propose([5, 6, 7, 8, 5, 6], 3, None) == ([7, 8, 5], None)
    assert draft.propose([5, 9, 7, 8, 5], 1, None) == ([9], None)
    assert draft.propose([1, 2, 3], 4, None) == ([], None)


def test_end_and_limits(model):
    expected = generate(model, [[3]], max_new_tokens=12)[0]
    eos = expected[5]
    first = expected.index(eos)
    assert speculate(model, [3], ModelDraft(model), max_new_tokens=12, eos=eos)[0] == expected[: first + 1]
    for count in (0, 1, 2):
        assert speculate(model, [3], NgramDraft(), max_new_tokens=count)[0] == expected[:count]
    with pytest.raises(ModelError, match="17 tokens and the model 13"):
        speculate(model, [3], ModelDraft(random_model(0, vocab_size=17)))


def chi_square(counts, probabilities):
    """The statistic over the cells that can occur; a count where the probability is 0 is infinitely wrong."""
    if counts[probabilities == 0].any():
        return float("inf")
    kept = probabilities > 0
    expected = probabilities[kept] * counts.sum()
    return float(((counts[kept] - expected) ** 2 / expected).sum())


LIMIT = 21.1  # chi-square of 3 degrees of freedom above which 1 in 10,000 lies; the seeds are fixed
P = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)


@pytest.mark.parametrize("draft", [[0.1, 0.2, 0.3, 0.4], [0.5, 0.3, 0.15, 0.05], [0.0, 0.0, 0.0, 1.0], None])
def test_accepted_and_rejected_tokens_have_the_models_distribution(draft):
    rule = _Rule(Sampling(1.0, seed=3))
    logits = torch.stack((P, P.flip(0))).log()
    (counts, bonus), rounds, accepted = torch.zeros(2, 4, dtype=torch.float64), 2500, 0
    q = None if draft is None else torch.tensor(draft, dtype=torch.float64)
    for _ in range(rounds):
        proposal = 1 if q is None else rule._draw(q)
        taken, token = rule.judge(logits, [proposal], None if q is None else [q])
        counts[proposal if taken else token] += 1
        bonus[token] += taken
        accepted += taken
    assert chi_square(counts, P) < LIMIT
    assert chi_square(bonus, P.flip(0)) < LIMIT, "what follows an accepted token is the next row's"
    share = P[1] if q is None else torch.minimum(P, q).sum()
    assert abs(accepted / rounds - float(share)) < 0.035
    if draft == P.tolist():
        assert accepted == rounds


def test_sampled_text_has_the_models_distribution():
    model, draft = random_model(5, vocab_size=4), random_model(6, vocab_size=4)
    prompt, sampling = [2, 1], Sampling(0.8, top_k=3)
    counts = torch.zeros(4, 4, dtype=torch.float64)
    for seed in range(400):
        options = Sampling(sampling.temperature, sampling.top_k, seed=seed)
        tokens = speculate(model, prompt, ModelDraft(draft), max_new_tokens=3, num_draft=2, sampling=options)[0]
        counts[tokens[0], tokens[1]] += 1
    rule = _Rule(sampling)
    first = rule._probabilities(model.forward(torch.tensor([prompt]))[0, -1:].detach())[0]
    second = torch.stack(
        [rule._probabilities(model.forward(torch.tensor([[*prompt, t]]))[0, -1:].detach())[0] for t in range(4)]
    )
    assert chi_square(counts.flatten(), (first[:, None] * second).flatten()) < 33.0  # 8 degrees, 1 in 10,000: 31.8
