"""Time the course's CPU engines on one kernel: the SIMT machine, Triton's interpreter, Numba's CUDA simulator.

    pip install "numba>=0.61"
    python3 -m benchmarks.simt_speed --out benchmarks/results/cpu/simt_speed.csv

The kernel is softmax/02_online: one block a row, online (m, l), the row read twice. Numba's simulator has no warp
shuffles, so its twin merges the states of all threads through shared memory, which is less work for it, not more; the
same twin in CUDA C++ is timed on the SIMT machine as well. Every engine is checked against float64 before it is timed;
compiling is not in the time, and the median of several runs counts. The date's machine speaks for itself only: compare
inside one run.
"""

import argparse
import csv
import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks import ROOT
from benchmarks.run import commit
from course_lib import cuda, profile_triton
from course_lib.triton_kernels import softmax as triton_softmax

BLOCK = 128
SIZES = ((8, 1024), (64, 1024), (64, 4096))
SECONDS = 3.0  # of timing for each engine and size, at least one run

SHARED_SOURCE = r"""
extern "C" __global__ void __launch_bounds__(BLOCK)
shared_softmax_kernel(const float* x, float* out, int num_rows, int num_cols) {
    __shared__ float m_smem[BLOCK];
    __shared__ float l_smem[BLOCK];
    const float* x_row = x + (size_t)blockIdx.x * num_cols;
    float* out_row = out + (size_t)blockIdx.x * num_cols;
    float m = -INFINITY, l = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        const float score = x_row[col], m_new = fmaxf(m, score);
        l = l * expf(m - m_new) + expf(score - m_new);
        m = m_new;
    }
    m_smem[threadIdx.x] = m;
    l_smem[threadIdx.x] = l;
    __syncthreads();  // separates each thread's write of its state from the reads of the tree
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const float m_a = m_smem[threadIdx.x], m_b = m_smem[threadIdx.x + half], m_new = fmaxf(m_a, m_b);
            const float l_a = l_smem[threadIdx.x], l_b = l_smem[threadIdx.x + half];
            l_smem[threadIdx.x] = l_a * expf(m_a - m_new) + l_b * expf(m_b - m_new);
            m_smem[threadIdx.x] = m_new;
        }
        __syncthreads();  // separates one level of the tree from the next
    }
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) out_row[col] = expf(x_row[col] - m_smem[0]) / l_smem[0];
}
"""


def simt(kernel, checked):
    """The SIMT machine: the fast build, or the checked build with its report."""
    run = kernel.profile if checked else kernel
    return lambda x, out: run(x.shape[0], BLOCK, x, out, *x.shape)


def triton_interpreter(ledger):
    """Triton's interpreter on the Triton twin, bare or under the course's ledger."""
    kernel = triton_softmax.online_softmax_kernel

    def run(x, out):
        if ledger:
            profile_triton(kernel, x.shape[0], x, out, *x.shape, BLOCK_N=BLOCK)
        else:
            kernel[(x.shape[0],)](x, out, *x.shape, BLOCK_N=BLOCK)

    return run


def numba_simulator():
    """Numba's CUDA simulator on the shared-memory twin, or None where numba is not installed."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba is imported
    try:
        from benchmarks.numba_softmax import shared_softmax_kernel as kernel
    except ImportError:
        return None
    return lambda x, out: kernel[x.shape[0], BLOCK](x.numpy(), out.numpy(), x.shape[1])


def engines():
    """Pairs (name of the engine and kernel, function (x, out)); Numba first, the others are compared with it."""
    shuffles = cuda.load("softmax/02_online.cu", defines={"BLOCK": BLOCK})
    shared = cuda.compile(SHARED_SOURCE, defines={"BLOCK": BLOCK})
    return [
        ("numba simulator, shared memory", numba_simulator()),
        ("simt fast, shared memory", simt(shared, checked=False)),
        ("simt checked, shared memory", simt(shared, checked=True)),
        ("simt fast, 02_online", simt(shuffles, checked=False)),
        ("simt checked, 02_online", simt(shuffles, checked=True)),
        ("triton interpreter, 02_online", triton_interpreter(ledger=False)),
        ("triton interpreter with ledger, 02_online", triton_interpreter(ledger=True)),
    ]


def measure(run, num_rows, num_cols):
    """(times in ms, largest error against float64); raises when the error is no rounding error."""
    x = torch.randn(num_rows, num_cols, generator=torch.Generator().manual_seed(num_cols))
    out = torch.full_like(x, float("nan"))
    run(x, out)
    error = float((out.double() - x.double().softmax(1)).abs().max())
    if not error <= 1e-6:
        raise SystemExit(f"the result is wrong by {error:g}; nothing is timed")
    times, began = [], time.perf_counter()
    while not times or time.perf_counter() - began < SECONDS:
        start = time.perf_counter()
        run(x, out)
        times.append(1e3 * (time.perf_counter() - start))
    return times, error


def machine(commit):
    """What every row says about the machine and the software."""
    import triton

    try:
        from numba import __version__ as numba_version
    except ImportError:
        numba_version = ""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": f"{os.getloadavg()[0]:.1f}",  # other work on the machine: processes waiting for a core
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numba": numba_version,
        "compiler": compiler(),
        "commit": commit,
        "date": datetime.date.today().isoformat(),
    }


def compiler():
    """First line of the C++ compiler's version."""
    name = os.environ.get("CXX", "g++")
    done = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else name


def main():
    """Time every engine at every size and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/cpu/simt_speed.csv")
    parser.add_argument("--commit", default=None)
    options = parser.parse_args()
    about = machine(options.commit or commit())
    rows, contestants = [], [(name, run) for name, run in engines() if run is not None]
    for num_rows, num_cols in SIZES:
        slowest = None
        for name, run in contestants:
            times, error = measure(run, num_rows, num_cols)
            median = statistics.median(times)
            if name.startswith("numba"):
                slowest = median
            rows.append(
                {
                    "engine": name,
                    "num_rows": num_rows,
                    "num_cols": num_cols,
                    "block": BLOCK,
                    "runs": len(times),
                    "median_ms": f"{median:.4g}",
                    "low_ms": f"{min(times):.4g}",
                    "high_ms": f"{max(times):.4g}",
                    "times_numba": f"{slowest / median:.4g}" if slowest else "",
                    "max_error": f"{error:.2g}",
                    **about,
                }
            )
            print(
                f"{num_rows:>4} x {num_cols:<6} {name:<42} {median:10.3f} ms  {rows[-1]['times_numba']:>7}", flush=True
            )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write(
            "# median wall time of one launch, compiling excluded; times_numba: Numba's median over this one's; "
        )
        file.write("python3 -m benchmarks.simt_speed\n")
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
