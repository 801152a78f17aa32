"""What every stored row says about the machine and the software that made it.

    row | versions(options.commit)

May import: the standard library and torch, so that a machine without Triton can still describe itself.
"""

import datetime
import importlib
import os
import platform
import re
import subprocess
from pathlib import Path

import torch

from benchmarks import ROOT

COLUMNS = ["device", "driver", "torch", "triton", "commit", "date"]


def module_of(path):
    """The name under which ``python -m`` runs a file of this package."""
    return ".".join(Path(path).resolve().relative_to(ROOT).with_suffix("").parts)


def folder_name(name):
    """A card's folder under results: "NVIDIA H200" -> "h200", "NVIDIA GeForce RTX 4090" -> "rtx-4090"."""
    words = re.sub(r"NVIDIA|GeForce|Tesla", " ", name).lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def commit():
    """$COMMIT, or the short name of the current commit; "unknown" outside a clone."""
    if os.environ.get("COMMIT"):
        return os.environ["COMMIT"]
    try:
        command = ["git", "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def driver():
    """The driver's version as nvidia-smi writes it, of the first card; empty where there is no driver."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip().partition("\n")[0]


def package(name):
    """The version of an installed package; empty where it is not installed."""
    try:
        return importlib.import_module(name).__version__
    except ImportError:
        return ""


def software(commit, packages, **others):
    """The columns of a benchmark that needs no GPU.

    Parameters
    ----------
    commit : str, short name of the commit whose code is measured
    packages : names of packages whose versions are columns
    others : further columns, before the commit

    Returns
    -------
    dict of str
    """
    return {
        "python": platform.python_version(),
        **{name: package(name) for name in packages},
        **others,
        "commit": commit,
        "date": datetime.date.today().isoformat(),
    }


def versions(commit, *, on_gpu=True, also=()):
    """The values of COLUMNS, and of the further packages that `also` names.

    Parameters
    ----------
    commit : str, short name of the commit whose code is measured
    on_gpu : bool; False for a dry run, whose rows are not measurements
    also : names of packages, for example ("cupy",)

    Returns
    -------
    dict of str
    """
    return {
        "device": torch.cuda.get_device_name() if on_gpu else "CPU, dry run",
        "driver": driver() if on_gpu else "",
        "torch": torch.__version__,
        "triton": package("triton"),
        **{name: package(name) for name in also},
        "commit": commit,
        "date": datetime.date.today().isoformat(),
    }
