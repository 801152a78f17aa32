"""The engine of 14.7 after each operation, and each usual mistake as an engine of its own.

May import: subjects.plain_data.
"""

from course_lib.grading.subjects.plain_data import same

NAMES = ("requests", "waiting", "running", "in_flight", "cancelled", "refs", "sent", "ended")


class Engine:
    """Right, but for its options, each of which is one mistake.

    `in_flight`: what cancel does to one in flight: "marked", "ended", "ignored", "marked and told", or "marked with all
    that run";
    `waiting`, `running`: whether cancel ends such requests; `unknown`: "ignored" or "marked"; `cleared`: marks go with
    the step; `landed`: the step is over when it is finished; `drops`: a marked request's token is not sent; `ends`: a
    marked request ends with the step; `first`: "abort" or "length" where both are true; `freed`: page counts after an
    end; `forgotten`: ended requests leave `requests`; `queues`: those that an end looks into; `says`: whether an
    abort is told; `most`: tokens of a request; `zero`: 0 is a token
    """

    def __init__(
        self, num_pages, *, in_flight="marked", waiting=True, running=True, unknown="ignored", cleared=True,
        landed=True, drops=True, ends=True, first="abort", freed=lambda count: count - 1, forgotten=True,
        queues=("waiting", "running"), says=True, most=lambda request: request["max"], zero=True,
    ):  # fmt: skip
        self.how = {name: value for name, value in locals().items() if name not in ("self", "num_pages")}
        self.requests, self.waiting, self.running, self.in_flight, self.cancelled = {}, [], [], [], set()
        self.refs, self.sent, self.ended = [0] * num_pages, [], []

    def end(self, number, reason):
        for name in self.how["queues"]:
            if number in getattr(self, name):
                getattr(self, name).remove(number)
        for page in self.requests[number]["pages"]:
            self.refs[page] = self.how["freed"](self.refs[page])
        if self.how["forgotten"]:
            del self.requests[number]
        if reason != "abort" or self.how["says"]:
            self.ended.append((number, reason))

    def cancel(self, number):
        flying = self.how["in_flight"]
        together = flying == "marked with all that run" and self.in_flight and number in self.running
        if together or number in self.in_flight and flying != "ended":
            if flying == "marked and told" and number not in self.cancelled:
                self.ended.append((number, "abort"))
            if flying != "ignored":
                self.cancelled.add(number)
        elif number in self.requests:
            here = "running" if number in self.running else "waiting"
            if self.how[here]:
                self.end(number, "abort")
        elif self.how["unknown"] == "marked":
            self.cancelled.add(number)

    def finish_step(self, tokens):
        for number in self.in_flight:
            if number not in self.requests:
                continue
            marked, request = number in self.cancelled, self.requests[number]
            sampled = number in tokens and (self.how["zero"] or tokens[number] != 0)
            last = sampled and len(request["output"]) + 1 >= self.how["most"](request)
            if sampled and not (marked and self.how["drops"] and not (last and self.how["first"] == "length")):
                request["output"].append(tokens[number])
                self.sent.append((number, tokens[number]))
            if marked and self.how["ends"] and not (last and self.how["first"] == "length"):
                self.end(number, "abort")
            elif last and not (marked and self.how["drops"] and self.how["first"] != "length"):
                self.end(number, "length")
        if self.how["landed"]:
            self.in_flight = []
        if self.how["cleared"]:
            self.cancelled = set()


def served(operations, num_pages, **options):
    """The state after each operation, as the answer writes it down."""
    engine, found = Engine(num_pages, **options), []
    for operation in operations:
        apply(engine, *operation)
        found.append(_told(engine))
    return found


def apply(engine, name, number, numbers):
    """One operation."""
    if name == "add" and number not in engine.requests:
        engine.requests[number] = {"max": numbers[0], "output": [], "pages": []}
        engine.waiting.append(number)
    elif name == "start" and number in engine.waiting:
        _move(engine, number, engine.waiting, engine.running, list(numbers))
    elif name == "preempt" and number in engine.running:
        _move(engine, number, engine.running, engine.waiting, [])
    elif name == "launch":
        engine.in_flight = [one for one in engine.running if one in engine.requests]
    elif name == "cancel":
        engine.cancel(number)
    elif name == "finish":
        engine.finish_step(dict(numbers))


