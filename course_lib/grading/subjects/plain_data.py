"""Exercises on plain data: a case is many calls of one function, whose results are compared with `==`.

The answer's given part writes the results of all calls of a case as text (`repr`), which is read here and never run.
A wrong result is explained by the mistake that gives all results of all cases, the right ones too.

May import: exercise.spec, processes.protocol, verdict, evidence (as data), torch.
"""

import ast
import functools
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any

import torch

from ..exercise.spec import Case, exercise
from ..processes.protocol import Run
from ..report.verdict import Diagnosis

_WORDS = {int: "whole number", float: "float", str: "text", bool: "True or False", NoneType: "None"}
_WORDS |= {list: "list", tuple: "tuple"}
_LISTS = (list, tuple)
_SHOWN = 160  # characters of a result that a sentence quotes
# Text that differs from JSON in its tuples, its quotes and these names alone.
_NEARLY_JSON = re.compile(r"(?:[][(), .0-9e-]++|'[a-z_ ]*+'|None|True|False)*+")
_AS_JSON = {"'": '"', ",)": ',","]}', ")": "]}", "(": '{"":[', "None": "null", "True": "true", "False": "false"}


def plain_exercise(task_file, *, cases, form, outcome, say, mistakes=(), explain=None, normal=None):
    """The Exercise of a folder whose answer maps plain data to plain data.

    Parameters
    ----------
    task_file : str, ``__file__`` of the task.py that calls
    cases : dict, name -> callable (random.Random) -> list of calls, each a tuple of arguments as JSON has them
    form : of one result: a type, ``int | None``, ``[form]`` for a list or tuple of any length, ``(form, form)`` for one
        of this length
    outcome : callable, (*call, **options) -> the right result; `options` make it a mistake
    say : callable, (call, got, right) -> the facts, one or two sentences; `got` is what the answer returned
    mistakes : rows (code, words, options, or a callable (*call) -> result); "It is what comes when" goes before words
    explain : callable, (call, got as it is compared) -> (code, words) or None, for a result that no mistake gives
    normal : callable, (call, got) -> got as it is compared, where several results are right
    """

    subject = _Subject(form, outcome, say, mistakes, explain, normal or (lambda call, got: got))
    return exercise(
        task_file,
        cases=tuple(Case(name, {}, "plain data", "plain data", {"make": make}) for name, make in cases.items()),
        make_inputs=_inputs,
        make_run=lambda case, tensors: Run(case.name, {}, {"text": ((-1,), "uint8")}, (tensors["calls"],)),
        accept=subject.accept,
        diagnose=subject.diagnose,
    )


def _inputs(case, gen):
    rng = random.Random(int(torch.randint(2**31, (1,), generator=gen)))
    return {"calls": [list(call) for call in case.options["make"](rng)]}


