"""Stored times of decode attention, dense and over pages, and the tables and series of the lectures that compare them.

Each is microseconds of one launch on the named card; a row that is not stored is None, and a dash in a table.
May import: device, ladder, results, tables.
"""

from ..device import KNOWN_GPUS
from .ladder import spoken
from .results import read_results
from .tables import Table

SPLIT_LOADS = ((1, 4096), (1, 32768), (8, 4096), (8, 32768))  # sequences, tokens of each; 8 KV heads
LOADS = ((1, 4096, 8), (1, 32768, 8), (8, 4096, 8), (32, 4096, 8), (8, 32768, 8), (64, 8192, 8), (16, 4096, 32),
         (128, 1024, 8))  # fmt: skip  # sequences, tokens of each, KV heads; over pages
_PEERS = ("flashinfer_tensor_cores", "flashinfer")


def kv_bytes(tokens, num_kv_heads=8, head_dim=128, itemsize=2):
    """Bytes of the keys and values of so many tokens."""
    return 2 * tokens * num_kv_heads * head_dim * itemsize


def split_us(load, variant, language="cuda", device="h200"):
    """Microseconds of a decode kernel without pages, with the number of splits that the course chooses."""
    size = {"batch_size": load[0], "seq_len": load[1]}
    rows = read_results(device, "decode_splits").where(sweep="rungs", variant=variant, language=language, **size).rows
    return rows[0]["median_us"] if rows else None


def paged_us(load, variant, language="cuda", *, dtype="bfloat16", page_size=16, device="h200"):
    """Microseconds of a decode kernel over pages; `load` is (sequences, tokens of each) or with KV heads, else 8."""
    size = dict(zip(("batch_size", "seq_len", "num_kv_heads"), (*load, 8), strict=False))
    wanted = {"variant": variant, "language": language, "dtype": dtype, "page_size": page_size}
    rows = read_results(device, "decode").where(**size, **wanted).rows
    return rows[0]["median_us"] if rows else None


def ratio(over, under, factor=1):
    """factor * over / under, None where one of the two is not stored."""
    return None if over is None or under is None else factor * over / under


def reading_table(gpu="H200"):
    """A Table of a kernel that only reads K and V: what the memory rate promises, and what was measured."""
    card, rows = KNOWN_GPUS[gpu], []
    for row in read_results(gpu.lower(), "decode").where(variant="read_only", page_size=16).rows:
        moved = kv_bytes(row["batch_size"] * row["seq_len"], row["num_kv_heads"])
        size = (row["batch_size"], row["num_kv_heads"], row["seq_len"])
        rows.append((*size, moved / 1e6, moved / card.memory_gbps / 1e3, row["median_us"]))
    promised = f"us at {card.memory_gbps / 1e3:.2g} TB/s"
    return Table(("batch", "KV heads", "tokens each", "MB of K and V", promised, "us to read, measured"), tuple(rows))


def floor_table(variant, device="h200"):
    """A Table of one variant against a kernel that only reads, by load."""
    rows = []
    for load in sorted(SPLIT_LOADS):
        us, floor = split_us(load, variant, device=device), split_us(load, "read_only", device=device)
        rows.append((*load, us, floor, ratio(us, floor)))
    return Table(
        ("batch", "tokens each", f"{spoken(variant)}, us", "reading alone, us", "times the floor"), tuple(rows)
    )


def speedup_table(old, new, device="h200"):
    """A Table of two variants side by side, by load."""
    rows = []
    for load in sorted(SPLIT_LOADS):
        us = [split_us(load, variant, device=device) for variant in (old, new)]
        rows.append((*load, *us, ratio(*us)))
    return Table(("batch", "tokens each", f"{spoken(old)}, us", f"{spoken(new)}, us", "times as fast"), tuple(rows))


def graphs_table(device="h200"):
    """A Table of the attention of 32 layers, launched one by one and as a graph."""
    columns = ("seq_len", "mode", "num_launches", "host_us", "step_us", "device_us")
    rows = read_results(device, "decode_graphs").rows
    lines = tuple((spoken(row["variant"]), *(row[name] for name in columns)) for row in rows)
    return Table(("variant", *columns), lines)


def split_shares(load, variants, device="h200"):
    """Name -> % of the speed of reading alone, of CUDA variants, two Triton twins and torch's attention."""
    chosen = {spoken(variant): (variant, "cuda") for variant in variants}
    twins = [variant for variant in variants if variant in ("02_split_kv", "04_grouped_heads")]
    chosen |= {f"Triton, {spoken(variant)}": (variant, "triton") for variant in twins}
    chosen["SDPA (torch)"] = ("sdpa_dense", "torch")
    floor = split_us(load, "read_only", device=device)
    return {name: ratio(floor, split_us(load, *which, device=device), 100) for name, which in chosen.items()}


def shares_table(variants, device="h200"):
    """A Table of `split_shares` for all loads, one column each."""
    shares = {load: split_shares(load, variants, device) for load in sorted(SPLIT_LOADS)}
    names = next(iter(shares.values()))
    rows = tuple((name, *(each[name] for each in shares.values())) for name in names)
    return Table(
        ("kernel", *(f"{batch} x {tokens:,}" for batch, tokens in shares)), rows, "% of the speed of reading alone"
    )


