"""11.2 The work list of a ragged batch: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from .diagnostics import Batch, first_mistake

SIZES = ("group", "block_rows", "chunk_keys")

# case -> (new tokens, cached keys) of each request
REQUESTS = {
    "one token, one key": [(1, 0)],
    "the batch of the prediction": [(1, 99), (10, 30)],
    "no request": [],
    "decode of three": [(1, 5), (1, 0), (1, 31)],
    "prefill of exactly two tiles": [(8, 0)],
    "requests without tokens": [(0, 9), (3, 4), (0, 0), (0, 20), (2, 0), (0, 1)],
    "a group that does not divide a block": [(7, 12), (11, 3), (1, 40)],
    "a token fills a block": [(3, 20), (2, 0)],
    "a tile wider than a chunk": [(40, 0), (33, 5)],
    "one chunk exactly, one key more": [(1, 31), (1, 32), (2, 30), (2, 31)],
    "prefill beside decode": [(50, 200), (1, 700), (1, 3), (20, 0), (1, 255)],
    "chunks of one key": [(2, 3), (1, 5)],
    "one long request": [(1, 20_000), (1, 10)],
    "tiles of 512 tokens": [(700, 3397)],
}


def _case(name, group, block_rows, chunk_keys, num_requests=None):
    sizes = {"num_requests": num_requests or len(REQUESTS[name])}
    sizes |= dict(zip(SIZES, (group, block_rows, chunk_keys), strict=True))
    return Case(name, sizes, "drawn" if num_requests else "given", "whole numbers")


def _inputs(case, gen):
    """{"cu_seqlens_q": (num_requests + 1,), "seq_lens": (num_requests,)}, int64."""
    if case.values == "given":
        lengths = torch.tensor(REQUESTS[case.name], dtype=torch.int64).reshape(-1, 2)
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
        _case("one token, one key", 1, 16, 32),
        _case("no request", 2, 16, 32),
        _case("decode of three", 8, 128, 64),
        _case("prefill of exactly two tiles", 4, 16, 32),
        _case("the batch of the prediction", 4, 16, 32),
        _case("requests without tokens", 2, 8, 16),
        _case("a group that does not divide a block", 5, 32, 16),
        _case("a token fills a block", 16, 16, 7),
        _case("a tile wider than a chunk", 1, 32, 7),
        _case("one chunk exactly, one key more", 3, 16, 32),
        _case("chunks of one key", 7, 8, 1),
        _case("prefill beside decode", 4, 128, 256),
        _case("one long request", 8, 128, 256),
        _case("tiles of 512 tokens", 1, 512, 4096),
        _case("drawn, groups of 4", 4, 128, 64, 12),
        _case("drawn, groups of 7", 7, 128, 256, 9),
        _case("drawn, groups of 1", 1, 8, 16, 6),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=_accept,
)
