"""Speculative decoding: a cheap draft proposes a few tokens, the model looks at all of them in one step.

The tokens have the model's own distribution whatever the draft proposes; greedily they are the model's own tokens.
A token d that the draft proposed with probability q(d) is accepted with probability min(1, p(d) / q(d)); where it is
not, the token comes from (p - q)+, normalised: what the draft proposes too rarely.

Source: Leviathan, Kalman, Matias, Fast Inference from Transformers via Speculative Decoding, 2023, algorithm 1

May import: errors, expect, reference.sampling, model.generate, model.prompts, torch.
"""

from dataclasses import dataclass

import torch

from .. import expect
from ..errors import ModelError
from ..reference.sampling import kept_probabilities
from .generate import Sampling
from .prompts import checked_prompts, require_model


@dataclass
class Counts:
    """Of one request: steps of the model, tokens that the draft proposed, and how many of them were accepted."""

    rounds: int = 0
    proposed: int = 0
    accepted: int = 0

    def add(self, proposed, accepted):
        """Count one round."""
        self.rounds += 1
        self.proposed += proposed
        self.accepted += accepted


class NgramDraft:
    """Proposes what followed the last few tokens when they came before; costs nothing but a look at the text."""

    def __init__(self, longest=3):
        """longest : int, how many of the last tokens are looked for first; then fewer"""
        self.longest = expect.whole("longest", longest, 1, error=ModelError)

    def start(self, capacity):
        """Nothing is kept between the rounds."""

    def propose(self, tokens, count, choose):
        """(proposals, None): up to `count` tokens, and that each was certain."""
        for length in range(min(self.longest, len(tokens) - 1), 0, -1):
            wanted = tokens[-length:]
            for start in range(len(tokens) - length - 1, -1, -1):
                if tokens[start : start + length] == wanted:
                    return tokens[start + length : start + length + count], None
        return [], None


class ModelDraft:
    """Proposes with a smaller model of the same vocabulary, from a cache of its own."""

    def __init__(self, model):
        require_model(model)
        self.model = model

    def start(self, capacity):
        """An empty cache for a request."""
        self.cache, self.known = self.model.new_cache(1, min(capacity, self.model.config.max_positions)), []

    def propose(self, tokens, count, choose):
        """(proposals, probabilities): `count` tokens, chosen as `choose` says, and the rows they were chosen from."""
        same = 0
        while same < min(len(self.known), len(tokens) - 1) and self.known[same] == tokens[same]:
            same += 1
        self.cache.truncate(same)
        room = min(count, self.cache.capacity - len(tokens) + 1)
        fresh, proposals, rows = tokens[same:], [], []
        for _ in range(room):
            token, row = choose(self._logits(fresh, same))
            same, fresh = same + len(fresh), [token]
            proposals.append(token)
            rows.append(row)
        self.known = (tokens + proposals)[:same]
        return proposals, rows

    def _logits(self, fresh, same):
        """Logits of the last of some new tokens, (1, vocab_size)."""
        ids = torch.tensor([fresh], device=self.model.device)
        if same == 0:
            return self.model.prefill(ids, [len(fresh)], self.cache)
        return self.model.extend(ids, self.cache)[:, -1]