def _move(engine, number, before, after, pages):
    request = engine.requests.get(number)
    if request is None or number in after:
        return
    before.remove(number)
    after.insert(len(after) if pages else 0, number)
    for page in request["pages"]:
        engine.refs[page] -= 1
    for page in pages:
        engine.refs[page] += 1
    request["pages"] = pages


def _told(engine):
    known = sorted((number, list(one["output"]), list(one["pages"])) for number, one in engine.requests.items())
    queues = [list(queue) for queue in (engine.waiting, engine.running, engine.in_flight, sorted(engine.cancelled))]
    return (known, *queues, list(engine.refs), list(engine.sent), list(engine.ended))


# (code, words, what the engine does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("freed_in_flight", "a request in flight ends at once. The device still writes to its pages: the request that gets "
     "them now has its keys overwritten. Mark it, and end it with the step", {"in_flight": "ended"}),
    ("in_flight_ignored", "a request in flight is not cancelled. It runs on to its last token without a client",
     {"in_flight": "ignored"}),
    ("marked_beside_step", "a running request that is not in the step is marked while that step is in flight. It has "
     "no part in it and ends at once", {"in_flight": "marked with all that run"}),
    ("zero_dropped", "the token 0 counts as no token. A request without one is not in `tokens` at all",
     {"zero": False}),
    ("waiting_ignored", "only running requests can be cancelled. One that waits is computed in full later on",
     {"waiting": False}),
    ("running_ignored", "only waiting requests can be cancelled", {"running": False, "in_flight": "ignored"}),
    ("running_only_in_flight", "a running request is cancelled only while a step is in flight", {"running": False}),
    ("token_sent", "the token of a cancelled request is still sent", {"drops": False}),
    ("never_ends", "a cancelled request sends no more tokens and stays. Its pages are never free again",
     {"ends": False}),
    ("length_first", "a cancelled request that reaches max_tokens ends with \"length\"; it was cancelled first",
     {"first": "length"}),
    ("told_twice", "a request in flight is told as ended when it is cancelled and again when the step ends",
     {"in_flight": "marked and told"}),
    ("unknown_marked", "an id that is unknown or has ended is marked. The next request with this id is then cancelled",
     {"unknown": "marked", "cleared": False}),
    ("unknown_marked", "an id that is unknown or has ended is marked as cancelled. Nothing of it is in flight",
     {"unknown": "marked"}),
    ("marks_stay", "the marks of a step stay after it. The next request with this id is then cancelled",
     {"cleared": False}),
    ("step_stays", "in_flight stays after its step. A request that is cancelled then waits for a step that is over",
     {"landed": False}),
    ("shared_page_freed", "the pages of an ended request become free although other requests hold them",
     {"freed": lambda count: 0}),
    ("pages_not_released", "the pages of an ended request are not released", {"freed": lambda count: count}),
    ("released_twice", "the pages of an ended request are released twice", {"freed": lambda count: count - 2}),
    ("not_forgotten", "ended requests stay in engine.requests. It grows with every request that was ever served, and a "
     "second cancel ends them again", {"forgotten": False}),
    ("stays_in_waiting", "an ended request stays in `waiting`. The scheduler starts it and does not find it",
     {"queues": ("running",)}),
    ("stays_in_running", "an ended request stays in `running`. The next step computes it", {"queues": ("waiting",)}),
    ("abort_not_told", "an abort is not told. The handler of that client waits for an end that never comes",
     {"says": False}),
    ("one_token_more", "a request ends one token after max_tokens", {"most": lambda request: request["max"] + 1}),
    ("one_token_less", "a request ends one token before max_tokens", {"most": lambda request: request["max"] - 1}),
)  # fmt: skip


def say(call, got, right):
    """The facts of the first operation after which something is wrong."""
    operations, _ = call
    at = next(i for i, (a, b) in enumerate(zip(got, right, strict=True)) if not same(a, b))
    name, mine, want = next((n, a, b) for n, a, b in zip(NAMES, got[at], right[at], strict=True) if not same(a, b))
    before = ", ".join(map(_operation, operations[max(at - 5, 0) : at + 1]))
    return f"After {'…, ' * (at > 5)}{before}: {name} is {_short(mine)} and should be {_short(want)}."


def _operation(operation):
    name, number, numbers = operation
    if name == "finish":
        return f"finish_step({dict(numbers)})"
    return name if name == "launch" else f"{name} {number}"


def _short(numbers):
    return f"[{', '.join(map(str, numbers[:12]))}{', …' * (len(numbers) > 12)}]"
