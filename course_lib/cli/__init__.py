"""`course`: the judge, the hints and the progress of the notebooks, from a terminal.

    course doctor                 what this machine can run
    course grade 03.2 answer.cu   the verdict on a file; --json for programs
    course grade-all FOLDER       the verdicts on other people's answers, each in a sandbox of its own
    course cohort FOLDER --out grades.csv   a class: many learners' answers at once, a gradebook and a page for each
    course hint 03.2              one more hint
    course watch 03.2 answer.cu   the verdict at each save of a file
    course progress               what is passed, what comes next, how many minutes are left
    course show 03.2              contract and starter
    course reset 03.2             the starter cell again; yours is kept in work/
    course update                 the newest chapters and kernels; what you wrote into the notebooks stays
    course build [NN …]           notebooks from chapters/
    course exercises check DIR    a teacher's exercises against the checklist; `build DIR` makes their notebook
    course mutate FILE            which barrier, fence or index of a kernel does no test need?
    course serve --model small    a model over HTTP, in the form of OpenAI's API
    course bench-serve            load on the serving engine, or on a server (--url)
    course bench [NAME …]         measure this machine; NAME: one case file of benchmarks/

`course --exercises DIR grade …` takes exercises from DIR too, as COURSE_EXERCISES=DIR does.

Exit status of `grade`: 0 PASS, 1 FAIL, 3 NOT STARTED, 4 NOT VERIFIED HERE, 2 for a request that cannot be met.

May import: everything; nothing imports this module.
"""

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path

from .. import device
from ..errors import CourseError
from . import bench_serve, cohort, exercises, mutate, serve
from .as_json import finite

_ROOT = Path(__file__).resolve().parents[2]
EXIT = {"PASS": 0, "FAIL": 1, "NOT STARTED": 3, "NOT VERIFIED HERE": 4}
BAD_REQUEST = 2
_LIMITS = (
    "Without --sandbox the limits guard against accidents and self-deception: an answer runs as you, and may read and "
    "change what you may. In the sandbox it reaches no file, network, process or right of yours, or it is not run. "
    "What no sandbox prevents: a Python or Triton answer shares its process with the code that runs it, and could "
    "change what that code reports. A CUDA answer is machine code of the CPU in a process of its own, which opens no "
    "file and starts no program; it shares it with the SIMT machine alone, and could change what that counts. So an "
    "answer is refused there that uses inline assembly, a module, a name or a declaration that no answer needs "
    "(course_lib/grading/answer/refused.py). The list is read from the text: read a stranger's answer before its PASS "
    "decides anything."
)


