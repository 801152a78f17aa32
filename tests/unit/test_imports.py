"""Who may import whom in course_lib, held against the real imports; and that importing the course stays light."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "course_lib"

# room -> rooms of course_lib that it may import; its own room always goes without saying
BASE = {"by_kind", "errors", "expect", "loading", "notation", "far"}
ALLOWED = {
    "by_kind": set(),
    "errors": set(),
    "expect": {"errors"},
    "loading": set(),
    "notation": set(),
    "far": set(),
    "device": BASE,
    "worker": BASE,
    "cuda": BASE | {"device"},
    "triton": BASE | {"device", "worker"},
    "triton_kernels": {"notation", "cuda"},  # cuda: steps, in __init__ alone
    "reference": {"notation"},
    "kv": BASE | {"device", "cuda", "triton", "triton_kernels"},
    "ops": BASE | {"device", "cuda", "triton", "triton_kernels", "kv"},
    "operators": BASE | {"ops"},
    # grading: the learner's answers
    "model": BASE | {"device", "cuda", "ops", "operators", "reference", "grading", "measure"},
    "serving": BASE | {"device", "kv", "ops", "model", "reference", "measure"},
    "parallel": BASE | {"device", "kv", "ops", "model"},
    "grading": BASE | {"device", "worker", "reference", "cuda", "triton"},  # the judge does not know the submissions
    "measure": BASE | {"device"},
    "viz": BASE | {"measure"},
    "magic": BASE | {"cuda", "grading"},
    "__init__": BASE | {"device", "cuda", "triton", "grading", "magic", "measure", "viz"},
}
ON_TOP = {"book", "checklist", "cli", "solved"}  # may import everything; no other room may import them


def room_of(path):
    """The first part of a module's path under course_lib: "cuda" for cuda/kernel.py, "device" for device.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path, text=None):
    """(line, room) for every import of the course in one file, those inside functions too."""
    package = ("course_lib", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text() if text is None else text)):
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            targets = [(*base, alias.name) for alias in node.names]
        else:
            continue
        for target in targets:
            if target[0] == "course_lib" and len(target) > 1:
                yield node.lineno, target[1]


def forbidden(path, text=None):
    """One sentence for each import of `path` that the direction of the house does not allow."""
    room = room_of(path)
    if room in ON_TOP:
        return []
    allowed = ALLOWED[room] | {room}
    return [
        f"{path.relative_to(PACKAGE)}:{line}: {room} may not import {other}; it may import {', '.join(sorted(allowed))}"
        for line, other in imported_rooms(path, text)
        if other not in allowed and not (room == "__init__" and other.startswith("_"))
    ]


# room of grading -> rooms of grading that it may import
GRADING = {
    "answer": set(),
    "report": set(),
    "processes": {"answer"},
    "exercise": {"processes", "exercises"},  # exercises: until each of them is a folder under solutions/
    "judge": {"answer", "exercise", "processes", "report"},
    "records": {"report"},
}


def imported_modules(path, modules):
    """Dotted names of the modules of the course that one file imports, those inside functions too."""
    package = ("course_lib", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            dotted = ".".join((*base, *(node.module or "").split("."))).strip(".")
            for alias in node.names:
                yield from [name for name in (f"{dotted}.{alias.name}", dotted) if name in modules][:1]


def import_graph():
    """Module -> modules that it imports, over all of course_lib; a package is its __init__.py."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        dotted = ".".join(("course_lib", *path.relative_to(PACKAGE).with_suffix("").parts))
        names[dotted.removesuffix(".__init__")] = path
    return {name: set(imported_modules(path, names)) - {name} for name, path in names.items()}


def circles(graph):
    """Modules of the graph that import themselves by way of others, as sorted lists, one a circle."""
    reached = {}
    for start in graph:
        seen, remaining = set(), list(graph[start])
        while remaining:
            name = remaining.pop()
            if name not in seen:
                seen.add(name)
                remaining += graph[name]
        reached[start] = seen
    return sorted({tuple(sorted(b for b in reached[a] if a in reached[b])) for a in graph if a in reached[a]})


def test_every_room_has_a_rule():
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")}
    assert rooms <= ALLOWED.keys() | ON_TOP


def test_imports_follow_the_direction():
    violations = [sentence for path in sorted(PACKAGE.rglob("*.py")) for sentence in forbidden(path)]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    "path, line",
    [
        ("grading/judge/judge.py", "from ...ops import softmax"),
        ("grading/judge/judge.py", "def f():\n    import course_lib.triton_kernels.softmax"),
        ("cuda/simt/build.py", "from ...triton import mode"),
        ("device.py", "from . import cuda"),
        ("viz/softmax.py", "from course_lib.book import chapters"),
    ],
)
def test_the_rule_catches(path, line):
    assert len(forbidden(PACKAGE / path, line)) == 1


def test_no_module_imports_itself_by_way_of_others():
    assert not circles(import_graph())


def test_a_circle_is_seen():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}
    assert circles(graph) == [("a", "b", "c")]
    graph = import_graph()
    assert "course_lib.grading.report.hints" in graph["course_lib.grading.check"], "an import inside a function counts"


def test_rooms_of_grading_import_in_one_direction():
    violations = []
    for module, imported in import_graph().items():
        room = module.removeprefix("course_lib.grading.").split(".")[0]
        for other in imported if module.startswith("course_lib.grading.") and room in GRADING else ():
            target = other.removeprefix("course_lib.grading.").split(".")[0]
            if other.startswith("course_lib.grading.") and target not in GRADING[room] | {room}:
                violations.append(f"{module} may not import {other}")
    assert not violations, "\n".join(violations)


def task_modules():
    """What the judge loads of an exercise: every Python file of its folder but the answers."""
    answers = {"answer.py", "right.py"}
    return [path for path in sorted(PACKAGE.parent.glob("solutions/*/*.py")) if path.name not in answers]


def outside_grading(text):
    """Rooms of the course that the text of a task module imports without a right to."""
    found = re.findall(r"^\s*(?:from|import) course_lib\.?(\w*)", text, re.MULTILINE)
    return sorted(set(found) - {"grading", "reference", "notation", "errors"})


def test_a_task_knows_no_kernel_of_the_course():
    assert len(task_modules()) >= 53
    found = {str(path): outside_grading(path.read_text()) for path in task_modules()}
    assert not any(found.values()), {path: rooms for path, rooms in found.items() if rooms}
    assert outside_grading("from course_lib.ops import softmax\nimport course_lib.grading.check") == ["ops"]


def test_importing_the_course_is_light():
    heavy = "torch cupy triton matplotlib IPython numpy".split()
    code = f"import sys, course_lib; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_name_of_the_course_can_be_had():
    code = "import course_lib; [getattr(course_lib, name) for name in [*course_lib.__all__, *course_lib._LAZY]]"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
