"""The workflows of .github: valid by GitHub's own schema, and what they run exists."""

import os
import re
import subprocess
import sys

import pytest
import yaml

NAMES = ("site.yml", "tests.yml")


def lint(path):
    """The result of check-jsonschema on one workflow file; the schema comes with it, so nothing is downloaded."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


def commands(root, name):
    """The `run` texts of a workflow's steps."""
    jobs = yaml.safe_load((root / ".github/workflows" / name).read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_there_are_no_others(root):
    assert tuple(sorted(path.name for path in (root / ".github/workflows").iterdir())) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_is_valid(root, name):
    result = lint(root / ".github/workflows" / name)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_linter_refuses_an_unknown_key(root, tmp_path):
    text = (root / ".github/workflows/tests.yml").read_text()
    broken = tmp_path / "tests.yml"
    broken.write_text(text.replace("runs-on:", "run-on:"))
    assert broken.read_text() != text and lint(broken).returncode != 0


@pytest.mark.parametrize("name", NAMES)
def test_what_a_workflow_runs_exists(root, name):
    makefile = (root / "Makefile").read_text()
    for command in commands(root, name):
        target = re.fullmatch(r"make ([a-z-]+)", command)
        if target:
            assert f"\n{target[1]}:" in makefile, command
        else:
            assert os.access(root / command, os.X_OK), command
