"""Set the course up inside a hosted notebook (Colab, Kaggle): install what the machine lacks into the running Python.

python scripts/hosted.py        one sentence a step; exit status 1 when something cannot be had

The service brings Jupyter and usually torch: what is installed within the range of pyproject.toml stays as it is, and
Jupyter's own packages are never touched, since the running notebook uses them.
"""

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OF_THE_SERVICE = {"jupyterlab", "ipykernel", "ipywidgets", "jupytext", "nbclient", "nbval"}


def missing(requirements):
    """The requirements that this Python does not meet, Jupyter's own left out."""
    from packaging.requirements import Requirement

    found = []
    for requirement in map(Requirement, requirements):
        if requirement.name in OF_THE_SERVICE or (requirement.marker and not requirement.marker.evaluate()):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            version = None
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{requirement.name}{_extras(requirement)}{requirement.specifier}")
    return found


def _extras(requirement):
    return f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""


def main():
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        print("No C++ compiler found, which runs CUDA kernels where there is no GPU; install one: apt-get install g++")
        return 1
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    if importlib.util.find_spec("packaging") is None:
        subprocess.run([*pip, "packaging"], check=True)
    wanted = missing(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    if wanted:
        print("installing", ", ".join(wanted), flush=True)
        if subprocess.run([*pip, *wanted]).returncode:
            print(
                "pip could not install them; on Kaggle switch the notebook's internet access on and run the cell again"
            )
            return 1
    return subprocess.run([sys.executable, "-m", "course_lib.cli", "doctor"], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
