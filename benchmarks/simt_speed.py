"""Time the course's CPU engines on one kernel: the SIMT machine, Triton's interpreter, Numba's CUDA simulator.

    pip install "numba>=0.61"
    python3 -m benchmarks.simt_speed --out benchmarks/results/cpu/simt_speed.csv
    python3 -m benchmarks.simt_speed --dry      one small size, one run each

The kernel is softmax/02_online: one block a row, online (m, l), the row read twice. Numba's simulator has no warp
shuffles, so its twin merges the states of all threads through shared memory, which is less work for it, not more; the
same twin in CUDA C++ is timed on the SIMT machine as well. Every engine is checked against float64 before it is timed;
compiling is not in the time, and the median of several runs counts. Rows of one run compare with each other, not with
those of another machine.
"""

import functools
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.harness import Benchmark, largest_error, main
from benchmarks.harness.about import software
from course_lib import cuda, profile_triton
from course_lib.triton_kernels import softmax as triton_softmax

BLOCK = 128
NUMBA = "numba simulator, shared memory"
SIZES, DRY_SIZES = ((8, 1024), (64, 1024), (64, 4096)), ((2, 256),)  # num_rows, num_cols
SECONDS = 3.0  # of timing for each engine and size, at least one run
TOLERANCE = 1e-6

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


@functools.cache
def engines():
    """[(name of the engine and kernel, function (x, out))]; Numba first, the others are compared with it."""
    shuffles = cuda.load("softmax/02_online.cu", defines={"BLOCK": BLOCK})
    shared = cuda.compile(SHARED_SOURCE, defines={"BLOCK": BLOCK})
    found = [
        (NUMBA, numba_simulator()),
        ("simt fast, shared memory", simt(shared, checked=False)),
        ("simt checked, shared memory", simt(shared, checked=True)),
        ("simt fast, 02_online", simt(shuffles, checked=False)),
        ("simt checked, 02_online", simt(shuffles, checked=True)),
        ("triton interpreter, 02_online", triton_interpreter(ledger=False)),
        ("triton interpreter with ledger, 02_online", triton_interpreter(ledger=True)),
    ]
    return [(name, run) for name, run in found if run is not None]


def loads(dry):
    sizes = DRY_SIZES if dry else SIZES
    return [{"num_rows": num_rows, "num_cols": num_cols, "block": BLOCK} for num_rows, num_cols in sizes]


def timed(run, x, out, seconds):
    """Times of single runs in ms, as many as fit into `seconds`, at least one."""
    times, began = [], time.perf_counter()
    while not times or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        run(x, out)
        times.append(1e3 * (time.perf_counter() - start))
    return times


def rows_of(load, options):
    """The rows of one size, an engine a row."""
    num_rows, num_cols = load["num_rows"], load["num_cols"]
    x = torch.randn(num_rows, num_cols, generator=torch.Generator().manual_seed(num_cols))
    numba_ms = None
    for name, run in engines():
        out = torch.full_like(x, float("nan"))
        run(x, out)
        error = largest_error((out,), [(out, x.double().softmax(1))])
        row = load | {"engine": name, "max_error": f"{error:.2g}"}
        if not error <= TOLERANCE:
            yield row | {"note": f"wrong by {error:g}: not timed"}
            continue
        times = timed(run, x, out, 0.0 if options.dry else SECONDS)
        median = statistics.median(times)
        numba_ms = median if name == NUMBA else numba_ms
        row |= {"runs": len(times), "times_numba": f"{numba_ms / median:.4g}" if numba_ms else ""}
        yield row | {"median_ms": f"{median:.4g}", "low_ms": f"{min(times):.4g}", "high_ms": f"{max(times):.4g}"}


def machine(options):
    """The machine and the software, as columns."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": f"{os.getloadavg()[0]:.1f}",  # other work on the machine: processes waiting for a core
        **software(options.commit, ("torch", "triton", "numba"), compiler=compiler()),
    }


def compiler():
    """First line of the C++ compiler's version."""
    name = os.environ.get("CXX", "g++")
    done = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else name


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "median wall time of one launch, compiling excluded; times_numba: Numba's median over this one's",
    keys=("engine", "num_rows", "num_cols", "block"),
    values=("runs", "median_ms", "low_ms", "high_ms", "times_numba", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_ms", "times_numba"),
    compared=("median_ms",),
    origin=machine,
    gpu=False,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
