import torch


class LiveRequest:
    def __init__(self, max_tokens):
        self.max_tokens, self.output, self.pages = max_tokens, [], []


class Engine:
    def __init__(self, num_pages):
        self.requests = {}  # id -> LiveRequest, of all that have not ended
        self.waiting, self.running = [], []  # ids
        self.in_flight = []  # ids of the step that the device computes now; all of them run
        self.cancelled = set()  # ids that end with that step
        self.refs = [0] * num_pages  # requests that hold each page
        self.sent, self.ended = [], []  # for the clients: (id, token) and (id, reason)


def end(engine, number, reason):
    """The request `number` is over: no queue, no page, nothing of it is left but its reason in engine.ended."""
    ### BEGIN SOLUTION
    for queue in (engine.waiting, engine.running):
        if number in queue:
            queue.remove(number)
    for page in engine.requests.pop(number).pages:
        engine.refs[page] -= 1
    engine.ended.append((number, reason))
    ### END SOLUTION


def cancel(engine, number):
    """The client of the request has gone; may be called at any time, and again."""
    ### BEGIN SOLUTION
    if number in engine.in_flight:
        engine.cancelled.add(number)
    elif number in engine.requests:
        end(engine, number, "abort")
    ### END SOLUTION


def finish_step(engine, tokens):
    """The device is done with engine.in_flight. tokens: id -> token, of those that were sampled."""
    ### BEGIN SOLUTION
    for number in engine.in_flight:
        request = engine.requests[number]
        if number in engine.cancelled:
            end(engine, number, "abort")
        elif number in tokens:
            request.output.append(tokens[number])
            engine.sent.append((number, tokens[number]))
            if len(request.output) == request.max_tokens:
                end(engine, number, "length")
    engine.in_flight.clear()
    engine.cancelled.clear()
    ### END SOLUTION


def served(calls):
    """The engine after each operation, as text. Given: the judge reads it."""
    results = []
    for operations, num_pages in calls:
        engine, found = Engine(num_pages), []
        for name, number, numbers in operations:
            if name == "add" and number not in engine.requests:
                engine.requests[number] = LiveRequest(numbers[0])
                engine.waiting.append(number)
            elif name == "start" and number in engine.waiting:
                move(engine, number, engine.waiting, engine.running, numbers)
            elif name == "preempt" and number in engine.running:
                move(engine, number, engine.running, engine.waiting, [])
            elif name == "launch":
                engine.in_flight = [one for one in engine.running if one in engine.requests]
            elif name == "cancel":
                cancel(engine, number)
            elif name == "finish":
                finish_step(engine, dict(numbers))
            found.append(engine_as_data(engine))
        results.append(found)
    return torch.tensor(list(repr(results).encode()), dtype=torch.uint8)


def move(engine, number, before, after, pages):
    """From one queue to the other, to the end of running or to the front of waiting, with other pages. Given."""
    request = engine.requests.get(number)
    if request is None or number in after:
        return
    before.remove(number)
    after.insert(len(after) if pages else 0, number)
    for page in request.pages:
        engine.refs[page] -= 1
    for page in pages:
        engine.refs[page] += 1
    request.pages = list(pages)


def engine_as_data(engine):
    """An engine as plain data. Given."""
    known = sorted((number, list(one.output), list(one.pages)) for number, one in engine.requests.items())
    queues = [list(queue) for queue in (engine.waiting, engine.running, engine.in_flight, sorted(engine.cancelled))]
    return known, *queues, list(engine.refs), list(engine.sent), list(engine.ended)
