"""A ladder of kernels: stored rows of one rung, of all rungs and of their counters, by speaking names; small counts.

May import: results, tables, the standard library.
"""

import math

from .results import Results, spoken
from .tables import Table

_SM_REGISTERS, _SM_SHARED_BYTES, _BLOCK_SHARED_BYTES = 65_536, 233_472, 1024  # of an H100 or H200; the last: reserved
_COLUMNS = ("head_dim", "causal", "median_us", "tflops", "ratio_to_sdpa_flash")


def rung_table(stored, variant, seq_len=4096, dtype="bfloat16"):
    """A Table of one rung's forward rows in CUDA, both head widths, with and without the causal mask."""
    chosen = {"language": "cuda", "direction": "forward", "dtype": dtype, "seq_len": seq_len}
    rows = stored.where(variant=variant, **chosen)
    table = rows.table(*_COLUMNS) if rows else rows.table()
    return Table(table.columns, table.rows, caption=f"{spoken(variant)}, {stored.device.upper()}, {seq_len:,} tokens")


def gain_table(stored, new, old, lengths=(1024, 2048, 4096, 8192, 16384)):
    """A Table: how many times as fast one rung is as another, by length, with 16,384 tokens in total.

    Parameters
    ----------
    stored : Results of one data type, forward
    new, old : str, as in the column "variant"
    lengths : sequence of int; the last column is the rate at the longest

    Returns
    -------
    Table of both head widths, with and without the causal mask
    """

    def rows_of(name):
        return {
            (row["head_dim"], row["causal"], row["seq_len"]): row
            for row in stored.where(variant=name, language="cuda").rows
        }

    before, after = rows_of(old), rows_of(new)
    rows = []
    for head_dim, causal in ((128, 0), (128, 1), (64, 0), (64, 1)):
        sizes = [(head_dim, causal, length) for length in lengths]
        times = (f"{before[size]['median_us'] / after[size]['median_us']:.2f}" for size in sizes)
        rows.append((head_dim, "causal" if causal else "full", *times, f"{after[sizes[-1]]['tflops']:.0f}"))
    columns = ("d", "mask", *(f"N = {length:,}" for length in lengths), "TFLOP/s, longest")
    return Table(columns, tuple(rows), caption=f"{spoken(new)}: times as fast as {spoken(old)}")


def load_counts(launches):
    """A Table of what the SIMT machine counts of launches: global loads, reads of shared memory, their bytes.

    Parameters
    ----------
    launches : dict, title -> launch with `profile`
    """
    rows = []
    for title, launch in launches.items():
        report = launch.profile()
        loads, reads = report.global_load, report.shared_load
        rows.append((title, loads.requests, loads.bytes, reads.requests, reads.bytes))
    return Table(("rung", "global loads", "bytes", "reads of shared memory", "bytes read there"), tuple(rows))


def counter_table(stored, variants, *columns, **where):
    """A Table of counters, a row for each of `variants` by its speaking name.

    Parameters
    ----------
    stored : Results with a column "variant"
    variants : sequence of str
    columns : str, counters
    where : values that the rows must have, e.g. head_dim=128
    """
    rows = [row | {"variant": spoken(name)} for name in variants for row in stored.where(variant=name, **where).rows]
    return Results(stored.device, stored.family, tuple(rows)).table("variant", *columns)


def ladder_rates(stored, chosen, **where):
    """{title: TFLOP/s or None} of a ladder for a chart.

    Parameters
    ----------
    stored : Results with the columns "variant", "language" and "tflops"
    chosen : dict, title -> (variant, language)
    where : values that the rows must have
    """
    rates = {(row["variant"], row["language"]): row["tflops"] for row in stored.where(**where).rows}
    return {title: rates.get(key) for title, key in chosen.items()}


def instruction_table(launches, architecture="sm_90"):
    """A Table of what the compiler made of some launches: registers, blocks on an SM, HMMA and other instructions.

    Parameters
    ----------
    launches : dict, title -> launch with `function`, `block` and `shared_bytes`
    architecture : str; the blocks are those of an H100 or H200
    """
    rows = []
    for title, launch in launches.items():
        compiled = launch.function.as_compiled(architecture)
        words = (line.split() for line in compiled.machine_instructions())
        codes = [line[line[0].startswith("@")].split(".")[0] for line in words]
        products = codes.count("HMMA")
        by_registers = _SM_REGISTERS // (compiled.registers * launch.block)
        blocks = min(by_registers, _SM_SHARED_BYTES // (launch.shared_bytes + _BLOCK_SHARED_BYTES))
        others = round((len(codes) - products) / products, 2)
        rows.append((title, compiled.registers, compiled.spill_bytes, launch.shared_bytes, blocks, products, others))
    columns = ("rung", "registers", "spilled bytes", "shared bytes", "blocks an SM", "HMMA", "others for an HMMA")
    return Table(columns, tuple(rows))


def keys_read(num_q, num_kv, block_m, block_n, causal):
    """Rows of k that all Q tiles of a head read together, the mask aligned to the bottom right."""
    total = 0
    for q_start in range(0, num_q, block_m):
        last_row = min(q_start + block_m, num_q) - 1
        end = min(last_row + num_kv - num_q + 1, num_kv) if causal else num_kv
        total += min(max(math.ceil(end / block_n), 0) * block_n, num_kv)
    return total


def outside_products(num_keys, block_n, head_dim, *, unnormalised):
    """Multiplications and divisions of one row besides its products and exponentials.

    Each tile multiplies l and the head_dim numbers of out or acc; out is divided in every tile, acc once.
    """
    tiles = math.ceil(num_keys / block_n)
    return tiles * (1 + head_dim) + (head_dim if unnormalised else tiles * head_dim)
