"""Properties of this machine: GPU or CPU, memory sizes, peak rates.

The driver is called through ctypes, so that ``import course_lib`` loads neither torch nor cupy. Every peak rate has its
source; sizes are read from the driver where there is one.

May import: errors.
"""

import ctypes
import functools
import os
import platform
from dataclasses import dataclass

from .errors import CourseError

KIB = 1024
MIB = 1024 * KIB
GB = 10**9


@dataclass(frozen=True)
class Device:
    """A machine that runs kernels: this machine's GPU, a known GPU, or the CPU with the SIMT machine.

    Attributes
    ----------
    kind : "gpu" or "cpu"
    name : str
    capability : (major, minor) of CUDA, None on a CPU
    num_sms : streaming multiprocessors; on a CPU the number of cores
    shared_bytes_per_sm, shared_bytes_per_block : bytes; per block with the opt-in above 48 KiB
    registers_per_sm : 32-bit registers
    threads_per_sm : resident threads
    l2_bytes, memory_bytes : bytes
    memory_gbps : peak DRAM rate, 10^9 bytes per second, None when unknown
    bf16_tflops, fp16_tflops, fp32_tflops : dense peak, 10^12 FLOP per second; bf16 and fp16 on tensor cores with fp32
        accumulation; None when the machine has no such unit or the rate is unknown
    source : of the numbers
    """

    kind: str
    name: str
    capability: tuple | None
    num_sms: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    registers_per_sm: int
    threads_per_sm: int
    l2_bytes: int | None
    memory_bytes: int | None
    memory_gbps: float | None
    bf16_tflops: float | None
    fp16_tflops: float | None
    fp32_tflops: float | None
    source: str

    @property
    def arch(self):
        """str or None: the architecture to compile for, "sm_90a" on Hopper."""
        if self.capability is None:
            return None
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


_LIMITS = "CUDA C++ Programming Guide, technical specifications by compute capability (shared memory, threads)"
_H100 = "NVIDIA H100 architecture whitepaper (SXM5; dense tensor rates are half of the sparse ones)"
_ADA = "NVIDIA Ada GPU architecture whitepaper"


def _gpu(name, capability, sms, smem_kib, threads, l2_mib, memory_gb, gbps, bf16, fp16, fp32, source):
    """One row of the table; a block may use all of the SM's shared memory but 1 KiB (all of it on Turing)."""
    shared = smem_kib * KIB
    block = shared if capability < (8, 0) else shared - KIB
    sizes = (sms, shared, block, 65536, threads, l2_mib * MIB, memory_gb * GB)
    return Device("gpu", name, capability, *sizes, gbps, bf16, fp16, fp32, f"{source}; {_LIMITS}")


# fmt: off
KNOWN_GPUS = {
    # full name, capability, SMs, KiB shared an SM, threads an SM, MiB L2, GB, GB/s, TFLOP/s in bf16, fp16, fp32, source
    "A100": _gpu("NVIDIA A100-SXM4-80GB", (8, 0), 108, 164, 2048, 40, 80, 2039.0, 312.0, 312.0, 19.5,
                 "NVIDIA A100 datasheet (80 GB SXM); NVIDIA A100 architecture whitepaper (L2, SMs)"),
    "H100": _gpu("NVIDIA H100 80GB HBM3", (9, 0), 132, 228, 2048, 50, 80, 3350.0, 989.4, 989.4, 66.9, _H100),
    "H200": _gpu("NVIDIA H200", (9, 0), 132, 228, 2048, 60, 141, 4800.0, 989.4, 989.4, 66.9,
                 f"NVIDIA H200 datasheet (SXM, memory); {_H100}, the same chip; L2 as the driver reports it"),
    "RTX 4090": _gpu("NVIDIA GeForce RTX 4090", (8, 9), 128, 100, 1536, 72, 24, 1008.0, 165.2, 165.2, 82.6,
                     f"{_ADA}, appendix (dense, fp32 accumulation)"),
    "T4": _gpu("Tesla T4", (7, 5), 40, 64, 1024, 4, 16, 320.0, None, 65.0, 8.1,
               "NVIDIA T4 datasheet; NVIDIA Turing GPU architecture whitepaper (L2, SMs)"),
    "L4": _gpu("NVIDIA L4", (8, 9), 58, 100, 1536, 48, 24, 300.0, 121.0, 121.0, 30.3,
               f"NVIDIA L4 datasheet (its tensor rates are sparse; dense is half); {_ADA} (L2, SMs)"),
}
# fmt: on


