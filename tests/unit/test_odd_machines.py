"""Compilers and folders that are not as they should be: one sentence, a temporary cache, never a wrong verdict."""

import os
import shutil
import stat
import subprocess
import sys

import pytest

import course_lib
from course_lib.cuda.simt import cache, machine
from course_lib.cuda.simt.build import runtime_library
from course_lib.cuda.simt.compilers import compiler
from course_lib.errors import ToolchainError
from course_lib.grading.processes.faults import fault_of
from course_lib.grading.records import predictions, work
from course_lib.grading.report.states import PASS
from course_lib.grading.report.verdict import Verdict


@pytest.fixture
def not_a_folder(tmp_path):
    """A path below a file: neither root nor anyone else can make a folder there."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "below"


@pytest.fixture
def fresh_compiler():
    """The compiler is looked for again, before and after."""
    compiler.cache_clear()
    yield
    compiler.cache_clear()


def test_a_cache_that_cannot_be_written_becomes_a_temporary_one(not_a_folder, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE_DIR", str(not_a_folder))
    with pytest.warns(UserWarning, match="cannot be used .*Set COURSE_CACHE_DIR"):
        folder = cache.cache_dir()
    assert folder.is_dir() and folder == cache.cache_dir()


def test_a_full_disk_is_a_sentence_and_no_verdict(tmp_path):
    def make(path):
        raise OSError(28, "No space left on device")

    with pytest.raises(ToolchainError, match="No space left on device.*free some space") as raised:
        cache.build_into(tmp_path / "kernel.so", make)
    assert fault_of(raised.value).kind == "not_verified_here"


def test_a_full_disk_under_the_compiler_is_the_same_sentence(tmp_path, monkeypatch, fresh_compiler):
    _program(tmp_path / "g++", 'echo "cannot write PCH file: No space left on device" >&2; exit $(( $# > 1 ))')
    monkeypatch.setenv("COURSE_CXX", str(tmp_path / "g++"))
    monkeypatch.setenv("COURSE_CACHE_DIR", str(tmp_path))
    with pytest.raises(ToolchainError, match="took no compiled kernel .No space left on device.; free some space"):
        runtime_library()


def test_a_cache_without_the_right_to_execute_is_a_sentence(tmp_path):
    (tmp_path / "kernel.so").write_text("not a library")
    with pytest.raises(ToolchainError, match="does not load.*Set COURSE_CACHE_DIR") as raised:
        machine.loaded(tmp_path / "kernel.so")
    assert fault_of(raised.value).kind == "not_verified_here"


def _program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _compiler(path, version):
    _program(path, f'[ "$1" = -dumpversion ] && echo {version} || echo "g++ (Ubuntu {version}.4.0) {version}.4.0"')


def test_an_old_compiler_is_a_sentence(tmp_path, monkeypatch, fresh_compiler):
    _compiler(tmp_path / "g++", 11)
    monkeypatch.setenv("COURSE_CXX", str(tmp_path / "g++"))
    with pytest.raises(ToolchainError, match=r"is g\+\+ 11; .* needs g\+\+ 12 or newer.*COURSE_CXX=g\+\+-12"):
        compiler()


def test_a_newer_compiler_beside_an_old_one_is_found(tmp_path, monkeypatch, fresh_compiler):
    monkeypatch.delenv("COURSE_CXX", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")
    _compiler(tmp_path / "g++", 11)
    with pytest.raises(ToolchainError, match=r"is g\+\+ 11.*make system-packages"):
        compiler()
    _compiler(tmp_path / "g++-12", 12)
    assert compiler() == (str(tmp_path / "g++-12"), "gcc", "g++ (Ubuntu 12.4.0) 12.4.0")


@pytest.mark.parametrize(("default", "offered", "installed"), [(11, True, True), (11, False, False), (13, True, False)])
def test_system_packages_installs_a_newer_compiler_where_the_default_is_too_old(
    tmp_path, root, default, offered, installed
):
    _compiler(tmp_path / "g++", default)
    said = tmp_path / "said"
    _program(tmp_path / "apt-get", f'echo "$@" >>{said}')
    _program(tmp_path / "apt-cache", f'[ "$2" = g++-12 ] && exit {int(not offered)}; exit 0')
    _program(tmp_path / "dpkg-query", "for last; do :; done; case $last in g++-12) exit 1;; esac; echo installed")
    _program(tmp_path / "chromium", "")
    _program(tmp_path / "sudo", 'exec "$@"')
    environment = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = ["bash", str(root / "scripts" / "system_packages.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    asked = said.read_text() if said.exists() else ""
    assert done.returncode == 0, done.stderr
    assert ("install --yes --no-install-recommends g++-12" in asked) == installed
    assert ("apt has no g++-12" in done.stdout) == (default == 11 and not offered)


def test_hint_predict_and_check_go_on_without_a_folder(not_a_folder, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(not_a_folder))
    assert work.next_hint("03.1", 3) == 1
    with pytest.warns(UserWarning, match="could not be kept"):
        assert predictions.predict("03.bytes", bytes=3).guess == {"bytes": 3}
    verdict = Verdict("03.1", PASS)
    work.record(verdict, type("Answer", (), {"text": "x"}))
    assert verdict.passed and "could not be kept" in verdict.remarks[0]


@pytest.mark.parametrize("damage", ['{"03.1": 5}', '{"03.1": {"hints": "many"}}', '{"03.1": {"attempts": null}}'])
def test_damaged_entries_begin_anew(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path))
    for name in ("progress.json", "predictions.json"):
        (tmp_path / name).write_text(damage)
    assert work.next_hint("03.1", 3) == 1
    verdict = Verdict("03.1", PASS)
    work.record(verdict, type("Answer", (), {"text": "x"}))
    assert verdict.remarks == [] and work.progress()["03.1"]["attempts"] == 1
    predictions.predict("03.1", bytes=3)
    assert predictions.compare("03.1", bytes=3).guess == {"bytes": 3} and predictions.kept()


def test_an_answer_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path))
    monkeypatch.setattr(work.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    verdict = Verdict("03.1", PASS)
    work.record(verdict, type("Answer", (), {"text": "x" * 100}))
    assert "No space left on device" in verdict.remarks[0]
    assert [path for path in (tmp_path / "answers").rglob("*") if path.is_file()] == []


def test_a_copy_without_the_course_is_refused_by_a_sentence(tmp_path):
    (tmp_path / "course_lib").mkdir()
    shutil.copy(course_lib.__file__, tmp_path / "course_lib")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", "import course_lib"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and said.startswith("ImportError: course_lib was installed without the course")


def test_a_terminal_and_files_of_ascii_and_no_git(tmp_path):
    environment = {"PATH": "/nowhere", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COURSE_WORK_DIR": str(tmp_path)}
    environment |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # as in a locale of Latin 1
    environment |= {"COURSE_ENGINE": "cpu", "HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-m", "course_lib.cli", "progress"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "03.1" in done.stdout, done.stderr[-500:]


@pytest.mark.parametrize("name", ['a "b"', "$HOME x", "a `b", "a\\ b", "a:b", "$Kürs", "Kürs 'of'; (1) & kö"])
def test_setup_refuses_a_folder_from_which_its_programs_do_not_start(tmp_path, root, name):
    for folder in ("scripts", "course_lib/labextension/static"):
        (tmp_path / name / folder).mkdir(parents=True)
    for file in (
        "pyproject.toml",
        "constraints.txt",
        "course_lib/labextension/x.json",
        "course_lib/labextension/static/x",
    ):
        (tmp_path / name / file).touch()
    shutil.copy(root / "scripts" / "setup.sh", tmp_path / name / "scripts")
    environment = os.environ | {"PYTHON": "/nowhere"}
    command = ["bash", str(tmp_path / name / "scripts" / "setup.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    expected = "found none" if "Kürs" in name else "move or rename it"
    assert done.returncode == 1 and expected in done.stderr, done.stderr
