"""`course cohort`: a class graded at once, whatever a learner hands in, with the same bytes every time."""

import csv
import json
import os
import re

import pytest

from course_lib import checklist, cli
from course_lib.cli.cohort import collect, jobs, pool
from course_lib.cli.cohort.journal import Journal
from course_lib.errors import CourseError
from course_lib.grading.exercise import registry
from course_lib.grading.judge import client
from course_lib.grading.processes import bubblewrap
from course_lib.grading.report.verdict import Verdict
from course_lib.worker import WorkerEndedError

FIRST, SECOND = "03.1", "03.7"  # two exercises in Python that are judged in milliseconds


class _Shared(client.Judge):
    """One judge for all runs of this file: starting one takes a second."""

    def end(self):
        pass


@pytest.fixture(scope="module")
def shared():
    judge = _Shared()
    yield judge
    judge.shut_down()


@pytest.fixture(autouse=True)
def _one_judge(monkeypatch, shared):
    monkeypatch.setattr(jobs, "new_judge", lambda: shared)


@pytest.fixture(scope="module")
def solutions():
    return {name: checklist.solution_text(registry.get(name)) for name in (FIRST, SECOND)}


def notebook(*cells):
    """The text of a notebook; a cell is a source, or (exercise id, source)."""

    def made(number, cell):
        exercise, source = cell if isinstance(cell, tuple) else (None, cell)
        metadata = {"tags": ["exercise"], "exercise": exercise} if exercise else {}
        return {"cell_type": "code", "id": f"x{number}", "metadata": metadata, "source": source.splitlines(True)}

    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": [made(*pair) for pair in enumerate(cells)]})


