"""All uses of Triton's private API.

The public API of the interpreter does not give the addresses of accesses, the order of programs or the author's line.
This module patches triton 3.6 and 3.7 to get them; tests/unit/test_triton_private.py calls ``missing()`` and fails with
a sentence when an upgrade moves a name. _bf16.py corrects the interpreter's arithmetic, _libdevice.py and tuning.py
add what it lacks, _speed.py makes it quick.

May import: errors, numpy; triton only inside functions.
"""

import functools
import os
import sys

import numpy as np

from ..errors import CourseError, UnsupportedError
from . import _bf16, _libdevice, _scalars, _speed, lanes, tuning
from .guard import Guard

NEEDED = {
    "triton.runtime.interpreter": {
        "InterpreterBuilder": (
            "create_masked_load create_masked_store create_atomic_rmw create_atomic_cas create_dot cast_impl "
            "create_fp_to_fp set_grid_idx set_grid_dim create_barrier "
            "create_extern_elementwise create_inline_asm"
        ),
        "GridExecutor": "_init_args_hst _restore_args_dev __call__",
        "InterpretedFunction": "run rewrite __call__",
        "ReduceOps": "apply_impl",
        "ScanOps": "apply_impl",
        "TensorHandle": "get_element_ty",
    },
    "triton.runtime.jit": {"JITFunction": "run"},
    "triton.runtime.autotuner": {"Autotuner": "run prune_configs", "Config": "all_kwargs"},
}
_FUNCTIONS = ("_get_np_dtype", "_patch_builtin", "_patch_lang", "_patch_lang_tensor", "interpreter_builder", "tl")

_active = None  # the recorder of the open ledger, or None
_guard = Guard()  # checks launches without a ledger
_launches = 0
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def missing(module):
    """Return the names that the course needs and a module of triton lacks; empty when it is compatible."""
    gone = []
    for owner, names in NEEDED[module.__name__].items():
        kind = getattr(module, owner, None)
        gone += [f"{owner}.{name}" for name in names.split() if not hasattr(kind, name)]
    if module.__name__.endswith("interpreter"):
        gone += [name for name in _FUNCTIONS if not hasattr(module, name)]
    return gone


def adapt(module):
    """Adapt one freshly imported module of triton. Called by import_hook.py.

    Raises
    ------
    UnsupportedError   this triton lacks something that the course builds on
    """
    if getattr(module, "_course_adapted", False):
        return
    gone = missing(module)
    if gone:
        raise UnsupportedError(
            f"This triton is not one that the course knows: {module.__name__} lacks {', '.join(gone)}. "
            "The course works with triton 3.6 and 3.7; install one of them, or adapt course_lib/triton/_private.py."
        )
    if module.__name__ == "triton.runtime.jit":
        _count_launches(module.JITFunction)
    elif module.__name__ == "triton.runtime.autotuner":
        if module.knobs.runtime.interpret:
            tuning.take_in_turn(module)
    else:
        _count_launches(module.InterpretedFunction)
        _libdevice.correct(module, author_line)
        _speed.improve(module)
        _bf16.correct(module)
        _scalars.correct(module)
        _patch_interpreter(module)
    module._course_adapted = True


def launches():
    """Return the number of Triton kernels launched by this process, on the interpreter and on the GPU."""
    return _launches


def start(recorder):
    """Report every launch and access to `recorder` from now on.

    Raises
    ------
    UnsupportedError   another ledger is open
    """
    global _active
    if _active is not None:
        raise UnsupportedError("A ledger is already open; close it before opening another one.")
    _active = recorder


def stop():
    """Stop reporting to the recorder."""
    global _active
    _active = None


def _count_launches(kind):
    run = kind.run

    def counted(self, *args, **kwargs):
        global _launches
        if not kwargs.get("warmup"):
            _launches += 1
        try:
            return run(self, *args, **kwargs)
        except Exception as error:
            if (plain := _plain(error)) is error:
                raise
            raise plain from None

    kind.run = counted


def _plain(error):
    """Return the CourseError that the interpreter wrapped, or the exception itself."""
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    return inner if isinstance(inner, CourseError) else error


def _patch_interpreter(module):
    builder, executor = module.InterpreterBuilder, module.GridExecutor
    _patch_launches(executor, builder)
    _patch_accesses(builder, module.TensorHandle, module._get_np_dtype)
    _patch_atomics(builder, module)
    dot, barrier = builder.create_dot, builder.create_barrier

    def create_dot(self, a, b, d, input_precision, *rest):
        if _active is not None:
            types = tuple(operand.dtype.scalar.name for operand in (a, b, d))
            _active.dot(types, _name(input_precision).lower(), (*d.data.shape, a.data.shape[-1]), author_line())
        return dot(self, a, b, d, input_precision, *rest)

    def create_barrier(self, *args):
        if _active is not None:
            _active.barrier()
        return barrier(self, *args)

    builder.create_dot, builder.create_barrier = create_dot, create_barrier


