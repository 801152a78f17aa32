"""Probes of decode attention over splits: runs whose right answer is a number that the learner can read.

With q = 0 and v = 1, 2, 3, … a split's exp(lse) counts its keys and its out is their mean number, so the two name the
first key and how many.

May import: spec, probes.
"""

import math

from ...exercise import probes
from ...exercise.spec import Probe

TILE = 16  # keys of a whole split in most probes, and of a tile
OTHER_SCALE = 0.5  # no 1 / sqrt(head_dim) of the exercises
K_LEVEL = 4.0  # the mean of k's first column in "unity", about: far from 0, where half precision rounds too much
OUT, LSE = "partial_out", "partial_lse"


def split_probes(make, counted, *, out=OUT, lse=LSE):
    """Probes for one query a head; the first split, or the whole sequence, has TILE keys where nothing else is said.

    Parameters
    ----------
    make : callable, (name, heads, seq_len_kv, capacity, values, **options) -> Case in which one split holds all keys
    counted : Case with values "zeros", v="key_numbers" and tail="kept"; its windows are what `diagnose_splits` gets
    """
    one, half = (1, 1, 1), {"values": "step", "v": "halves", "at": TILE // 2}
    unity, ramp = (make_probe({"seq_len_kv": TILE}, output=out) for make_probe in (probes.unity, probes.ramp))
    down = make("down", one, TILE, TILE, **half, reversed=True)
    tiles = make("tiles", one, 2 * TILE, 2 * TILE, "step", v="halves", at=TILE)
    heads = make("head map", (2, 4, 2), TILE, TILE + 4, "zeros", v="head_numbers", tail="kept")
    return (
        Probe("unity", make("unity", one, TILE, TILE, "step", v="ones", at=TILE // 2, k_level=K_LEVEL), unity.read),
        Probe("ramp", make("ramp", one, TILE, TILE, **half), ramp.read),
        Probe("down", down, lambda _inputs, outputs: _row(outputs[out])[:2]),
        Probe("columns", make("columns", one, TILE, TILE, **half), _columns(out)),
        Probe("tiles", tiles, lambda _inputs, outputs: _row(outputs[out])[:2]),
        Probe("one score", make("one score", one, 1, 1, "ones"), lambda _inputs, outputs: _first(outputs[lse])),
        Probe("head map", heads, _heads(out)),
        Probe("other scale", make("other scale", one, TILE, TILE, **half, scale=OTHER_SCALE), _scaled(ramp.read)),
        Probe("keys", counted, _keys(out, lse)),
    )


def _scaled(read):
    return lambda inputs, outputs: read(inputs, outputs) | {"scale": OTHER_SCALE}


def _first(tensor):
    return tensor.double().flatten()[0].item()


def _row(tensor):
    return tensor.double().reshape(-1, tensor.shape[-1])[0].tolist()


def _columns(out):
    """The even columns of a row; all must hold the same number, whichever lane computed it."""
    return lambda _inputs, outputs: _row(outputs[out])[::2]


def _heads(out):
    def read(inputs, outputs):
        got = outputs[out].double()
        got = got.reshape(-1, *got.shape[-3:])[0, :, :, 0]  # of the first split
        return {"num_kv_heads": inputs["k"].shape[1], "got": got.tolist()}

    return read


def _keys(out, lse):
    """[batch entry][split] -> (first key, count), from query head 0; [1] of the pair is the same from the last head."""

    def read(_inputs, outputs):
        mean, counts = outputs[out].double()[..., 0], outputs[lse].double()
        if counts.dim() == 2:  # no splits: one for all
            mean, counts = mean[None], counts[None]
        windows = []
        for head in (0, -1):
            pairs = zip(mean[:, :, head].T.tolist(), counts[:, :, head].T.tolist(), strict=True)
            windows.append([[_window(*both) for both in zip(*row, strict=True)] for row in pairs])
        return windows

    return read


def _window(mean, lse):
    """(first key, count) of a split with this mean key number and log-sum-exp; count 0 when it saw none."""
    if lse == -math.inf:
        return mean - 1.0, 0.0
    if not (math.isfinite(lse) and lse < 80.0 and math.isfinite(mean)):
        return math.nan, math.nan
    count = math.exp(lse)
    return mean - 1.0 - (count - 1.0) / 2.0, count
