"""scripts/setup.sh with a fake Python: what it installs, when it does nothing, how it recovers, what it says."""

import os
import re
import shutil
import subprocess
import sys

import pytest

# a Python that records what it is asked for; NO_UV, FAIL_UV, FAIL_INSTALL, CPU_INDEX decide how uv, pip and the index
# of PyTorch behave
FAKE_PYTHON = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
    --version) echo "Python 3.12.0" ;;
    "-c import sys; sys.exit"*) exit "${TOO_OLD:-0}" ;;
    "-c import venv"*) exit "${NO_VENV:-0}" ;;
    "-c import sys, urllib"*) exit "${CPU_INDEX:-1}" ;;
    "-m venv"*) rm -rf .venv; mkdir -p .venv/bin; cp "$FAKE" .venv/bin/python ;;
    "-m pip install"*" uv") exit "${NO_UV:-0}" ;;
    "-m uv pip install"*)
        echo "$UV_INDEX $UV_FIND_LINKS $SSL_CERT_FILE" >>"$CALLS"
        exit "${FAIL_UV:-${FAIL_INSTALL:-0}}" ;;
    "-m pip config list") echo "$PIP_SETTINGS" ;;
    "-m pip install"*) exit "${FAIL_INSTALL:-0}" ;;
esac
"""
TOOLS = "bash cat cksum dirname env grep head mkdir rm sed tail touch timeout uname cp cut".split()


class Setup:
    """A scratch copy of what setup.sh reads, and a PATH with nothing but a few tools and the fake Python."""

    def __init__(self, root, folder):
        self.folder, self.bin = folder / "course", folder / "bin"
        (self.folder / "scripts").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("scripts/setup.sh", "pyproject.toml", "constraints.txt"):
            shutil.copy(root / name, self.folder / name)
        shutil.copytree(root / "course_lib" / "labextension", self.folder / "course_lib" / "labextension")
        for tool in filter(shutil.which, TOOLS):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.add("python3", FAKE_PYTHON)
        self.add("g++", "#!/bin/sh\n")
        self.calls_file = folder / "calls"

    def add(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, **environment):
        """(exit status, what it printed, what Python was asked for) of one run."""
        self.calls_file.write_text("")
        variables = {"PATH": str(self.bin), "CALLS": str(self.calls_file), "FAKE": str(self.bin / "python3")}
        variables |= {"SYSTEM_PYTHON": ""}
        result = subprocess.run(
            ["bash", "scripts/setup.sh"],
            cwd=self.folder,
            env=variables | environment,
            capture_output=True,
            text=True,
        )
        return result.returncode, result.stdout + result.stderr, self.calls_file.read_text()


@pytest.fixture
def setup(root, tmp_path):
    return Setup(root, tmp_path)


def test_first_run_installs_everything_in_one_command_with_torch_pinned(setup, root):
    status, printed, calls = setup.run()
    assert status == 0 and "ready after" in printed
    installs = [line for line in calls.splitlines() if "pip install" in line and not line.endswith(" uv")]
    pin = next(line for line in (root / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    assert len(installs) == 1
    assert installs[0].startswith("-m uv") and f"--constraint constraints.txt {pin} --editable .[dev]" in installs[0]


@pytest.mark.parametrize("fault", ["NO_UV", "FAIL_UV"])
def test_pip_installs_where_uv_does_not(setup, fault):
    status, printed, calls = setup.run(**{fault: "1"})
    installs = [line for line in calls.splitlines() if line.startswith("-m pip install") and "torch==" in line]
    assert status == 0 and "ready after" in printed and len(installs) == 1
    assert ("uv could not install" in printed) == (fault == "FAIL_UV")


def test_uv_takes_packages_from_where_pip_does_unless_it_is_told_otherwise(setup):
    settings = """:env:.find-links='/wheels /more'
