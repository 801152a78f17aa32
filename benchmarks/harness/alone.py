"""Check, time and weigh one variant by itself: where peak memory counts, or where two would not fit.

May import: the standard library, torch, course_lib.measure, course_lib.errors.
"""

import time

import torch

from course_lib import measure
from course_lib.errors import UnsupportedError

from .checks import reason
from .rows import microseconds


def alone(prepare, error_of, limit, options, *, derived=None, seconds=None):
    """Columns of one variant: times, peak_bytes and max_error, or the note that says why there are none.

    Parameters
    ----------
    prepare : function without arguments that gives the function to time
    error_of : function of what that function returned, giving a float
    limit : float, the largest allowed error
    options : the parsed command line
    derived : function(median_ms) that gives further columns, or None
    seconds : float or None; a variant that is so slow that options.runs would take longer is run less often
    """
    on_gpu = options.device == "cuda"
    try:
        run = prepare()
        error = error_of(run())
        if not error <= limit:
            return {"max_error": f"{error:.1e}", "note": f"wrong by {error:.1e}: not timed"}
        once = _seconds_of(run, on_gpu)
        num_runs = options.runs if seconds is None else max(3, min(options.runs, int(seconds / once)))
        timing = measure.median_time(run, num_runs=num_runs, num_warmup=0, on_gpu=on_gpu)
        del run
        peak = measure.peak_bytes(lambda: prepare()(), on_gpu=on_gpu)
    except torch.cuda.OutOfMemoryError:
        return {"note": "left out: more memory than this card has"}
    except (RuntimeError, UnsupportedError) as error:  # a backend that does not exist here, or an older card
        return {"note": reason(error)}
    finally:
        if on_gpu:
            torch.cuda.empty_cache()
    row = microseconds(timing) | {"peak_bytes": peak, "max_error": f"{error:.1e}", "note": ""}
    return row | (derived(timing.median_ms) if derived else {})


def _seconds_of(run, on_gpu):
    """One call by the host's clock: only to decide how often to repeat it."""
    began = time.perf_counter()
    run()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - began
