"""`course update` in scratch clones: what a learner wrote is there after every update; a refusal is a sentence."""

import os
import subprocess

import nbformat
import pytest

from course_lib import cli
from course_lib.book import FOLDERS
from course_lib.book.command import build_chapter
from course_lib.book.notebooks import fingerprint
from course_lib.cli import doctor
from course_lib.cli.update import changed_notebooks, update
from course_lib.errors import CourseError

LECTURE = "notebooks/42_add.ipynb"
EXERCISES, SOLUTIONS = "exercises/42_exercises.ipynb", "solutions/42_solutions.ipynb"


def git(folder, *words):
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(course, text="newer"):
    git(course, "add", "--all")
    git(course, "commit", "--quiet", "-m", text)


def rebuilt(course, *pairs, text="newer"):
    """The course replaces texts in its chapter and answers, builds its notebooks, and commits them."""
    for path in (course / "chapters/42_add.md", course / "answers.py"):
        for old, new in pairs:
            path.write_text(path.read_text().replace(old, new))
    build_chapter(course / "chapters/42_add.md", root=course, run=False, say=lambda _: None)
    commit(course, text)


@pytest.fixture(autouse=True)
def _plain_git(tmp_path, monkeypatch):
    """No settings of this machine, and no repository named by the environment, as inside a git hook."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def cloned(course, tmp_path, monkeypatch):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(course), str(clone))
    monkeypatch.setenv("COURSE_WORK_DIR", str(clone / "work"))
    return clone


@pytest.fixture
def course(tiny_course, tmp_path_factory):
    """The tiny course as a git repository of its own; the clone is beside it."""
    (tiny_course / ".gitignore").write_text("work/\nclone/\ngitconfig\n")
    git(tiny_course, "init", "--quiet")
    rebuilt(tiny_course)
    return tiny_course


@pytest.fixture
def clone(course, tmp_path_factory, monkeypatch):
    return cloned(course, tmp_path_factory.mktemp("learner"), monkeypatch)


def read(path):
    return nbformat.read(path, as_version=4)


def sources(path):
    return [cell.source for cell in read(path).cells]


def run_by_learner(notebook):
    """What JupyterLab's autosave leaves after a run: outputs, counts and the exact version of Python."""
    notebook.metadata["language_info"]["version"] = "3.11.9"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = 7
            cell.outputs = [nbformat.v4.new_output("stream", text="mine\n")]


def worked_in(path):
    """Predict, answer, write a note into a text of the course, add cells; returns the texts that must stay."""
    notebook, kept = read(path), []
    for cell in notebook.cells:
        if "built" in cell.metadata:
            cell.source = f"mine = '{cell.id}'"
            kept.append(cell.source)
    text = next(cell for cell in notebook.cells if cell.cell_type == "markdown")
    text.source += f"\n\nmy note in {path.name}"
    notebook.cells.insert(2, nbformat.v4.new_code_cell("added = 1"))
    notebook.cells.append(nbformat.v4.new_markdown_cell("my last words"))
    run_by_learner(notebook)
    nbformat.write(notebook, path)
    return [*kept, f"my note in {path.name}", "added = 1", "my last words"]


def kept_copies(clone):
    folder = clone / "work/kept"
    return sorted(folder.iterdir()) if folder.exists() else []


def updated(clone, **options):
    said = []
    count = update(root=clone, say=said.append, **options)
    return count, said


PREDICT = "```{code-cell} ipython3\n:tags: [predict]\n%s = None\n```"
EXERCISES_PART = '+++ {"part": "exercises"}'
LECTURE_PART = '+++ {"part": "lecture", "stem": "%s"}\n\n# %s'


def test_work_in_a_lecture_that_was_divided_is_in_its_parts(course, tmp_path_factory, monkeypatch):
    more = f"Then this.\n\n{PREDICT % 'late'}\n\n{EXERCISES_PART}"
    rebuilt(course, ("Read this first.", f"Read this first.\n\n{PREDICT % 'early'}"), (EXERCISES_PART, more))
    clone = cloned(course, tmp_path_factory.mktemp("learner"), monkeypatch)
    kept = worked_in(clone / LECTURE)
    parts = [("# 42", LECTURE_PART % ("42a_two", "42a")), ("Then", LECTURE_PART % ("42b_more", "42b More\n\nThen"))]
    rebuilt(course, *parts)
    assert updated(clone)[0] == 1
    assert sorted(path.name for path in (clone / "notebooks").iterdir()) == ["42a_two.ipynb", "42b_more.ipynb"]
    first, second = (sources(clone / f"notebooks/{stem}.ipynb") for stem in ("42a_two", "42b_more"))
    early, late, note, added, last = kept
    assert [text for text in (early, note, added) if first.count(text) != 1 or text in second] == []
    assert [text for text in (late, last) if second.count(text) != 1 or text in first] == []
    (copy,) = kept_copies(clone)
    assert copy.name.startswith("notebooks-42_add") and set(kept) - {note} <= set(sources(copy))