def hand_in(folder, files):
    """Write {path below the folder: text}."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def grade(folder, out, *words):
    """(exit status, rows by learner) of a run without a sandbox, which would take a second an answer."""
    status = cli.main(["cohort", str(folder), "--out", str(out), "--trust", "--jobs", "1", *words])
    return status, {row["learner"]: row for row in csv.DictReader(out.open())} if out.exists() else {}


def states(rows, exercise=FIRST):
    return {learner: row[f"{exercise} verdict"] for learner, row in rows.items()}


def test_three_layouts_become_one_gradebook(tmp_path, solutions):
    one, other = solutions[FIRST], solutions[SECOND]
    starter = checklist.starter_text(registry.get(FIRST))
    folder = hand_in(
        tmp_path / "in",
        {
            f"anna/work/answers/{FIRST}/2026-01-31T09-15-02.py": one,
            f"anna/work/drafts/{SECOND}/2026-01-31T09-15-02.py": other,  # what `course reset` took out
            "ben/hw1/03_exercises.ipynb": notebook("import torch\n%matplotlib inline", (FIRST, one), (SECOND, other)),
            "carl_03_exercises (1).ipynb": notebook((FIRST, starter)),
            "dora/03_exercises.ipynb": '{"cells": [',
        },
    )
    status, rows = grade(folder, tmp_path / "grades.csv", "--points", f"{SECOND}=2.5")
    assert status == 0 and list(rows) == ["anna", "ben", "carl", "dora"]
    assert states(rows) == {"anna": "PASS", "ben": "PASS", "carl": "NOT STARTED", "dora": "NOT HANDED IN"}
    assert [rows[name]["points"] for name in rows] == ["1", "3.5", "0", "0"]
    found = collect.collect(folder)
    folder.rename(tmp_path / "submitted")
    assert collect.collect(tmp_path) == found


def test_wrong_files_are_named_and_stop_nothing(tmp_path, solutions):
    """Damaged, hostile and misplaced files of one learner: sentences, and the other learners are graded."""
    one = solutions[FIRST]
    folder = hand_in(
        tmp_path / "in",
        {
            "a/03_exercises.ipynb": "[" * 100_000,
            "b/03_exercises.ipynb": json.dumps({"cells": [{"cell_type": "code", "metadata": 3, "source": one}]}),
            "c/03_exercises.ipynb": notebook((FIRST, 'x = "\ud800"')),
            "d/x.ipynb": notebook(("99.9", one), (FIRST, "merge(:")),
            "e/03_exercises.ipynb": notebook(one),  # its editor dropped the metadata
            "f/03.1.py": one + "#" * (1 << 18),
            "g/helpers.py": one,
            "j/x.ipynb": notebook((FIRST, "def merge(a, a):\n    pass"), *[(FIRST, f"y = {n}") for n in range(20)]),
            "k/x.ipynb": notebook((FIRST, 'def merge(): "' + "x" * (1 << 19) + '"')),
            "notes.txt": "",
            "03_exercises.ipynb": notebook((FIRST, one)),
        },
    )
    (folder / "a" / "03.1.py").symlink_to("/etc/hostname")
    (folder / "h").symlink_to("/etc")
    os.makedirs(os.fsencode(folder) + b"/i\xff")
    learners, stray = collect.collect(folder)
    said = {one.name: " ".join(one.problems) for one in learners}
    assert list(said) == [*"abcdefg", "i?", "j", "k"] and {tuple(one.answers) for one in learners} == {(), (FIRST,)}
    assert "links are not followed" in said["a"] and "nests too deep" in said["a"]
    assert "no notebook of format 4" in said["b"] and "no text in UTF-8" in said["c"]
    assert "exercise 99.9, which the course does not have" in said["d"]
    assert f"has no cell of {FIRST}" in said["e"] and "262,144" in said["f"]
    assert all("nothing was handed in" in said[name] for name in ("g", "i?"))
    assert "no more than 10 answers" in said["j"] and "characters of code" in said["k"]
    assert [sentence.split()[0] for sentence in stray] == ["03_exercises.ipynb", "h", "notes.txt"]


def test_an_answer_is_taken_from_its_notebook_as_check_takes_it(tmp_path, solutions):
    """Imports, helpers and constants of other cells come along; a call of check and IPython's lines do not."""
    body = solutions[FIRST].replace("import torch\n", "").replace("torch.maximum", "larger")
    answer = f"%time\n{body}\ncheck('03.1', merge)"
    cells = notebook(
        "%load_ext course_lib\nimport torch\nfrom course_lib import check",
        "SCALE = 2\ndef larger(a, b):\n    return torch.maximum(a, b) * SCALE / 2",
        (FIRST, answer),
        "def merge():\n    pass  # of a later experiment\nSCALE = 5",
    )
    folder = hand_in(tmp_path / "in", {"anna/a.ipynb": cells})
    text = collect.collect(folder)[0][0].answers[FIRST].answer.text
    assert "check" not in text and "%time" not in text and "SCALE = 2" in text and "experiment" not in text
    assert text.index("import torch") < text.index("def larger") < text.index("def merge")
    assert f"# %% line {1 + answer[: answer.index('def merge')].count(chr(10))} of cell 3" in text
    assert states(grade(folder, tmp_path / "grades.csv")[1]) == {"anna": "PASS"}


def test_of_several_answers_the_first_that_is_no_starter_is_graded(tmp_path, solutions):
    starter = checklist.starter_text(registry.get(FIRST))
    cells = notebook((FIRST, starter), (FIRST, solutions[FIRST]), (FIRST, "def merge(): pass"))
    [learner], _ = collect.collect(hand_in(tmp_path, {"anna/a.ipynb": cells}))
    assert learner.answers[FIRST].where == "a.ipynb, cell 2"
    assert learner.problems == [f"{FIRST} is there 2 times: a.ipynb, cell 2 is graded, a.ipynb, cell 3 not"]


def files(folder, name):
    """Every output of a run."""
    return [folder / f"{name}.csv", "--json", str(folder / f"{name}.json"), "--html", str(folder / name)]


def written(folder, name):
    """The bytes of every output of a run."""
    paths = [folder / f"{name}.csv", folder / f"{name}.json", *sorted((folder / name).rglob("*.html"))]
    return [path.read_bytes() for path in paths]


