"""What compute-sanitizer says of FlashAttention-3 kernels with a planted mistake, beside what the SIMT machine says.

    python3 -m benchmarks.counters.sanitizer_of_mutants --out benchmarks/results/h200/sanitizer_of_mutants.csv

Each mistake is an edit of a rung that the SIMT machine names in every schedule (tests/simt/flash_attention_3_mutants.py
has them all). The kernel runs once under each tool: bfloat16, head_dim 64, 384 queries and keys of two heads. `says` is
the tool's own summary, and the first barrier error that it names. Errors of CUDA API calls do not count: the library
that makes tensor maps probes for functions, and the rung itself has as many.
"""

import argparse
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from benchmarks.harness.about import commit, versions
from benchmarks.harness.rows import stored

ROOT = Path(__file__).resolve().parents[2]
TOOL = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "synccheck")
COLUMNS = ("mutant", "variant", "tool", "version", "says")
LIMIT_S = 60
MUTANTS = {  # name -> (rung, statement that is taken out)
    "none: the rung itself": ("03_producer_consumer", ""),
    "no wait for K": (
        "03_producer_consumer",
        "mbarrier_wait_parity(&barriers.k_full[ring.stage], ring.parity);",
    ),
    "no wait for an empty K": (
        "03_producer_consumer",
        "mbarrier_wait_parity(&barriers.k_empty[ring.stage], ring.parity ^ 1);",
    ),
    "no proxy fence before the store": ("06_tuned", "fence_proxy_async(); "),
}
PROGRAM = """
import sys, torch
from course_lib import cuda
from course_lib.cuda.source import KERNELS_ROOT
from course_lib.ops import flash_attention_3 as ops

variant, taken_out = sys.argv[1:]
text = (KERNELS_ROOT / "flash_attention_3" / f"{variant}.cu").read_text(encoding="utf-8")
assert not taken_out or text.count(taken_out) == 1, text.count(taken_out)
q, k, v = (torch.randn(1, 2, 384, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
launch = ops.plan(q, k, v, variant=variant)
defines = {"HEAD_DIM": 64, "ELEMENT": "__nv_bfloat16", "BLOCK_N": 128}
text = text.replace(taken_out, "") if taken_out else text
kernel = cuda.compile(text, "flash_attention_3_kernel", defines=defines)
kernel(launch.grid, launch.block, *launch.arguments, shared_bytes=launch.shared_bytes)
torch.cuda.synchronize()
"""


def said(name, tool):
    """The row of one mutant under one tool."""
    variant, taken_out = MUTANTS[name]
    options = ["--report-api-errors", "no"] if tool == "memcheck" else []
    command = [TOOL, "--tool", tool, *options, sys.executable, "-c", PROGRAM, variant, taken_out]
    row = dict(zip(COLUMNS, (name, f"flash_attention_3/{variant}", tool, version(), ""), strict=True))
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return row | {"says": f"no end in {LIMIT_S} s"}
    output = done.stdout + done.stderr
    summaries = re.findall(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (.*)$", output, re.MULTILINE)
    if not summaries:
        raise RuntimeError(f"{tool} gave no summary for {name!r}:\n{output[-2000:]}")
    errors = re.findall(r"^=+ (Barrier error detected\..*)$", output, re.MULTILINE)
    return row | {"says": f"{summaries[-1]}: {errors[0]}" if errors else summaries[-1]}


def version():
    """The version of compute-sanitizer, "2025.3.1.0"."""
    text = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"[Vv]ersion ([\d.]+)", text)[1]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the CSV file to write")
    parser.add_argument("--commit", default=None, help="whose code is measured; default: $COMMIT, or git's HEAD")
    options = parser.parse_args(arguments)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda pair: said(*pair), product(MUTANTS, TOOLS)))
    print(*(f"{row['mutant']:32} {row['tool']:10} {row['says']}" for row in rows), sep="\n")
    about = versions(options.commit or commit())
    head = ["summary lines of compute-sanitizer; python3 -m benchmarks.counters.sanitizer_of_mutants"]
    with stored(options.out, head, [*COLUMNS, *about]) as write:
        for row in rows:
            write(row | about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
