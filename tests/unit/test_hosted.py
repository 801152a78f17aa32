"""The first cell of docs/hosted.md: it clones, sets up and imports the course; what scripts/hosted.py would install."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def hosted(root):
    spec = importlib.util.spec_from_file_location("hosted", root / "scripts" / "hosted.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cell(root):
    return re.search(r"```python\n(.*?)```", (root / "docs" / "hosted.md").read_text(), re.DOTALL)[1]


def test_the_first_cell_clones_sets_up_and_imports(cell, root, tmp_path):
    source = tmp_path / "source"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True).stdout.split("\0")
    commands = (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "course"])
    for name in files:
        if name and (root / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((root / name).read_bytes())
    for command in commands:
        subprocess.run(["git", *command], cwd=source, check=True)
    cell = re.sub(r'ADDRESS = "[^"]*"', f'ADDRESS = "file://{source}"', cell)
    cell += "\nimport course_lib, course_lib.reference\nprint('from', course_lib.__file__, 'in', os.getcwd())"
    cache = os.environ.get("COURSE_CACHE_DIR") or str(Path.home() / ".cache" / "attention-kernel-by-kernel")
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": "", "COURSE_CACHE_DIR": cache}
    result = subprocess.run([sys.executable, "-c", cell], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    home = tmp_path / "course"
    assert f"from {home}/course_lib/__init__.py in {home}/notebooks" in result.stdout
    assert "SIMT machine compiled, ran and checked a kernel" in re.sub(r"\s+", " ", result.stdout)


def test_only_what_is_missing_or_out_of_range_is_installed(hosted):
    wanted = [
        "torch>=2",
        "torch>=99",
        "not-a-package[extra]>=1",
        "jupyterlab>=99",
        "numpy>=99; platform_system == 'Mars'",
    ]
    assert hosted.missing(wanted) == ["torch>=99", "not-a-package[extra]>=1"]
