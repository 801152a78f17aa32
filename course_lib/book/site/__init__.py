"""The course as a static site: lectures with their outputs, exercises, docs, glossary and an API reference.

    python -m course_lib.book.site        collects the pages and builds build/site/html (`make site`)

May import: everything of the course; Sphinx and its extensions come with the extra "site".
"""

import importlib.util
import shutil
import subprocess
import sys
import time

from ..outline import ROOT
from .api import write_api
from .sources import collect

FOLDER = ROOT / "build" / "site"
NEEDED = ("sphinx", "myst_nb", "sphinx_book_theme", "sphinx_copybutton")


def build(folder=FOLDER, root=ROOT):
    """Build the site in `folder`/html; returns the exit status of Sphinx, for which every warning is an error."""
    source = folder / "source"
    shutil.rmtree(folder, ignore_errors=True)
    collect(source, root)
    write_api(source / "api")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "--fail-on-warning", "--keep-going"]
    return subprocess.run([*command, "-d", folder / "doctrees", source, folder / "html"], cwd=root).returncode


def main(arguments=None):
    """Entry point; returns the exit status. With --check only whether the extra "site" is installed."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if "--check" in (sys.argv[1:] if arguments is None else arguments):
        return 1 if absent else 0
    if absent:
        print(f"The site needs {', '.join(absent)}; install them with: make site", file=sys.stderr)
        return 2
    started = time.perf_counter()
    status = build()
    pages = len(list((FOLDER / "html").rglob("*.html")))
    print(f"{pages} pages in {time.perf_counter() - started:.0f} s: {FOLDER.relative_to(ROOT)}/html/index.html")
    return status
