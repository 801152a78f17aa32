"""`course update`: the newest chapters and kernels, by git; what the learner wrote into the notebooks stays.

Only what the course changed since is touched. A notebook in which the learner worked is copied to work/kept/ first;
then it is the course's new one with the learner's answers, predictions, notes and added cells (book/keep.py). Work
follows a notebook to its new name, and a lecture that was divided into its parts.

May import: errors, grading.records.work, book.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from ..book import FOLDERS
from ..errors import CourseError
from ..grading.records import work

ROOT = Path(__file__).resolve().parents[2]
_STARTED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


def update(*, root=ROOT, keep_changed=False, say=print):
    """Bring the newest state of the course into the clone `root`; returns how many commits that were.

    Parameters
    ----------
    keep_changed : bool; copy changed files of the course to work/kept/ and replace them, in place of a refusal
    say : called with one sentence for each notebook and file that was copied

    Raises
    ------
    CourseError  the update is refused or failed; what the learner wrote is where it was, or in work/kept/
    """
    root = Path(root)
    _require_plain_clone(root)
    _fetch(root)
    count = int(_git(root, "rev-list", "--count", "HEAD..@{upstream}"))
    if not count:
        return 0
    _require_no_commits(root)
    notebooks, files = _in_the_way(root)
    if files and not keep_changed:
        raise CourseError(
            f"{_names(files)}: changed or made here, and an update keeps in place only what you wrote into the "
            "course's notebooks; `course update --keep-changed` copies each to work/kept/ and takes the course's"
        )
    try:
        _replace(root, notebooks, files, say)
    except OSError as error:
        raise CourseError(
            f"a file could not be copied or written ({error}); what you wrote is where it was, or in work/kept/"
        ) from error
    return count


def changed_notebooks(root=ROOT):
    """Return the names of the course's notebooks that differ from the last commit; none outside a git clone."""
    if not (Path(root) / ".git").exists():
        return []
    return sorted(name for name in _changed(root) if _is_notebook(name))


def _require_plain_clone(root):
    if not (root / ".git").exists():
        raise CourseError(
            f"{root} is not a git clone (it has no .git), so nothing can be brought into it; "
            "make a clone with `git clone` and copy your work/ and exercises/ into it"
        )
    for name, action in _STARTED.items():
        if (root / _git(root, "rev-parse", "--git-path", name)).exists():
            raise CourseError(f"a {action} is not finished here; `git {action} --abort` goes back to before it")
    if unmerged := sorted(set(_list(_git(root, "diff", "--name-only", "-z", "--diff-filter=U")))):
        raise CourseError(f"{_names(unmerged)}: two versions that git could not join; finish or undo that merge first")
    branch = _git(root, "rev-parse", "--abbrev-ref", "HEAD")
    if branch == "HEAD":
        raise CourseError("this clone is at a single commit, not on a branch; `git switch main` goes to the newest one")
    if not _git(root, "for-each-ref", "--format=%(upstream)", f"refs/heads/{branch}"):
        raise CourseError(
            f"the branch {branch} follows no branch of the course; tell git which one: "
            f"`git branch --set-upstream-to=origin/main {branch}`"
        )


def _fetch(root):
    try:
        _git(root, "fetch", "--quiet")
    except CourseError as error:
        raise CourseError(
            f"the newest state of the course could not be fetched ({error}), so nothing was changed; "
            "look at the network and run it again"
        ) from None


def _require_no_commits(root):
    own = int(_git(root, "rev-list", "--count", "@{upstream}..HEAD"))
    if own:
        raise CourseError(
            f"this clone has {own} commit{'s' * (own > 1)} that the course does not have, and an update joins no "
            "histories; `git branch mine` keeps them by name, `git reset --soft $(git merge-base HEAD @{upstream})` "
            "makes them plain changes again, and then an update keeps your notebooks"
        )


def _in_the_way(root):
    """Return {name: state} of changed notebooks that the course changed too, and of all other changed files."""
    incoming = set(_list(_git(root, "diff", "--name-only", "-z", "--no-renames", "HEAD", "@{upstream}")))
    changed = _changed(root)
    notebooks = {name: state for name, state in changed.items() if _is_notebook(name) and name in incoming}
    files = {name: state for name, state in changed.items() if not _is_notebook(name)}
    added = _list(_git(root, "diff", "--name-only", "-z", "--no-renames", "--diff-filter=A", "HEAD", "@{upstream}"))
    return notebooks, files | {name: "??" for name in added if (root / name).is_file()}


