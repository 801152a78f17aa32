"""Stored times of the kernels around attention: norms, rotary positions, gates, cross-entropy, sampling; a line a load.

May import: results, tables.
"""

from .results import read_results
from .tables import Table

FAMILIES = {  # results file -> the columns that name a load, beside the operation
    "norm": ("op", "num_rows", "num_cols"),
    "activation": ("op", "num_rows", "num_cols"),
    "rope": ("style", "num_tokens", "rotary_dim"),
    "cross_entropy": ("op", "num_rows", "num_cols"),
    "sampling": ("filter", "num_rows", "num_cols", "dtype"),
}
_PEERS = {"torch.compile": "torch.compile", "flashinfer": "FlashInfer", "liger": "Liger"}
_ORDER = ("copy", "CUDA", "Triton", "torch", *_PEERS.values())


def layer_table(family, operations, *, column="median_us", least_megabytes=0, device="h200"):
    """A Table of stored times, a row a load: a copy of as many bytes, ours, torch's operators, and peers.

    Parameters
    ----------
    family : str, a key of FAMILIES
    operations : tuple of str, values of the first column of the family
    column : str, which number: "median_us", "copy_percent", "peak_megabytes"
    least_megabytes : loads that move fewer are left out

    Returns
    -------
    Table; one sentence where nothing is stored, a dash where one number is not
    """
    stored, keys = read_results(device, family), FAMILIES[family]
    loads, present = {}, set()
    for row in stored.rows:
        if row[keys[0]] in operations and (row.get("megabytes") or 0) >= least_megabytes:
            name = _column(row)
            loads.setdefault(tuple(row[key] for key in keys), {})[name] = row.get(column)
            present.add(name)
    if not loads:
        return Table(("stored results",), ((stored.missing(),),))
    columns = [name for name in _ORDER if name in present]
    rows = tuple((*load, *(values.get(name) for name in columns)) for load, values in loads.items())
    return Table((*keys, *columns), rows, note=f"{column}, NVIDIA {device.upper()}, {stored.rows[0]['date']}")


def _column(row):
    """The table's column of a stored row: "CUDA", "Triton", "torch" or a peer's name."""
    if row["variant"] == "copy":
        return "copy"
    ours = {"cuda": "CUDA", "triton": "Triton", "torch": "torch"}
    return ours.get(row["language"]) or _PEERS.get(row["variant"], row["variant"])


# (reads, writes) of one token in a decoder block, in rows of each step's tensor: hidden, q and k, inner
TRIPS = {
    "one operator after the other": {"add": (4, 2), "norm": (8, 6), "rope": (5.5, 4.5), "gate": (3, 2)},
    "one kernel each": {"add": (4, 2), "norm": (2, 2), "rope": (1, 1), "gate": (2, 1)},
    "add and norm in one": {"add": (0, 0), "norm": (4, 4), "rope": (1, 1), "gate": (2, 1)},
}


def block_bytes(hidden, heads, kv_heads, head_dim, inner, itemsize=2):
    """Bytes that a token moves in the small steps of a decoder block, for the variants of TRIPS.

    Returns
    -------
    dict, variant -> dict, step -> (bytes read, bytes written)
    """
    widths = {"add": hidden, "norm": hidden, "rope": (heads + kv_heads) * head_dim, "gate": inner}
    return {
        variant: {step: tuple(int(n * widths[step] * itemsize) for n in counts) for step, counts in trips.items()}
        for variant, trips in TRIPS.items()
    }
