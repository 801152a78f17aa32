"""Answers that are right up to some size: an array of fixed length, a loop with a fixed end.

May import: verdict, evidence (as data), diagnosis.
"""

from ..judge.diagnosis import worst_element
from ..report.verdict import Diagnosis

_MUCH = 4  # times the largest size that is right: below that something else may make the difference
_SOME = 16  # the smallest such size: one that is right for a single key alone has another mistake


def by_limit(evidence, **sizes):
    """Diagnosis "limited" or None: every case up to some size is right, and every one beyond it has wrong values.

    Parameters
    ----------
    evidence : Evidence
    sizes : the size's name -> its word, such as seq_len_kv="keys"
    """
    failing, passing = evidence.failing(), evidence.passing()
    if not passing or any(case.faults or case.refusal or not case.ran for case in failing):
        return None
    for name, word in sizes.items():
        right = max(case.case.sizes[name] for case in passing)
        first = min(failing, key=lambda case: case.case.sizes[name])
        wrong = first.case.sizes[name]
        if right < _SOME or wrong < _MUCH * right:
            continue
        got, expected = worst_element(first)
        return Diagnosis(
            "limited",
            f"Right up to {right:,} {word}; with {wrong:,} (case {first.case.name!r}) comes {got:.4g} instead of "
            f"{expected:.4g}. Does an array of fixed length or a loop with a fixed end hold fewer {word}?",
        )
    return None
