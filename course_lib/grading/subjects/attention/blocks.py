"""Whole attention in one kernel, a block for each query row: cases, inputs and launch.

May import: spec, protocol, cases.
"""

import torch

from ...exercise.spec import Case
from ...processes.protocol import Ref, Run
from .cases import qkv, scale_of

BLOCK = 64  # threads of a block while these exercises are graded, but for the cases that have options["block"]
SIZES = ("batch_size", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "head_dim")


def case(name, sizes, values="normal", schedules=(), **options):
    """A case of (batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim)."""
    return Case(name, dict(zip(SIZES, sizes, strict=True)), values, options=options, schedules=schedules)


def inputs(case, gen):
    """{"q", "k", "v"}, float32; with options["v"] = "head_numbers" v holds the number of its head, from 1 on.

    With options["every"] q is 0 but in every such column and the last, and q and k are multiples of 1/4: no order of
    the sum over the columns rounds, however many there are.
    """
    batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim = (case.sizes[key] for key in SIZES)
    kv_shape = (batch_size, num_kv_heads, seq_len_kv, head_dim)
    numbered = case.options.get("v") == "head_numbers"
    plain = Case(case.name, case.sizes, case.values, options={**case.options, "v": "ones"}) if numbered else case
    tensors = qkv(plain, gen, (batch_size, num_heads, seq_len_q, head_dim), kv_shape)
    if case.options.get("k") == "head_numbers":
        numbers = torch.arange(1.0, batch_size * num_kv_heads + 1).reshape(batch_size, num_kv_heads, 1, 1)
        tensors["q"][..., -1] = 1.0 / scale_of(case, head_dim)
        tensors["k"] = tensors["k"] * 0.0 + numbers
    if "every" in case.options:
        columns = torch.arange(head_dim)
        tensors["q"][..., (columns % case.options["every"] != 0) & (columns != head_dim - 1)] = 0.0
        tensors |= {name: (4.0 * tensors[name]).round() / 4.0 for name in ("q", "k")}
    if numbered:
        numbers = torch.arange(1.0, batch_size * num_kv_heads + 1).reshape(batch_size, num_kv_heads, 1, 1)
        tensors["v"] = tensors["v"] * numbers
    return tensors


def launch(case, tensors, outputs, sizes, *more, shared_bytes=0):
    """The run of one block for each query row: grid (seq_len_q, num_heads, batch_size)."""
    batch_size, num_heads, seq_len_q, _ = tensors["q"].shape
    arguments = (
        *map(Ref, ("q", "k", "v")),
        *map(Ref, outputs),
        *(case.sizes[key] for key in sizes),
        scale_of(case, case.sizes["head_dim"]),
    )
    threads = case.options.get("block", BLOCK)
    return Run(
        case.name, tensors, {name: (shape, "float32") for name, shape in outputs.items()}, (*arguments, *more),
        grid=(seq_len_q, num_heads, batch_size), block=(threads, 1, 1), shared_bytes=shared_bytes,
        constants={"BLOCK": threads},
    )  # fmt: skip