def test_work_follows_a_notebook_to_its_new_name(course, tmp_path_factory, monkeypatch):
    olds = {
        "notebooks/42_former.ipynb": LECTURE,
        "exercises/42_add.ipynb": EXERCISES,
        "solutions/42_add.ipynb": SOLUTIONS,
    }
    for old, new in olds.items():
        git(course, "mv", new, old)
    commit(course, "the course under its former names")
    clone = cloned(course, tmp_path_factory.mktemp("learner"), monkeypatch)
    kept = {new: worked_in(clone / old) for old, new in olds.items() if new != SOLUTIONS}
    rebuilt(course, ("Read this first.", "Read this before all."), ("guess = None", "guess = ..."))
    assert [name for name in olds if (course / name).exists()] == []
    assert updated(clone)[0] == 1
    for name, texts in kept.items():
        assert [text for text in texts if sources(clone / name).count(text) != 1] == [], name
    assert "Read this before all." in "".join(sources(clone / LECTURE))
    assert [name for name in olds if (clone / name).exists()] == []
    assert [copy.name.partition("-20")[0] for copy in kept_copies(clone)] == ["exercises-42_add", "notebooks-42_former"]
    assert changed_notebooks(clone) == [EXERCISES, LECTURE]


def test_what_the_learner_wrote_stays_through_three_updates(course, clone):
    kept = {name: worked_in(clone / name) for name in (LECTURE, EXERCISES)}
    assert changed_notebooks(clone) == [EXERCISES, LECTURE]
    rebuilt(course, ("Read this first.", "Read this before all."))
    assert updated(clone)[0] == 1
    rebuilt(course, ("The sum of two numbers.", "a + b, exactly."), ("guess = None", "guess = ..."))  # the same cells
    assert updated(clone)[0] == 1
    rebuilt(course, ("print(1 + 1)", "print(2 + 2)"), ("# 42 Add", "# 42 Sum up"))
    rebuilt(course, ("Read this before all.", "Read."))
    assert updated(clone)[0] == 2
    for name, texts in kept.items():
        found = sources(clone / name)
        assert [text for text in texts if found.count(text) != 1] == [], name
    assert "print(2 + 2)" in sources(clone / LECTURE) and "# 42 Sum up two numbers" in "\n".join(
        sources(clone / LECTURE)
    )
    assert git(clone, "rev-parse", "HEAD") == git(course, "rev-parse", "HEAD")
    assert updated(clone) == (0, [])


def test_a_guess_that_was_waived_stays_waived(course, clone):
    notebook = read(clone / LECTURE)
    notebook.metadata["waived_guesses"] = ["42.bytes"]
    nbformat.write(notebook, clone / LECTURE)
    rebuilt(course, ("Read this first.", "Read."))
    updated(clone)
    assert read(clone / LECTURE).metadata["waived_guesses"] == ["42.bytes"]
    assert "Read." in "\n".join(sources(clone / LECTURE))


def test_every_notebook_of_the_course_keeps_its_learner(root, tmp_path, monkeypatch):
    course = tmp_path / "course"
    course.mkdir()
    git(course, "init", "--quiet")
    names = [str(path.relative_to(root)) for folder in FOLDERS[:2] for path in sorted((root / folder).glob("*.ipynb"))]
    for name in names:
        (course / name).parent.mkdir(exist_ok=True)
        (course / name).write_bytes((root / name).read_bytes())
    commit(course)
    clone = cloned(course, tmp_path, monkeypatch)
    kept = {name: worked_in(clone / name) for name in names}
    for name in names:
        newer(course / name)
    commit(course)
    assert len(names) >= 22 and updated(clone)[0] == 1
    for name, texts in kept.items():
        found = sources(clone / name)
        assert [text for text in texts if text not in found] == [], name
        assert "a newer last text" in found and len(found) == len(set(cell.id for cell in read(clone / name).cells))
    assert len(kept_copies(clone)) == len(names)


def newer(path):
    """A newer text in each answer and prediction, and at the end."""
    notebook = read(path)
    for cell in notebook.cells:
        if "built" in cell.metadata:
            cell.source += "\n# newer"
            cell.metadata["built"] = fingerprint(cell.source)
    last = nbformat.v4.new_markdown_cell("a newer last text", id=f"c00-{fingerprint('a newer last text')}")
    notebook.cells.append(last)
    nbformat.write(notebook, path)


