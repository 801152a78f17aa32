"""What a round of 13.2 gives, which rows rounding may decide, and the usual mistakes as outcomes of their own.

May import: verdict, torch.
"""

import torch

from course_lib.grading.report.verdict import Diagnosis

CLOSE = 5e-6  # of the whole: what a sum in float may be off by
CLOSE_RATIO = 1e-6  # of p(d): what a product or a ratio in float may be off by
MANY = 0.98  # of the rows of a case, that a guess must fit


def picked(t, target=None):
    """(q, p), each (batch_size, num_draft) float64: the probabilities of the proposals."""
    index = t["draft_tokens"][..., None]
    target = t["target_probs"][:, :-1] if target is None else target
    return (rows.double().gather(2, index)[..., 0] for rows in (t["draft_probs"], target))


def _accepted(t, noise=None, target=None):
    q, p = picked(t, target)
    return (t["accept_noise"] if noise is None else noise).double() * q < p


def _count(accepted):
    """Proposals before the first rejection."""
    return accepted.long().cumprod(dim=1).sum(dim=1)


def _rows_of(t, count, shift=0):
    """(p, q) of the place `count` in each row, q being 0 for the bonus token; p `shift` rows later."""
    rows, p, q = torch.arange(len(count)), t["target_probs"].double(), t["draft_probs"].double()
    q = torch.cat((q, torch.zeros_like(p[:, :1])), dim=1)
    return p[rows, (count + shift).clamp(0, p.shape[1] - 1)], q[rows, count]


def _residual(t, count):
    p, q = _rows_of(t, count)
    return (p - q).clamp(min=0.0)


def _drawn(weights, noise):
    """The first token at which the sum of the weights exceeds noise times their whole sum."""
    cumulative = weights.cumsum(dim=1)
    return (cumulative <= noise[:, None] * cumulative[:, -1:]).sum(dim=1)


def outcome(
    t, *, accepted=_accepted, count=_count, weights=_residual, drawn=_drawn, noise=None, place=0, rest=None, bonus=True
):
    """Tokens (batch_size, num_draft + 1), int64; each option is a mistake.

    `place`: how far after the accepted ones the drawn token is; `rest`: (tokens, accepted, count) -> what comes after
    """
    number = count(accepted(t))
    token = drawn(weights(t, number), (t["draw_noise"] if noise is None else noise).double())
    proposals = torch.nn.functional.pad(t["draft_tokens"], (0, 1), value=-1)
    places, at = torch.arange(proposals.shape[1]), (number + place).clamp(max=proposals.shape[1] - 1)[:, None]
    after = torch.full_like(proposals, -1) if rest is None else rest(proposals, accepted(t))
    tokens = torch.where(places < at, proposals, after)
    tokens = tokens.scatter(1, at, token[:, None])
    if not bonus:
        tokens[number == proposals.shape[1] - 1, -1] = -1
    return tokens


def bordering(t):
    """(batch_size, num_draft + 1) bool: whole rows in which rounding may give one result or another."""
    q, p = picked(t)
    product, count = t["accept_noise"].double() * q, _count(_accepted(t))
    looked_at = torch.arange(q.shape[1]) <= count[:, None]
    close = looked_at & ((product - p).abs() < CLOSE_RATIO * torch.maximum(product, p))
    weights, noise = _residual(t, count), t["draw_noise"].double()
    found = {shift: _drawn(weights, noise + shift) for shift in (-CLOSE, CLOSE)}
    moved = (found[-CLOSE] != found[CLOSE]) & (noise > 0)
    return (close.any(dim=1) | moved)[:, None].expand(-1, q.shape[1] + 1).clone()


def _not_normalised(beyond):
    """The noise against the residual itself; `beyond`: the token where its sum never exceeds the noise."""

    def drawn(weights, noise):
        tokens = (weights.cumsum(dim=1) <= noise[:, None]).sum(dim=1)
        last = weights.shape[1]
        return torch.where(tokens == last, {"none": last, "last": last - 1, "first": 0}[beyond], tokens)

    return drawn


def _of_p(t, count, shift=0):
    return _rows_of(t, count, shift)[0]


def _without_proposal(t, count):
    """p without the proposal that was rejected."""
    p, _ = _rows_of(t, count)
    tokens = torch.nn.functional.pad(t["draft_tokens"], (0, 1))
    index = tokens.gather(1, count[:, None])
    rejected = (count < tokens.shape[1] - 1)[:, None]
    return torch.where(rejected, p.scatter(1, index, 0.0), p)


