"""profile_triton: run a Triton function on the interpreter and report its traffic.

May import: errors, recorder; triton only inside functions.
"""

from ..errors import ArgumentError
from . import checked_run, mode


def profile_triton(fn, grid, *args, schedule="forward", seed=0, outputs=(), **constexprs):
    """Run `fn` over `grid` on Triton's interpreter and report bytes, sectors, lines and findings.

    Results are written into the tensors as in a launch. For small sizes: the interpreter takes about a millisecond for
    a program.

    Parameters
    ----------
    fn : a @triton.jit function
    grid : int or tuple of up to three ints, or a function of the arguments as Triton takes it
    args : tensors and Python scalars, in the order of the parameters
    schedule : "forward", "reverse" or "random": the order of the programs
    seed : int, for "random"
    outputs : names or tensors that count as uninitialised before the launch
    constexprs : the remaining parameters by name

    Returns
    -------
    report : TritonReport

    Raises
    ------
    ArgumentError   fn is no Triton function, or the schedule is unknown
    KernelFault     the function raised; the message has its line
    """
    if isinstance(grid, int):
        grid = (grid,)
    if not hasattr(fn, "run") or not hasattr(fn, "fn"):
        raise ArgumentError(f"profile_triton takes a @triton.jit function, got {type(fn).__name__}")
    fn, tuned = _untuned(fn)
    constexprs = {**tuned, **constexprs}
    if not mode.is_interpreted():
        from .interpreter_process import profile_in_worker

        return profile_in_worker(fn, grid, args, schedule, seed, outputs, constexprs)
    return checked_run.run_checked(fn, grid, args, schedule, seed, outputs, constexprs)


def _untuned(fn):
    """Return the function under @autotune and its first configuration (which one does not change the bytes)."""
    configs = getattr(fn, "configs", None)
    if not configs:
        return fn, {}
    return fn.fn, dict(configs[0].kwargs)
