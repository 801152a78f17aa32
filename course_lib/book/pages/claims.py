"""The claims of README.md: one number each, read from the stored rows, with a link to the page that has the rest.

May import: measure, evidence, speed.
"""

from pathlib import Path

from ...measure import read_results
from .evidence import KILLS, kill_counts
from .speed import device_words, rungs

DEVICE = "h200"


def claims(root):
    """The claims as a list; one whose rows are missing is left out."""
    made = [make(Path(root)) for make in (_judge, _counters, _machine, _ladder, _decode)]
    return "\n".join(f"- {claim}" for claim in made if claim)


def _rows(root, family, device=DEVICE, **where):
    return read_results(device, family, root=root / "benchmarks" / "results").where(**where).rows


def _judge(root):
    path = root / "benchmarks" / "results" / KILLS[0] / f"{KILLS[1]}.csv"
    if not path.is_file():
        return ""
    killed, wrong, _, _ = kill_counts(path)[1]
    return (
        f"**The judge is tested.** **{killed:,} of {wrong:,}** known wrong answers fail, each with its own diagnosis "
        "([kill table](docs/grader.md))."
    )


def _counters(root):
    rows = _rows(root, "counters")
    if not rows:
        return ""
    equal = sum(row["as_written"] == row["measured"] for row in rows)
    return (
        f"**The counters are those of a GPU.** **{100 * equal / len(rows):.0f} %** of {len(rows):,} readings of Nsight "
        f"Compute on {device_words(DEVICE)} equal what the machine counts on a CPU; the rest are listed with their "
        "reasons ([counters](docs/machine.md))."
    )


def _machine(root):
    rows = [row for row in _rows(root, "simt_speed", "cpu") if row["engine"].startswith("simt fast")]
    if not rows:
        return ""
    return (
        "**A laptop is enough.** A softmax in CUDA runs at least "
        f"**{min(row['times_numba'] for row in rows):,.0f} times** as fast as in Numba's simulator "
        "([engines](docs/machine.md))."
    )


def _ladder(root):
    case = {"direction": "forward", "head_dim": 128, "seq_len": 16384, "causal": 1, "language": "cuda"}
    flash = _last_rung(root, "flash_attention_2", "flash_attention", case)
    cudnn = _last_rung(root, "flash_attention_3", "flash_attention_3", case)
    said = []
    if flash:
        said.append(
            "The last rung of FlashAttention-2 in CUDA reaches "
            f"**{flash['ratio_to_sdpa_flash']:.2f} times** the speed of PyTorch's flash backend"
        )
    if cudnn:
        said.append(
            f"{'that' if said else 'The last rung'} of FlashAttention-3 "
            f"**{cudnn['ratio_to_sdpa_cudnn']:.2f} times** that of its cuDNN backend"
        )
    if not said:
        return ""
    return (
        f"**The kernels are fast.** {', and '.join(said)}, causal, at {case['seq_len']:,} tokens "
        "([results](docs/results.md))."
    )


def _last_rung(root, family, results, case):
    """The stored row of a family's last kernel file that has one, or None."""
    rows = [row for stem in rungs(root, family) for row in _rows(root, results, variant=f"{family}/{stem}", **case)]
    return rows[-1] if rows else None


def _decode(root):
    case = {"batch_size": 8, "num_heads": 32, "num_kv_heads": 8, "seq_len": 32768, "page_size": 16, "dtype": "bfloat16"}
    rows = _rows(root, "decode", variant="paged/04_paged_grouped", language="cuda", **case)
    if not rows:
        return ""
    return (
        f"**Decoding runs at the speed of memory.** Attention over pages, {case['batch_size']} sequences of "
        f"{case['seq_len']:,} tokens, reaches **{rows[0]['percent_of_ceiling']:.0f} %** of the speed of reading the "
        f"keys and values alone{_serving(root)} ([results](docs/results.md))."
    )


def _serving(root):
    """Half a sentence: the engine of chapter 14 beside the best peer of its run; "" without rows."""
    found = {row["variant"]: row for row in _rows(root, "serving", scenario="offline")}
    if not {"course", "nano_vllm_flashinfer"} <= found.keys():
        return ""
    ours, peer = (found[name]["tokens_per_s"] for name in ("course", "nano_vllm_flashinfer"))
    return (
        f"; the serving engine on top of it makes **{ours:,.0f} tokens a second** with a model of 0.6 billion weights, "
        f"**{ours / peer:.2f} times** nano-vllm on FlashInfer's kernels"
    )