def test_outputs_alone_give_way_without_a_copy(course, clone):
    for name in (LECTURE, EXERCISES, SOLUTIONS):
        notebook = read(clone / name)
        run_by_learner(notebook)
        nbformat.write(notebook, clone / name)
    rebuilt(course, ("Read this first.", "Read."), ("The sum of two numbers.", "a + b."))
    assert updated(clone) == (1, [])
    assert changed_notebooks(clone) == [] and kept_copies(clone) == []


def test_a_notebook_that_the_course_did_not_change_is_not_touched(course, clone):
    worked_in(clone / EXERCISES)
    before = (clone / EXERCISES).read_bytes()
    rebuilt(course, ("Read this first.", "Read."))
    assert updated(clone) == (1, []) and (clone / EXERCISES).read_bytes() == before


def test_an_edited_cell_of_a_lecture_and_of_a_solution_is_in_the_copy(course, clone):
    for name in (LECTURE, SOLUTIONS):
        notebook = read(clone / name)
        next(cell for cell in notebook.cells if cell.cell_type == "code").source = "my_experiment = 1"
        if name == SOLUTIONS:  # nothing is the learner's there
            notebook.cells.append(nbformat.v4.new_code_cell("added = 1"))
        nbformat.write(notebook, clone / name)
    rebuilt(course, ("Read this first.", "Read."), ("## Exercise 42.1", "## Exercise 42.1: add"))
    _, said = updated(clone)
    assert [copy.name.partition("-")[0] for copy in kept_copies(clone)] == ["notebooks", "solutions"]
    assert all("my_experiment" in copy.read_text() for copy in kept_copies(clone))
    assert len(said) == 2 and "as it was, it is in work/kept/notebooks-42_add-20" in "".join(said)
    assert changed_notebooks(clone) == []


def test_a_deleted_cell_a_broken_file_and_a_notebook_that_is_gone_are_in_copies(course, clone):
    notebook = read(clone / EXERCISES)
    del notebook.cells[1]
    nbformat.write(notebook, clone / EXERCISES)
    (clone / LECTURE).write_text('{"cells": [')
    worked_in(clone / SOLUTIONS)
    rebuilt(course, ("Read this first.", "Read."), ("## Exercise 42.1", "## Exercise 42.1: add"))
    git(course, "rm", "--quiet", SOLUTIONS)
    commit(course)
    updated(clone)
    assert len(kept_copies(clone)) == 3 and not (clone / SOLUTIONS).exists()
    assert changed_notebooks(clone) == []


def test_a_version_that_git_add_stored_is_copied_too(course, clone):
    for text in ("first = 1", "second = 2"):
        notebook = read(clone / EXERCISES)
        notebook.cells.append(nbformat.v4.new_code_cell(text))
        nbformat.write(notebook, clone / EXERCISES)
        if text == "first = 1":
            git(clone, "add", EXERCISES)
            (clone / EXERCISES).write_text(git(clone, "show", f"HEAD:{EXERCISES}"))
    rebuilt(course, ("The sum of two numbers.", "a + b."))
    updated(clone)
    copies = "".join(copy.read_text() for copy in kept_copies(clone))
    assert "first = 1" in copies and "second = 2" in copies and "second = 2" in sources(clone / EXERCISES)


def test_a_version_that_only_git_add_stored_is_copied(course, clone):
    shipped = (clone / EXERCISES).read_text()
    worked_in(clone / EXERCISES)
    git(clone, "add", EXERCISES)
    (clone / EXERCISES).write_text(shipped)
    rebuilt(course, ("The sum of two numbers.", "a + b."))
    updated(clone)
    assert any("added = 1" in copy.read_text() for copy in kept_copies(clone))


def test_changed_files_of_the_course_are_named_and_kept_only_on_request(course, clone):
    (clone / "answers.py").write_text("mine = 1\n")
    (clone / "notebooks/43_more.ipynb").write_text("my own notebook")
    (clone / "notes.txt").write_text("my own notes")
    (course / "notebooks/43_more.ipynb").write_text("{}")
    rebuilt(course, ("The sum of two numbers.", "a + b."))
    with pytest.raises(
        CourseError, match=r"^answers.py, notebooks/43_more.ipynb: changed or made here.*--keep-changed"
    ):
        update(root=clone)
    assert (clone / "answers.py").read_text() == "mine = 1\n" and kept_copies(clone) == []
    assert updated(clone, keep_changed=True)[0] == 1
    assert [copy.read_text() for copy in kept_copies(clone)] == ["mine = 1\n", "my own notebook"]
    assert "a + b." in (clone / "answers.py").read_text() and (clone / "notebooks/43_more.ipynb").read_text() == "{}"
    assert (clone / "notes.txt").read_text() == "my own notes"