def _next_row(t, count):
    p, q = _rows_of(t, count, 1)
    return (p - q).clamp(min=0.0)


def _bonus_from(minus_q):
    """The bonus token from the row before the last one, or from the last one less the last row of the draft."""

    def weights(t, count):
        p, q = t["target_probs"].double(), t["draft_probs"].double()
        last = (p[:, -1] - q[:, -1]).clamp(min=0.0) if minus_q else p[:, -2]
        return torch.where((count == q.shape[1])[:, None], last, _residual(t, count))

    return weights


def _reversed(t, count):
    p, q = _rows_of(t, count)
    return torch.where((count < t["draft_tokens"].shape[1])[:, None], (q - p).clamp(min=0.0), p)


def _absolute(t, count):
    p, q = _rows_of(t, count)
    return (p - q).abs()


def _inverted(t):
    q, p = picked(t)
    return t["accept_noise"].double() * p < q


def _likelier(t):
    q, p = picked(t)
    return p >= q


def _up_to(t):
    q, p = picked(t)
    return t["accept_noise"].double() * q <= p


def _by_p(t):
    _, p = picked(t)
    return t["accept_noise"].double() < p


def _by_argmax(t):
    return t["target_probs"][:, :-1].argmax(-1) == t["draft_tokens"]


def _product(t):
    q, p = picked(t)
    return t["accept_noise"].double() * q.cumprod(1) < p.cumprod(1)


def _all_accepted(t):
    return torch.ones_like(t["draft_tokens"], dtype=torch.bool)


def _row_0(t, name):
    return t[name][:1].expand_as(t[name])


def _shortest(accepted):
    return _count(accepted).min().expand(len(accepted))


def _accepted_again(proposals, accepted):
    """Accepted proposals after the rejection, where they were."""
    return torch.where(torch.nn.functional.pad(accepted, (0, 1)), proposals, -1)


def _repeated(t):
    """The drawn token in every place from its own on."""
    tokens, last = outcome(t), _count(_accepted(t))[:, None]
    return torch.where(tokens < 0, tokens.gather(1, last), tokens)


