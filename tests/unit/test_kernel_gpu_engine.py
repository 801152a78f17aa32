"""The parts of the GPU engine that need no GPU: arguments as bytes, machine code on disk, what errors become."""

import ctypes
import dataclasses
import struct
from types import SimpleNamespace

import numpy
import pytest
import torch

pytest.importorskip("cupy")

from course_lib import device  # noqa: E402
from course_lib.cuda import cupy_engine, dependent, packed, signature  # noqa: E402
from course_lib.errors import KernelFault, LaunchError  # noqa: E402

SOURCE = 'extern "C" __global__ void k(float* x, int n, __half h, float4 v) { int unused; x[n] = (float)h + v.x; }'
SOURCE = f"#include <cuda_fp16.h>\n{SOURCE}"


@pytest.fixture
def module():
    """A module with a fake driver: 128 threads at most, 40 KiB of static shared memory."""
    made = object.__new__(cupy_engine.CupyModule)
    made.name, made._fitting = "k", set()
    made.function = SimpleNamespace(
        max_threads_per_block=128, num_regs=200, shared_size_bytes=40960, max_dynamic_shared_size_bytes=49152
    )
    return made


@pytest.fixture
def hopper(monkeypatch, tmp_path):
    monkeypatch.setattr(device, "current", lambda: device.KNOWN_GPUS["H200"])
    monkeypatch.setenv("COURSE_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_arguments_become_exactly_their_bytes():
    x = torch.zeros(4)
    parameters = signature.parse(SOURCE, "k")
    values = [x, 7, struct.pack("<e", 1.5), struct.pack("<4f", 1, 2, 3, 4)]
    types = packed.scalar_types(parameters)
    items = [packed.pack(scalar_type, value) for scalar_type, value in zip(types, values, strict=True)]
    assert [item.nbytes for item in items] == [8, 4, 2, 16]
    assert int(items[0]) == x.data_ptr() and items[3].tobytes() == values[3]
    assert int(packed.pack(types[0], None)) == 0


def test_machine_code_is_kept_and_notes_with_it(hopper, monkeypatch):
    path, notes = cupy_engine._cubin(SOURCE, {}, "cell", 1)
    assert path.read_bytes()[:4] == b"\x7fELF" and "unused" in notes
    monkeypatch.setattr(cupy_engine.nvrtc, "compile_cubin", None)  # a second compilation would fail
    assert cupy_engine._cubin(SOURCE, {}, "cell", 1) == (path, notes)
    assert not list(hopper.rglob("tmp*"))


def test_other_macros_are_other_machine_code(hopper):
    assert cupy_engine._cubin(SOURCE, {"A": "1"}, "cell", 1)[0] != cupy_engine._cubin(SOURCE, {"A": "2"}, "cell", 1)[0]


def test_what_does_not_fit_is_refused_before_the_launch(hopper, module):
    with pytest.raises(LaunchError, match="a block of 256 threads; this kernel takes at most 128 .200 registers"):
        module._check_resources((256, 1, 1), 0)
    with pytest.raises(LaunchError, match="40960 bytes of static and 200000 of dynamic shared memory are 240960"):
        module._check_resources((32, 1, 1), 200000)


def test_large_dynamic_shared_memory_is_asked_for(hopper, module):
    module._check_resources((32, 1, 1), 100000)
    assert module.function.max_dynamic_shared_size_bytes == 100000


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", KernelFault, "outside its tensors"),
        ("CUDA error: x\nSearch for `cudaErrorIllegalAddress'", KernelFault, "outside its tensors"),
        ("cudaErrorMisalignedAddress: misaligned address", KernelFault, "misaligned address"),
        ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many", LaunchError, "declare __launch_bounds__"),
        (
            "CUDA error: unspecified launch failure\nSearch for `cudaErrorLaunchFailure'\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            KernelFault,
            "failed while running",
        ),
        ("cudaErrorMemoryAllocation: out of memory", LaunchError, "found no room on the GPU"),
        ("CUDA_ERROR_NOT_IN_THE_LIST: odd", LaunchError, "failed: CUDA_ERROR_NOT_IN_THE_LIST"),
    ],
)
def test_errors_of_the_driver_are_sentences_with_the_launch(module, text, kind, sentence):
    error = module._fault(RuntimeError(text), (1, 1, 1), (32, 1, 1), 0)
    assert type(error) is kind and sentence in str(error)
    assert str(error).startswith("k<<<(1, 1, 1), (32, 1, 1), 0>>> ")


def test_every_hopper_is_compiled_for_its_own_instructions(monkeypatch, tmp_path):
    seen = []
    row = dataclasses.replace(device.KNOWN_GPUS["T4"])
    monkeypatch.setenv("COURSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cupy_engine.nvrtc, "compile_cubin", lambda *_, arch, **__: seen.append(arch) or _stop())
    for current in (device.KNOWN_GPUS["H100"], row):
        monkeypatch.setattr(device, "current", lambda current=current: current)
        with pytest.raises(InterruptedError):
            cupy_engine._cubin(SOURCE, {}, "cell", 1)
    assert seen == ["sm_90a", "sm_75"]


def _stop():
    raise InterruptedError


def test_a_kernel_that_waits_for_its_predecessor_is_launched_as_its_dependent(monkeypatch):
    """The driver gets grid, block, shared memory, stream, the attribute, and the bytes of each argument."""
    seen, status = [], 0

    def launch_kernel_ex(config, function, parameters, extra):
        config, addresses = config._obj, (ctypes.c_void_p * 2).from_address(parameters.value)
        attribute = config.attributes[0]
        numbers = ctypes.c_int.from_address(addresses[0]).value, ctypes.c_float.from_address(addresses[1]).value
        seen.append((list(config.sizes), config.stream, function.value, attribute.id, attribute.value, *numbers))
        assert config.num_attributes == 1 and ctypes.sizeof(attribute) == 72 and extra is None
        return status

    def error_name(status, name):
        name._obj.value = b"CUDA_ERROR_INVALID_VALUE"

    driver = SimpleNamespace(cuLaunchKernelEx=launch_kernel_ex, cuGetErrorName=error_name)
    monkeypatch.setattr(dependent, "_driver", lambda: driver)
    arguments = (77, (5, 1, 1), (64, 2, 1), (numpy.int32(9), numpy.float32(0.5)), 1024, 88)
    dependent.launch(*arguments)
    assert seen == [([5, 1, 1, 64, 2, 1, 1024], 88, 77, 6, 1, 9, 0.5)]
    assert dependent.is_dependent("griddepcontrol_wait();") and not dependent.is_dependent(SOURCE)
    optional = "#if DEPENDENT\ngriddepcontrol_wait();\n#endif"
    assert [dependent.is_dependent(optional, {"DEPENDENT": x}) for x in (1, "1", 0)] == [True, True, False]
    assert not dependent.is_dependent(optional), "it would not wait"
    status = 1
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        dependent.launch(*arguments)
