"""11.2 The work list of a ragged batch: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from .diagnostics import Batch, first_mistake

SIZES = ("group", "block_rows", "chunk_keys")

# case -> ((new tokens, cached keys) of each request, (group, block_rows, chunk_keys))
GIVEN = {
    "one token, one key": ([(1, 0)], (1, 16, 32)),
    "no request": ([], (2, 16, 32)),
    "decode of three": ([(1, 5), (1, 0), (1, 31)], (8, 128, 64)),
    "prefill of exactly two tiles": ([(8, 0)], (4, 16, 32)),
    "the batch of the prediction": ([(1, 99), (10, 30)], (4, 16, 32)),
    "requests without tokens": ([(0, 9), (3, 4), (0, 0), (0, 20), (2, 0), (0, 1)], (2, 8, 16)),
    "a group that does not divide a block": ([(7, 12), (11, 3), (1, 40)], (5, 32, 16)),
    "a token fills a block": ([(3, 20), (2, 0)], (16, 16, 7)),
    "a tile wider than a chunk": ([(40, 0), (33, 5)], (1, 32, 7)),
    "one chunk exactly, one key more": ([(1, 31), (1, 32), (2, 30), (2, 31)], (3, 16, 32)),
    "chunks of one key": ([(2, 3), (1, 5)], (7, 8, 1)),
    "prefill beside decode": ([(50, 200), (1, 700), (1, 3), (20, 0), (1, 255)], (4, 128, 256)),
    "one long request": ([(1, 20_000), (1, 10)], (8, 128, 256)),
    "tiles of 512 tokens": ([(700, 3397)], (1, 512, 4096)),
}


def _case(name, num_requests, sizes, values):
    sizes = {"num_requests": num_requests} | dict(zip(SIZES, sizes, strict=True))
    return Case(name, sizes, values, "whole numbers")


def _given(name):
    requests, sizes = GIVEN[name]
    return _case(name, len(requests), sizes, "given")


def _drawn(name, *sizes, num_requests):
    return _case(name, num_requests, sizes, "drawn")


def _inputs(case, gen):
    """{"cu_seqlens_q": (num_requests + 1,), "seq_lens": (num_requests,)}, int64."""
    if case.values == "given":
        lengths = torch.tensor(GIVEN[case.name][0], dtype=torch.int64).reshape(-1, 2)
    else:
        lengths = (300.0 ** torch.rand(case.sizes["num_requests"], 2, generator=gen)).long()
        lengths[:, 0] *= torch.rand(len(lengths), generator=gen) > 0.2
    starts = torch.nn.functional.pad(lengths[:, 0].cumsum(0), (1, 0))
    return {"cu_seqlens_q": starts, "seq_lens": lengths.sum(1)}


def _run(case, tensors):
    outputs = {"items": ((-1, 6), "int64"), "token_parts": ((-1,), "int64")}
    arguments = (*map(Ref, tensors), *(case.sizes[name] for name in SIZES))
    return Run(case.name, tensors, outputs, arguments)


def _accept(case, tensors, outputs):
    lengths = (tensors[name].tolist() for name in ("cu_seqlens_q", "seq_lens"))
    batch = Batch(*lengths, *(case.sizes[name] for name in SIZES))
    items = [tuple(item) for item in outputs["items"].tolist()]
    return first_mistake(case.name, batch, items, outputs["token_parts"].tolist())


EXERCISE = exercise(
    __file__,
    cases=(
        *map(_given, GIVEN),
        _drawn("drawn, groups of 4", 4, 128, 64, num_requests=12),
        _drawn("drawn, groups of 7", 7, 128, 256, num_requests=9),
        _drawn("drawn, groups of 1", 1, 8, 16, num_requests=6),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=_accept,
)