def main(arguments=None):
    """Entry point; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not a notebook's or a test's
            stream.reconfigure(errors="replace")  # a terminal of ASCII shows `?` for a tick
    if words[:1] == ["build"]:
        from ..book.command import main as build

        return build(words[1:])
    if words[:1] == ["bench"]:
        return _bench(words[1:])
    options = _parser().parse_args(words)
    try:
        exercises.add_folders(options.exercises)
        return options.run(options)
    except CourseError as error:
        print(f"course: {error}", file=sys.stderr)
        return BAD_REQUEST
    except BrokenPipeError:  # the reader closed the pipe: `course grade … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("course: stopped; nothing was kept.", file=sys.stderr)
        return 130


class _Command(argparse.ArgumentParser):
    """The parser of a command. `declare` adds its arguments when the command is called, where they take torch."""

    declare = None

    def parse_known_args(self, *args, **named):
        declare, self.declare = self.declare, None
        if declare is not None:
            declare(self)
        return super().parse_known_args(*args, **named)


def _parser():
    parser = argparse.ArgumentParser(
        prog="course",
        description="Attention, kernel by kernel.",
        epilog="`course build` and `course bench` have their own --help.",
    )
    parser.add_argument("--exercises", action="append", metavar="DIR", help="a folder with more exercises")
    commands = parser.add_subparsers(required=True, metavar="command", parser_class=_Command)

    def command(name, run, text):
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    _add_of_learners(command)
    _add_of_teachers(command)
    serve.add_arguments(command("serve", serve.run, serve.HELP))
    bench_serve.add_arguments(command("bench-serve", bench_serve.run, bench_serve.HELP))
    command("build", None, "notebooks from chapters/")
    command("bench", None, "measure this machine; rows go to benchmarks/results")
    return parser


def _add_of_learners(command):
    """The commands of those who work through the course."""
    doctor = command("doctor", _doctor, "what this machine can run")
    grade = command("grade", _grade, "judge the answer in a file")
    hint = command("hint", _hint, "open one more of the three hints")
    progress = command("progress", _progress, "how far you are, what comes next, and your predictions")
    reset = command("reset", _reset, "put the starter cell back; your cell is kept in work/")
    show = command("show", _show, "contract and starter of an exercise")
    update = command("update", _update, "bring in the newest chapters and kernels; what you wrote stays")
    update.add_argument(
        "--keep-changed", action="store_true", help="copy changed files of the course to work/kept/ and replace them"
    )
    watch = command("watch", _watch, "judge a file at each save; one that is missing begins as the starter")
    for made in (grade, watch, hint, show, reset):
        made.add_argument("exercise", help="such as 03.2")
    watch.add_argument("file", type=Path, help="the answer, in an editor of your own")
    watch.add_argument("--engine", choices=("cpu", "gpu"), help="default: what this machine has")
    _add_options_of_grade(grade)
    for made in (doctor, grade, progress):
        made.add_argument("--json", action="store_true", help="for programs")


def _add_of_teachers(command):
    """The commands of those who grade others or write exercises."""
    every = command("grade-all", _grade_all, "judge every submission in a folder, each in a sandbox of its own")
    every.add_argument("folder", type=Path, help="with files such as NAME/03.1.py or folders such as NAME/03.1/")
    every.add_argument("--seed", type=int, help="fixed inputs, for tests; otherwise they are new every time")
    every.add_argument("--json", action="store_true", help="for programs")
    own = command("exercises", _exercises, "check the exercises of a folder, or build their notebook")
    own.add_argument("action", choices=("check", "build"))
    own.add_argument("names", nargs="*", metavar="DIR", help="folders, or ids of the course's own exercises")
    own.add_argument("--seed", type=int, help="fixed inputs; otherwise they are new every time")
    command("mutate", mutate.run, mutate.HELP).declare = mutate.add_arguments
    many = command("cohort", cohort.run, cohort.HELP)
    cohort.add_arguments(many)
    every.epilog = many.epilog = _LIMITS


def _add_options_of_grade(grade):
    grade.add_argument("file", type=Path, help="the answer: CUDA C++, or Python with the function")
    grade.add_argument("--engine", choices=("cpu", "gpu"), help="default: what this machine has")
    grade.add_argument("--seed", type=int, help="fixed inputs, for tests; otherwise they are new every time")
    grade.add_argument(
        "--sandbox",
        action="store_true",
        help="for other people's answers: files, network and rights of none, by bubblewrap",
    )
    grade.epilog = _LIMITS


def _doctor(options):
    from . import doctor

    findings = doctor.examine()
    if options.json:
        print(json.dumps([vars(finding) for finding in findings], indent=1))
    else:
        print("\n".join(map(str, findings)))
    return int(any(finding.state == doctor.MISSING for finding in findings))


def _grade(options):
    from ..grading.answer.text import from_file
    from ..grading.judge import client
    from ..grading.processes import confine
    from ..grading.processes.wire import plain_text

    confine.hide_memory()  # else an answer without a sandbox could change what is printed here
    if options.engine == "gpu":
        if options.sandbox:
            raise CourseError("the sandbox judges on the CPU: a GPU's driver is shared with the whole machine")
        _require_gpu()
    verdict = client.grade(
        options.exercise, from_file(options.file), engine=options.engine, seed=options.seed, sandbox=options.sandbox
    )
    if options.json:
        print(json.dumps(finite(verdict.to_dict()), indent=1))
    else:
        print(plain_text(str(verdict)))
        if not options.sandbox and verdict.state != "NOT STARTED":
            print("\n  (Run with limits on time, memory and output; for other people's answers add --sandbox.)")
    return EXIT[verdict.state]


def _grade_all(options):
    from .grade_all import grade_all

    return grade_all(options.folder, seed=options.seed, as_json=options.json)


def _require_gpu():
    if not device.has_gpu():
        raise CourseError("--engine gpu needs an NVIDIA GPU, and none is found here (`course doctor` says more)")


def _hint(options):
    from ..grading.check import hint

    print(hint(options.exercise))
    return 0


def _watch(options):
    from .watch import watch

    if options.engine == "gpu":
        _require_gpu()
    for text in watch(options.exercise, options.file, engine=options.engine):
        print(text, flush=True)
    return 0


def _progress(options):
    from ..grading.records import work
    from .progress import guesses, lines

    progress = work.progress()
    if options.json:
        print(json.dumps(progress | {"predictions": work.load("predictions.json")}, indent=1))
        return 0
    print("\n".join(lines(progress)))
    shown = list(guesses())
    if shown:
        print("", *shown, sep="\n")
    return 0


def _show(options):
    from ..checklist import starter_text
    from ..grading.exercise import registry

    task = registry.get_document(options.exercise)
    print(f"{task.id} {task.title} ({task.size_lines} lines, {task.minutes} minutes)\n\n{task.contract}\n")
    print(starter_text(task))
    return 0


def _exercises(options):
    if options.action == "check":
        return exercises.check(options.names, seed=options.seed)
    if len(options.names) != 1 or not Path(options.names[0]).is_dir():
        raise CourseError("`course exercises build` takes one folder of exercises")
    print(f"{exercises.build(options.names[0])}: written")
    return 0


def _reset(options):
    from .reset import reset

    notebook, kept = reset(options.exercise)
    if kept is None:
        print(f"{notebook.name}: the cell of {options.exercise} is the starter already.")
    else:
        print(
            f"{notebook.name}: the starter of {options.exercise} is back; your cell is kept in {kept}.\n"
            "If the notebook is open, reload it from disk (in JupyterLab: File, Reload Notebook from Disk)."
        )
    return 0


def _update(options):
    from .update import update

    count = update(keep_changed=options.keep_changed)
    if not count:
        print("You have the newest chapters and kernels.")
    else:
        print(
            f"The newest chapters and kernels are in ({count} commit{'s' * (count > 1)}); what you wrote stays.\n"
            "Reload notebooks that are open (in JupyterLab: File, Reload Notebook from Disk) and restart their kernels."
        )
    return 0


def _bench(words):
    """Measure everything, or one case file: `course bench decode --dry` is `python -m benchmarks.decode --dry`."""
    name, rest = (words[0], words[1:]) if words and not words[0].startswith("-") else ("all", words)
    path = _ROOT / "benchmarks" / f"{name.replace('.', '/')}.py"
    if not path.is_file():
        print(f"course: {path} is missing; benchmarks/README.md lists the case files", file=sys.stderr)
        return BAD_REQUEST
    return subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *rest], cwd=_ROOT).returncode
