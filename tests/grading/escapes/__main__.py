"""`python -m tests.grading.escapes`: every attack in one sandbox each; prints which held, as JSON {name: escaped}."""

import json

from course_lib.errors import UnsupportedError
from course_lib.grading.processes import isolation

from . import attacks


def escaped():
    """{name of an attack: whether it worked}."""
    world = attacks.World()
    try:
        found = {
            name: bool(worked(isolation.run_task(task, sandbox=True))) for name, task, worked in attacks.attacks(world)
        }
        for name, first, second, worked in attacks.sequences(world):
            isolation.run_task(first, sandbox=True)
            isolation.close_zygotes(sandbox=True)
            found[name] = bool(worked(isolation.run_task(second, sandbox=True)))
        return found
    finally:
        isolation.close_zygotes()
        world.close()


if __name__ == "__main__":
    try:
        print(json.dumps(escaped()))
    except UnsupportedError as error:
        print(json.dumps({"refused": str(error)}))
