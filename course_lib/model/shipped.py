"""The models that ship with the course: "small", and "draft" for speculative decoding, with one vocabulary.

May import: errors, expect, model.tokenizer, model.transformer.
"""

import csv
from pathlib import Path

from .. import expect
from ..errors import ModelError
from .tokenizer import load_tokenizer
from .transformer import Transformer

SHIPPED = Path(__file__).resolve().parent / "shipped"


def folder(name="small"):
    """The folder of a model that ships with the course; its README.md is the model card.

    Raises
    ------
    ModelError  no such model
    """
    path = SHIPPED / expect.word("name", name, error=ModelError)
    if not (path / "config.json").is_file():
        names = ", ".join(sorted(each.parent.name for each in SHIPPED.glob("*/config.json")))
        raise ModelError(f"no model {name!r} ships with the course; there are: {names or 'none'}.")
    return path


def load_shipped(name="small", *, dtype=None, device=None):
    """(model, tokenizer): the Transformer, by default in bfloat16 as it is stored, and a tokenizers.Tokenizer."""
    path = folder(name)
    return Transformer.load(path, dtype=dtype, device=device), load_tokenizer(path)


def loss_curve(name="small", file="curve.csv"):
    """The rows of a stored curve, each a dict of numbers; None where nothing was validated.

    Beside the curve of each model "small" has three of 200 steps without dropout: "curve_course.csv" on the course's
    kernels, "curve_torch.csv" on torch's with the same seed, "curve_torch_seed_1.csv" on torch's with another.
    """
    path = folder(name) / expect.word("file", file, error=ModelError)
    if not path.is_file():
        there = ", ".join(sorted(each.name for each in path.parent.glob("curve*.csv")))
        raise ModelError(f"{name!r} has no curve {file!r}; there are: {there or 'none'}.")
    with open(path, newline="", encoding="utf-8") as rows:
        return [
            {key: float(value) if value else None for key, value in row.items()} | {"step": int(row["step"])}
            for row in csv.DictReader(rows)
        ]
