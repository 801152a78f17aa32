"""The judge's process: judges one answer after the other, and loads an exercise when it is asked for.

It is a worker (course_lib/worker.py) of the notebook or of `course grade`: an exercise's id and an answer's text come
in, a verdict goes back as JSON. Nothing that the notebook's cells have patched reaches it, and the answer runs in a
child of the zygote, never here.

May import: answer.refused, device, errors, exercise.registry, report, difference, judge, processes.confine,
processes.isolation, torch.
"""

import json
import os
import traceback
from functools import partial

from ...errors import CourseError


def serve(caller):
    """Load what a judge needs, on one thread, and return the function that answers requests.

    The zygotes are forked before an exercise and its oracle are loaded, so that no answer can look at them.

    Parameters
    ----------
    caller : Connection to the client; an answer is stopped when its other end is closed
    """
    import torch

    from ...device import engine
    from ..processes import confine, isolation

    confine.hide_memory()  # and with it the pipe to the client: else an answer could write a verdict into it
    torch.set_num_threads(1)
    if engine() == "cpu" and os.environ.get("TRITON_INTERPRET") == "1":
        isolation.fork_zygotes(without=caller)
    else:
        for name in {"cpu", engine()}:
            isolation.zygote(name)
    from . import judge  # noqa: F401  loaded before the first request

    return partial(_reply, caller)


def _reply(caller, request):
    """The verdict as JSON, or the number of exercises for a request without one."""
    try:
        if "exercise" not in request:
            from ..exercise import registry

            return json.dumps(len(registry.ids()))
        return json.dumps(_verdict(caller, **request).to_dict())
    except CourseError:
        raise
    except Exception as error:
        said = f"the judge failed, please report it: {type(error).__name__}: {error}"
        raise CourseError(f"{said}\n{traceback.format_exc()[-4000:]}") from error


def _verdict(caller, sandbox, **request):
    """The verdict; the sandbox of an answer ends with it, so that the next one finds nothing of it."""
    from ..processes import isolation

    try:
        return _judged(caller, sandbox=sandbox, **request)
    finally:
        if sandbox:
            isolation.close_zygotes(sandbox=True)


def _judged(caller, exercise, text, filename, first_line, engine, seed, sandbox, folders):
    from ...device import engine as usual_engine
    from ..answer import refused
    from ..exercise import registry
    from ..processes import isolation
    from ..report.states import FAIL
    from ..report.verdict import Diagnosis, Verdict
    from . import difference, judge

    os.environ[registry.VARIABLE] = folders
    exercise = registry.get(exercise)
    if sandbox:
        refusal = refused.find(exercise.language, text, filename, first_line)
        if refusal is not None:
            return Verdict(exercise.id, FAIL, Diagnosis("refused", *refusal), title=exercise.title)
        isolation.bubblewrap.usable()  # or say why not, before anything runs
        engine = "cpu"
    run_task = partial(isolation.run_task, sandbox=sandbox, caller=caller)
    if exercise.language != "python" and not judge.not_started(exercise, text):
        isolation.zygote("compile", sandbox).load()  # while the answer runs
    verdict = judge.judge(
        exercise,
        text,
        engine=engine or usual_engine(),
        seed=seed,
        run_task=run_task,
        compile_task=run_task,
        filename=filename,
        first_line=first_line,
    )
    verdict.title = exercise.title
    if verdict.passed:
        verdict.difference = difference.to_solution(exercise, text)
    return verdict
