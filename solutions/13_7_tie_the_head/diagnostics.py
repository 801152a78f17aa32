"""What wrong models of 13.7 look like, in words and numbers.

May import: guesses, verdict, torch.
"""

import torch
import torch.nn.functional as F

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess

from .outcomes import FACTS, body, outcome, right_facts, tied

ROUNDED = 1e-5  # of the largest logit, the most that float32 is off by
SMALL = 1e-3  # largest difference of a head that is nearly the table


def _scaled(embed, head):
    """The forward pass with both ends multiplied by powers of the root of hidden_size."""

    def forward(ids, table, inner, end):
        root = table.shape[1] ** 0.5
        return body(F.embedding(ids, table) * root**embed, inner) @ end.T * root**head

    return forward


def _reshaped(ids, table, inner, end):
    return body(F.embedding(ids, table), inner) @ end.reshape(end.shape[1], -1)


def _not_transposed(ids, table, inner, end):
    return body(F.embedding(ids, table), inner) @ (end if end.shape[0] == end.shape[1] else end.T)


def _embedded(**options):
    return lambda ids, table, inner, end: body(F.embedding(ids, table, **options), inner) @ end.T


def _cut(ids, table, inner, end):
    return body(F.embedding(ids, table, max_norm=1.0), inner) @ end.T


def _without_body(ids, table, inner, end):
    return F.embedding(ids, table) @ end.T


def _normalised(ids, table, inner, end):
    return body(F.normalize(F.embedding(ids, table), dim=-1), inner) @ end.T


def _counted_once(ids, table, inner, end):
    flat = ids.flatten().tolist()
    first = torch.tensor([token not in flat[:place] for place, token in enumerate(flat)]).view(ids.shape)[..., None]
    rows = F.embedding(ids, table)
    return body(torch.where(first, rows, rows.detach()), inner) @ end.T


def _still(ids, table, inner, end):
    """An embedding that keeps its first values: `end` is those, and the table the head."""
    return body(F.embedding(ids, end), inner) @ table.T


def _body_detached(ids, table, inner, end):
    x = F.embedding(ids, table)
    return (x + torch.tanh(x @ inner).detach()) @ end.T


MISTAKES = {  # code: (words, forward, options of `outcome`)
    "stale_head": (
        "The head keeps its first values: training changes the table, and not what makes the logits.",
        tied, {"kind": "stale"},
    ),
    "stale_embedding": (
        "The embedding keeps its first values: training changes the head alone.", _still, {"kind": "stale"},
    ),
    "reshaped": (
        "The head is a reshape of the table, which has the shape of its transpose and other numbers in each column.",
        _reshaped, {},
    ),
    "not_transposed": (
        "Where the table is square the head is the table itself: logit i is the product with row i of it, so x is "
        "multiplied with its transpose.", _not_transposed, {},
    ),
    "scaled_logits": (
        "The logits are divided by the root of hidden_size; this model has no scale.", _scaled(0, -1), {},
    ),
    "scaled_embedding": (
        "The embedding is multiplied by the root of hidden_size; this model has no scale.", _scaled(1, 0), {},
    ),
    "scaled_both": (
        "Both ends are scaled: the embedding times the root of hidden_size, the logits divided by it.",
        _scaled(1, -1), {},
    ),
    "no_body": ("These are the logits without the body.", _without_body, {}),
    "normalised": ("The embedding's rows are divided by their length.", _normalised, {}),
    "clipped_rows": (
        "Rows longer than 1 are cut to that length: max_norm changes the table, and so the head.", _cut, {},
    ),
    "head_detached": (
        "The gradient is that of the embedding alone; the head's, d_logits^T x, has to be added.",
        lambda ids, table, inner, end: tied(ids, table, inner, end.detach()), {},
    ),
    "embedding_detached": (
        "The gradient is that of the head alone; the embedding's, row by row of the tokens, has to be added.",
        lambda ids, table, inner, end: tied(ids, table.detach(), inner, end), {},
    ),
    "gradient_halved": (
        "The gradient of the table is half of the sum: two uses add up, they are not averaged.", tied, {"scale": 0.5},
    ),
    "padding_row": (
        "Token 0 gets no gradient from the embedding, as with padding_idx=0; here it is a token.",
        _embedded(padding_idx=0), {},
    ),
    "by_frequency": (
        "The embedding's gradient is divided by how often a token comes (scale_grad_by_freq).",
        _embedded(scale_grad_by_freq=True), {},
    ),
    "counted_once": (
        "A token that comes again gives its row a gradient once; each place of it adds one.", _counted_once, {},
    ),
    "body_detached": ("No gradient comes through the body.", _body_detached, {}),
    "copies_trained": ("The optimiser has copies: no step changes the model.", tied, {"stepped": ()}),
    "no_decay": ("The steps are those without weight_decay.", tied, {"decay": 0.0}),
    "twice_decay": (
        "The steps are those of twice the weight_decay: the table is one matrix and decays once.", tied, {"decay": 2.0},
    ),
}  # fmt: skip
SECOND = {
    "untied": (
        "There are two matrices: the embedding gets its part of the gradient, the head another, and they part with "
        "the first step.", tied, {"kind": "copy"},
    ),
    "two_parameters": (
        "Head and table are two parameters on the same memory: equal numbers, but each has its own gradient and its "
        "own moments in the optimiser, which steps on that memory twice.", tied, {"kind": "alias"},
    ),
}  # fmt: skip


