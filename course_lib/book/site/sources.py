"""The sources of the site: Markdown and notebooks of the repository, in the same folders, ready for Sphinx.

Links between pages stay as they are, since the folders are. Added are a table of contents, a note on every notebook
page that says how to run it, and glossary entries that can be linked to.

May import: outline, navigation, chapters, glossary, guesses, pages, matplotlib.
"""

import shutil
from pathlib import Path

import matplotlib
import nbformat

from .. import glossary, guesses, navigation
from ..chapters import read_chapter
from ..outline import chapter_files, exercises_name, lecture_name
from ..pages import PICTURES

COPIED = ("CONTRIBUTING.md", "LICENSE", "kernels_cu/README.md", "benchmarks/README.md", "chapters/cpp.md")
REFERENCE = (
    *("docs/results", "docs/support", "docs/grader", "docs/promises", "docs/machine"),
    *("chapters/cpp", "chapters/glossary", "api/index"),
)
PROJECT = (
    "docs/chapters",
    "docs/hosted",
    "docs/machines",
    "docs/classes",
    "kernels_cu/README",
    "benchmarks/README",
    "CONTRIBUTING",
)
MATH_FONT = ("STIXGeneral.ttf", "LICENSE_STIX")  # matplotlib brings it


def collect(target, root):
    """Write the sources of the site below `target`, a folder that does not exist yet."""
    root, target = Path(root), Path(target)
    chapters = [read_chapter(path, root) for path in chapter_files(root)]
    docs = [str(path.relative_to(root)) for path in sorted((root / "docs").glob("*.md"))]
    for name in (*COPIED, *docs, *PICTURES):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target / name)
    shutil.copy(root / "docs" / "conf.py", target / "conf.py")
    shutil.copytree(root / "docs" / "_static", target / "_static")
    for name in MATH_FONT:
        shutil.copy(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, target / "_static" / name)
    readme = (root / "README.md").read_text(encoding="utf-8")
    _write(target / "index.md", readme + contents(navigation.stops(root)))
    text = (root / "chapters" / "glossary.md").read_text(encoding="utf-8")
    _write(target / "chapters" / "glossary.md", glossary.on_the_site(text))
    words = glossary.entries(text)
    for chapter in chapters:
        for name, notebook in chapter_pages(chapter, root).items():
            for cell in notebook.cells:
                if cell.cell_type == "markdown":
                    cell.source = glossary.links_on_the_site(cell.source, words)
            _write(target / name, nbformat.writes(notebook))


def contents(stops):
    """The table of contents of the whole site, hidden on the page; `stops` are the course's lectures."""
    chapters = [f"{stop.title} <notebooks/{stop.stem}>" for stop in stops if stop.stem]
    parts = (("Chapters", chapters), ("Reference", REFERENCE), ("Project", PROJECT))
    return "".join(_toctree(entries, f":caption: {caption}\n") for caption, entries in parts)


def _toctree(entries, options=""):
    return f"\n```{{toctree}}\n:hidden:\n{options}\n" + "\n".join(entries) + "\n```\n"


def chapter_pages(chapter, root):
    """Name -> page of a chapter's lectures and exercises; the exercises are the page after the last lecture."""
    lectures = [lecture_name(lecture.stem) for lecture in chapter.lectures]
    if not chapter.exercises:
        return {name: page(name, root) for name in lectures}
    exercises = exercises_name(chapter.number)
    pages = {name: page(name, root) for name in lectures}
    tree = _toctree([f"Exercises </{exercises.removesuffix('.ipynb')}>"])
    last = pages[lectures[-1]]
    last.cells.append(nbformat.v4.new_markdown_cell(tree.strip(), id=f"contents-{chapter.number}"))
    return pages | {exercises: page(exercises, root)}


def page(name, root):
    """The notebook `name` as a page, with a note on how to run it."""
    notebook = nbformat.read(root / name, as_version=4)
    notebook.cells = [guesses.fold_on_page(cell) for cell in notebook.cells]
    first = next(cell for cell in notebook.cells if cell.source.startswith("# "))
    title, _, rest = first.source.partition("\n")
    first.source = f"{title}\n\n{run_note(name)}\n{rest}"
    for cell in notebook.cells:
        if navigation.TAG in cell.metadata.get("tags", ()):
            cell.source = navigation.on_the_site(cell.source)
    return notebook


def run_note(name):
    """A box that says how to open the notebook `name` in JupyterLab."""
    lecture = name.startswith("notebooks/")
    state = "Its outputs are those of a run on a CPU." if lecture else "Write your answers there, not here."
    return (
        "````{admonition} Open in JupyterLab\n:class: tip run-note\n\n"
        f"`make lab`, then open `{name}`. {state}\n\n"
        f"{{download}}`Download the notebook </{name}>` · [Without Linux](../docs/hosted.md)\n````\n"
    )


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