# (code, words, what `outcome` does otherwise or its own tokens); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("no_residual", "the token after a rejection is drawn from p. Then what the draft proposes often comes too often: "
     "draw from (p - q)+", {"weights": _of_p}),
    ("proposal_removed", "the token after a rejection is drawn from p without the proposal. The residual takes q away "
     "from every token: (p - q)+", {"weights": _without_proposal}),
    *(("not_normalised", "the noise is compared with sums of (p - q)+ that stay below 1. Multiply it by the sum",
       {"drawn": _not_normalised(beyond)}) for beyond in ("none", "last", "first")),
    ("residual_reversed", "the residual is (q - p)+, what the draft proposes too often. Missing is (p - q)+",
     {"weights": _reversed}),
    ("residual_absolute", "the residual is |p - q|. Where q is larger the difference is cut off at 0",
     {"weights": _absolute}),
    ("residual_next_row", "the token after a rejection at place i is drawn with row i + 1 of target_probs. Row i is "
     "the distribution of place i", {"weights": _next_row}),
    ("no_bonus", "a row whose proposals are all accepted gets no further token. The last row of p gives one",
     {"bonus": False}),
    ("bonus_row", "the bonus token is drawn from the row before the last one. Row num_draft of target_probs follows "
     "the last proposal", {"weights": _bonus_from(False)}),
    ("bonus_residual", "q is taken away for the bonus token too. Nothing was proposed there, so it is drawn from p",
     {"weights": _bonus_from(True)}),
    ("ratio_inverted", "a proposal is accepted when noise < q(d) / p(d). The ratio is p(d) / q(d)",
     {"accepted": _inverted}),
    ("noise_ignored", "a proposal is accepted when p(d) >= q(d), whatever the noise. Below that it is accepted with "
     "probability p(d) / q(d)", {"accepted": _likelier}),
    ("equal_accepted", "a proposal is accepted when noise * q(d) = p(d), or when a number is added to p(d). With "
     "noise 0 either accepts a token of probability 0; the contract says <", {"accepted": _up_to}),
    ("ratio_capped", "a proposal with p(d) >= q(d) is rejected by a noise of 0.999. Its ratio is 1 or more, and no "
     "noise rejects it", {"accepted": lambda t: _accepted(t) & (t["accept_noise"] < 0.998)}),
    ("q_ignored", "a proposal is accepted when noise < p(d). The draft's probability divides: noise < p(d) / q(d)",
     {"accepted": _by_p}),
    ("by_argmax", "a proposal is accepted when it is the most likely token of its row of target_probs, whatever the "
     "noise", {"accepted": _by_argmax}),
    ("product_of_ratios", "the ratios of a row are multiplied up. Each proposal is judged by its own p(d) / q(d)",
     {"accepted": _product}),
    ("all_accepted", "every proposal is accepted", {"accepted": _all_accepted}),
    ("judged_by_next_row", "proposal i is judged by row i + 1 of target_probs. Row i is what follows the text before "
     "proposal i", {"accepted": lambda t: _accepted(t, target=t["target_probs"][:, 1:])}),
    ("count_of_all", "accepted proposals are counted beyond the first rejection. What follows a rejected token was "
     "proposed after a text that is not there", {"count": lambda accepted: accepted.sum(dim=1)}),
    ("kept_after_rejection", "accepted proposals after the first rejection stay. They were proposed after a token that "
     "is not there: the row ends with the drawn token", {"rest": _accepted_again}),
    ("rejected_kept", "the rejected proposal stays and the drawn token follows it. It takes the proposal's place",
     {"place": 1}),
    ("cut_to_shortest", "all rows end where the shortest one does. Each row has its own number of accepted proposals",
     {"count": _shortest}),
    ("noise_of_row_0", "every row has the accept_noise of row 0",
     {"accepted": lambda t: _accepted(t, _row_0(t, "accept_noise"))}),
    ("noise_of_row_0", "every row has the draw_noise of row 0",
     lambda t: outcome(t, noise=_row_0(t, "draw_noise"))),
    ("noise_of_place_0", "every proposal of a row has the noise of the first one",
     {"accepted": lambda t: _accepted(t, t["accept_noise"][:, :1])}),
    ("most_likely", "the token of the largest weight is taken. The noise draws one",
     {"drawn": lambda weights, noise: weights.argmax(1)}),
    ("sum_up_to_noise", "the sum need not exceed the noise, or when tokens with p <= q get a weight. With noise 0 "
     "either gives token 0, even of weight 0",
     {"drawn": lambda weights, noise: (weights.cumsum(1) < noise[:, None] * weights.sum(1, keepdim=True)).sum(1)}),
    ("rest_not_minus_1", "the places after the last token hold 0 in place of -1",
     {"rest": lambda proposals, accepted: torch.zeros_like(proposals)}),
    ("rest_not_minus_1", "the places after the last token hold the proposals in place of -1",
     {"rest": lambda proposals, accepted: proposals}),
    ("rest_not_minus_1", "the places after the last token repeat the drawn one in place of -1",
     _repeated),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong tokens."""
    failing = [one for one in evidence.failing() if one.ran and one.comparisons]
    if not failing or len(failing) < len(evidence.failing()):
        return None
    start = _say(failing[0])
    for code, words, options in MISTAKES:
        if all(_fits(one, options) for one in [*failing, *evidence.passing()]):
            return Diagnosis(code, f"{start} It is what comes when {words}.")
    return Diagnosis("wrong_token", start)


def _fits(one, options):
    """Whether the tokens of a case are those of a guess in all rows that no rounding decides, but for a few."""
    t, got = one.inputs, one.first.outputs["tokens"]
    want = options(t) if callable(options) else outcome(t, **options)
    wrong = ((want != got) & ~one.unread["tokens"]).any(dim=1)
    return int(wrong.sum()) <= round((1.0 - MANY) * len(got))


def _say(one):
    """The facts of the first wrong row of a case."""
    row, t = one.comparisons["tokens"].index[0], one.inputs
    got, want = (tokens[row].tolist() for tokens in (one.first.outputs["tokens"], outcome(t)))
    q, p = (values[row].tolist() for values in picked(t))
    said = ", ".join(
        f"{token} (q {a:.3g}, p {b:.3g}, noise {noise:.3g})"
        for token, a, b, noise in zip(
            t["draft_tokens"][row].tolist(), q, p, t["accept_noise"][row].tolist(), strict=True
        )
    )
    wrong = int(one.comparisons["tokens"].wrong.any(dim=1).sum())
    return (
        f"Case {one.case.name!r}, row {row}, proposals {said}: the tokens are {got} and should be {want}; {wrong} of "
        f"{len(t['draft_tokens'])} rows are wrong."
    )