def few_heads_table(loads, variants, device="h200"):
    """A Table of v1 and v2 against reading alone; with one variant its blocks, with two their ratio and the share."""
    rows = []
    for load in loads:
        times = [paged_us(load, variant, device=device) for variant in variants]
        floor = paged_us(load, "read_only", device=device)
        more = (ratio(times[0], times[1]), ratio(floor, times[1], 100)) if len(variants) > 1 else (floor,)
        first = () if len(variants) > 1 else (32 * load[0],)
        rows.append((*load, *first, *times, *more))
    names = tuple(f"{spoken(variant)}, us" for variant in variants)
    last = ("times as fast", "% of the speed of reading") if len(variants) > 1 else ("reading alone, us",)
    first = () if len(variants) > 1 else ("blocks",)
    return Table(("sequences", "tokens each", *first, *names, *last), tuple(rows))


def paged_table(page_size=16, device="h200"):
    """A Table of all decode kernels over pages, libraries and reading alone, one row a load."""

    def row(load):
        def us(variant, language="cuda"):
            return paged_us(load, variant, language, page_size=page_size, device=device)

        infer = min(filter(None, map(us, _PEERS)), default=None)
        ours = us("paged/02_paged_v1"), us("paged/03_paged_v2"), us("paged/04_paged_grouped")
        twin = us("paged/04_paged_grouped", "triton")
        return (*load, *ours, twin, infer, us("cudnn_paged"), us("sdpa_dense", "torch"), us("read_only"))

    head = ("seqs", "tokens", "KV heads", "v1", "v2", "grouped", "grouped, Triton")
    head += ("FlashInfer", "cuDNN", "SDPA, dense", "reading")
    caption = f"microseconds, bf16, 32 query heads of 128, pages of {page_size}"
    return Table(head, tuple(map(row, LOADS)), caption)


def paged_times(load, device="h200"):
    """Name -> microseconds of our kernels and libraries for one load, those that are stored."""
    chosen = {
        "v1": ("paged/02_paged_v1", "cuda"),
        "v2": ("paged/03_paged_v2", "cuda"),
        "grouped heads": ("paged/04_paged_grouped", "cuda"),
        "grouped heads, Triton": ("paged/04_paged_grouped", "triton"),
        "FlashInfer, tensor cores": ("flashinfer_tensor_cores", "cuda"),
        "FlashInfer": ("flashinfer", "cuda"),
        "cuDNN": ("cudnn_paged", "cuda"),
        "SDPA, dense": ("sdpa_dense", "torch"),
    }
    times = {name: paged_us(load, *which, device=device) for name, which in chosen.items()}
    return {name: us for name, us in times.items() if us is not None}


def byte_times(load, device="h200"):
    """Name -> microseconds with two bytes per number and with one, for one load."""
    return {
        "bf16": paged_us(load, "paged/04_paged_grouped", device=device),
        "int8": paged_us(load, "paged/06_quantised_kv", dtype="int8", device=device),
        "e4m3": paged_us(load, "paged/06_quantised_kv", dtype="float8_e4m3fn", device=device),
    }


def byte_gain_table(device="h200"):
    """A Table of one byte per number against bf16, one row a load."""
    rows = []
    for load in LOADS:
        us = byte_times(load, device)
        rows.append((*load, us["bf16"], ratio(us["bf16"], us["int8"]), ratio(us["bf16"], us["e4m3"])))
    head = ("sequences", "tokens each", "KV heads", "bf16, us", "int8: times as fast", "e4m3: times as fast")
    return Table(head, tuple(rows))


def prefill_table(device="h200"):
    """A Table of prefill over pages beside torch's dense flash kernel, TFLOP/s."""
    kernels = {"05": ("paged/05_paged_prefill", "cuda"), "Triton": ("paged/05_paged_prefill", "triton"),
               "09": ("paged/09_tuned_prefill", "cuda"), "SDPA": ("sdpa_flash", "torch")}  # fmt: skip
    speeds, stored = {}, read_results(device, "paged_prefill")
    for row in stored.rows:
        load = tuple(row[key] for key in ("batch_size", "seq_len_q", "seq_len_kv", "head_dim"))
        speeds.setdefault(load, {})[row["variant"], row["language"]] = row["tflops"]
    lines = tuple((*load, *map(rates.get, kernels.values())) for load, rates in speeds.items())
    head = ("sequences", "new tokens", "tokens", "head_dim")
    head += ("paged prefill", "paged prefill, Triton", "tuned prefill", "SDPA, dense")
    return Table(head, lines, caption="TFLOP/s, bf16, 32 query heads on 8") if stored else stored.table()


def page_size_pairs(variant, language="cuda", layout="NHD", order="random", device="h200"):
    """[(tokens in a page, % of the speed of reading)] of 32 sequences of 4,096 tokens."""
    wanted = {"variant": f"paged/{variant}", "language": language, "layout": layout, "order": order}
    return read_results(device, "page_sizes").where(**wanted).pairs("page_size", "percent_of_ceiling")


def page_order_table(variant, page_sizes, device="h200"):
    """A Table of % of the speed of reading by page size: random pages, pages in order, heads first."""
    ways = {"random pages": {}, "pages in order": {"order": "running"}, "random, heads first": {"layout": "HND"}}
    columns = [dict(page_size_pairs(variant, device=device, **way)) for way in ways.values()]
    rows = tuple((size, *(column.get(size) for column in columns)) for size in page_sizes)
    return Table(("tokens in a page", *ways), rows, caption=f"{spoken(variant)}: % of the speed of reading")
