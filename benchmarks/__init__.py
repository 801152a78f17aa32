"""Where the course's numbers come from: case files, run from the repository's root as ``python -m benchmarks.decode``.

Importing this package imports course_lib first, which chooses Triton's interpreter where there is no GPU; that must
happen before anything imports triton.
"""

from pathlib import Path

import course_lib  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]  # of the repository
RESULTS = ROOT / "benchmarks" / "results"
