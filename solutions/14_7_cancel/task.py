"""14.7 Cancel safely: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, Engine, apply, say, served

LAUNCH = ("launch", 0, [])


def _add(number, max_tokens):
    return "add", number, [max_tokens]


def _start(number, *pages):
    return "start", number, list(pages)


def _cancel(number):
    return "cancel", number, []


def _preempt(number):
    return "preempt", number, []


def _finish(**tokens):
    return "finish", 0, [[int(name[1:]), token] for name, token in tokens.items()]


TWO = [_add(1, 3), _add(2, 2), _start(1, 4, 0), _start(2, 4, 2), LAUNCH, _finish(r1=50, r2=60)]  # both hold page 4
STATES = [
    [_add(1, 3), _cancel(1)],
    [_add(1, 3), _add(2, 3), _cancel(1), _start(2, 0)],
    [*TWO, _cancel(1), LAUNCH, _finish(r2=61)],
    [*TWO, _preempt(1), _cancel(1), LAUNCH, _finish(r2=61)],
    [*TWO, LAUNCH, _finish(r1=51, r2=61), _cancel(2), LAUNCH, _finish(r1=52), _cancel(1)],
    [_add(1, 1), _start(1, 3), LAUNCH, _finish(r1=5), _cancel(7)],
    [_add(1, 2), _start(1, 3), LAUNCH, _finish(r1=0), LAUNCH, _finish(r1=0)],
]
FLIGHT = [
    [*TWO, LAUNCH, _cancel(1), _finish(r1=51, r2=61), LAUNCH],
    [*TWO, LAUNCH, _cancel(2), _finish(r1=51, r2=61), LAUNCH, _finish(r1=52)],
    [*TWO, LAUNCH, _cancel(1), _cancel(2), _finish(r1=51, r2=61), LAUNCH, _finish()],
    [*TWO, LAUNCH, _add(3, 2), _cancel(3), _cancel(1), _finish(r1=51, r2=61)],
    [*TWO, LAUNCH, _cancel(1), _finish(r2=61)],
    [*TWO, LAUNCH, _add(3, 2), _start(3, 1), _cancel(3), _finish(r1=51, r2=61), LAUNCH, _finish(r1=52)],
    [_add(1, 1), _add(2, 3), _start(2, 4), _start(1, 0), LAUNCH, _cancel(2), _finish(r2=60, r1=50)],
]
AGAIN = [  # twice, after the end, and an id that comes back
    [_add(1, 3), _cancel(1), _cancel(1), _add(1, 2), _start(1, 2), LAUNCH, _finish(r1=8), LAUNCH, _finish(r1=9),
      _add(1, 1), _cancel(1)],
    [*TWO, LAUNCH, _cancel(1), _cancel(1), _finish(r1=51, r2=61), _cancel(1), _cancel(2)],
    [_cancel(5), _add(5, 1), _start(5, 0), LAUNCH, _finish(r5=3)],
    [*TWO, LAUNCH, _cancel(1), _finish(r1=51, r2=61), _add(1, 2), _start(1, 1), LAUNCH, _finish(r1=70), LAUNCH,
      _finish(r1=71)],
    [*TWO, LAUNCH, _cancel(9), _finish(r1=51, r2=61), _add(9, 2), _start(9, 1), LAUNCH, _finish(r1=52, r9=70)],
]  # fmt: skip
CHUNKS = [  # in flight, in the middle of a prompt: nothing is sampled
    [_add(1, 2), _start(1, 3, 1), LAUNCH, _finish(), LAUNCH, _finish(r1=4), LAUNCH, _finish(r1=5)],
    [_add(1, 2), _start(1, 3, 1), LAUNCH, _cancel(1), _finish()],
    [_add(1, 2), _add(2, 1), _start(1, 3, 1), _start(2, 3), LAUNCH, _finish(r2=9), LAUNCH, _cancel(1), _finish(r1=7)],
]


def _calls(*groups):
    return lambda rng: [(operations, 6) for group in groups for operations in group]


def _drawn(rng):
    return [(_operations(rng), 12) for _ in range(14)]


def _operations(rng):
    """What an engine and its clients may do, with cancellations in every state; at the end all are cancelled."""
    engine, operations = Engine(12), []

    def do(operation):
        operations.append(operation)
        apply(engine, *operation)

    for _ in range(rng.randint(10, 30)):
        choice = rng.random()
        if choice < 0.2 and len(engine.requests) < 7:
            number = rng.choice([n for n in range(9) if n not in engine.requests])
            do(_add(number, rng.randint(1, 4)))
        elif choice < 0.45 and engine.waiting:
            do(_start(rng.choice(engine.waiting), *rng.sample(range(12), rng.randint(1, 4))))
        elif choice < 0.5 and set(engine.running) - set(engine.in_flight):
            do(_preempt(rng.choice(sorted(set(engine.running) - set(engine.in_flight)))))
        elif choice < 0.7:
            do(_cancel(rng.randrange(9)))
        elif engine.in_flight:
            sampled = [n for n in engine.in_flight if rng.random() < 0.8]
            do(_finish(**{f"r{n}": rng.randrange(50_000) for n in sampled}))
        elif engine.running:
            do(LAUNCH)
    return [*operations, *map(_cancel, range(9)), _finish(), *map(_cancel, range(9))]


EXERCISE = plain_exercise(
    __file__,
    cases={
        "waiting, running, preempted, ended": _calls(STATES),
        "in flight": _calls(FLIGHT),
        "again, and an id that comes back": _calls(AGAIN),
        "in the middle of a prompt": _calls(CHUNKS),
        "drawn": _drawn,
    },
    form=[([(int, [int], [int])], [int], [int], [int], [int], [int], [(int, int)], [(int, str)])],
    outcome=served,
    say=say,
    mistakes=MISTAKES,
)