def test_a_run_that_was_stopped_goes_on_and_ends_with_the_same_bytes(tmp_path, solutions, shared, monkeypatch):
    """On one worker, on two, and after a stop with a torn journal; a judge is killed on the way."""
    one = solutions[FIRST]
    wrong = one.replace("l_b *", "-l_b *")
    answers = {"anna": one, "ben": wrong, "carl": wrong, "dora": "def merge(:", "eve": one + "\nprint('eve')"}
    folder = hand_in(tmp_path / "in", {f"{name}/{FIRST}.py": text for name, text in answers.items()})
    judged, asked, usual = [], [], jobs.judged

    def stops(journal, key, verdict, add=Journal.add):
        if len(journal.verdicts) == 2:
            raise KeyboardInterrupt
        add(journal, key, verdict)

    def kills(worker, request, timeout, exchange=client.Worker._exchange):
        asked.append(request)
        if len(asked) == 2:
            worker.process.kill()
        return exchange(worker, request, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", stops)
        assert grade(folder, *files(tmp_path, "one"))[0] == 130
    with (tmp_path / "one.csv.journal").open("ab") as journal:
        journal.write(b'{"key": "torn')
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "judged", lambda job: judged.append(job) or usual(job))
        status, rows = grade(folder, *files(tmp_path, "one"))
    assert status == 0 and len(judged) == 2  # of four: the answers of ben and carl are one job
    assert states(rows) == dict(zip(answers, ["PASS", "FAIL", "FAIL", "FAIL", "PASS"], strict=True))
    judges = iter((shared, client.Judge()))
    monkeypatch.setattr(jobs, "new_judge", lambda: next(judges))
    monkeypatch.setattr(client.Worker, "_exchange", kills)
    assert (
        grade(folder, *files(tmp_path, "two"), "--jobs", "2")[0] == 0 and len(asked) == 5
    )  # the killed one was asked again
    assert written(tmp_path, "one") == written(tmp_path, "two") and len(written(tmp_path, "one")) == 8
    monkeypatch.setattr(jobs, "judged", None)  # nothing is left to be judged
    assert grade(folder, *files(tmp_path, "one"))[0] == 0


def test_an_answer_without_a_verdict_is_said_and_graded_next_time(tmp_path, solutions, monkeypatch):
    folder = hand_in(tmp_path / "in", {f"anna/{FIRST}.py": solutions[FIRST]})
    monkeypatch.setattr(client.Worker, "call", lambda *_: (_ for _ in ()).throw(WorkerEndedError("no answer")))
    status, rows = grade(folder, tmp_path / "grades.csv", "--html", str(tmp_path / "html"))
    assert status == 1 and states(rows) == {"anna": "NOT GRADED"}
    assert "anna, 03.1: the judge" in (tmp_path / "html" / "index.html").read_text()
    lacking = Verdict(FIRST, "NOT VERIFIED HERE", missing="there is no compiler").to_dict()
    monkeypatch.setattr(jobs, "judged", lambda job: {"verdict": lacking})
    _, rows = grade(folder, tmp_path / "grades.csv", "--html", str(tmp_path / "html"))
    assert states(rows) == {"anna": "NOT VERIFIED HERE"}
    index = (tmp_path / "html" / "index.html").read_text()
    assert "anna, 03.1: there is no compiler" in index and "03.1: 1 not graded." in index
    assert (tmp_path / "grades.csv.journal").read_bytes() == b""


