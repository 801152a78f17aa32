"""The variants of one load: each is prepared and checked when it is added; the right ones are timed in turns.

May import: course_lib.errors, course_lib.cuda.steps.
"""

from course_lib.cuda.steps import step
from course_lib.errors import UnsupportedError

from .checks import reason
from .rows import microseconds
from .turns import graphed, timed_in_turns

PEER_ERRORS = (RuntimeError, ImportError, ValueError)  # not installed, or it refuses the load


class Variants:
    """Collects what is compared on the same inputs.

    Parameters
    ----------
    options : the parsed command line
    graphs : bool; True times each variant as a CUDA graph, so that its launches cost no host time
    slow_ms : float or None, as in `timed_in_turns`

    Attributes
    ----------
    rows : dict, name -> the columns known so far; a name is the tuple of the values that were given to `add`
    calls : dict, name -> function without arguments, of the variants that will be timed
    """

    def __init__(self, options, *, graphs=False, slow_ms=None):
        self.options, self.graphs, self.slow_ms = options, graphs, slow_ms
        self.rows, self.calls = {}, {}

    def add(self, columns, prepare, error_of=None, limit=None, *, optional=False):
        """Prepare a variant, run it once and check it; a wrong one is noted and never timed.

        Parameters
        ----------
        columns : dict that identifies the variant, for example {"variant": "02_online", "language": "cuda"}
        prepare : function without arguments that gives the function to time
        error_of : function of what that function returned, giving a float; None: nothing to check
        limit : float, the largest allowed error
        optional : bool; True for a peer that may be missing or may refuse the load: its note says so
        """
        name = tuple(columns.values())
        row = self.rows[name] = {**columns, "note": ""}
        refusals = (UnsupportedError, *PEER_ERRORS) if optional else (UnsupportedError,)
        try:
            call = prepare()
            result = call()
        except refusals as error:
            row["note"] = reason(error)
            return
        if error_of is not None:
            error = error_of(result)
            row["max_error"] = f"{error:.1e}"
            if not error <= limit:
                row["note"] = f"wrong by {error:.1e}: not timed"
                return
        self.calls[name] = graphed(call, self.graphs and not self.options.dry)

    def skip(self, columns, why):
        """Note a variant that is not run at this size."""
        self.rows[tuple(columns.values())] = {**columns, "note": why}

    def times(self):
        """name -> Timing of everything that is right; empty in a dry run."""
        if self.options.dry:
            return {}
        return timed_in_turns(self.calls, self.options.runs, slow_ms=self.slow_ms)

    def timed(self, common, derived=None):
        """Time everything that is right and yield a row for each variant, in the order in which they were added.

        Parameters
        ----------
        common : dict, columns that all rows share
        derived : function(row, median_ms, times) that gives further columns of a timed row; times: name -> Timing
        """
        times = self.times()
        for name, row in self.rows.items():
            row = common | row
            if name in times:
                row |= microseconds(times[name])
                row |= derived(row, times[name].median_ms, times) if derived else {}
            yield row


def ratio_to_best(peers, median_ms, times):
    """The time of the fastest variant whose first name is in `peers`, over `median_ms`, as a cell; "" without one."""
    found = [timing.median_ms for name, timing in times.items() if name[0] in peers]
    return f"{min(found) / median_ms:.3f}" if found else ""


def rate_beside(reference, column, num_bytes):
    """The function for `Variants.timed` that gives a rate, and its share of that of a variant that only moves bytes.

    Parameters
    ----------
    reference : tuple of str, the name of that variant
    column : str, where the share is given
    num_bytes : int, what every variant of the load moves
    """

    def speed(_row, median_ms, times):
        share = 100 * times[reference].median_ms / median_ms
        return {"gbps": f"{num_bytes / median_ms / 1e6:.0f}", column: f"{share:.1f}"}

    return speed


def in_languages(family, variants):
    """[(variant, language)] of the steps of a family as their headers declare them, CUDA first."""
    languages = {variant: step(f"{family}/{variant}").languages for variant in variants}
    return [(name, language) for language in ("cuda", "triton") for name in variants if language in languages[name]]


def launched(launch, poison=1):
    """The function that runs a launch of course_lib.ops and returns its outputs.

    The first `poison` outputs are filled with NaN now, so that an element that the launch leaves unwritten is noticed.
    """
    for output in launch.outputs[:poison]:
        output.fill_(float("nan"))

    def run():
        launch.run()
        return launch.outputs

    return run
