"""Stored times of the attention engine beside its peers, as tables of chapter 11.

May import: results, tables.
"""

from .results import read_results
from .tables import Table

MIXES = {  # name -> what it is
    "decode": "64 decode steps, 4,096 keys each",
    "decode_skewed": "128 decode steps, 512 to 65,536 keys",
    "prefill": "4 prompts of 4,096",
    "chunked": "4 chunks of 512, 100 decode steps",
    "append": "8 times 17 tokens, 100 decode steps",
    "one_long": "1 decode step of 131,072 keys, 63 of 512",
    "shared_prefix": "64 decode steps that share 8,192 keys",
    "window": "17 requests, the last 4,096 of 32,768 keys",
}
MODS = {"window": "a window of 4,096", "soft_cap": "a soft cap of 30", "alibi": "ALiBi"}
MOD_SHAPES = {"decode": "16 decode steps", "append": "1,024 new tokens"}
ENGINES = ("engine", "engine_wgmma")


def _microseconds(device, family, **load):
    """{variant: microseconds} of the stored rows of one load; a variant without a time is left out."""
    rows = read_results(device, family).where(**load).rows
    return {row["variant"]: row["median_us"] for row in rows if row["median_us"]}


def mixes_table(device="h200"):
    """A Table of the engine with both kinds of products and the fastest peer, by mix."""
    lines = []
    for mix, words in MIXES.items():
        us = _microseconds(device, "engine", mix=mix)
        peers = {name: time for name, time in us.items() if not name.startswith("engine")}
        best = min(peers, key=peers.get, default=None)
        ratios = (None if best is None or name not in us else peers[best] / us[name] for name in ENGINES)
        lines.append((words, us.get("engine"), best and best.replace("_", " "), peers.get(best), *ratios))
    return Table(("mix", "engine, us", "fastest peer", "us", "times as fast", "with wgmma"), tuple(lines))


def shares(device="h200"):
    """How fast the engine is, in per cent of the fastest peer, by mix; None where nothing is stored."""
    return {row[0]: None if row[4] is None else 100 * row[4] for row in mixes_table(device).rows}


def determinism_table(device="h200"):
    """A Table of the balanced mode and the one whose bits do not depend on the batch, by mix."""
    lines = []
    for mix, words in MIXES.items():
        us = _microseconds(device, "engine", mix=mix)
        both = [us.get(name) for name in ("engine", "engine_deterministic")]
        lines.append((words, *both, None if None in both else both[1] / both[0]))
    return Table(("mix", "balanced, us", "deterministic, us", "times as long"), tuple(lines))


def mods_table(device="h200"):
    """A Table of what may happen to a score, the engine's time beside each peer's; a dash where none is stored."""
    peers = ("flashinfer_prefill_fa2", "flashinfer_prefill_fa3", "flex_attention")
    lines = []
    for mod, words in MODS.items():
        for shape, what in MOD_SHAPES.items():
            us = _microseconds(device, "score_mods", mod=mod, shape=shape)
            best = min((us[name] for name in peers if name in us), default=None)
            ratio = best / us["engine"] if best and "engine" in us else None
            lines.append((words, what, us.get("engine"), *(us.get(name) for name in peers), ratio))
    names = (name.replace("_prefill_", " ").replace("_", " ") for name in peers)
    return Table(("score", "32,768 keys a request", "engine, us", *names, "times as fast as the best"), tuple(lines))
