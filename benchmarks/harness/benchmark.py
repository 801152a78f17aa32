"""One benchmark from its command line to its rows.

    BENCHMARK = Benchmark(__doc__, __file__, …)
    if __name__ == "__main__":
        sys.exit(main(BENCHMARK))

May import: the standard library, torch.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks import ROOT

from .about import commit, module_of, versions
from .rows import in_words, read, stored


@dataclass(frozen=True)
class Benchmark:
    """What a case file declares.

    Attributes
    ----------
    doc, file : the case file's __doc__ and __file__
    method : str, how its numbers are taken, for the first line of the CSV
    keys : tuple of str, the columns that identify a row
    values : tuple of str, the columns that are measured; those of `origin` follow
    loads : function(dry) that gives a list of dict; a load is a set of inputs, its items are columns or plain sizes
    rows : function(load, options) that yields the rows of one load, each a dict of columns; options.earlier is a dict
        in which it may keep what later loads need
    shown : tuple of str, the values that are printed for each row
    compared : tuple of str, the values that benchmarks.all compares with stored rows
    quick : dict, column -> values: the loads that --quick keeps
    runs : int, timed runs of each variant unless --runs says otherwise
    packages : tuple of str, packages whose versions are columns too
    arguments : function(parser) that adds options of its own, or None
    origin : function(options) that gives the columns about the machine and its software; None: those of about.py
    head : function() that gives a list of further comment lines of the CSV, or None
    gpu : bool; False when a CPU is what is measured
    """

    doc: str
    file: str
    method: str
    keys: tuple
    values: tuple
    loads: Callable
    rows: Callable
    shown: tuple = ("median_us",)
    compared: tuple = ("median_us",)
    quick: dict = field(default_factory=dict)
    runs: int = 15
    packages: tuple = ()
    arguments: Callable | None = None
    origin: Callable | None = None
    head: Callable | None = None
    gpu: bool = True


def rows_by_kind(**row_of):
    """The `rows` of a Benchmark with one row a load: kind, in the load's column "kind" -> function(load, options)."""

    def rows_of(load, options):
        yield row_of[load["kind"]](load, options)

    return rows_of


def main(benchmark, arguments=None):
    """Check and time every load, write the rows; exit code 1 when something of the course was wrong."""
    options = parsed(benchmark, arguments)
    torch.manual_seed(0)
    if benchmark.origin:
        about = benchmark.origin(options)
    else:
        about = versions(options.commit, on_gpu=not options.dry, also=benchmark.packages)
    head = [f"{benchmark.method}; python3 -m {module_of(benchmark.file)}"]
    head += benchmark.head() if benchmark.head else []
    began, wrong = time.perf_counter(), 0
    columns, loads = [*benchmark.keys, *benchmark.values, *about], chosen(benchmark, options)
    others, earlier = earlier_rows(options, loads, columns)
    with stored(options.out, head, columns) as write:
        for row in others:
            write(row)
        for load in loads:
            spent = time.perf_counter() - began
            if spent > options.seconds:
                print(f"{in_words(load)}: not begun, {options.seconds:g} s are over", flush=True)
                for row in earlier:
                    if _is_of(row, load):
                        write(row)
                continue
            print(f"{spent:6.1f} s  {in_words(load)}", flush=True)
            for row in benchmark.rows(load, options):
                write(row | about)
                wrong += row.get("note", "").startswith("wrong")
                print(f"          {line(benchmark, load, row)}", flush=True)
    return 1 if wrong else 0


def parsed(benchmark, arguments=None):
    """The command line; a dry run may not write where the course keeps its numbers."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {module_of(benchmark.file)}", description=_first_line(benchmark))
    parser.add_argument("--out", type=Path, help="the CSV file to write; may be left out in a dry run")
    parser.add_argument("--commit", default=None, help="whose code is measured; default: $COMMIT, or git's HEAD")
    parser.add_argument("--runs", type=int, default=benchmark.runs, help="timed runs of each variant")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="no load is begun after this time; the file keeps its rows"
    )
    parser.add_argument("--only", nargs="+", type=_condition, default=[], metavar="COLUMN=VALUE[,VALUE]",
                        help="only the loads with these values; the file's rows of others stay")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="only a few loads")
    parser.add_argument("--also", help="a folder of installed packages, searched last: where the peers are")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; the rows are not measurements")
    if benchmark.arguments:
        benchmark.arguments(parser)
    options = parser.parse_args(arguments)
    if options.out and options.dry and (ROOT / "benchmarks") in options.out.resolve().parents:
        parser.error("a dry run measures nothing: give --out a place outside benchmarks/")
    if not options.out and not options.dry:
        parser.error(f"say where the rows go: --out benchmarks/results/<device>/{Path(benchmark.file).stem}.csv")
    if benchmark.gpu and not options.dry and not torch.cuda.is_available():
        parser.error("no NVIDIA GPU is visible; --dry tries the script on a CPU")
    sys.path += [options.also] if options.also else []
    options.commit = options.commit or commit()
    options.device = "cuda" if benchmark.gpu and not options.dry else "cpu"
    options.only = dict(options.only) | (benchmark.quick if options.quick and not options.dry else {})
    options.earlier = {}
    return options


def _first_line(benchmark):
    return benchmark.doc.strip().splitlines()[0]


def _condition(text):
    """ "seq_len=512,1024" -> ("seq_len", ("512", "1024"))."""
    column, equals, values = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: expected COLUMN=VALUE, for example seq_len=4096")
    return column, tuple(values.split(","))


def chosen(benchmark, options):
    """The loads that --only and --quick keep; in a dry run those of the dry run."""
    loads = benchmark.loads(options.dry)
    unknown = options.only.keys() - {name for load in loads for name in load}
    if unknown:
        sys.exit(f"--only {', '.join(sorted(unknown))}: no such column; a load has {', '.join(loads[0])}")
    wanted = {name: {str(value) for value in values} for name, values in options.only.items()}
    return [load for load in loads if all(str(load.get(name)) in values for name, values in wanted.items())]


def earlier_rows(options, loads, columns):
    """(others, own): rows of the file to be written. The others, of loads that --only leaves out, stay; so do those of
    a load that is not begun.
    """
    rows = read(options.out) if options.out else []
    own = [row for row in rows if any(_is_of(row, load) for load in loads)]
    others = [row for row in rows if row not in own] if options.only else []
    if others and [*others[0]] != columns:
        sys.exit(f"{options.out} has rows of other loads with other columns; give --out another file, or no --only.")
    return others, own if own and [*own[0]] == columns else []


def _is_of(row, load):
    """Whether a row that was read is one of this load."""
    return all(row.get(name) == ("" if value is None else str(value)) for name, value in load.items())


def line(benchmark, load, row):
    """A row as a line for the terminal: what identifies it within its load, and its note or its numbers."""
    name = " ".join(str(row[key]) for key in benchmark.keys if key not in load and row.get(key) not in (None, ""))
    numbers = "  ".join(f"{column} {row[column]:>8}" for column in benchmark.shown if row.get(column))
    return f"{name:<52} {row.get('note') or numbers or 'right; not timed'}"
