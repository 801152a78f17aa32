"""A kernel is linked by `as` and `ld` as g++ would do it, and by g++ where they cannot."""

import importlib
import json

import pytest

from course_lib.cuda.simt.compilers import compiler, run_compiler

build = importlib.import_module("course_lib.cuda.simt.build")
link = importlib.import_module("course_lib.cuda.simt.link")

KERNEL = 'extern "C" __attribute__((visibility("default"))) float twice(float x) { return x + x; }\n'


@pytest.fixture
def assembly(tmp_path):
    made = tmp_path / "kernel.s"
    done = run_compiler(["-x", "c++", "-O1", "-fPIC", "-S", "-o", made, "-"], input=KERNEL)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.skipif(compiler()[1] != "gcc", reason="only g++ is asked for its programs")
def test_the_library_is_the_one_that_gpp_makes(assembly, tmp_path):
    objects = [build.runtime_library()]
    assert len(link._programs(compiler())) == 2
    done = link.link(assembly, tmp_path / "direct.so", objects)
    assert (done.returncode, (tmp_path / "direct.o").exists()) == (0, True), "g++ had to do it"
    assert run_compiler(link._words(assembly, tmp_path / "gpp.so", objects)).returncode == 0
    assert (tmp_path / "direct.so").read_bytes() == (tmp_path / "gpp.so").read_bytes()


@pytest.mark.parametrize("programs", [[], [["/nowhere/as", "kernel.s"]], [["false"]]])
def test_gpp_links_where_the_programs_cannot(assembly, tmp_path, monkeypatch, programs):
    monkeypatch.setattr(link, "_programs", lambda of: programs)
    assert link.link(assembly, tmp_path / "made.so", [build.runtime_library()]).returncode == 0
    assert (tmp_path / "made.so").exists()


@pytest.mark.skipif(compiler()[1] != "gcc", reason="clang has other words for it")
def test_what_gpp_says_of_an_error_is_kept(tmp_path):
    broken = tmp_path / "kernel.s"
    broken.write_text("this is no instruction\n")
    done = link.link(broken, tmp_path / "made.so", [build.runtime_library()])
    assert done.returncode != 0 and "no such instruction" in done.stderr


@pytest.mark.skipif(compiler()[1] != "gcc", reason="only g++ is asked for its programs")
@pytest.mark.parametrize(
    "said", ["", " as -o /tmp/a.o kernel.s", " cc1plus x\n collect2 y", " as kernel.s\n collect2 z"]
)
def test_words_that_are_not_understood_leave_it_to_gpp(monkeypatch, said):
    asked = link.run_compiler

    def answer(arguments, **options):
        done = asked(arguments, **options)
        done.stderr = said if arguments[0] == "-###" else done.stderr
        return done

    monkeypatch.setattr(link, "run_compiler", answer)
    assert link._asked(link._words("kernel.s", "kernel.so", ["objects.o"])) == []


def test_what_is_kept_is_plain_json():
    for path in link.link_files():
        assert all(isinstance(word, str) for words in json.loads(path.read_text("utf-8")) for word in words)
