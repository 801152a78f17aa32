"""What every stored row says about the machine and the software that made it.

    from benchmarks.harness.about import COLUMNS, versions      the scripts of this folder; COLUMNS end their own
    row | versions(options.commit)

May import: the standard library and torch, so that a script with no Triton at hand still says so in its row.
"""

import datetime
import importlib
import subprocess
from pathlib import Path

import torch

from benchmarks import ROOT

COLUMNS = ["device", "driver", "torch", "triton", "commit", "date"]


def module_of(path):
    """The name under which ``python -m`` runs a file of this package."""
    return ".".join(Path(path).resolve().relative_to(ROOT).with_suffix("").parts)


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


def versions(commit, *, on_gpu=True, also=()):
    """The values of COLUMNS, and of the further packages that `also` names.

    Parameters
    ----------
    commit : str, short name of the commit whose code is measured
    on_gpu : bool; False for a dry run, whose rows are worth nothing and say so
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
