"""Report files, tracked or not ignored, that no rule of the repository's layout expects.

python scripts/stray_files.py        exit status 1 and one line for each such file
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEP = r"[0-9]{2}_[a-z0-9_]+"
MAX_BYTES = 1_000_000
LARGER = {"course_lib/model/shipped/small/model.safetensors": 7_200_000}
LARGER["course_lib/model/shipped/draft/model.safetensors"] = 2_000_000

# what may exist; a path matches as a whole
ALLOWED = [
    r"(README|CONTRIBUTING|GLOSSARY)\.md|LICENSE|Makefile|pyproject\.toml|constraints\.txt|environment\.yml|\.gitignore",
    r"(kernels_cu|benchmarks|tests|chapters)/README\.md",
    r"\.ci/run|\.github/workflows/[a-z]+\.yml|\.devcontainer/devcontainer\.json|scripts/[a-z_]+\.(sh|py)",
    rf"chapters/({STEP}|glossary|cpp)\.md|chapters/plan\.csv|kernels_cu/(support|compiled)\.csv|docs/[a-z_]+\.(svg|md)|docs/conf\.py|docs/_static/site\.css",
    r"exercises/[0-9]{2}_exercises\.ipynb|solutions/[0-9]{2}_solutions\.ipynb",
    r"notebooks/[0-9]{2}[a-z]?_[a-z0-9_]+\.ipynb",
    r"notebooks/glossary\.md",
    r"solutions/[0-9]{2}_[0-9]+_[a-z0-9_]+/((task|wrong)\.md|answer\.cu|[a-z_]+\.(py|sass))",
    rf"kernels_cu/(common/[a-z0-9_]+\.cuh|[a-z0-9_]+/{STEP}\.cu)",
    r"course_lib/([a-z0-9_]+/)*[a-z0-9_]+\.py",
    r"course_lib/cuda/simt/([a-z_]+/)*[a-z0-9_]+\.(h|hpp|cpp|c|inc|cuh)",
    r"course_lib/cuda/simt/include/(cuda/)?[a-z]+",  # standard headers without a suffix, such as cassert
    r"course_lib/model/shipped/(small|draft)/(README\.md|(config|tokenizer)\.json|model\.safetensors|curve[a-z_]*[0-9]?\.csv|excerpt\.txt)",
    r"course_lib/labextension/(package\.json|static/remoteEntry\.js)|course_lib/viz/player\.js",
    r"benchmarks/([a-z0-9_]+/)*[a-z0-9_]+\.(py|sh|md|cu)|benchmarks/results/[A-Za-z0-9_.-]+/[a-z0-9_]+\.(csv|json|md)",
    r"tests/([a-z0-9_]+/)*[A-Za-z0-9_.-]+\.(py|cu|cuh|cpp|h|json|csv|cfg|txt|md)",
]
_ALLOWED = re.compile("|".join(f"(?:{pattern})" for pattern in ALLOWED))


def listed_files(*, untracked=True):
    """Files that git tracks and, if asked, those that it neither tracks nor ignores; paths relative to the root.

    Outside a git repository (an unpacked archive) there are none.
    """
    command = ["git", "ls-files", "-z", "--cached", *(["--others", "--exclude-standard"] if untracked else [])]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return sorted(name for name in set(listed.stdout.split("\0")) if name and (ROOT / name).is_file())


def problems(names, sizes):
    """One sentence for each file that has no place, has an unreadable name, or is too large.

    Parameters
    ----------
    names : list of str, paths relative to the root
    sizes : dict, name -> bytes
    """
    found = []
    for name in names:
        if not _ALLOWED.fullmatch(name):
            found.append(
                f"{name}: no rule says what this is; move it, ignore it, or add a rule to scripts/stray_files.py"
            )
        elif sizes[name] > LARGER.get(name, MAX_BYTES):
            most = LARGER.get(name, MAX_BYTES)
            found.append(f"{name}: {sizes[name]:,} bytes; at most {most:,} are kept in the repository")
    return found


def main():
    names = listed_files()
    found = problems(names, {name: (ROOT / name).stat().st_size for name in names})
    print("\n".join(found) if found else f"{len(names)} files, each in its place")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
