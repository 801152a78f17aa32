"""A lecture on a GPU sets a default device of torch: what a CPU generator draws must be drawn on the CPU by name."""

import ast
from pathlib import Path

COURSE_LIB = Path(__file__).resolve().parents[2] / "course_lib"


def draws_without_a_device(path):
    """Lines that draw from ``generator=`` and leave the device to the default."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    for call in calls:
        names = {keyword.arg for keyword in call.keywords}
        if "generator" in names and "device" not in names and isinstance(call.func, ast.Attribute):
            if getattr(call.func.value, "id", "") == "torch" and not call.func.attr.startswith("multinomial"):
                yield f"{path.relative_to(COURSE_LIB.parent)}:{call.lineno}"


def test_draws_of_a_cpu_generator_name_their_device():
    rooms = [path for path in COURSE_LIB.rglob("*.py") if "grading" not in path.parts]  # the judge has its own process
    assert len(rooms) > 100
    assert [line for path in rooms for line in draws_without_a_device(path)] == []