@torch.no_grad()
def speculate(model, prompt, draft, *, max_new_tokens=32, num_draft=4, sampling=None, eos=None):
    """New tokens of one prompt, as `generate` would give them, and how the draft did.

    Parameters
    ----------
    model : Transformer
    prompt : list of int
    draft : NgramDraft or ModelDraft
    num_draft : int, tokens proposed a round, 1 or more
    sampling : Sampling or None: greedy

    Returns
    -------
    tokens : list of int; greedily those of `generate`, else of the same distribution
    counts : Counts

    Raises
    ------
    ModelError  as `generate`; a draft with another vocabulary; num_draft below 1
    """
    (prompt,), max_new_tokens = checked_prompts(model, [prompt], max_new_tokens, eos)
    num_draft = min(_checked_draft(model, draft, num_draft), max(1, max_new_tokens))
    sampling = Sampling() if sampling is None else expect.kind("sampling", sampling, Sampling, error=ModelError)
    if max_new_tokens == 0:
        return [], Counts()
    rule, counts = _Rule(sampling), Counts(rounds=1)
    capacity = len(prompt) + max_new_tokens + num_draft
    cache = model.new_cache(1, capacity)
    draft.start(capacity)
    new = [rule.choose(model.prefill(torch.tensor([prompt], device=model.device), [len(prompt)], cache))[0]]
    while len(new) < max_new_tokens and eos not in new:
        count = min(num_draft, max_new_tokens - len(new) - 1)
        proposals, rows = draft.propose(prompt + new, count, rule.choose) if count else ([], None)
        ids = torch.tensor([[new[-1], *proposals]], device=model.device)
        accepted, token = rule.judge(model.extend(ids, cache)[0], proposals, rows)
        counts.add(len(proposals), accepted)
        new += [*proposals[:accepted], token]
        cache.truncate(len(prompt) + len(new) - 1)
    return new[: new.index(eos) + 1] if eos in new else new, counts


class _Rule:
    """How tokens are chosen and proposals judged: greedily, or by accepting and rejecting."""

    def __init__(self, sampling):
        self.sampling, self.generator = sampling, sampling.generator()

    def choose(self, logits):
        """(token, its row of probabilities or None): from logits (1, vocab_size)."""
        if self.sampling.temperature == 0:
            return int(logits[0].argmax()), None
        row = self._probabilities(logits)[0]
        return self._draw(row), row

    def judge(self, logits, proposals, rows):
        """(number of proposals accepted, the token that follows them); logits (1 + len(proposals), vocab_size).

        rows : what the draft chose from, or None where each proposal was certain
        """
        if self.sampling.temperature == 0:
            best = logits.argmax(-1).tolist()
            accepted = next((i for i, token in enumerate(proposals) if token != best[i]), len(proposals))
            return accepted, best[accepted]
        target = self._probabilities(logits)
        for index, token in enumerate(proposals):
            p = target[index]
            q = torch.zeros_like(p).index_fill_(0, torch.tensor(token), 1.0) if rows is None else rows[index]
            if self._uniform() * float(q[token]) >= float(p[token]):
                rest = (p - q).clamp(min=0.0)
                return index, self._draw(rest / rest.sum())
        return len(proposals), self._draw(target[-1])

    def _probabilities(self, logits):
        """(num_rows, vocab_size) float64 on the CPU, after temperature and filters."""
        options = {"temperature": torch.float32, "top_k": torch.int32, "top_p": torch.float32, "min_p": torch.float32}
        numbers = {
            name: torch.full((len(logits),), getattr(self.sampling, name), dtype=options[name]) for name in options
        }
        return kept_probabilities(logits.cpu(), **numbers)

    def _uniform(self):
        return float(torch.rand((), generator=self.generator, dtype=torch.float64, device="cpu"))

    def _draw(self, row):
        return int(torch.multinomial(row, 1, generator=self.generator))


def _checked_draft(model, draft, num_draft):
    """num_draft; ModelError where it is no number of tokens, or the draft none or of another vocabulary."""
    num_draft = expect.whole("num_draft", num_draft, 1, most=None, error=ModelError)
    if not all(callable(getattr(draft, name, None)) for name in ("start", "propose")):
        raise ModelError(f"draft is {expect.shown(draft)}; expected a draft, as NgramDraft() or ModelDraft(model).")
    small = getattr(draft, "model", None)
    if small is not None and small.config.vocab_size != model.config.vocab_size:
        raise ModelError(
            f"the draft has {small.config.vocab_size} tokens and the model {model.config.vocab_size}; they must share "
            "one vocabulary."
        )
    return num_draft
