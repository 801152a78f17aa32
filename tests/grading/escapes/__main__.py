"""`python -m tests.grading.escapes`: every attack and cheat; prints which held, as JSON {name: escaped}, and a table.

Attacks leave the sandbox and are tried there alone; cheats (cheats.py) are tried with and without it.
"""

import json

from course_lib.errors import UnsupportedError
from course_lib.grading.processes import isolation

from . import attacks, cheats


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


def cheated(sandbox):
    """{name of a cheat: whether it worked}, in a sandbox or without one."""
    world = attacks.World()
    try:
        return {
            name: bool(worked([isolation.run_task(task, sandbox=sandbox) for task in tasks][-1]))
            for name, tasks, worked in cheats.cheats(world)
        }
    finally:
        isolation.close_zygotes()
        world.close()


def _table(columns):
    """The lines of a table: {heading: {name: escaped}}."""
    names = dict.fromkeys(name for column in columns.values() for name in column)
    said = {True: "WORKED", False: "held", None: "not tried"}
    yield f"{'tried':45} " + " ".join(f"{heading:16}" for heading in columns)
    for name in names:
        yield f"{name:45} " + " ".join(f"{said[column.get(name)]:16}" for column in columns.values())


if __name__ == "__main__":
    try:
        found = escaped() | cheated(sandbox=True)
        print(*_table({"without a sandbox": cheated(sandbox=False), "in the sandbox": found}), sep="\n")
        print(json.dumps(found))
    except UnsupportedError as error:
        print(json.dumps({"refused": str(error)}))
