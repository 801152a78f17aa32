"""pyproject.toml, constraints.txt and environment.yml say the same thing; the set-up scripts hold together."""

import json
import re
import subprocess
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def requirements(root):
    """name -> Requirement, the tools of the extras dev and site included."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["dev"], *extras["site"]]
    return {canonical(item.name): item for item in map(Requirement, lines)}


@pytest.fixture(scope="module")
def pins(root):
    """name -> exact version."""
    lines = (root / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonical(item.name): str(item.specifier) for item in found}


def test_every_direct_dependency_is_pinned_inside_its_range(requirements, pins):
    for name, requirement in requirements.items():
        assert name in pins, f"{name} has no pin in constraints.txt"
        version = pins[name].removeprefix("==")
        assert pins[name] == f"=={version}" and requirement.specifier.contains(version), (name, pins[name])


def test_no_pin_is_left_over(requirements, pins):
    assert pins.keys() <= requirements.keys()


@pytest.mark.parametrize("name, version", [("torch", "2.11.0"), ("triton", "3.6.0"), ("torch", "2.13.0")])
def test_ranges_admit_what_gpu_servers_have(requirements, name, version):
    assert requirements[name].specifier.contains(version)


def test_linux_only_packages_are_marked(requirements):
    for name in ("triton", "cupy-cuda13x", "cuda-core", "cuda-toolkit"):
        assert requirements[name].marker.evaluate({"platform_system": "Darwin"}) is False


def test_conda_takes_its_packages_from_pyproject(root):
    environment = yaml.safe_load((root / "environment.yml").read_text())
    packages = [item for item in environment["dependencies"] if isinstance(item, str)]
    pip = next(item["pip"] for item in environment["dependencies"] if isinstance(item, dict))
    assert {re.split("[=<>]", item)[0] for item in packages} == {"python", "pip", "make", "cxx-compiler"}
    assert pip == ["--constraint constraints.txt", "--editable .[dev]"]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    python = next(item.partition("=")[2] for item in packages if item.startswith("python="))
    assert Requirement(f"python{project['requires-python']}").specifier.contains(python)


def test_scripts_are_valid_bash(root):
    for script in [root / ".ci/run", *sorted((root / "scripts").glob("*.sh"))]:
        result = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def test_ci_is_two_commands(root):
    lines = (root / ".ci/run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make")] == ["make system-packages", "make test"]


def test_every_make_target_says_what_it_does(root):
    text = (root / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split())
    assert targets == set(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE))


def test_the_container_sets_up_with_the_same_commands(root):
    container = json.loads((root / ".devcontainer/devcontainer.json").read_text())
    targets = re.findall(r"make ([a-z-]+)", container["postCreateCommand"])
    assert targets == ["system-packages", "setup"]
    assert all(f"\n{target}:" in (root / "Makefile").read_text() for target in targets)


def test_clean_never_touches_work(root):
    clean = (root / "Makefile").read_text().partition("\nclean:")[2]
    assert "rm -rf" in clean and not re.search(r"rm -rf[^\n]*\bwork\b", clean)


def test_lab_and_update_sign_the_notebooks(root):
    makefile = (root / "Makefile").read_text()
    update = makefile.partition("\nupdate:")[2].partition("\n\n")[0]
    assert "bash scripts/trust.sh" in update and "bash scripts/trust.sh" in (root / "scripts/lab.sh").read_text()
    signed = (root / "scripts/trust.sh").read_text()
    assert all(f"{folder}/*.ipynb" in signed for folder in ("notebooks", "exercises", "solutions"))