def test_pages_are_safe_from_their_learners(tmp_path, capsys):
    """Names, texts and output with HTML, escape codes, formulas and paths: shown, obeyed nowhere."""
    evil = "<script>alert(1)</script>"
    name = "=cmd\x1b[2J<img src=x onerror=alert(1)>"
    text = f"print('\\x1b[31m{evil}')\ndef merge(a, b, c, d):\n    raise ValueError('{evil} ../../x')  # {evil}\n"
    folder = hand_in(tmp_path / "in", {f"{name}/{FIRST}.py": text, f"x&..{name[1:]}/{FIRST} {evil[:8]}.py": text})
    _, rows = grade(folder, tmp_path / "grades.csv", "--html", str(tmp_path / "html"), "--json", str(tmp_path / "j"))
    assert sorted(rows) == ["'=cmd<img src=x onerror=alert(1)>", "x&..cmd<img src=x onerror=alert(1)>"]
    pages = sorted((tmp_path / "html").rglob("*.html"))
    assert len(pages) == 3 and all(re.fullmatch(r"[A-Za-z0-9-]+\.html", page.name) for page in pages)
    for page in pages:
        shown = page.read_text()
        assert "default-src 'none'" in shown and "\x1b" not in shown
        assert "<script" not in shown and "<img src" not in shown and "&lt;script&gt;" in shown
    assert "\x1b" not in capsys.readouterr().out and "\x1b" not in (tmp_path / "j").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no folder"),
        (["empty"], "holds no learner"),
        (["work"], "is one learner's work/"),
        (["in", "--assigned", "03.99"], "there is no exercise '03.99'"),
        (["in", "--points", "03.1=x"], "expected NN.k=N"),
        (["in", "--out", "/nowhere/o.csv"], "o.csv.journal cannot be written: No such file"),
        (["in", "--scheduler", "tcp://127.0.0.1:1"], "no Dask scheduler answers at tcp://127.0.0.1:1"),
    ],
)
def test_a_request_that_cannot_be_met_is_a_sentence(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pool, "_PATIENCE", "100ms")
    monkeypatch.setattr(jobs, "judged", None)  # it is said before anything is judged
    hand_in(tmp_path, {"in/a/03.1.py": "", "empty/.x": "", "work/answers/03.1/a.py": "", "work/progress.json": ""})
    words = ["cohort", str(tmp_path / words[0]), "--out", str(tmp_path / "o.csv"), "--trust", *words[1:]]
    assert cli.main(words) == cli.BAD_REQUEST
    assert said in capsys.readouterr().err and not (tmp_path / "o.csv").exists()


def test_two_runs_do_not_share_a_journal(tmp_path):
    first = Journal(tmp_path / "j")
    with pytest.raises(CourseError, match="another run writes"):
        Journal(tmp_path / "j")
    first.close()
    Journal(tmp_path / "j").close()


def test_without_a_sandbox_nothing_is_graded_unless_it_is_trusted(tmp_path, solutions, capsys, monkeypatch):
    folder = hand_in(tmp_path / "in", {f"anna/{FIRST}.py": solutions[FIRST]})
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    assert cli.main(["cohort", str(folder), "--out", str(tmp_path / "o.csv")]) == cli.BAD_REQUEST
    assert "needs bubblewrap" in (said := capsys.readouterr().err) and "or grade with --trust" in said
    assert list(tmp_path.iterdir()) == [folder]


def test_a_class_is_graded_in_sandboxes_on_a_dask_cluster(tmp_path, solutions, capsys):
    """A right answer and one that would leave, by a scheduler in this process."""
    distributed = pytest.importorskip("distributed")
    leaves = f"import os\nos.system('touch {tmp_path}/left')\n{solutions[FIRST]}"
    folder = hand_in(tmp_path / "in", {f"anna/{FIRST}.py": solutions[FIRST], f"ben/{FIRST}.py": leaves})
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as here:
        words = ["--out", str(tmp_path / "o.csv"), "--scheduler", here.scheduler_address]
        status = cli.main(["cohort", str(folder), *words])
    if status == cli.BAD_REQUEST:
        assert "bubblewrap" in (said := capsys.readouterr().err)
        pytest.skip(said)
    rows = {row["learner"]: row for row in csv.DictReader((tmp_path / "o.csv").open())}
    assert status == 0 and states(rows) == {"anna": "PASS", "ben": "FAIL"} and not (tmp_path / "left").exists()
    assert b'"refused"' in (tmp_path / "o.csv.journal").read_bytes()