@dataclass(frozen=True)
class _Subject:
    """What is right, and how to say what is not; see plain_exercise."""

    form: Any
    outcome: Callable
    say: Callable
    mistakes: tuple
    explain: Callable | None
    normal: Callable

    def accept(self, case, tensors, outputs):
        """Diagnosis of the results of one case by themselves, or None."""
        results = read(outputs["text"])
        if isinstance(results, Diagnosis):
            return results
        return _misfit(case, tensors["calls"], results, self.form) or self._wrong(case, tensors["calls"], results)

    def _wrong(self, case, calls, results):
        smallest = self._smallest_wrong(self._compared(calls, results))
        if smallest is None:
            return None
        call, got, compared = smallest
        right = self.outcome(*call)
        code, words = (self.explain and self.explain(call, compared)) or ("wrong_result", "")
        return Diagnosis(code, f"Case {case.name!r}: {self.say(call, got, right)} {words}".strip())

    def diagnose(self, evidence):
        """Diagnosis of the results of all cases together, or None."""
        unread = [one.refusal for one in evidence.cases if one.refusal and one.refusal.code == "wrong_return"]
        if unread or not all(one.ran for one in evidence.cases):
            return unread[0] if unread else None
        cases = [self._compared(one.inputs["calls"], read(one.first.outputs["text"])) for one in evidence.cases]
        wrong_first = sorted(sum(cases, []), key=lambda one: same(one[2], self.outcome(*one[0])))
        for code, words, mistake in self.mistakes:
            if all(self._gives(mistake, call, compared) for call, _, compared in wrong_first):
                call, got, _ = next(filter(None, map(self._smallest_wrong, cases)))
                return Diagnosis(code, f"{self.say(call, got, self.outcome(*call))} It is what comes when {words}.")
        return None

    def _compared(self, calls, results):
        """[(call, result, result as it is compared), …] of a case."""
        return [(call, got, self.normal(call, got)) for call, got in zip(calls, results, strict=True)]

    def _smallest_wrong(self, results):
        wrong = [one for one in results if not same(one[2], self.outcome(*one[0]))]
        return min(wrong, key=lambda one: len(repr(one[0])), default=None)

    def _gives(self, mistake, call, got):
        try:
            result = mistake(*call) if callable(mistake) else self.outcome(*call, **mistake)
        except (ArithmeticError, LookupError, ValueError):
            return False
        return same(result, got)


def read(text):
    """The results of a case, from their text as bytes; a Diagnosis when it is no plain data."""
    return _literal(bytes(text.tolist()))


@functools.lru_cache(maxsize=64)  # the cases of an answer are read twice
def _literal(text):
    words = text.decode(errors="replace")
    try:
        return literal(words)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return Diagnosis(
            "wrong_return",
            f"A result is no plain data: {_short(words)}. Return numbers, text, None, and tuples or lists of them; a "
            "number of torch or numpy becomes one with int(x).",
        )


def literal(words):
    """As ast.literal_eval, which takes ten times as long: usual results are read as JSON, with tuples as objects."""
    if not _NEARLY_JSON.fullmatch(words):
        return ast.literal_eval(words)
    as_json = words
    for python, its_json in _AS_JSON.items():
        as_json = as_json.replace(python, its_json)
    try:
        return json.loads(as_json, object_hook=_tuple)
    except (ValueError, RecursionError):
        return ast.literal_eval(words)


def _tuple(found):
    """The tuple of an object that `literal` made; (1) is none, and (1,) ends with ","."""
    parts = found[""]
    if parts[-1:] == [","]:
        parts.pop()
    elif len(parts) == 1:
        raise ValueError("parentheses around one value")
    return tuple(parts)


def same(one, other):
    """Whether two results are equal: a list equals a tuple, and a number one of its own type alone."""
    if isinstance(one, _LISTS):
        return isinstance(other, _LISTS) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def _misfit(case, calls, results, form):
    """Diagnosis of the first result that has not the form, or None."""
    if not isinstance(results, list | tuple) or len(results) != len(calls):
        return Diagnosis("wrong_return", f"Case {case.name!r}: expected a result for each of {len(calls)} calls.")
    for got in results:
        part = misfit(got, form)
        if part is not None:
            words = f"Case {case.name!r}: the result {_short(repr(got))} has another form: {part}."
            return Diagnosis("wrong_return", words)
    return None


def misfit(value, form):
    """What of a value has not the form, in words, or None."""
    if isinstance(form, _LISTS):
        wanted = "a list or tuple" if isinstance(form, list) else f"{len(form)} values"
        if not isinstance(value, _LISTS) or isinstance(form, tuple) and len(value) != len(form):
            return f"expected {wanted}, not {_short(repr(value))}"
        parts = form * len(value) if isinstance(form, list) else form
        return next((found for pair in zip(value, parts, strict=True) if (found := misfit(*pair))), None)
    types = form.__args__ if isinstance(form, UnionType) else (form,)
    if type(value) in types:
        return None
    return f"expected {' or '.join(_WORDS[one] for one in types)}, not {_short(repr(value))}"


def _short(words):
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …"