def _changed(root):
    """Return {name: the two letters of git} of files of the last commit that are changed or deleted."""
    lines = _list(_git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no"))
    return {line[3:]: line[:2] for line in lines if "A" not in line[:2]}


def _is_notebook(name):
    folder, _, file = name.partition("/")
    return folder in FOLDERS and "/" not in file and file.endswith(".ipynb")


def _replace(root, notebooks, files, say):
    """Copy what is the learner's, take the course's newest commit, and write the merged notebooks."""
    from ..book import keep

    merged = {}
    for name, state in notebooks.items():
        merged |= _merged(root, name, state, say)
    for name, state in files.items():
        _back_up(root, name, state, say)
    before = {name: (root / name).read_bytes() for name in [*notebooks, *files] if (root / name).is_file()}
    try:
        for name, state in (notebooks | files).items():
            if state == "??":
                _git(root, "rm", "--cached", "--quiet", "--ignore-unmatch", "--", name)
                (root / name).unlink()
            else:
                _git(root, "checkout", "--quiet", "HEAD", "--", name)
        _git(root, "merge", "--ff-only", "--quiet", "@{upstream}")
    except BaseException:
        for name, data in before.items():
            (root / name).write_bytes(data)
        raise
    for name, text in merged.items():
        keep.write_atomic(root / name, text)


def _now_called(root, name):
    """Return what the newest course calls a notebook: one name, several if it was divided, none if it is gone.

    A notebook whose name is gone is continued in those of its folder and chapter that were not there before.
    """
    folder, _, file = name.partition("/")
    listed = ("ls-tree", "--name-only", "-z")
    before, newest = (set(_list(_git(root, *listed, commit, f"{folder}/"))) for commit in ("HEAD", "@{upstream}"))
    if name in newest:
        return [name]
    return sorted(one for one in newest - before if one.startswith(f"{folder}/{file[:2]}"))


def _merged(root, name, state, say):
    """Return {name: text} of the course's new notebooks with the learner's work of the notebook `name` in them.

    There are none where the course's are right as they are.
    """
    import nbformat

    from ..book import keep

    path = root / name
    if not path.exists():
        _back_up(root, name, state, say)
        return {}
    shipped = nbformat.reads(_git(root, "show", f"HEAD:{name}"), as_version=4)
    try:
        existing = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        if " " in state and _cells(existing) == _cells(shipped):
            return {}
    except Exception:  # not a notebook any more: a save that was cut off
        existing = None
    _back_up(root, name, state, say)
    names = _now_called(root, name)
    if not names or existing is None or path.parent.name == "solutions":
        return {}
    new = [nbformat.reads(_git(root, "show", f"@{{upstream}}:{one}"), as_version=4) for one in names]
    parts = zip(names, new, keep.divided(existing, new), strict=True)
    return {one: nbformat.writes(keep.merge(built, part, shipped)) + "\n" for one, built, part in parts}


def _cells(notebook):
    """Return what a notebook says, without outputs, execution counts and what an editor stores beside them."""
    from ..book import keep

    cells = [(cell.cell_type, cell.source, cell.get("attachments")) for cell in notebook.cells]
    return cells, notebook.metadata.get(keep.WAIVED)


def _back_up(root, name, state, say):
    """Copy a file to work/kept/, and the version that `git add` stored if that is another one."""
    from ..book import keep

    path, copies = root / name, []
    if path.is_file():
        copies.append(keep.back_up(path, work.root()))
    if state[0] not in " ?D" and state[1] != " ":
        with tempfile.TemporaryDirectory() as scratch:
            staged = Path(scratch) / path.parent.name / path.name
            staged.parent.mkdir(exist_ok=True)
            staged.write_bytes(_git(root, "show", f":{name}", text=False))
            copies.append(keep.back_up(staged, work.root()))
    if copies:
        say(f"{name}: as it was, it is in {' and '.join(str(copy).removeprefix(f'{root}/') for copy in copies)}.")


def _git(root, *words, text=True):
    """Return what a git command prints; raises CourseError with git's own first line of error."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    except (FileNotFoundError, PermissionError):
        raise CourseError(
            "git is not installed, and an update needs it; on Debian and Ubuntu: sudo apt install git"
        ) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise CourseError(f"git {words[0]}: {lines[0]}")
    return done.stdout.decode(errors="surrogateescape").rstrip("\n") if text else done.stdout


def _list(text):
    return [name for name in text.split("\0") if name]


def _names(names, most=4):
    names = sorted(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
