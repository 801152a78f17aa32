"""Diagnoses of a pipeline's timetable: the first promise that is broken, on which stage and when.

May import: verdict, subjects.triples.
"""

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.triples import lists_of_triples

FORWARD, BACKWARD = 0, 1
NAMES = ("forward", "backward")


def first_mistake(name, sizes, numbers):
    """Diagnosis of the first promise that the timetable breaks, or None; `sizes` as of `timetable`."""
    num_stages, num_micro, forward, backward = sizes
    stages = lists_of_triples(numbers)  # of each stage: (kind, micro-batch, begin)
    start = (
        f"Case {name!r}, {num_stages} stage{'s' * (num_stages > 1)}, {num_micro} micro-batch{'es' * (num_micro > 1)}, "
        f"forward {forward}, backward {backward}"
    )
    if len(stages) != num_stages:
        text = f"{start}: {len(stages)} lists came back, one for each stage is asked."
        return Diagnosis("wrong_number_of_stages", text)
    found = _by_entry(stages, num_micro)
    if found is None:
        begins = [{(kind, micro): begin for kind, micro, begin in entries} for entries in stages]
        lengths = (forward, backward)
        found = _by_order(begins, num_micro, lengths) or _by_overlap(stages, lengths)
        found = found or _by_memory(begins, num_micro, lengths) or _by_end(begins, num_micro, lengths)
    return found and Diagnosis(found[0], f"{start}: {found[1]}.")


def _by_entry(stages, num_micro):
    """(code, words) of an entry that is missing, twice or none at all, or None."""
    for stage, entries in enumerate(stages):
        seen = set()
        for kind, micro, begin in entries:
            said = f"stage {stage} has the {NAMES[kind]} of micro-batch {micro}"
            if not 0 <= micro < num_micro:
                return "no_such_micro_batch", f"{said}; there are 0 to {num_micro - 1}"
            if (kind, micro) in seen:
                return "entry_twice", f"{said} twice"
            if begin < 0:
                return "before_the_start", f"{said} at {begin}; time begins at 0"
            seen.add((kind, micro))
        for kind in (FORWARD, BACKWARD):
            for micro in range(num_micro):
                if (kind, micro) not in seen:
                    return "entry_lost", f"stage {stage} has no {NAMES[kind]} of micro-batch {micro}"
    return None


def _by_order(begins, num_micro, lengths):
    """(code, words) of an entry that begins before what it needs has ended, or None."""
    last = len(begins) - 1
    for micro in range(num_micro):
        for stage in range(len(begins)):
            begin = begins[stage][FORWARD, micro]
            if stage and begin < begins[stage - 1][FORWARD, micro] + lengths[FORWARD]:
                return "forward_too_early", (
                    f"stage {stage} begins the forward of micro-batch {micro} at {begin}; its input is there when "
                    f"stage {stage - 1} ends, at {begins[stage - 1][FORWARD, micro] + lengths[FORWARD]}"
                )
        for stage in range(last, -1, -1):
            begin = begins[stage][BACKWARD, micro]
            own = begins[stage][FORWARD, micro] + lengths[FORWARD]
            if begin < own:
                return "backward_before_forward", (
                    f"stage {stage} begins the backward of micro-batch {micro} at {begin}, before its forward ends "
                    f"at {own}"
                )
            if stage < last and begin < begins[stage + 1][BACKWARD, micro] + lengths[BACKWARD]:
                return "backward_too_early", (
                    f"stage {stage} begins the backward of micro-batch {micro} at {begin}; the gradient comes from "
                    f"stage {stage + 1}, at {begins[stage + 1][BACKWARD, micro] + lengths[BACKWARD]}"
                )
    return None


def _by_overlap(stages, lengths):
    """(code, words) of two entries of a stage at one time, or None."""
    for stage, entries in enumerate(stages):
        ordered = sorted((begin, kind, micro) for kind, micro, begin in entries)
        for (begin, kind, micro), (later, other, its_micro) in zip(ordered, ordered[1:], strict=False):
            if later < begin + lengths[kind]:
                return "overlap", (
                    f"stage {stage} begins the {NAMES[other]} of micro-batch {its_micro} at {later}, while the "
                    f"{NAMES[kind]} of {micro} runs from {begin} to {begin + lengths[kind]}"
                )
    return None


def _by_memory(begins, num_micro, lengths):
    """(code, words) of a stage that holds too many micro-batches, or None."""
    for stage, entries in enumerate(begins):
        allowed = min(len(begins) - stage, num_micro)
        for micro in range(num_micro):
            now = entries[FORWARD, micro]
            held = sum(entries[FORWARD, m] <= now < entries[BACKWARD, m] + lengths[BACKWARD] for m in range(num_micro))
            if held > allowed:
                return "too_many_in_flight", (
                    f"stage {stage} holds the activations of {held} micro-batches at time {now}, forward begun and "
                    f"backward not ended; 1F1B holds at most {allowed} there"
                )
    return None


def _by_end(begins, num_micro, lengths):
    """(code, words) of a timetable that takes too long, or None."""
    end = max(entries[BACKWARD, micro] for entries in begins for micro in range(num_micro)) + lengths[BACKWARD]
    both, num_stages = sum(lengths), len(begins)
    least = (num_micro + num_stages - 1) * both
    if end <= least:
        return None
    bubble, right = 1.0 - num_micro * both / end, (num_stages - 1) / (num_micro + num_stages - 1)
    words = (
        f"it ends at {end}, in place of {least}: a stage works {num_micro * both} of it, so the bubble is {bubble:.1%}"
    )
    if end == num_micro * num_stages * both:
        return "one_after_the_other", f"{words} and should be {right:.1%}. No two stages work at the same time"
    return "bubble_too_large", f"{words} and should be {right:.1%}"