def has_gpu():
    """Return whether kernels can run on an NVIDIA GPU of this machine. ``COURSE_ENGINE=cpu`` makes it False.

    NVML is queried first: unlike cuInit it leaves the CUDA driver untouched, so a process may still fork children that
    use the GPU (the grader does).

    Raises
    ------
    CourseError   COURSE_ENGINE is neither "cpu", "gpu" nor empty, or it is "gpu" and no GPU is visible
    """
    return _has_gpu(os.environ.get("COURSE_ENGINE", ""), os.environ.get("CUDA_VISIBLE_DEVICES"), _gpu_count)


@functools.cache  # every launch asks, and the answer is that of the two variables
def _has_gpu(asked, visible, count):
    wanted = asked.strip().lower()
    if wanted not in ("", "auto", "cpu", "gpu"):
        raise CourseError(f'COURSE_ENGINE is "{wanted}"; set it to "cpu" or "gpu", or leave it unset.')
    if wanted == "cpu":
        return False
    available = count() > 0 and _shows(visible)
    if wanted == "gpu" and not available:
        raise CourseError(
            "COURSE_ENGINE=gpu asks for a GPU, but the NVIDIA driver shows none here. "
            "Unset COURSE_ENGINE to run on the CPU."
        )
    return available


def engine():
    """Return "gpu" or "cpu": where ``kernel(...)`` runs."""
    return "gpu" if has_gpu() else "cpu"


def current():
    """Return this machine.

    Returns
    -------
    device : Device; on a GPU the sizes are the driver's, the peak rates those of KNOWN_GPUS when it lists the GPU
    """
    return _current_gpu() if has_gpu() else _current_cpu()


def known(name):
    """Return the row of KNOWN_GPUS for a GPU's name (as the driver or the table writes it), or None."""
    for key, row in KNOWN_GPUS.items():
        if name == row.name or name == key or f" {key} " in f" {name.replace('-', ' ')} ":
            return row
    return None


def _shows(visible):
    """False when CUDA_VISIBLE_DEVICES, None or its text, hides every GPU; NVML ignores that variable."""
    return visible is None or visible.strip() not in ("", "-1", "NoDevFiles")


@functools.cache
def _gpu_count():
    """Return the number of NVIDIA GPUs that the driver reports, 0 without a driver."""
    nvml = _library("libnvidia-ml.so.1")
    if nvml is not None and nvml.nvmlInit_v2() == 0:
        count = ctypes.c_uint()
        status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        nvml.nvmlShutdown()
        if status == 0:
            return count.value
    driver = _library("libcuda.so.1")
    if driver is None or driver.cuInit(0) != 0:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def _library(name):
    """Load a shared library, or return None where it is not installed."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


# CUdevice_attribute of the CUDA driver API
_ATTRIBUTES = {
    "num_sms": 16,
    "threads_per_sm": 39,
    "l2_bytes": 38,
    "major": 75,
    "minor": 76,
    "shared_bytes_per_sm": 81,
    "registers_per_sm": 82,
    "shared_bytes_per_block": 97,
}


@functools.cache
def _current_gpu():
    """Return device 0 of the driver, with the peak rates of the table."""
    driver = _library("libcuda.so.1")
    if driver is None or driver.cuInit(0) != 0:
        raise CourseError(
            "The NVIDIA driver shows a GPU, but libcuda.so.1 does not start. Try nvidia-smi; "
            "COURSE_ENGINE=cpu runs the course without the GPU."
        )
    handle, name, total = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    driver.cuDeviceGet(ctypes.byref(handle), 0)
    driver.cuDeviceGetName(name, 256, handle)
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), handle)
    read = {}
    for key, number in _ATTRIBUTES.items():
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
        read[key] = value.value
    capability = (read.pop("major"), read.pop("minor"))
    text = name.value.decode()
    row = known(text)
    rates = {key: getattr(row, key, None) for key in ("memory_gbps", "bf16_tflops", "fp16_tflops", "fp32_tflops")}
    source = f"sizes: the CUDA driver; rates: {row.source if row else 'this GPU is not in the table'}"
    return Device(
        kind="gpu", name=text, capability=capability, memory_bytes=total.value, source=source, **read, **rates
    )


@functools.cache
def _current_cpu():
    """Return the CPU, with the block limits of Hopper: the SIMT machine runs every kernel of the course."""
    hopper = KNOWN_GPUS["H200"]
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = None
    return Device(
        "cpu",
        _cpu_name(),
        None,
        os.cpu_count() or 1,
        hopper.shared_bytes_per_sm,
        hopper.shared_bytes_per_block,
        hopper.registers_per_sm,
        hopper.threads_per_sm,
        None,
        memory,
        None,
        None,
        None,
        None,
        "the operating system; limits of a block as on Hopper, which the SIMT machine models",
    )


def _cpu_name():
    """Return the processor's model name from /proc/cpuinfo, else what platform knows."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
