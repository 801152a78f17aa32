"""The compile gate of the Triton twins, and the digests of both languages.

A twin is compiled as its launcher would launch it on a GPU: types and constants are those of the example launches
(ops/examples), the architectures those that the header of its step promises. No GPU is needed.

    python -m course_lib.ops.gate [--write] [FAMILY/STEP …]

compiles the CUDA kernels and the Triton twins whose digest is not stored in kernels_cu/compiled.csv; --write stores it.

May import: cuda.gate, cuda.steps, triton, ops.examples, ops._foundation, torch.
"""

import argparse
import hashlib
import inspect
from importlib.metadata import version
from pathlib import Path

import torch

from ..cuda import gate as cuda_gate
from ..cuda.steps import promised, step
from ..triton import aot, source
from ._foundation.launch import gpu_constants
from .examples import examples

_TYPES = {
    torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8e4nv",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
}  # fmt: skip
# (kernel, architecture) -> bytes: head_dim 128, with 56 of 255 registers in use, so no lack of them; never run there
KNOWN_STACK = {("paged_v1_kernel", "sm_80"): 8}
LEAST_HEAD_DIM = 64  # narrower heads are for checks alone: they run, but their registers are not watched


def twin_launches(stem=None):
    """{stem: [Launch of a Triton kernel, …]} of the examples, with the constants that a GPU gets."""
    found = {}
    for example in examples("cpu"):
        if example.language == "triton" and stem in (None, example.stem):
            with gpu_constants():
                planned = example.plan().launches
            sizes = [launch for launch in planned if launch.constants.get("HEAD_DIM", LEAST_HEAD_DIM) >= LEAST_HEAD_DIM]
            found.setdefault(example.stem, []).extend(sizes)
    return found


def request(launch, wide=False):
    """(signature, constexprs, options) with which Triton compiles a launch.

    Parameters
    ----------
    launch : Launch of a Triton kernel
    wide : bool; strides have 64 bits, as those of large tensors
    """
    parameters = inspect.signature(source.raw(launch.function)).parameters
    values = dict(zip(parameters, launch.arguments, strict=False)) | launch.constants
    signature, constexprs, options = {}, {}, {}
    for name, value in values.items():
        if name not in parameters:
            options[name] = value
        elif "constexpr" in str(parameters[name].annotation):
            constexprs[name] = value
        else:
            signature[name] = _type(value, wide and name.startswith("stride_"))
    return signature, constexprs, options


def _type(value, wide):
    """Triton's name for the type of an argument; ":16" says that an integer is a multiple of 16."""
    if hasattr(value, "block_shape"):  # a descriptor
        return f"tensordesc<{_TYPES[value.base.dtype]}{list(value.block_shape)}>"
    if isinstance(value, torch.Tensor):
        return f"*{_TYPES[value.dtype]}"
    if isinstance(value, float):
        return "fp32"
    return ("i64" if wide or abs(value) >= 2**31 else "i32") + (":16" if value % 16 == 0 else "")


def architectures(stem):
    """What the header of a step promises for its twins; Triton picks sm_90a itself."""
    return tuple(dict.fromkeys(arch.removesuffix("a") for arch in promised(step(stem).twin_needs)))


def compile_twin(stem, launches):
    """Compile the launches of one step for every architecture, and once with 64-bit strides.

    Yields
    ------
    compiled : aot.Compiled
    """
    for launch in launches:
        for arch in architectures(stem):
            if arch == "sm_75" and any(getattr(x, "dtype", None) == torch.bfloat16 for x in launch.arguments):
                continue  # Triton has no bfloat16 there
            signature, constexprs, options = request(launch)
            yield aot.compile_for(launch.function, signature, constexprs, arch, **options)
        signature, constexprs, options = request(launch, wide=True)
        yield aot.compile_for(launch.function, signature, constexprs, "sm_90", **options)


def spilled(compiled):
    """Bytes that a thread of a twin keeps in local memory, beyond what is known."""
    return max(0, compiled.spill_bytes - KNOWN_STACK.get((compiled.name, compiled.arch), 0))


def digest(stem, launches):
    """A hash of the functions with all that they use, of types, constants, architectures and compiler."""
    parts = [Path(aot.__file__).read_text(encoding="utf-8"), version("triton"), architectures(stem)]
    for launch in launches:
        parts.append((*source.meaning(launch.function), request(launch), request(launch, wide=True)))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _check_cuda(path):
    """The digest of a file that compiles without a problem for all it promises; else an AssertionError."""
    cuda_gate.build_on_cpu(path)
    problems = cuda_gate.problems(path, cuda_gate.check_file(path))
    assert not problems, "\n".join(problems)
    return cuda_gate.digest(path)


def _check_triton(stem, launches):
    """The same of a twin."""
    for compiled in compile_twin(stem, launches):
        assert not spilled(compiled), f"{stem} {compiled.name} spills {compiled.spill_bytes} on {compiled.arch}"
    return digest(stem, launches)


def main():
    """Compile what has changed; with --write each digest is stored at once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the digests of what compiles")
    parser.add_argument("steps", nargs="*", help="FAMILY or FAMILY/STEP; all if none is given")
    arguments = parser.parse_args()
    checks, digests = _checks(), cuda_gate.stored()
    for (stem, language), (digest_of, check, what) in checks.items():
        wanted = not arguments.steps or stem.startswith(tuple(arguments.steps))
        if wanted and digests.get((stem, language)) != digest_of(*what):
            print(f"{stem} {language}", flush=True)
            digests[stem, language] = check(*what)
            if arguments.write:
                cuda_gate.store(digests)
    if arguments.write:  # without the steps that are gone
        cuda_gate.store({key: value for key, value in digests.items() if key in checks})


def _checks():
    """{(step, language): (function that gives the digest, function that compiles and gives it, their arguments)}."""
    checks = {(cuda_gate.step_of(path), "cuda"): (cuda_gate.digest, _check_cuda, (path,)) for path in cuda_gate.files()}
    for stem, launches in twin_launches().items():
        checks[stem, "triton"] = digest, _check_triton, (stem, launches)
    return checks


if __name__ == "__main__":
    main()