def test_an_update_that_fails_puts_everything_back(course, clone):
    worked_in(clone / EXERCISES)
    before = (clone / EXERCISES).read_bytes()
    (clone / "new").mkdir()
    (clone / "new/mine.txt").write_text("mine")  # the course makes a file of this name
    (course / "new").write_text("a file")
    rebuilt(course, ("The sum of two numbers.", "a + b."))
    with pytest.raises(CourseError, match="git merge: "):
        update(root=clone)
    assert (clone / EXERCISES).read_bytes() == before and (clone / "new/mine.txt").read_text() == "mine"


def merge_in_progress(course, clone):
    git(clone, "switch", "--quiet", "-c", "mine")
    (clone / "answers.py").write_text("mine\n")
    commit(clone)
    git(clone, "switch", "--quiet", "main")
    (clone / "answers.py").write_text("other\n")
    commit(clone)
    subprocess.run(["git", "merge", "mine"], cwd=clone, capture_output=True)


def half_applied_stash(course, clone):
    (clone / "answers.py").write_text("mine\n")
    git(clone, "stash")
    (clone / "answers.py").write_text("other\n")
    commit(clone)
    subprocess.run(["git", "stash", "pop"], cwd=clone, capture_output=True)


def local_commit(course, clone):
    worked_in(clone / EXERCISES)
    git(clone, "commit", "--quiet", "--all", "-m", "my answers")
    rebuilt(course, ("The sum of two numbers.", "a + b."))


REFUSALS = {
    "no clone": (lambda _, clone: (clone / ".git").rename(clone / "git"), "is not a git clone.*`git clone`"),
    "detached": (lambda _, clone: git(clone, "switch", "--quiet", "--detach"), "single commit.*`git switch main`"),
    "no upstream": (
        lambda _, clone: git(clone, "branch", "--unset-upstream"),
        "main follows no branch.*origin/main main",
    ),
    "no network": (lambda course, _: course.rename(f"{course}-away"), "could not be fetched.*look at the network"),
    "merge": (merge_in_progress, "a merge is not finished here; `git merge --abort`"),
    "stash": (half_applied_stash, "answers.py: two versions that git could not join"),
    "local commits": (local_commit, "1 commit that the course does not have.*git reset --soft"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_one_sentence_and_changes_nothing(case, course, clone):
    worked_in(clone / LECTURE)
    break_it, said = REFUSALS[case]
    break_it(course, clone)
    before = {path: path.read_bytes() for path in clone.rglob("*") if path.is_file() and "git" not in path.parts[-2:]}
    with pytest.raises(CourseError, match=said) as refused:
        update(root=clone)
    assert "\n" not in str(refused.value) and ". " not in str(refused.value)
    working = [path for path in before if ".git" not in path.parts]
    assert working and all(path.read_bytes() == before[path] for path in working) and kept_copies(clone) == []


def test_git_that_is_not_installed_is_a_sentence(clone, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CourseError, match="git is not installed.*apt install git"):
        update(root=clone)


def test_the_way_out_of_local_commits_works(course, clone):
    local_commit(course, clone)
    git(clone, "branch", "mine")
    git(clone, "fetch", "--quiet")
    git(clone, "reset", "--quiet", "--soft", git(clone, "merge-base", "HEAD", "@{upstream}"))
    assert updated(clone)[0] == 1 and "mine = 'c42-answer-42-1'" in sources(clone / EXERCISES)


def test_the_doctor_says_that_an_update_keeps_changed_notebooks(clone):
    assert doctor._notebooks(clone) is None
    worked_in(clone / EXERCISES)
    finding = doctor._notebooks(clone)
    assert finding.state == doctor.NOTE and EXERCISES in finding.sentence and "`make update`" in finding.sentence


@pytest.mark.parametrize(("count", "said"), [(0, "You have the newest"), (1, "(1 commit)"), (2, "(2 commits)")])
def test_the_command_says_what_came_in(count, said, monkeypatch, capsys):
    asked = {}
    monkeypatch.setattr("course_lib.cli.update.update", lambda **options: asked.update(options) or count)
    assert cli.main(["update"]) == 0 and said in capsys.readouterr().out and asked == {"keep_changed": False}
    assert cli.main(["update", "--keep-changed"]) == 0 and asked == {"keep_changed": True}


def test_the_command_says_a_refusal_and_fails(clone, monkeypatch, capsys):
    git(clone, "branch", "--unset-upstream")
    monkeypatch.setattr("course_lib.cli.update.update", lambda **options: update(root=clone, **options))
    assert cli.main(["update"]) == cli.BAD_REQUEST
    assert capsys.readouterr().err.startswith("course: the branch main follows no branch of the course")
