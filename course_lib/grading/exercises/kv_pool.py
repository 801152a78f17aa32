"""The exercise of chapter 10 on copy-on-write: a page pool, judged by what its books say after every step of a trace.

May import: spec, protocol, verdict, torch, kv_traces, kv_readings.
"""

import torch

from ..exercise.spec import Case, Exercise
from ..processes.protocol import Ref, Run
from . import kv_traces as traces
from .kv_readings import first_mistake


def _case(name, num_pages=6, page_size=4, num_steps=None):
    sizes = {"num_pages": num_pages, "page_size": page_size}
    return Case(name, sizes, "a trace", "whole numbers", {"num_steps": num_steps})


def _inputs(case, gen):
    """{"trace": (num_steps, 3) int64}."""
    num_steps = case.options["num_steps"]
    steps = traces.random_trace(*case.sizes.values(), num_steps, gen) if num_steps else traces.FIXED[case.name]
    return {"trace": torch.tensor(steps, dtype=torch.int64)}


def _run(case, tensors):
    return Run(case.name, tensors, {"log": ((-1,), "int64")}, (Ref("trace"), *case.sizes.values()))


def _accept(case, tensors, outputs):
    return first_mistake(case.name, case.sizes, tensors["trace"].tolist(), outputs["log"].tolist())


POOL = Exercise(
    id="10.6",
    title="Copy-on-write",
    language="python",
    entry="replay",
    signature="replay(trace, num_pages, page_size) -> log, with your class PagePool",
    contract=(
        "PagePool.append(name, count) gives count >= 1 new tokens their slots, page * page_size + place in the page, "
        "and takes pages from free_pages only when a page is full. A last page that is not full and that others hold "
        "too is copied first: (from page, to page) in copies, and nothing else is ever copied. Fewer free pages than "
        "needed: raise OutOfPages with nothing changed. fork(name, child) shares all pages; free(name) gives back "
        "those that nobody else holds. holders[page] is the number of sequences that hold a page, 0 for a free one."
    ),
    size_lines=25,
    minutes=35,
    solution="solutions/answers/10_6.py",
    cases=(
        *(_case(name) for name in traces.FIXED),
        _case("random, pages of 4", 12, 4, 80),
        _case("random, pages of 1", 10, 1, 60),
        _case("random, a small pool", 5, 3, 80),
        _case("random, pages of 16", 40, 16, 150),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: {},
    baseline=lambda case, tensors: {},
    rules={},
    hints=(
        "Write append for a sequence that shares nothing. Then ask of the page that the first new token goes to: who "
        "else would see the write?",
        "Only the last page can be written while it is shared, and only when it is not full. The copy takes a free "
        "page as well: count all that you need before you take the first.",
        "shared = start % page_size > 0 and holders[pages[-1]] > 1; needed = ceil(end / page_size) - len(pages) + "
        "shared. After the copy the old page has one holder less. fork makes a list of its own and adds one holder a "
        "page.",
    ),
    explanation=(
        "A fork costs a list of numbers, whatever the length of the prompt; the copy is made when the first of them "
        "writes, one page of it, and the last holder writes in place. Checking before taking is what lets a scheduler "
        "try, fail and go on. The lecture's course_lib.kv is this pool with names, audits and prefixes shared in part."
    ),
    accept=_accept,
)
