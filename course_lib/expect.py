"""Checks of plain arguments at a public function's door, as sentences: what was expected, what came, what to do.

Each returns the argument in its plain type (a numpy number becomes an int or a float) or raises `error`.

May import: errors.
"""

import math
import numbers
from collections.abc import Sequence

from .errors import ArgumentError, UnsupportedError

MOST = (1 << 31) - 1  # what the kernels' 32-bit counts and the tables of pages hold
_SHORT = (int, float, str, bytes, bool, type(None))


def shown(value):
    """A value as a sentence names it: itself where it is short, else its kind."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    return f"{value!r:.60}" if isinstance(value, _SHORT) else f"a {type(value).__name__}"


def whole(name, value, least=None, most=MOST, *, error=ArgumentError):
    """A whole number from `least` to `most`; a bool is none. None: no limit."""
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise error(f"{name} is {shown(value)}; expected a whole number.")
        value = int(value)
    if least is not None and value < least:
        raise error(f"{name} is {shown(value)}; it must be at least {least}.")
    if most is not None and value > most:
        raise error(f"{name} is {shown(value)}; it must be at most {most}.")
    return value


def real(name, value, least=None, most=None, *, above=None, error=ArgumentError):
    """A finite number from `least` to `most`, greater than `above`; a bool is none."""
    if type(value) is not int and (  # float by name: asking numbers.Real is slow
        isinstance(value, bool) or not isinstance(value, (float, numbers.Real)) or not math.isfinite(value)
    ):
        raise error(f"{name} is {shown(value)}; expected a finite number.")
    if least is not None and value < least:
        raise error(f"{name} is {shown(value)}; it must be at least {least}.")
    if above is not None and value <= above:
        raise error(f"{name} is {shown(value)}; it must be more than {above}.")
    if most is not None and value > most:
        raise error(f"{name} is {shown(value)}; it must be at most {most}.")
    return value if isinstance(value, int) else float(value)


def flag(name, value, *, error=ArgumentError):
    """True or False, no other number."""
    if not isinstance(value, bool):
        raise error(f"{name} is {shown(value)}; expected True or False.")
    return value


def word(name, value, *, error=ArgumentError):
    """A string."""
    if not isinstance(value, str):
        raise error(f"{name} is {shown(value)}; expected a word in quotes.")
    return value


def words(name, value, *, error=ArgumentError):
    """A tuple of strings, none of them empty; one string is no list of them."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
        raise error(f"{name} is {shown(value)}; expected a list of strings, none of them empty, as in ['\\n'].")
    return tuple(value)


def choice(name, value, values, *, error=UnsupportedError):
    """One of `values`, which are words."""
    if not isinstance(value, str) or value not in values:
        raise error(f"{name}={shown(value)} is unknown; choose one of {', '.join(values)}.")
    return value


def kind(name, value, types, *, how="", error=ArgumentError):
    """An object of one of `types`; `how` says where one comes from."""
    if not isinstance(value, types):
        names = " or ".join(each.__name__ for each in (types if isinstance(types, tuple) else (types,)))
        raise error(f"{name} is {shown(value)}; expected a {names}{f': {how}' if how else ''}.")
    return value


def function(name, value, *, error=ArgumentError):
    """What can be called."""
    if not callable(value):
        raise error(f"{name} is {shown(value)}; expected a function.")
    return value


def tokens(name, values, least=0, most=MOST, *, of="token", error=ArgumentError):
    """A list of tokens, or `of` else, whole numbers: of a list, a tuple, a range, a flat array or a flat tensor."""
    if getattr(values, "ndim", 0) == 1 and hasattr(values, "tolist") and not getattr(values, "is_meta", False):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        how = "; a tokenizer makes one of text" if of == "token" else ""
        raise error(f"{name} is {shown(values)}; expected a list of {of}s, whole numbers{how}.")
    if set(map(type, values)) - {int}:
        values = [whole(f"{name}[{place}]", number, error=error, most=None) for place, number in enumerate(values)]
    if len(values) and least is not None:
        wrong = next((number for number in (min(values), max(values)) if not least <= number <= most), None)
        if wrong is not None:
            raise error(f"{name} has the {of} {shown(wrong)}; expected {of}s from {least} to {most}.")
    return list(values)
