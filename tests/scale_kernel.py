"""What the tests of the judge's faults share: a kernel that doubles 100 numbers, the run of one
case of it, and the fault of a result."""

import torch

from course_lib.grading.processes.protocol import Ref, Run

N = 100
X = torch.arange(float(N))
HEAD = (  # two lines
    'extern "C" __global__ void scale_kernel(const float* x, float* out, int n) {\n'
    "  int i = blockIdx.x * 64 + threadIdx.x;\n"
)
GOOD = HEAD + "  if (i < n) out[i] = 2.0f * x[i];\n}\n"


def scale_run(grid, block=None, *, name="case 0", **options):
    """The Run of scale_kernel(x, out, n) with float32 out (N,); options: as in Run."""
    sizes = () if block is None else (block,)
    return Run(name, {"x": X}, {"out": ((N,), "float32")}, (Ref("x"), Ref("out"), N), grid, *sizes, **options)


def fault_of(result):
    """The fault of a task or of its only run; None without one."""
    return result.fault or result.runs[0].fault


def first_fault(result):
    """`fault_of`, or else the first finding of the run, or None."""
    return fault_of(result) or next(iter(result.runs[0].findings), None)
