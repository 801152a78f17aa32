"""Random calls of course_lib.serving: workloads, loads on a simulated engine, fitted times."""

import math
import random

from course_lib.serving import ServingConfig, load, traces
from course_lib.serving.graphs import row_buckets, token_buckets
from course_lib.serving.simulator import Line, SimulatedEngine, StepTimes, fit, fit_error
from tests.unit.random_case import SIZES, Case
from tests.unit.random_serving import require_counts

TIMES = StepTimes(Line(1e-3, 0.0, 0.0), Line(1e-3, 1e-5, 0.0))


def _percentile(r):
    values = [r.random() for _ in range(r.choice(SIZES))]

    def expected(a):
        values = sorted(float(value) for value in a["values"])
        assert all(map(math.isfinite, values)) and 0 <= a["percent"] <= 100, "no number was taken"
        return next((v for i, v in enumerate(values, 1) if 100 * i >= a["percent"] * len(values)), None)

    return Case(load.percentile, {"values": values, "percent": r.choice((0, 50, 99, 100, 101))}, expected)


def _row_buckets(r):
    def expected(a):
        require_counts(a["most"])
        return [n for n in range(1, a["most"] + 1) if n in (1, 2, 4, a["most"]) or n % 8 == 0]

    return Case(row_buckets, {"most": r.choice((1, 8, 13, 64))}, expected)


def _token_buckets(r):
    def expected(a):
        require_counts(a["most"])
        sizes = [64 * 2**power * quarters // 4 for power in range(8) for quarters in (4, 5, 6, 7)]
        return [*(size for size in sizes if size < a["most"]), a["most"]]

    return Case(token_buckets, {"most": r.choice((1, 64, 100, 1000))}, expected)


def _uniform(r):
    arguments = {"num_requests": r.choice((0, 3)), "low": r.choice((1, 4)), "high": 6, "seed": r.randrange(9)}
    arguments["vocab_size"] = r.choice((1, 50))

    def expected(a):
        require_counts(a["low"], a["high"], a["vocab_size"])
        require_counts(a["num_requests"], least=0)
        assert type(a["seed"]) is int, "a seed that is none was taken"
        draw = random.Random(a["seed"])
        lengths = lambda: draw.randint(a["low"], a["high"])  # noqa: E731
        count, most = a["num_requests"], a["vocab_size"] - 1
        prompts = [tuple(draw.randint(0, most) for _ in range(lengths())) for _ in range(count)]
        return [(prompt, lengths()) for prompt in prompts]

    return Case(_pairs_of_trace, arguments, expected)


def _pairs_of_trace(**arguments):
    return [(request.prompt, request.max_new_tokens) for request in traces.uniform_trace(**arguments)]


def _shared(r):
    names = ("num_requests", "shared_len", "own_len", "output_len")
    arguments = {name: r.choice((1, 2, 5)) for name in names} | {
        "seed": 3,
        "vocab_size": 50,
        "rate": r.choice((1, 0.5)),
    }

    def expected(a):
        require_counts(a["output_len"], a["vocab_size"])
        require_counts(a["num_requests"], a["shared_len"], a["own_len"], least=0)
        assert 0 < a["rate"] < math.inf and not isinstance(a["rate"], bool), "a wrong rate was taken"
        return a["num_requests"] * [(a["shared_len"] + a["own_len"], a["output_len"])], True

    return Case(_shared_and_arriving, arguments, expected)


def _shared_and_arriving(rate, **arguments):
    made = traces.arriving(traces.shared_prefix_trace(**arguments), rate, seed=arguments["seed"])
    shared = {request.prompt[: int(arguments["shared_len"])] for request in made}
    times = [request.arrival for request in made]
    return [(len(x.prompt), x.max_new_tokens) for x in made], times == sorted(times) and len(shared) <= 1


def _talk(r):
    arguments = {"num_users": r.choice((1, 2)), "num_turns": r.choice((1, 3)), "turn_len": 4, "output_len": 2}
    arguments |= {"think": r.choice((0.0, 0.5, 1e8, -1)), "seed": r.randrange(9), "vocab_size": 30}

    def expected(a):
        require_counts(a["num_turns"], a["turn_len"], a["output_len"], a["vocab_size"])
        require_counts(a["num_users"], least=0)
        assert 0 <= a["think"] < math.inf, "a wrong time was taken"
        return a["num_users"] * a["num_turns"], a["num_users"] * a["num_turns"] * a["output_len"]

    return Case(_conversed, arguments, expected)


def _conversed(**arguments):
    run = _driven(load.Conversing(traces.conversations(**arguments)))
    return run["requests"], run["output_tokens"]


def _driven(source, seconds=float("inf")):
    engine = SimulatedEngine(ServingConfig(512, prefix=None), TIMES)
    return load.summary(load.drive(engine, source, clock=engine.clock, sleep=engine.sleep, seconds=seconds))


def _drive(r):
    arguments = {"num_requests": r.choice((1, 3)), "output_len": r.choice((1, 5)), "clients": r.choice((0, 1, 2))}
    arguments["seconds"] = r.choice((float("inf"), 1e3))

    def expected(a):
        require_counts(a["output_len"], a["clients"])
        require_counts(a["num_requests"], least=0)
        assert a["seconds"] >= 1, "a wrong time was taken"
        return a["num_requests"] * a["output_len"]

    return Case(_driven_closed, arguments, expected)


def _driven_closed(num_requests, output_len, clients, seconds):
    source = load.ClosedLoop(traces.fixed_trace(num_requests, 4, output_len), clients)
    return _driven(source, seconds)["output_tokens"]


def _fit(r):
    base, token = r.choice((1e-3, 2e-3)), r.choice((0.0, 1e-5))
    rows = [{"ms": 1e3 * (base + token * n), "num_tokens": n, "kv_tokens": 0, "is_decode": 1} for n in (1, 5, 20, 64)]
    if r.random() < 0.5:
        rows[r.randrange(4)][r.choice(list(rows[0]))] = r.choice((None, "x", -1, float("nan"), [1]))

    def expected(a):
        numbers = [number for row in a["rows"] for number in row.values()]
        assert numbers and all(isinstance(number, int | float) and number >= 0 for number in numbers), "taken"
        return base + 9 * token, 0.0

    return Case(_fitted, {"rows": rows}, expected, 1e-6)


def _fitted(rows):
    times = fit(rows)
    return round(times.decode.seconds(9, 0), 9), round(abs(fit_error(times, rows)[0]), 9)


MAKERS = (
    _percentile, _row_buckets, _token_buckets, _uniform, _shared, _talk, _drive, _fit,
)  # fmt: skip
