"""Loading modules while the garbage collector rests: what is loaded is no garbage.

May import: nothing of the course.
"""

import contextlib
import gc

_THRESHOLD = 50_000  # containers between two collections: at the usual 700 they take a sixth of a short run


@contextlib.contextmanager
def no_collections():
    """Run no collection inside: with them torch needs a sixth longer to load."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def kept():
    """For a process that loads much and then answers requests: no collection inside, and later ones are seldom.

    They do not look through what was loaded here, so that a forked process copies fewer pages.
    """
    with no_collections():
        yield
        gc.freeze()
        gc.set_threshold(_THRESHOLD)