def _patch_launches(executor, builder):
    to_host, to_device = executor._init_args_hst, executor._restore_args_dev
    set_dim, set_idx = builder.set_grid_dim, builder.set_grid_idx

    def init_args_hst(self, args_dev, kwargs):
        if _active is not None:
            return _active.begin_launch(self.fn, self.arg_names, args_dev, kwargs)
        args, kwargs = to_host(self, args_dev, kwargs)
        _guard.begin_launch([*args, *kwargs.values()])
        return args, kwargs

    def restore_args_dev(self, args_dev, args_hst, kwargs, kwargs_hst):
        if _active is None:
            to_device(self, args_dev, args_hst, kwargs, kwargs_hst)
        else:
            _active.end_launch()

    def set_grid_dim(self, *grid):
        set_dim(self, *grid)
        if _active is not None:
            _active.begin_grid(grid)

    def set_grid_idx(self, x, y, z):
        if _active is not None:
            x, y, z = _active.begin_program()
        _guard.program = (x, y, z)
        set_idx(self, x, y, z)

    executor._init_args_hst, executor._restore_args_dev = init_args_hst, restore_args_dev
    builder.set_grid_dim, builder.set_grid_idx = set_grid_dim, set_grid_idx


def _patch_accesses(builder, handle, np_dtype):
    load, store = builder.create_masked_load, builder.create_masked_store

    def create_masked_load(self, ptrs, mask, other, *rest, **options):
        dtype = np_dtype(ptrs.get_element_ty())
        if _active is None:
            _guard.check("load", ptrs.data, lanes.mask_of(mask, ptrs), dtype.itemsize, author_line)
            return load(self, ptrs, mask, other, *rest, **options)
        where = author_line()
        active, allowed = _active.load(ptrs.data, lanes.mask_of(mask, ptrs), dtype.itemsize, where)
        result = load(self, ptrs, handle(allowed, lanes.int1_of(ptrs)), other, *rest, **options)
        if allowed is active and (other is not None or active.all()):
            return result
        undefined = active & ~allowed
        if other is None and dtype.kind == "f":
            undefined = ~allowed  # without `other`, masked elements are undefined
            _active.undefined(int((~active).sum()), where)
        if undefined.any():
            result.data = np.where(undefined, lanes.poison(dtype), result.data).astype(dtype)
        return result

    def create_masked_store(self, ptrs, value, mask, *rest, **options):
        size = np_dtype(ptrs.get_element_ty()).itemsize
        if _active is None:
            _guard.check("store", ptrs.data, lanes.mask_of(mask, ptrs), size, author_line)
            return store(self, ptrs, value, mask, *rest, **options)
        values = value.data if value.data.shape == ptrs.data.shape else np.broadcast_to(value.data, ptrs.data.shape)
        _, allowed = _active.store(ptrs.data, lanes.mask_of(mask, ptrs), size, author_line(), values)
        return store(self, ptrs, value, handle(allowed, lanes.int1_of(ptrs)), *rest, **options)

    builder.create_masked_load, builder.create_masked_store = create_masked_load, create_masked_store


def _patch_atomics(builder, module):
    rmw, cas, handle = builder.create_atomic_rmw, builder.create_atomic_cas, module.TensorHandle

    def create_atomic_rmw(self, operation, ptr, value, mask, sem, scope):
        _refuse_bf16(value)
        size = module._get_np_dtype(ptr.get_element_ty()).itemsize
        if _active is None:
            _guard.check("atomic", ptr.data, lanes.mask_of(mask, ptr), size, author_line)
        else:
            _, allowed = _active.atomic(ptr.data, lanes.mask_of(mask, ptr), size, author_line(), _name(sem))
            mask = handle(allowed, lanes.int1_of(ptr))
        return rmw(self, operation, ptr, value, mask, sem, scope)

    def create_atomic_cas(self, ptr, expected, value, sem, scope):
        _refuse_bf16(value)
        size = module._get_np_dtype(ptr.get_element_ty()).itemsize
        all_lanes = np.ones(ptr.data.shape, dtype=bool)
        if _active is None:
            _guard.check("atomic", ptr.data, all_lanes, size, author_line)
        else:
            _, allowed = _active.atomic(ptr.data, all_lanes, size, author_line(), _name(sem))
            if not allowed.all():
                return handle(np.zeros_like(expected.data), expected.dtype.scalar)
        return cas(self, ptr, expected, value, sem, scope)

    builder.create_atomic_rmw, builder.create_atomic_cas = create_atomic_rmw, create_atomic_cas


@functools.cache
def _name(constant):
    """The name of a constant of Triton's C++ part, which looks through all of them each time."""
    return str(getattr(constant, "name", constant))


def _refuse_bf16(value):
    if _bf16.is_bf16(value):
        raise UnsupportedError(
            "Triton's interpreter would compute an atomic on bfloat16 bit patterns and be silently wrong; "
            "accumulate into a float32 tensor."
        )


def author_line():
    """Return (filename, line) of the innermost frame that belongs neither to triton nor to this folder."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if _is_authors(filename):
            return filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


@functools.cache
def _is_authors(filename):
    return not filename.startswith((_library(), _HERE))


@functools.cache
def _library():
    return os.path.dirname(os.path.abspath(sys.modules["triton"].__file__)) + os.sep


def author_line_of(error):
    """Return the line of the author's innermost frame in an exception's traceback, or None."""
    line, trace, library = None, error.__traceback__, _library()
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith((library, _HERE)):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