def diagnose(evidence, numbers):
    """Diagnosis by the facts of the first case in which they are wrong, else by what comes out.

    numbers : function(case) that gives what else the model is trained with
    """

    def oracle(case, t, forward, options):
        return outcome(t, numbers(case), forward, **options)

    def guesses(mistakes):
        return [
            (code, words, lambda case, t, f=forward, o=options: oracle(case, t, f, o))
            for code, (words, forward, options) in mistakes.items()
        ]

    failing = [one for one in evidence.failing() if one.ran and one.comparisons]
    if not failing or len(failing) < len(evidence.failing()):
        return None
    odd = [one for one in failing if "facts" in one.comparisons and not one.comparisons["facts"].passed]
    odd.sort(key=lambda one: -one.inputs["table"].numel())  # where the numbers of the parts are far apart
    if odd and odd[0].first.outputs["facts"].shape == (len(FACTS),):
        return _of_parameters(odd[0], evidence, guesses(SECOND)) or _of_file(odd)
    return by_guess(evidence, guesses(MISTAKES)) or _of_precision(failing)


def _of_precision(failing):
    """Of logits that are right in float32 and no further, or nearly so."""
    one = failing[0]
    if any(case.comparisons["lost"].passed for case in failing):
        return None
    if any(case.comparisons["logits"].max_error > ROUNDED * case.ref["logits"].abs().max() for case in failing):
        return None
    start = f"In the case {one.case.name!r} the logits are off by up to {one.comparisons['logits'].max_error:.1g}"
    if all((case.first.outputs["lost"] == 1.0).all() for case in failing):
        return Diagnosis(
            "in_float32", f"{start}, and each is a number of float32. All numbers are float64: something is rounded."
        )
    return Diagnosis(
        "not_float64", f"{start}. float64 rounds far less: a part is computed in float32, or a small constant is added."
    )


def _facts(one):
    got, want = (
        dict(zip(FACTS, facts.tolist(), strict=True)) for facts in (one.first.outputs["facts"], right_facts(one.inputs))
    )
    return got, want, one.inputs["table"].numel(), one.inputs["inner"].numel()


def _of_parameters(one, evidence, second):
    """Of a model or an optimiser that has too many numbers, or too few."""
    got, want, table, inner = _facts(one)
    has = f"In the case {one.case.name!r} the model has {got['model']:,} numbers and should have {want['model']:,}"
    if got["model"] == want["model"] + table:
        found = by_guess(evidence, second)
        words = found.sentence if found else "The table is there twice."
        return Diagnosis(found.code if found else "untied", f"{has}. {words}")
    if got["model"] != want["model"]:
        more = (
            ", vocab_size more: a bias or the like" if got["model"] - want["model"] == len(one.inputs["table"]) else ""
        )
        return Diagnosis("more_parameters", f"{has}{more}. It has the table and inner, nothing else.")
    steps = f"In the case {one.case.name!r} the optimiser has {got['optimiser']:,} of {want['optimiser']:,} numbers"
    codes = {
        want["optimiser"] + table: ("stepped_twice", "the table is listed twice, and has two pairs of moments"),
        inner: ("table_not_trained", "the table is missing, and neither embedding nor head is trained"),
        table: ("body_not_trained", "inner is missing, so that the body is not trained"),
    }
    if got["optimiser"] != want["optimiser"]:
        code, words = codes.get(got["optimiser"], ("other_optimiser", "it trains each number of the model once"))
        return Diagnosis(code, f"{steps}: {words}.")
    return None


def _of_file(odd):
    """Of what is written, and of what is read."""
    got, want, table, _ = _facts(odd[0])
    where = f"In the case {odd[0].case.name!r}"
    if got["file"] != want["file"]:
        what = "the table is in the file twice" if got["file"] == want["file"] + table else "it holds table and inner"
        return Diagnosis(
            "stored_twice", f"{where} {got['file']:,} numbers are in the file and should be {want['file']:,}: {what}."
        )
    if not got["file exact"]:
        words = f"{where} the tensors of the file are not the model's, number for number: rounded, as to float32?"
        return Diagnosis("rounded_file", words)
    if not got["file kept"]:
        words = f"{where} further training of the model changes the file: its tensors are the model's own memory."
        return Diagnosis("file_shares_memory", words)
    if not got["equal head"]:
        return Diagnosis("equal_head_refused", f"{where} a file is refused whose head is the table, number for number.")
    if got["loaded"] != want["loaded"]:
        words = (
            f"{where} the loaded model has {got['loaded']:,} numbers and should have {want['loaded']:,}: it is untied."
        )
        return Diagnosis("untied_when_loaded", words)
    if not got["file kept by the loaded"]:
        words = f"{where} training the loaded model changes the tensors of the file that it came from."
        return Diagnosis("file_trained", words)
    if got["equal head"] and not got["dict kept"]:
        return Diagnosis("dict_changed", f"{where} `loaded` takes the head out of the dict that it is given. Read it.")
    taken = [one for one in odd if _facts(one)[0]["other head"]]
    far = max(float(one.inputs["other"].abs().max()) for one in taken)
    name, off = taken[0].case.name, int((taken[0].inputs["other"] != 0).sum())
    if far < SMALL:
        words = f"a head is taken that is off by up to {far:.1g}; it is the table number for number, or refused."
        return Diagnosis("near_head_taken", f"In the case {name!r} {words}")
    words = f"a head is taken that is not the table: {off} of its numbers differ. A tied model would drop it unseen."
    return Diagnosis("other_head_taken", f"In the case {name!r} {words}")
