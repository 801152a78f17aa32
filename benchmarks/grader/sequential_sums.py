"""Judge the baselines themselves with every float32 sum made one term after the other, as one thread makes it.

    python -m benchmarks.grader.sequential_sums                    150 seeds, both directions, sums of 200 terms or more
    python -m benchmarks.grader.sequential_sums 03.5 --seeds 10    fewer

A learner's kernel may add in any order. Prints the largest error of each case and output over its tolerance: 1 or more
is a right answer refused. tests/grading/test_sequential_sums.py does the same on a few seeds.
"""

import argparse
import sys

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.grading.exercise import registry
from course_lib.grading.judge.comparison import within
from course_lib.grading.judge.evidence import read_alone
from course_lib.grading.judge.prepare import dtype_of, prepare_case, tolerances
from course_lib.grading.judge.tolerance import EXACT

ATEN = torch.ops.aten
LEAST = 200  # terms; what shorter sums do, the answers of solutions/ show


class SequentialSums(TorchDispatchMode):
    """While it is entered, sums and products of float32 matrices add their terms in order, or in `backward` order."""

    def __init__(self, backward=False):
        super().__init__()
        self.backward = backward

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        x = arguments[0] if arguments else None
        if isinstance(x, torch.Tensor) and x.dtype == torch.float32:
            if function in (ATEN.mm.default, ATEN.bmm.default):
                return self._product(x, arguments[1])
            if function in (ATEN.sum.dim_IntList, ATEN.mean.dim):
                total = self._sum(x, *arguments[1:3])
                return total if function == ATEN.sum.dim_IntList else total * (total.numel() / x.numel())
        return function(*arguments, **(options or {}))

    def _product(self, a, b):
        a, b = a.numpy(), b.numpy()
        out = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
        terms = range(a.shape[-1])
        for k in reversed(terms) if self.backward else terms:
            out += a[..., :, k, None] * b[..., None, k, :]
        return torch.from_numpy(out)

    def _sum(self, x, dims, keepdim=False):
        x = x.detach().numpy()
        dims = sorted(dim % x.ndim for dim in dims)
        for dim in dims:
            ordered = np.flip(x, dim) if self.backward else x
            x = np.take(np.add.accumulate(ordered, axis=dim, dtype=np.float32), [-1], axis=dim)
        return torch.from_numpy(np.ascontiguousarray(x if keepdim else np.squeeze(x, tuple(dims))))


def long_cases(exercise):
    """[(number, Case)] of the cases whose tolerance is for long sums."""
    if set(exercise.rules.values()) <= set(EXACT):
        return []
    return [(n, case) for n, case in enumerate(exercise.cases) if max(case.sizes.values(), default=0) >= LEAST]


def ratios(exercise, number, case, seed):
    """Yield (output, largest error over tolerance, mean error over its tolerance), for both directions."""
    prepared = prepare_case(exercise, case, seed, f"case {number}")
    allowed = tolerances(exercise, prepared)
    for backward in (False, True):
        with SequentialSums(backward):
            outputs = exercise.baseline(case, prepared.inputs)
        for name, ref in prepared.ref.items():
            if exercise.rules[name] not in EXACT:
                dtype = dtype_of(prepared.run, name)
                out = read_alone(outputs[name].to(dtype), ref, prepared.unread.get(name))
                result = within(out, ref, dtype, allowed[name])
                error, limit = result.nearest
                yield name, error / limit, result.mean_error / allowed[name].mean


def main():
    """Measure and print; exit code 1 when a sum in order would be refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exercises", nargs="*", help="ids such as 03.2; all without")
    parser.add_argument("--seeds", type=int, default=150)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    refused = 0
    for exercise in [registry.get(name) for name in arguments.exercises] or list(registry.all().values()):
        for number, case in long_cases(exercise):
            found = [one for seed in range(arguments.seeds) for one in ratios(exercise, number, case, seed)]
            for name in sorted({name for name, *_ in found}):
                each, mean = (max(one[at] for one in found if one[0] == name) for at in (1, 2))
                refused += not (each <= 1.0 and mean <= 1.0)
                print(f"{exercise.id} {case.name:40} {name:12} largest {each:.3f} mean {mean:.3f}", flush=True)
    print(f"refused outputs: {refused}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
