"""08.6 Quantise per block and bound the error: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import rounding
from .diagnostics import accept, fast
from .rounding import case


def _run(case, tensors):
    num_rows, head_dim, block_rows = case.sizes.values()
    shape = (num_rows, head_dim)
    outputs = {
        "y": (shape, "float32"),
        "scales": ((-(-num_rows // block_rows),), "float32"),
        "small": (shape, "float8_e4m3fn"),
        "restored": (shape, "float32"),
        "bound": (shape, "float32"),
    }
    return Run(case.name, tensors, outputs, (Ref("x"), Ref("signs"), block_rows, case.options["clip"]))


EXERCISE = exercise(
    __file__,
    cases=(  # the first one that fails is diagnosed: those that tell most come first
        case("blocks of 8, the last of 5", 37, 64, 8),
        case("rows from 1e-4 to 1e4", 11, 16, 3, "mixed"),
        case("negative numbers, one column", 10, 1, 4, "negative"),
        case("every step of e4m3", 400, 1, 400, "every_step"),
        case("clipped, every step", 400, 1, 400, "every_step", clip=0.25),
        case("outliers, blocks of 64", 128, 128, 64, "outliers"),
        case("outliers clipped", 30, 64, 7, "outliers", clip=0.4),
        case("a block of zeros", 9, 8, 2, "zeros"),
        case("numbers of 1e-32", 6, 32, 3, "tiny"),
        case("numbers of 1e30", 6, 4, 6, "large"),
        case("half, a block longer than the matrix", 20, 32, 50, dtype="float16"),
        case("bfloat16, strided", 12, 256, 5, "outliers", dtype="bfloat16", strided=True),
        case("two columns, clip above 1", 5, 2, 2, clip=1.5),
        case("one number", 1, 1, 1),
        case("2048 columns", 3, 2048, 2, "outliers"),
    ),
    make_inputs=rounding.inputs,
    make_run=_run,
    accept=accept,
    ledger_rule=fast,
)
