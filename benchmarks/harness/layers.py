"""What the case files of the small kernels share: a copy of the same bytes, torch.compile as a peer, the rate.

A kernel that only moves data cannot beat a copy of the bytes that it must read and write. Few rows fit in no such rule:
there the times themselves are compared.

May import: the standard library, torch, course_lib.measure, benchmark, variants.
"""

import importlib
from functools import partial

import torch

from course_lib import measure

from .benchmark import Benchmark
from .variants import Variants, rate_beside

NAMES = ("variant", "language")
VALUES = ("megabytes", "median_us", "low_us", "high_us", "gbps", "copy_percent", "max_error", "note")
COPY = ("copy", "torch")


class Layer:
    """The variants of one load that moves `num_bytes` at least.

    Parameters
    ----------
    options : the parsed command line
    num_bytes : int, the fewest bytes that the layer reads and writes together
    error_of : function of a variant's outputs, giving its error against float64
    limit : float, the largest allowed error
    graphs : bool; times are those of CUDA graphs
    weigh : bool; rows have the column peak_megabytes, what a call allocates beside what there was
    """

    def __init__(self, options, num_bytes, error_of, limit, *, graphs=True, weigh=False):
        self.options, self.num_bytes, self.error_of, self.limit = options, num_bytes, error_of, limit
        self.variants, self.weigh = Variants(options, graphs=graphs), weigh
        if not options.dry:
            torch.compiler.reset()  # the shapes of each load are compiled anew
        half = torch.empty(max(1, num_bytes // 2), dtype=torch.int8, device=options.device)
        self.variants.add(dict(zip(NAMES, COPY, strict=True)), lambda: partial(torch.empty_like(half).copy_, half))

    def ours(self, variant, language, prepare):
        """A variant of the course; `prepare()` gives the function to time."""
        self.variants.add({"variant": variant, "language": language}, prepare, self.error_of, self.limit)

    def torch(self, variant, prepare):
        """A function of torch, which every machine has."""
        self.ours(variant, "torch", prepare)

    def peer(self, variant, prepare):
        """A peer that may be missing; not asked for in a dry run."""
        if not self.options.dry:
            columns = {"variant": variant, "language": "peer"}
            self.variants.add(columns, lambda: refusing(refusing(prepare)()), self.error_of, self.limit, optional=True)

    def installed(self, variant, module, name, *arguments):
        """A function of an installed package that returns one tensor; `name` may have dots."""
        self.peer(variant, lambda: in_tuple(installed(module, name), *arguments))

    def compiled(self, function, *arguments):
        """The same function of torch under torch.compile."""
        self.peer("torch.compile", lambda: partial(torch.compile(function, dynamic=False, fullgraph=True), *arguments))

    def rows(self, load):
        """The timed rows, in the order in which the variants were added."""
        return self.variants.timed(load | {"megabytes": f"{self.num_bytes / 1e6:.1f}"}, self._speed)

    def _speed(self, row, median_ms, times):
        columns = rate_beside(COPY, "copy_percent", self.num_bytes)(row, median_ms, times)
        if self.weigh:
            call = self.variants.calls[row["variant"], row["language"]]
            columns["peak_megabytes"] = f"{measure.peak_bytes(call, on_gpu=True) / 1e6:.1f}"
        return columns


def benchmark_of_layers(doc, file, *, keys, loads, rows, quick, graphs, weigh=False):
    """What a case file declares whose rows are those of Layers.

    Parameters
    ----------
    doc, file, keys, loads, rows, quick : as in Benchmark
    graphs, weigh : bool, as in Layer
    """
    peak = ("peak_megabytes",) if weigh else ()
    return Benchmark(
        doc,
        file,
        f"medians of CUDA events, {'graphs, ' if graphs else ''}in turns, L2 flushed, middle half in low_us to high_us",
        keys=keys,
        values=(*VALUES, *peak),
        loads=loads,
        rows=rows,
        shown=("median_us", "gbps", "copy_percent", *peak),
        quick=quick,
        runs=25,
    )


def relative_error(outputs, wants):
    """Largest |output - want| over the largest |want|, at least 1, of all pairs; infinity where not finite."""
    errors = []
    for output, want in zip(outputs, wants, strict=True):
        error = (output.double() - want).abs().max() / max(1.0, want.abs().max().item())
        errors.append(error.item() if bool(torch.isfinite(output).all()) else float("inf"))
    return max(errors)


def error_of_rows(outputs, want):
    """relative_error of the first output's first rows, as many as `want` has."""
    return relative_error([outputs[0][: len(want)]], [want])


def installed(module, name):
    """A function of a package, by its name in a module; ImportError where there is no such name."""
    found = importlib.import_module(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise ImportError(f"{module} has no {name}") from error
    return found


def refusing(call):
    """`call`, with a TypeError as a RuntimeError: a peer of another version takes other arguments, and gets a note."""

    def run():
        try:
            return call()
        except TypeError as error:
            raise RuntimeError(str(error)) from error

    return run


def in_tuple(call, *arguments):
    """call(*arguments) as a function that returns its outputs as a tuple."""

    def run():
        result = call(*arguments)
        return result if isinstance(result, tuple) else (result,)

    return run


def poisoned(launch):
    """The function that runs a launch and returns its outputs, which are filled with NaN before."""
    for output in launch.outputs:
        output.fill_(float("nan"))

    def run():
        launch.run()
        return launch.outputs

    return run


def in_place(call, *tensors):
    """The function that runs call(*clones), which overwrites them, and returns the clones.

    What the first call gave is returned by the first run: later ones work on overwritten numbers, and are only timed.
    """
    own = [tensor.clone() for tensor in tensors]
    call(*own)
    results = [[tensor.clone() for tensor in own]]

    def run():
        if results:
            return results.pop()
        call(*own)
        return own

    return run
