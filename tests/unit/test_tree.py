"""The tree: every file in its place, and the committed notebooks are those that the chapters give."""

import re
import subprocess
import sys

import nbformat
import pytest

from course_lib.book import FOLDERS, keep
from course_lib.book.chapters import read_chapter
from course_lib.book.notebooks import build
from course_lib.book.outline import chapter_files

CHAPTERS = chapter_files()


@pytest.fixture(scope="module")
def stray_files(root):
    sys.path.insert(0, str(root / "scripts"))
    import stray_files

    yield stray_files
    sys.path.remove(str(root / "scripts"))


def test_every_file_is_in_its_place(stray_files, root):
    names = stray_files.listed_files(untracked=False)
    found = stray_files.problems(names, {name: (root / name).stat().st_size for name in names})
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "kernels_cu/softmax/new.cu", "course_lib/old copy.py", "notebooks/x.ipynb", "exercises/07_x.ipynb"],
)
def test_a_stray_file_is_found(stray_files, name):
    assert len(stray_files.problems([name], {name: 10})) == 1


def test_a_large_file_is_found(stray_files):
    assert "2,000,000 bytes" in stray_files.problems(["README.md"], {"README.md": 2_000_000})[0]


@pytest.fixture(scope="module", params=CHAPTERS, ids=lambda path: path.stem)
def built(request):
    return build(read_chapter(request.param))


def comparable(notebook):
    """What must agree: everything but the outputs of a run."""
    return [(cell.id, cell.cell_type, cell.source, dict(cell.metadata)) for cell in notebook.cells]


def without_learner(notebook, built):
    """`notebook` with the text of `built` wherever the learner changed a cell, and without the cells they added."""
    texts = {cell.id: cell.source for cell in built.cells}
    cells = [cell for cell in notebook.cells if not keep.own(cell)]
    for cell in cells:
        if keep.changed(cell):
            cell.source = texts.get(cell.id, cell.source)
    return nbformat.from_dict({**notebook, "cells": cells})


def modified(path, root):
    """Whether git sees changes in this file: then a learner may have worked in it."""
    command = ["git", "status", "--porcelain", "--", str(path)]
    return bool(subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.strip())


def test_committed_notebooks_are_what_the_chapter_gives(built, root):
    for name, notebook in built.files().items():
        path = root / name
        assert path.exists(), f"{name} is missing; run: make notebooks"
        found = nbformat.read(path, as_version=4)
        if modified(path, root):
            found = without_learner(found, notebook)
        assert comparable(found) == comparable(notebook), f"{name} is out of date; run: make notebooks"


def test_lectures_are_committed_with_outputs_and_solutions_without(built, root):
    for name in built.files():
        if not name.startswith("exercises/"):
            notebook = nbformat.read(root / name, as_version=4)
            was_run = any(cell.get("outputs") for cell in notebook.cells)
            assert was_run == name.startswith("notebooks/"), name
            assert keep.WAIVED not in notebook.metadata or modified(root / name, root), name


def test_committed_notebooks_name_no_folder_of_the_machine_that_ran_them(built, root):
    for name in built.files():
        found = re.search(r"/(tmp|root|home|Users)/|ipykernel_\d", (root / name).read_text())
        assert not found or modified(root / name, root), f"{name}: {found}"


def test_no_notebook_that_no_chapter_gives(built, root):
    number = built.number
    committed = {f"{folder}/{path.name}" for folder in FOLDERS for path in (root / folder).glob(f"{number}*.ipynb")}
    assert committed == built.files().keys()


def test_no_notebook_without_a_chapter(root):
    numbers = {path.stem[:2] for path in CHAPTERS}
    assert {path.stem[:2] for folder in FOLDERS for path in (root / folder).glob("*.ipynb")} == numbers


def links(path):
    """The targets of the Markdown links of one file, notebooks too."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    else:
        text = path.read_text()
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text))


def test_links_inside_the_course_lead_somewhere(root):
    pages = [*root.glob("*.md"), *root.glob("chapters/*.md"), *root.glob("docs/*.md")]
    pages += [path for folder in FOLDERS for path in root.glob(f"{folder}/*.ipynb")]
    assert len(pages) > 3
    for page in pages:
        for target in links(page):
            if not target.startswith(("http://", "https://", "#")):
                assert (page.parent / target.partition("#")[0]).exists(), f"{page.relative_to(root)}: {target}"


def test_paths_named_in_the_docs_exist(root):
    pages = [root / "README.md", *root.glob("docs/*.md"), root / "kernels_cu/README.md", root / "benchmarks/README.md"]
    for page in pages:
        for name in re.findall(r"`([\w.-]+/[\w./-]*)`", page.read_text()):
            made = name.startswith(("work/", ".venv/"))  # by set-up and by the learner
            assert made or any((folder / name).exists() for folder in (root, page.parent)), f"{page.name}: {name}"


def test_pages_named_in_the_code_exist(root):
    command = ["git", "grep", "-nIoE", r"\b[a-z_]+\.md\b", "--", "*.py", "*.cu", "*.cuh", "*.h", "*.cpp", "*.sh"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.splitlines()
    names = {path.name for path in root.glob("*/*.md")} | {path.name for path in root.glob("*.md")}
    names |= {"task.md", "wrong.md", "index.md"}  # in each exercise; made by the site's build
    strange = [line for line in found if line.rpartition(":")[2] not in names]
    assert found and not strange, "\n".join(strange)
