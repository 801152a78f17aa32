"""The judge server: a process of its own that forks one judge for every check.

A notebook (or `course grade`) sends an exercise's id and an answer's text and gets a verdict back as data. Whatever the
notebook's cells have patched stays in the notebook. The server has torch loaded and computes on one thread, so that a
fork is safe and takes milliseconds; it ends when the socket to its client closes.

May import: judge, registry, isolation, wire.
"""

import os
import select
import signal
import socket
import sys
import traceback
import warnings

from ...errors import CourseError
from . import wire


def main(descriptor):
    """Serve requests on the socket `descriptor` until its other end is closed."""
    connection = socket.socket(fileno=descriptor)
    try:
        engine = _preload(connection)
    except Exception as error:  # a contributor's slip in course_lib must be seen in the notebook
        wire.send(connection, {"error": f"the judge cannot start: {error}", "trace": traceback.format_exc()[-4000:]})
        return
    try:
        wire.send(connection, {"ready": os.getpid(), "engine": engine})
    except OSError:  # the client went away while torch was loaded
        return
    while (request := wire.receive(connection)) is not None:
        if request.get("op") == "ping":
            from ..exercise import registry

            wire.send(connection, {"exercises": len(registry.ids())})
            continue
        try:
            reply = _in_a_judge(request, connection)
        except CourseError as error:  # no sandbox on this machine
            reply = {"error": str(error)}
        try:
            wire.send(connection, reply)
        except OSError:  # the client went away while it waited
            return


def _preload(connection):
    """Load what a judge needs, on one thread. The zygote leaves before the judge is loaded; exercises
    are loaded in the fork that judges, so that a task.py which has just been edited counts."""
    import torch

    from ...device import engine
    from . import isolation

    torch.set_num_threads(1)
    if engine() == "cpu" and os.environ.get("TRITON_INTERPRET") == "1":
        isolation.fork_zygote(without=connection)
    else:
        for name in {"cpu", engine()}:
            isolation.zygote(name)
    from ..exercise import registry, spec  # noqa: F401 - loaded here, used after the fork
    from ..judge import difference, judge  # noqa: F401

    return engine()


def _in_a_judge(request, connection):
    """Fork a judge for one request and collect its reply, or say how it ended."""
    from . import isolation

    sandbox = bool(request.get("sandbox"))
    for engine in {"cpu", request["engine"]}:
        isolation.zygote(engine, sandbox)  # here, so that it outlives the judge
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forking beside a thread: NVML's own, which we never join
        pid = os.fork()
    if pid == 0:
        os.close(read_end)
        connection.close()
        _judge(request, write_end)
    os.close(write_end)
    data, cancelled = _collect(read_end, connection)
    os.close(read_end)
    if cancelled:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if cancelled:
        return {"cancelled": True}
    if not data:
        return {
            "error": f"the judge ended without a verdict (status {status}); please report this as a bug of the course"
        }
    return wire.unpack(data)[0]


def _collect(read_end, connection):
    """The judge's bytes up to its end, and whether the client asked to stop first."""
    data = bytearray()
    while True:
        ready, _, _ = select.select([read_end, connection], [], [])
        if read_end in ready:
            part = os.read(read_end, 1 << 20)
            if not part:
                return bytes(data), False
            data += part
        elif connection in ready:
            wire.receive(connection)  # the end of the client
            return b"", True


def _judge(request, descriptor):
    """In the judge: grade, write the reply, leave. Never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            reply = {"verdict": _verdict(request).to_dict()}
        except Exception as error:
            expected = isinstance(error, CourseError)
            words = str(error) if expected else f"the judge failed, please report it: {type(error).__name__}: {error}"
            reply = {"error": words, "trace": "" if expected else traceback.format_exc()[-4000:]}
        data = memoryview(wire.pack(reply))
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os._exit(0)


def _verdict(request):
    from functools import partial

    from ..exercise import registry
    from ..judge import difference, judge
    from . import isolation

    os.environ[registry.VARIABLE] = request["exercises"]
    exercise = registry.get(request["exercise"])
    verdict = judge.judge(
        exercise,
        request["text"],
        engine=request["engine"],
        seed=request["seed"],
        run_task=partial(isolation.run_task, sandbox=bool(request.get("sandbox"))),
        filename=request["filename"],
        first_line=request["first_line"],
    )
    verdict.title = exercise.title
    if verdict.passed:
        verdict.difference = difference.to_solution(exercise, request["text"])
    return verdict


if __name__ == "__main__":
    main(int(sys.argv[1]))
