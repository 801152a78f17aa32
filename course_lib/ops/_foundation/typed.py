"""Types of a launcher's arguments, by the names that the whole room shares, checked before anything else looks at them.

A list, a numpy array, a tensor without memory or `block=0` gets a sentence here; shapes and values are checked by each
family. May import: errors, numpy, torch.
"""

import functools
import inspect
import math
import numbers

import numpy
import torch

from ...errors import ShapeError, UnsupportedError

_COUNTS = {"block", "block_m", "block_n", "num_blocks", "split_len", "num_ids", "num_experts", "num_heads"}
_COUNTS |= {"max_positions", "rotary_dim"}
_WHOLE = {"num_splits", "max_seq_len", "max_seq_len_q", "ignore_index"}
_REAL = {"softmax_scale", "eps", "label_smoothing", "base"}
_FLAGS = {"causal", "interleaved", "inverse", "renormalise", "gather", "validate"}
_WORDS = {"variant", "language", "layout", "activation", "per", "norm"}
_TENSORS = set(
    "q k v x y a b w out lse d_out logits targets ids table positions position_table gate up weight bias residual "
    "d_residual d_loss k_pages v_pages block_table seq_lens seq_lens_kv cu_seqlens_q slot_mapping copies k_scales "
    "v_scales cos_sin temperature noise top_p min_p packed scales zeros w_up w_down router_logits experts scores "
    "places weights counters norm_weight norm_bias k_cache v_cache slots counts history".split()
)
_MOST_THREADS = 1024


def typed(function):
    """Decorate a launcher: ShapeError or UnsupportedError, with a sentence, for an argument of another type."""
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    may_lack = {name for name, one in parameters.items() if one.default is None} | {"out"}
    may_lack |= {"k"} if "cos_sin" in parameters else set()  # rope of queries alone
    found = {name: _check_of(name, one.default is None) for name, one in parameters.items()}
    checks = {name: (check, name in may_lack) for name, check in found.items() if check}

    @functools.wraps(function)
    def checked(*args, **kwargs):
        devices = {}
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            check, may_be_none = checks.get(name, (None, True))
            if check is not None and not (value is None and may_be_none):
                check(name, value, devices)
        if len(devices) > 1 and len(set(devices.values())) > 1:
            said = ", ".join(f"{name} on {device}" for name, device in devices.items())
            raise ShapeError(f"the tensors of a launch lie on one device; got {said}.")
        return function(*args, **kwargs)

    return checked


def _check_of(name, may_lack):
    """The function (name, value, devices) that looks at the arguments of this name; None where none does.

    The device of a tensor goes into `devices`.
    """
    if name == "top_k":  # a filter of `sample`, a number for each row; else the experts of a token
        return _tensor if may_lack else _whole
    pairs = (_TENSORS, _tensor), (_COUNTS | _WHOLE, _whole), (_REAL, _real), (_WORDS, _word), (_FLAGS, _flag)
    for names, check in pairs:
        if name in names:
            return check
    return None


def _tensor(name, value, devices):
    if isinstance(value, tuple) and name == "out":
        return
    if not isinstance(value, torch.Tensor):
        remedy = "; torch.from_numpy makes one" if type(value).__module__ == "numpy" else ""
        raise ShapeError(f"{name} is a {type(value).__name__}; expected a torch tensor{remedy}.")
    device = value.device
    if device.type not in ("cpu", "cuda") or value.layout != torch.strided:
        where = f"on {device.type}" if value.layout == torch.strided else f"of layout {value.layout}"
        raise ShapeError(f"{name} is a tensor {where}; kernels read plain memory, on the CPU or on a CUDA device.")
    devices[name] = device


def _real(name, value, devices):
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise UnsupportedError(f"{name}={value!r}; expected a finite number.")
    if name == "eps" and value < 0:
        raise UnsupportedError(f"eps={value}; expected at least 0: it keeps a root away from 0.")


def _word(name, value, devices):
    if not isinstance(value, str):
        raise UnsupportedError(f"{name}={value!r}; expected a word in quotes.")


def _flag(name, value, devices):
    if not isinstance(value, numbers.Integral | numpy.bool_) or value not in (0, 1):
        raise UnsupportedError(f"{name}={value!r}; expected True or False.")


def _whole(name, value, devices):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise UnsupportedError(f"{name}={value!r}; expected a whole number.")
    if name in _COUNTS and value < 1:
        raise UnsupportedError(f"{name}={value}; expected at least 1.")
    if name == "block" and value > _MOST_THREADS:
        raise UnsupportedError(f"block={value}; a block has at most {_MOST_THREADS} threads.")
    if abs(value) >= 1 << 31:
        raise UnsupportedError(f"{name}={value}; expected a number of at most 31 bits.")
