"""`course doctor`: checks what this machine can run; one sentence for each topic.

May import: errors, device, cuda, triton, grading.
"""

import contextlib
import importlib.util
import os
import platform
import shutil
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import CourseError

GOOD, MISSING, NOTE = "ok", "missing", "note"
_SYMBOLS = {GOOD: "✔", MISSING: "✘", NOTE: "·"}
_KERNEL = """extern "C" __global__ void add_one_kernel(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1.0f;
}
"""


@dataclass(frozen=True)
class Finding:
    """One sentence about this machine; `state` is "ok", "missing" (the course needs it) or "note"."""

    state: str
    topic: str
    sentence: str

    def __str__(self):
        text = f"{_SYMBOLS[self.state]} {self.topic}: {self.sentence}"
        return textwrap.fill(text, 100, subsequent_indent="    ", break_on_hyphens=False)


def examine():
    """Return all findings, the most important topics first."""
    examiners = (_python, _torch, _gpu, _cuda, _triton, _gate, _cache, _work, _notebooks, _judge, _sandbox)
    return [finding for finding in map(_safely, examiners) if finding]


def _safely(examiner):
    """Run one examination, which may have nothing to say; its own failure becomes a finding."""
    try:
        return examiner()
    except Exception as error:
        topic = examiner.__name__.strip("_")
        return Finding(MISSING, topic, f"could not be examined: {type(error).__name__}: {error}")


def _python():
    system = f"{platform.system()} {platform.machine()}"
    return Finding(GOOD, "Python", f"{platform.python_version()} on {system}, {os.cpu_count()} cores.")


def _torch():
    try:
        import torch
    except ImportError as error:
        return Finding(MISSING, "torch", f"cannot be imported ({error}); run `make setup`.")
    return Finding(GOOD, "torch", f"{torch.__version__}.")


def _gpu():
    from .. import device

    try:
        machine = device.current()
    except CourseError as error:
        return Finding(MISSING, "GPU", str(error))
    if machine.kind == "cpu":
        return Finding(
            NOTE,
            "GPU",
            "no NVIDIA GPU, so CUDA kernels run on the SIMT machine and Triton kernels on the interpreter: "
            "everything can be learned and graded, only times are not those of a GPU.",
        )
    major, minor = machine.capability
    return Finding(
        GOOD,
        "GPU",
        f"{machine.name}, compute capability {major}.{minor}, {machine.num_sms} SMs, "
        f"{machine.memory_bytes / 2**30:.0f} GiB.",
    )


def _cuda():
    try:
        import torch

        from .. import cuda

        started = time.perf_counter()
        kernel = cuda.compile(_KERNEL)
        x = torch.zeros(100)
        report = kernel.profile(4, 32, x, 100)
        seconds = time.perf_counter() - started
    except CourseError as error:
        return Finding(MISSING, "CUDA on the CPU", str(error))
    if not report.ok or x.sum() != 100:
        return Finding(
            MISSING, "CUDA on the CPU", "the SIMT machine gives a wrong result for `x[i] += 1`; please report this."
        )
    return Finding(GOOD, "CUDA on the CPU", f"the SIMT machine compiled, ran and checked a kernel in {seconds:.1f} s.")


def _triton():
    if importlib.util.find_spec("triton") is None:
        return Finding(
            NOTE, "Triton", "not installed (it exists for Linux only); Triton exercises cannot be checked here."
        )
    import triton

    from ..triton.mode import is_interpreted

    where = "on its interpreter, on the CPU" if is_interpreted() else "compiled for the GPU"
    return Finding(GOOD, "Triton", f"{triton.__version__}, {where}.")


def _gate():
    try:
        from ..cuda import gate

        started = time.perf_counter()
        gate.compile_cubin(_KERNEL, arch="sm_90")
    except (CourseError, ImportError) as error:
        return Finding(NOTE, "NVIDIA's compiler", f"not usable here ({error}); kernels still run on the SIMT machine.")
    return Finding(
        GOOD,
        "NVIDIA's compiler",
        f"NVRTC compiled a kernel for sm_90 in {time.perf_counter() - started:.1f} s, without a GPU.",
    )


def _cache():
    folder = Path(os.environ.get("COURSE_CACHE_DIR") or Path.home() / ".cache" / "attention-kernel-by-kernel")
    if not _writable(folder):
        return Finding(
            NOTE, "Disk cache", f"{folder} cannot be written, so every kernel is compiled anew; set COURSE_CACHE_DIR."
        )
    size, free = _bytes_in(folder), shutil.disk_usage(_existing(folder)).free
    return Finding(GOOD, "Disk cache", f"{folder} holds {size / 2**20:.0f} MiB; {free / 2**30:.0f} GiB are free.")


def _bytes_in(folder):
    """Return the bytes of all files below `folder`; one that another process deletes meanwhile counts 0."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(parent, name))
    return total


def _work():
    from ..grading.records import work

    if not _writable(work.root()):
        return Finding(
            MISSING,
            "Your folder",
            f"{work.root()} cannot be written, so answers and progress are not kept; set COURSE_WORK_DIR.",
        )
    return Finding(GOOD, "Your folder", f"{work.root()} keeps your answers, progress and predictions.")


def _notebooks(root=None):
    from ..grading.records import work
    from .update import ROOT, changed_notebooks

    try:
        changed = changed_notebooks(root or ROOT)
    except CourseError as error:
        return Finding(NOTE, "Notebooks", f"git does not say which you changed ({error}); only `make update` needs it.")
    if not changed:
        return None
    names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
    return Finding(
        NOTE,
        "Notebooks",
        f"changed by you or by running them: {names}; `git pull` refuses such files, but `make update` brings in what "
        f"is new and keeps what you wrote, with a copy of the file in {work.root() / 'kept'}.",
    )


def _judge():
    from ..grading.judge import client

    started = time.perf_counter()
    try:
        count = client.count_exercises()
    except CourseError as error:
        return Finding(MISSING, "Judge", f"{error}.")
    return Finding(GOOD, "Judge", f"ready in {time.perf_counter() - started:.1f} s, {count} exercises.")


def _sandbox():
    from ..grading.processes import bubblewrap, cgroup

    try:
        bubblewrap.usable()
    except CourseError as error:
        return Finding(NOTE, "Sandbox", f"needed only for `course grade --sandbox`: {error}.")
    return Finding(
        GOOD, "Sandbox", f"bubblewrap keeps every promise of `course grade --sandbox`; {cgroup.available()}."
    )


def _existing(folder):
    while not folder.exists():
        folder = folder.parent
    return folder


def _writable(folder):
    return os.access(_existing(folder), os.W_OK)
