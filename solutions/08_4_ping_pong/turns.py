"""What goes wrong with turns: who waits for whom, who came in whose place, whether the work was done in the meantime.

May import: verdict, evidence (as data), subjects.hopper.findings.
"""

import re

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.hopper.findings import END, KIND, NAMED, START, WARP, Row, events, explainer

WORK = 40  # as in answer.cu
_GIVEN_WAITS = 2  # the two __syncthreads of the given lines
_SERIAL = 0.8  # of the time that all work takes one after the other: a right answer of two consumers takes half
_DEADLOCK = re.compile(
    r"named barrier (\d+) waits forever for (\d+) of its (\d+) threads: (?:warps ([\d, ]+) wait)?"
)  # each barrier


def _deadlock(fault, case):
    """Diagnosis that names the consumers that have come to each barrier, and the others."""
    if zero := _barrier_0(case.case, case.first.ledger or {}):
        return zero
    threads, consumers = case.case.sizes["threads"], case.case.sizes["consumers"]
    words, all_come = [], set()
    for number, _, count, warps in _DEADLOCK.findall(fault.message):
        come = sorted({int(warp) * 32 // threads for warp in warps.split(", ") if warp})
        missing = [consumer for consumer in range(consumers) if consumer not in come]
        all_come |= set(come)
        words.append(
            f"named barrier {number} counts {count} threads ({int(count) / threads:g} consumers of {threads}) and "
            "waits for "
            f"ever: come {_consumers(come) or 'no whole warp'}, missing "
            f"{_consumers(missing, 'or') or 'some of their warps'}"
        )
    gone = sorted(set(range(consumers)) - all_come)
    counts = [int(count) for _, _, count, _ in _DEADLOCK.findall(fault.message) if int(count) != 2 * threads]
    if "only some lanes" in fault.message:
        advice = "All threads of a consumer wait and arrive, not one of them."
    elif counts:
        advice = (
            "Where one consumer waits and one arrives, the count is 2 * CONSUMER_THREADS, which is "
            f"{2 * threads} here and not {counts[0]}."
        )
    elif gone:
        advice = (
            f"{_consumers(gone).capitalize()} no longer waits: before a consumer leaves the rounds, it must arrive as "
            "often "
            "as another one waits for it."
        )
    else:
        advice = "No turn is going on, and none is left that could pass one on: who begins, and who arrives for it?"
    where = fault.message.partition(": ")[0]
    return Diagnosis("turn_never_comes", f"{where}: {'; '.join(words)}. {advice} (Case: {case.case.name}.)", fault.line)


def _barrier_0(case, ledger):
    """Diagnosis of a consumer that uses the barrier of __syncthreads(), or None."""
    found = [remark for remark in ledger.get("remarks", ()) if "named barrier 0" in remark and "comes to" in remark]
    if not found:
        return None
    return Diagnosis(
        "barrier_0",
        f"{found[0]} Take other numbers: an arrival for __syncthreads() and one for a turn would count as the same. "
        f"(Case: {case.name}.)",
    )


def _consumers(numbers, word="and"):
    return f" {word} ".join(f"consumer {number}" for number in numbers)


def _zero(_fault, case):
    """Barrier 0 comes before what follows from it."""
    return _barrier_0(case.case, case.first.ledger or {})


_NOT_ORDERED = (
    "Two consumers were in their turns, and no chain of named barriers leads from the end of one turn to the beginning "
    "of the other."
)
explain = explainer(
    (
        Row("bad_barrier", "", "", _zero),
        *NAMED[:-1],
        Row("deadlock", "named barrier", "turn_never_comes", _deadlock),
        Row("race", "shared|log", "turns_not_ordered", _NOT_ORDERED),
    )
)


def judge_turns(case, ledger):
    """Diagnosis of right turns in a wrong way: barrier 0, an arrival left over, work inside the turn."""
    if zero := _barrier_0(case, ledger):
        return zero
    if ledger["remarks"]:
        return Diagnosis(
            "arrival_left_over",
            f"{ledger['remarks'][0]} The next one to wait there would go through at once: after the last turn of all, "
            "none "
            f"arrives for another. (Case: {case.name}.)",
        )
    steps, waits = case.options["num_steps"], events(ledger, "barrier_wait")
    end = max(row[END] for row in ledger["timeline"] if row[KIND] == "barrier_wait")
    total = sum(_busy(waits, consumer * case.sizes["threads"] // 32) for consumer in range(len(steps)))
    if case.values == "steps" and min(steps) == max(steps) >= 8 and len(waits) > 0 and end > _SERIAL * total:
        return Diagnosis(
            "work_in_the_turn",
            f"Right, and nothing gained: all {sum(steps)} pieces of work took {end} units of the machine's logical "
            "time, "
            f"as they do one after the other; {total // len(steps)} would do for {len(steps)} consumers that work at "
            "the "
            f"same time. A consumer passes its turn on before it works, and arrives without "
            f"waiting for the next one. (Case: {case.name}.)",
        )
    if case.values == "steps" and min(steps) == max(steps) >= 8:
        return _waits_too_often(case, waits, max(steps))
    return None


def _busy(waits, warp):
    """How long a warp did not wait, up to the end of its last wait: how long work takes is the compiler's."""
    own = [row for row in waits if row[WARP] == warp]
    return max(row[END] for row in own) - sum(row[END] - row[START] for row in own) if own else 0


def _waits_too_often(case, waits, num_rounds):
    """Diagnosis of a consumer that waits for the turns of others, or None."""
    most = max(sum(row[WARP] == warp for row in waits) for warp in {row[WARP] for row in waits}) - _GIVEN_WAITS
    if most <= num_rounds:
        return None
    return Diagnosis(
        "waits_too_often",
        f"Right, and a consumer waits {most} times in {num_rounds} rounds. It waits once in a round, for its own turn, "
        f"and passes it on with named_barrier_arrive, which does not wait: so its work goes on during the turns of "
        f"the others. (Case: {case.name}.)",
    )


def diagnose_turns(evidence):
    """Diagnosis of a wrong log, or None."""
    for case in sorted(evidence.failing(), key=lambda case: int(case.inputs["num_steps"].max())):
        if not case.ran or "log" not in case.comparisons:
            continue
        log, right = case.first.outputs["log"].tolist(), case.ref["log"].int().tolist()
        found = _log(case, log, right) or _rest(case)
        if found is not None:
            return found
    return None


def _log(case, log, right):
    if log == right:
        return None
    place = next(i for i, (got, expected) in enumerate(zip(log, right, strict=True)) if got != expected)
    start = f"Case {case.case.name!r} (steps {case.inputs['num_steps'].tolist()}): turn {place}"
    expected = _turn(right[place])
    if log[place] == -1:
        return Diagnosis("turn_missing", f"{start} should be that of {expected}; no such turn was taken.")
    if sorted(log) == sorted(right):
        return Diagnosis(
            "wrong_order",
            f"{start} should be that of {expected} and was that of {_turn(log[place])}. A round goes from consumer 0 "
            "up; "
            "one that has no step left is passed over.",
        )
    return Diagnosis("wrong_turn", f"{start} should be that of {expected} and was that of {_turn(log[place])}.")


def _turn(number):
    return f"consumer {number // 1000}, step {number % 1000}"


def _rest(case):
    work = (
        "work_wrong",
        "number = take_turn(…, number) begins a step, and after each turn comes number = work(number, step), once, "
        "with its step, by every thread; the next turn takes in what this work gave",
    )
    part = ("turn_in_part", "not all threads of a consumer took part in each of its turns")
    first_state = case.first.outputs["state"][0] == case.ref["state"][0]
    in_part = int(case.inputs["num_steps"].max()) <= 1 and first_state  # no work enters the state before a second step
    for name, (code, words) in (("state", part if in_part else work), ("worked", work)):
        comparison = case.comparisons[name]
        if not comparison.passed:
            return Diagnosis(
                code,
                f"Case {case.case.name!r}: the turns are in order, and {name}{list(comparison.index)} is not what they "
                f"leave: {words}.",
            )
    return None
