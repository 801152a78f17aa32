"""What chapter 07's contracts say of reads, writes, products and shares, judged by the ledger.

May import: verdict, ledger, flash_attention.cases, flash_attention_2.cases.
"""

import math

from ...report.verdict import Diagnosis
from ..flash_attention.cases import BLOCK_M, BLOCK_N, itemsize
from ..ledger.dots import dots
from ..ledger.moved import moved
from ..ledger.share import share
from .cases import block_m_of, block_n_of, constexprs

TRITON_DTYPES = {"float32": "fp32", "float16": "fp16"}


def macs(case):
    """Multiply-adds of one product of all queries with all keys."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    return batch_size * num_heads * num_q * num_kv * head_dim


def forward_traffic(case, ledger):
    """Diagnosis or None: FlashAttention-2's forward pass of a Triton kernel without a mask."""
    return reads_once(case, ledger) or written_once(case, ledger) or products(case, ledger, 2 * macs(case))


def products(case, ledger, fewest, tiles=(BLOCK_M, BLOCK_N)):
    """Diagnosis or None: every product is tl.dot on tiles in the dtype of the inputs, added up in float32.

    `tiles` are (BLOCK_M, BLOCK_N) of a case that does not choose its own.
    """
    return dots(case, ledger, operands=TRITON_DTYPES[case.dtype], fewest=fewest) or _tiles(case, ledger, tiles)


def _tiles(case, ledger, tiles):
    """Diagnosis or None: no product is larger than one of BLOCK_M x BLOCK_N scores."""
    constants = constexprs(case, *tiles)
    largest = math.prod(constants[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_D"))
    found = [dot for dot in ledger["dots"] if math.prod(dot["shape"]) > largest]
    if not found:
        return None
    words = " x ".join(str(size) for size in found[0]["shape"])
    return Diagnosis(
        "tile_too_large",
        f"Every value is right, but in the case {case.name!r} BLOCK_M is {constants['BLOCK_M']} and BLOCK_N "
        f"{constants['BLOCK_N']}, and line {found[0]['line']} multiplies tiles of {words}: what a program holds at a "
        "time is for its caller to choose, by BLOCK_M and BLOCK_N.",
        found[0]["line"],
    )


def reads_once(case, ledger, unit="program"):
    """Diagnosis or None: q once, k and v once for each tile of queries. The excess says which was read again."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    rows = batch_size * num_heads * head_dim * itemsize(case)
    of_q, tiles = rows * num_q, -(-num_q // block_m_of(case))
    of_k, turns = rows * tiles * num_kv, -(-num_kv // block_n_of(case))
    read = ledger["global_load"]["bytes"]
    excess = read - of_q - 2 * of_k
    if excess <= 0:
        return None
    start = (
        f"Every value is right, but {read:,} bytes are read where {of_q + 2 * of_k:,} suffice (case {case.name!r}, "
        f"{tiles} tiles of queries, {turns} of keys)"
    )
    if turns > 1 and excess in (of_q * turns, of_q * (turns - 1)) and excess % of_k:
        return Diagnosis(
            "q_read_again", f"{start}: the excess is q, {excess // of_q} times more. Load it before the loop."
        )
    if excess % of_k == 0 and excess % of_q:
        times = excess // of_k
        return Diagnosis(
            "keys_read_again",
            f"{start}: the excess is {times} times what a {unit} reads of k, or of v. It reads each of their numbers "
            "once: m, l and acc are brought up to date in the same turn.",
        )
    return Diagnosis("extra_reads", f"{start}. A {unit} reads its tile of q once, and each number of k and v once.")


def written_once(case, ledger, block_m=BLOCK_M):
    """Diagnosis or None: each number of out and lse is written once, by the program of its tile."""
    batch_size, num_heads, _, num_q, _, head_dim = case.sizes.values()
    row_bytes = head_dim * itemsize(case) + 4
    most, why = batch_size * num_heads * num_q * row_bytes, "each number of out and lse is written once"
    own = block_m_of(case, block_m) * row_bytes
    said = f"the rows of one tile of {block_m_of(case, block_m)} queries"
    return moved(case, ledger, written=most, why=why) or share(case, ledger, stored=own, why=said, unit="program")