global.cert='/etc/certs.pem'
global.extra-index-url='\\nhttps://one/simple\\nhttps://two/simple'
"""
    calls = setup.run(PIP_SETTINGS=settings)[2]
    assert "\nhttps://one/simple https://two/simple /wheels,/more /etc/certs.pem\n" in calls
    shutil.rmtree(setup.folder / ".venv")
    assert "\nhttps://own /wheels,/more /etc/certs.pem\n" in setup.run(PIP_SETTINGS=settings, UV_INDEX="https://own")[2]


def test_the_extension_of_jupyterlab_is_installed_and_kept_up_to_date(setup):
    setup.run()
    made = setup.folder / ".venv" / "share" / "jupyter" / "labextensions" / "attention-kernel-by-kernel"
    script = setup.folder / "course_lib" / "labextension" / "static" / "remoteEntry.js"
    assert (made / "package.json").is_file() and (made / "static" / script.name).read_text() == script.read_text()
    script.write_text("// a newer one")
    setup.run()
    assert (made / "static" / script.name).read_text() == "// a newer one"


def test_a_tested_python_comes_before_a_newer_one(setup):
    newer = FAKE_PYTHON.replace('exit "${TOO_OLD:-0}"', '[[ "$*" == *"(3, 99)"* ]]; exit')
    setup.add("python3", newer)
    assert "making .venv" in setup.run()[1]  # better than none
    shutil.rmtree(setup.folder / ".venv")
    setup.add("python3.12", FAKE_PYTHON.replace("Python 3.12.0", "Python 3.12.9"))
    assert "making .venv with Python 3.12.9" in setup.run()[1]


def test_the_systems_python_comes_before_the_one_on_the_path_unless_it_has_no_venv(setup):
    setup.add("system", FAKE_PYTHON.replace("Python 3.12.0", "Python 3.11.2"))
    system = str(setup.bin / "system")
    assert f"making .venv with Python 3.11.2 ({system})" in setup.run(SYSTEM_PYTHON=system)[1]
    shutil.rmtree(setup.folder / ".venv")
    setup.add("system", FAKE_PYTHON.replace("NO_VENV:-0", "NO_VENV:-1"))
    assert "making .venv with Python 3.12.0 (python3)" in setup.run(SYSTEM_PYTHON=system)[1]


def test_second_run_downloads_nothing(setup):
    setup.run()
    assert setup.run() == (0, "", "")


def test_the_cpu_index_is_used_only_when_it_answers(setup):
    driver = any(map(os.path.exists, ("/proc/driver/nvidia/version", "/usr/lib/wsl/lib/libcuda.so.1")))
    if driver or sys.platform != "linux":  # the CUDA build is wanted, or PyPI's is the CPU build
        assert "--extra-index-url" not in setup.run(CPU_INDEX="0")[2]
        return
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in setup.run(CPU_INDEX="0")[2]
    (setup.folder / ".venv/.installed").unlink()
    status, printed, calls = setup.run(CPU_INDEX="1")
    assert status == 0 and "does not answer" in printed and "--extra-index-url" not in calls


def test_an_interrupted_install_is_started_afresh(setup):
    assert setup.run(FAIL_INSTALL="1")[0] != 0
    half = setup.folder / ".venv/half-installed"
    half.touch()
    status, _, calls = setup.run()
    assert status == 0 and "-m venv --clear .venv" in calls and not half.exists()
    assert setup.run() == (0, "", "")


def test_new_pins_are_installed_into_the_same_environment(setup):
    setup.run()
    mine = setup.folder / ".venv/mine"
    mine.touch()
    with open(setup.folder / "constraints.txt", "a") as file:
        file.write("einops==0.8.1\n")
    status, _, calls = setup.run()
    assert status == 0 and "-m uv pip install" in calls and "-m venv" not in calls and mine.exists()


def test_a_moved_folder_gets_a_new_environment(setup):
    setup.run()
    moved = setup.folder.with_name("elsewhere")
    setup.folder.rename(moved)
    setup.folder = moved
    assert "-m venv --clear .venv" in setup.run()[2]


@pytest.mark.parametrize(
    "missing, environment, sentence",
    [
        ("g++", {}, "No C.. compiler found.*sudo apt install g"),
        ("python3", {}, "needs Python 3.11 or newer"),
        (None, {"TOO_OLD": "1"}, "needs Python 3.11 or newer"),
        (None, {"NO_VENV": "1"}, "sudo apt install python3-venv"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence_and_nothing_is_installed(setup, missing, environment, sentence):
    if missing:
        (setup.bin / missing).unlink()
    status, printed, calls = setup.run(**environment)
    assert status != 0 and re.search(sentence, printed) and len(printed.strip().splitlines()) == 1
    assert "-m pip install" not in calls
