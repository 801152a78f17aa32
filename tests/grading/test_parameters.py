"""Every parameter of a kernel that a contract leaves free has at least three values over the cases."""

import pytest

from course_lib.grading.exercise import inputs, registry

LEAST = 3
# (exercise, constant): why fewer values are enough
FIXED = {
    ("05.4", "BLOCK"): "the part that depends on it is given",
    ("08.5", "HEAD_DIM"): "the contract says 64 or 128",
    ("08.5", "NUM_CONSUMERS"): "the contract says 2 or 3",
    ("09.6", "ROWS"): "the smallest tile of tl.dot",
}
NO_NUMBERS = {"ELEMENT", "BLOCK_D"}  # a type; HEAD_DIM rounded up
KERNELS = [exercise.id for exercise in registry.all().values() if exercise.language != "python"]


def constants(exercise):
    """{name: set of values} of what the cases pass at compile time."""
    found = {}
    for case in exercise.cases:
        if case.sizes and max(case.sizes.values()) > 2000:
            continue  # large inputs; what they vary is their size
        run = exercise.make_run(case, exercise.make_inputs(case, inputs.generator(0, exercise.id)))
        for name, value in run.constants.items():
            found.setdefault(name, set()).add(value)
    return found


@pytest.mark.parametrize("exercise_id", KERNELS)
def test_compile_time_parameters_have_three_values(exercise_id):
    for name, values in constants(registry.get(exercise_id)).items():
        flag = values <= {0, 1}  # True and False too
        if not flag and name not in NO_NUMBERS and (exercise_id, name) not in FIXED:
            assert len(values) >= LEAST, f"{name} is {sorted(values)} in every case: an answer may take it for granted"
