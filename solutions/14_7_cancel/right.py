"""Right answers to 14.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "tokens first, then all ends",
        (
            (
                "    for number in engine.in_flight:\n"
                "        request = engine.requests[number]\n"
                "        if number in engine.cancelled:\n"
                '            end(engine, number, "abort")\n'
                "        elif number in tokens:\n"
                "            request.output.append(tokens[number])\n"
                "            engine.sent.append((number, tokens[number]))\n"
                "            if len(request.output) == request.max_tokens:\n"
                '                end(engine, number, "length")\n'
                "    engine.in_flight.clear()\n"
                "    engine.cancelled.clear()\n",
                "    over = []\n"
                "    for number in engine.in_flight:\n"
                "        if number in engine.cancelled:\n"
                '            over.append((number, "abort"))\n'
                "            continue\n"
                "        request, token = engine.requests[number], tokens.get(number)\n"
                "        if token is not None:\n"
                "            request.output = [*request.output, token]\n"
                "            engine.sent += [(number, token)]\n"
                "        if len(request.output) >= request.max_tokens:\n"
                '            over.append((number, "length"))\n'
                "    for number, reason in over:\n"
                "        end(engine, number, reason)\n"
                "    engine.in_flight, engine.cancelled = [], set()\n",
            ),
        ),
    ),
    Right(
        "new lists, early returns",
        (
            (
                "    for queue in (engine.waiting, engine.running):\n"
                "        if number in queue:\n"
                "            queue.remove(number)\n"
                "    for page in engine.requests.pop(number).pages:\n"
                "        engine.refs[page] -= 1\n",
                "    engine.waiting = [one for one in engine.waiting if one != number]\n"
                "    engine.running = [one for one in engine.running if one != number]\n"
                "    pages = engine.requests[number].pages\n"
                "    engine.refs = [count - pages.count(page) for page, count in enumerate(engine.refs)]\n"
                "    del engine.requests[number]\n",
            ),
            (
                "    if number in engine.in_flight:\n"
                "        engine.cancelled.add(number)\n"
                "    elif number in engine.requests:\n"
                '        end(engine, number, "abort")\n',
                "    if number not in engine.requests:\n"
                "        return\n"
                "    if number not in engine.in_flight:\n"
                '        return end(engine, number, "abort")\n'
                "    engine.cancelled |= {number}\n",
            ),
        ),
    ),
]
