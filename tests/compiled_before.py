"""What tests had compilers make for GPUs when they last passed: made again only when it may come out otherwise.

A compiler makes the same of the same text. tests/compiled.csv keeps, for each test that asks `compiled_before`, a
digest of what it compiles, of the compilers, of the course's way to call and to read them, and of the test's own file;
the compile gates keep theirs in kernels_cu/compiled.csv. A test with another digest compiles, and so do all with
`--compile`; `--store-compiled`, without -n, stores the digests of those that passed.

Every run of pytest imports this file, the process that only hands out tests as well: what loads torch inside functions.
"""

import csv
import functools
import hashlib
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

STORED = Path(__file__).with_name("compiled.csv")
COURSE = Path(__file__).resolve().parents[1] / "course_lib"
CALLS = (
    *(f"cuda/{name}.py" for name in ("notes", "nvrtc", "sass", "sass_facts", "signature", "source")),
    *(f"triton/{name}.py" for name in ("aot", "source")),
)
_passed = pytest.StashKey[dict]()


def add_options(parser):
    parser.addoption("--compile", action="store_true", help="compile for GPUs what was compiled before as well")
    parser.addoption("--store-compiled", action="store_true", help="store digests of what passed (tests/compiled.csv)")


@pytest.fixture
def compiled_before(request):
    """A function of what a test compiles, in any number of parts; True: the test passed with just that, and can end."""
    test, file = request.node.nodeid, Path(request.node.path)
    known = {} if request.config.getoption("--compile") else stored()

    def before(*parts):
        digest = digest_of(file, parts)
        request.config.stash.setdefault(_passed, {})[test] = digest
        return known.get(test) == digest

    return before


def digest_of(file, parts):
    """A hash of what a test in `file`, a Path, compiles, and of all that decides what comes out."""
    from course_lib.cuda import gate

    return hashlib.sha256(repr((tools(), gate.statements(file), parts)).encode()).hexdigest()


@functools.cache
def tools():
    """The compilers and the disassembler by version, and the course's files that call and read them."""
    from course_lib.cuda import gate, nvrtc, sass

    disassembler = subprocess.run([sass._nvdisasm(), "--version"], capture_output=True, text=True, check=True).stdout
    return (version("triton"), nvrtc.version(), disassembler, *(gate.statements(COURSE / name) for name in CALLS))


def of_triton(launched, *how):
    """A part for a @triton.jit function and how it is compiled: its text, that of all it uses, and what names mean."""
    from course_lib.triton import source

    return (*source.meaning(launched), *how)


def forget_failed(config, report):
    """A test that did not pass has no digest to store."""
    if not report.passed:
        config.stash.setdefault(_passed, {}).pop(report.nodeid, None)


@functools.cache
def stored():
    """{test: digest} of tests/compiled.csv."""
    if not STORED.is_file():
        return {}
    with STORED.open(newline="", encoding="utf-8") as file:
        return {row["test"]: row["digest"] for row in csv.DictReader(file)}


def store(config):
    """With --store-compiled, write the digests of this run in place of those of the files that it ran."""
    if not config.getoption("--store-compiled"):
        return
    made = config.stash.get(_passed, {})
    files = {test.partition("::")[0] for test in made}
    kept = {test: digest for test, digest in stored().items() if test.partition("::")[0] not in files}
    with STORED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("test", "digest"))
        writer.writerows(sorted((kept | made).items()))
