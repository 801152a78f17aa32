"""The five claims of README.md: one number each, read from the stored rows, with a link to the page that has the rest.

May import: measure, evidence, speed.
"""

from pathlib import Path

from ...measure import read_results
from .evidence import KILLS, kill_counts
from .speed import device_words, rungs

DEVICE = "h200"
_RUNG = {"direction": "forward", "head_dim": 128, "seq_len": 16384, "causal": 1, "language": "cuda"}
_RUNG_WORDS = f"causal, at {_RUNG['seq_len']:,} tokens ([results](docs/results.md))"


def claims(root):
    """The claims as a list; one whose rows are missing is left out."""
    makers = (_judge, _counters, _machine, _flash_attention_3, _serving)
    made = [make(Path(root)) for make in makers]
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


def _flash_attention_3(root):
    row = _last_rung(root, "flash_attention_3", "flash_attention_3")
    return row and (
        "**The kernels are fast.** The last rung of FlashAttention-3 reaches "
        f"**{row['ratio_to_sdpa_cudnn']:.2f} times** the speed of PyTorch's cuDNN backend, {_RUNG_WORDS}."
    )


def _last_rung(root, family, results):
    """The stored row of a family's last kernel file that has one, or None."""
    rows = [row for stem in rungs(root, family) for row in _rows(root, results, variant=f"{family}/{stem}", **_RUNG)]
    return rows[-1] if rows else None


def _serving(root):
    """The engine of chapter 14 beside nano-vllm; "" without rows of both."""
    rows = _rows(root, "serving", scenario="offline", model="qwen3-0.6b-shape")
    found = {row["variant"]: row["tokens_per_s"] for row in rows}
    if not {"course", "nano_vllm_flashinfer"} <= found.keys():
        return ""
    ratio = found["course"] / found["nano_vllm_flashinfer"]
    return (
        f"**They add up to a server.** The serving engine makes **{ratio:.2f} times** as many tokens a second as "
        "nano-vllm on FlashInfer's kernels, with a model of 0.6 billion weights, 256 requests at once "
        "([results](docs/results.md))."
    )
