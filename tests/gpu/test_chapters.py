"""Lectures and solutions run on the GPU as plain scripts: no Jupyter is needed, and every check passes there too."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("solutions/*.ipynb")])
# widgets belong to Jupyter, which a GPU server may lack: a stand-in takes their calls there
PREAMBLE = """import importlib.util, sys, types, unittest.mock
if importlib.util.find_spec("ipywidgets") is None:
    class StandIn:
        def __init__(self, *parts, **options):
            first = next(iter(options.get("options", ())), None)  # of a choice; (label, value) or the value
            first = first[1] if isinstance(first, tuple) else first
            self.value = options.get("value", parts[0] if parts else options.get("min", first))
            self.children = parts
            self.__dict__.update(options)
        def __getattr__(self, name):
            return unittest.mock.MagicMock()
    stand_in = sys.modules["ipywidgets"] = types.ModuleType("ipywidgets")
    stand_in.__getattr__ = lambda name: StandIn if name[:1].isupper() else unittest.mock.MagicMock()
import matplotlib
matplotlib.use("Agg")
display = print
"""


def as_script(path):
    """The code cells of a notebook as one Python program: %%cuda cells become cuda.compile, other magics go."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [PREAMBLE]
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        text = "".join(cell["source"])
        magic = re.match(r"%%cuda\s+(\w+)(.*)\n", text)
        if magic:
            defines = dict(item.split("=", 1) for item in re.findall(r"-D\s*(\w+=\S+)", magic.group(2)))
            entry = re.search(r"--entry\s+(\w+)", magic.group(2))
            body = text[magic.end() :]
            parts.append(
                f"from course_lib import cuda\n{magic.group(1)} = cuda.compile({body!r}, "
                f"{entry.group(1) if entry else None!r}, defines={defines!r})"
            )
        else:
            parts.append("\n".join(line for line in text.splitlines() if not line.startswith(("%", "!"))))
    return "\n\n".join(parts)


def test_there_are_notebooks():
    assert NOTEBOOKS, "make build writes notebooks/ and solutions/"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_notebook_runs_as_a_script(path, tmp_path):
    script = tmp_path / f"{path.stem}.py"
    script.write_text(as_script(path), encoding="utf-8")
    found = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "COURSE_STRICT": "1", "PYTHONPATH": found, "COURSE_WORK_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
