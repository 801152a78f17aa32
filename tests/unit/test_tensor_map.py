"""cuda.tensor_map without a GPU: every rule has its sentence, and the driver gets what the rules let through."""

import struct
import sys
from types import SimpleNamespace

import pytest
import torch

from course_lib import cuda, device
from course_lib.cuda import arguments, cupy_engine, packed, signature
from course_lib.errors import ArgumentError, ShapeError, ToolchainError, UnsupportedError

MAPS = sys.modules["course_lib.cuda.tensor_map"]  # the package's attribute of that name is the function
DECLARATION = 'extern "C" __global__ void k(const __grid_constant__ TensorMap map) {}'


def tensor(*shape, strides=None, dtype=torch.float16):
    """A tensor without memory, so that it may be large."""
    made = torch.empty(shape, dtype=dtype, device="meta")
    return made if strides is None else torch.empty_strided(shape, strides, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    ("mapped", "box", "swizzle", "sentence"),
    [
        (tensor(), (), None, r"float16 \(\) has 0 dimensions; a map has 1 to 5"),
        (tensor(1, 1, 1, 1, 8, 8), (1, 1, 1, 1, 8, 8), None, "has 6 dimensions; a map has 1 to 5"),
        (tensor(8, 8, dtype=torch.complex64), (8, 8), None, r"TMA knows no complex64; pass tensor.view\(torch.uint8\)"),
        (tensor(8, 0, 8), (8, 8, 8), None, "dimension 1 of .* has 0 elements; it must be 1 to 4294967295"),
        (tensor(2**32, dtype=torch.uint8), (16,), None, "dimension 0 of .* has 4294967296 elements"),
        (tensor(8, 16).T, (16, 8), None, "the innermost stride .* is 16 elements; it must be 1. Move"),
        (tensor(8, 12), (8, 8), None, "stride of dimension 0 .* is 24 bytes; it must be a multiple of 16. Pad"),
        (
            tensor(2, 8, 8, strides=(2**39, 8, 1)),
            (1, 8, 8),
            None,
            "dimension 0 .* 1099511627776 bytes; .* less than 2^40",
        ),
        (
            tensor(1, 8).expand(4, 8),
            (4, 8),
            None,
            "dimension 0 .* is 0 bytes: an expanded dimension. Map the tensor before",
        ),
        (torch.zeros(65, dtype=torch.float16)[1:], (8,), None, "first element .* is 2 bytes past a multiple of 16"),
        (torch.zeros(8, 16, dtype=torch.float16)[:, 4:12], (8, 8), None, "is 8 bytes past a multiple of 16"),
        (tensor(8, 8), 8, None, "box is 8; give one whole number for each dimension"),
        (tensor(8, 8), (8, 8.0), None, r"box is \(8, 8.0\); give one whole"),
        (tensor(8, 8), (8,), None, r"box \(8,\) has 1 sides and float16 \(8, 8\) has 2 dimensions; give one side"),
        (tensor(512, 8), (257, 8), None, r"side 0 of box \(257, 8\) is 257; a side has 1 to 256 elements"),
        (tensor(8, 8), (0, 8), None, "side 0 .* is 0; a side has 1"),
        (tensor(8, 64), (8, 12), None, "12 elements of float16, 24 bytes; it must be a multiple of 16 bytes"),
        (tensor(8, 128), (8, 128), "128B", '256 bytes; with swizzle "128B" it has 128. Take 64 elements, and several'),
        (tensor(8, 128), (8, 64), "64B", '128 bytes; with swizzle "64B" it has 64. Take 32 elements, and several'),
        (tensor(8, 128), (8, 32), "128B", '64 bytes; with swizzle "128B" it has 128. Take 64 elements, or a narrower'),
        (tensor(8, 128), (8, 32), "32B", '64 bytes; with swizzle "32B" it has 32. Take 16 elements, and several'),
    ],
)
def test_a_broken_rule_is_a_sentence(mapped, box, swizzle, sentence):
    with pytest.raises(ShapeError, match=f"^tensor_map: .*{sentence.replace('2^40', '2.40')}"):
        cuda.tensor_map(mapped, box, swizzle)


@pytest.mark.parametrize(
    ("mapped", "box", "swizzle"),
    [
        (tensor(1, 1, 1, 8, 8), (1, 1, 1, 8, 8), None),
        (tensor(2**32 - 1, dtype=torch.uint8), (16,), None),
        (tensor(2, 8, 8, strides=(2**39 - 8, 8, 1)), (1, 8, 8), None),
        (tensor(1, 8, 8, strides=(3, 8, 1)), (1, 8, 8), None),  # the stride of a single element is never used
        (tensor(512, 8, strides=(8, 3))[:, :1], (256, 8), None),
        (torch.zeros(72, dtype=torch.float16)[8:], (64,), "128B"),
        (tensor(8, 128), (8, 64), "128B"),
        (tensor(8, 128), (8, 32), "64B"),
        (tensor(8, 128), (8, 16), "32B"),
        (tensor(8, 128), [256, 256], None),
        (tensor(8, 16, dtype=torch.float8_e4m3fn), (8, 128), "128B"),
        (tensor(8, 2, dtype=torch.float64), (8, 2), None),
    ],
)
def test_the_limits_themselves_are_allowed(mapped, box, swizzle):
    made = cuda.tensor_map(mapped, box, swizzle)
    assert made.tensor is mapped and made.box == tuple(box) and made.swizzle == swizzle


def test_the_bytes_of_a_box():
    made = cuda.tensor_map(tensor(2, 3, 128, 64), (1, 1, 128, 64), "128B")
    assert made.box_bytes == 128 * 64 * 2
    assert repr(made) == "<TensorMap of float16 (2, 3, 128, 64), box (1, 1, 128, 64), swizzle 128B>"


def test_no_tensor_and_no_swizzle():
    with pytest.raises(ArgumentError, match="wants a torch tensor, got a list"):
        cuda.tensor_map([1, 2], (2,))
    with pytest.raises(ArgumentError, match='swizzle is \'256B\'; it must be None or one of "128B", "64B", "32B"'):
        cuda.tensor_map(tensor(8, 8), (8, 8), "256B")


def check(value, declaration=DECLARATION, **options):
    return arguments.check("k", signature.parse(declaration, "k"), [value], **options)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (torch.zeros(8, 8), "wants a tensor map, got a tensor of float32.*Pass cuda.tensor_map"),
        (b"\0" * 128, "wants a tensor map, got a bytes"),
        (None, "wants a tensor map, got None"),
    ],
)
def test_a_wrong_argument_names_the_parameter(value, sentence):
    with pytest.raises(ArgumentError, match=rf"k: parameter map \(const TensorMap\) {sentence}"):
        check(value)


def test_a_map_is_no_pointer_and_no_number():
    made = cuda.tensor_map(torch.zeros(8, 8), (8, 8))
    for declaration in ("float* x", "int x"):
        with pytest.raises(ArgumentError, match="parameter x .* got a map of a tensor of float32"):
            check(made, f'extern "C" __global__ void k({declaration}) {{}}')
    assert check(made) == [made]


def test_the_mapped_tensor_must_be_where_the_kernel_runs():
    made = cuda.tensor_map(torch.zeros(8, 8), (8, 8))
    with pytest.raises(ArgumentError, match=r"parameter map .* on the GPU, .* on cpu. Map the tensor's .cuda\(\)"):
        check(made, device="cuda")


class Named:
    """In place of an enum of the driver: an attribute is its own name."""

    def __getattr__(self, name):
        return name


@pytest.fixture
def driver(monkeypatch):
    """A driver that takes every map and writes down what it was asked; `status` and `raised` make it refuse."""
    calls = SimpleNamespace(asked=[], status=0, raised=None)

    class Status(int):
        name = "CUDA_ERROR_INVALID_VALUE"

    def encode(*asked):
        if calls.raised:
            raise calls.raised
        calls.asked.append(asked)
        return Status(calls.status), SimpleNamespace(opaque=list(range(16)))

    enums = ("CUtensorMapDataType", "CUtensorMapInterleave", "CUtensorMapSwizzle")
    enums += ("CUtensorMapL2promotion", "CUtensorMapFloatOOBfill")
    fake = SimpleNamespace(cuuint32_t=int, cuuint64_t=int, cuTensorMapEncodeTiled=encode)
    fake.__dict__.update({name: Named() for name in enums})
    monkeypatch.setattr(MAPS, "_driver", lambda: fake)
    MAPS._encode.cache_clear()
    yield calls
    MAPS._encode.cache_clear()


def test_what_the_driver_is_asked(driver):
    whole = torch.zeros(2, 96, 3, 64, dtype=torch.bfloat16)  # (B, S, H, D)
    made = cuda.tensor_map(whole.permute(0, 2, 1, 3), (1, 1, 48, 32), "64B")
    assert made.driver_bytes() == struct.pack("<16Q", *range(16))
    [asked] = driver.asked
    assert asked[:7] == (
        "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
        4,
        whole.data_ptr(),
        [64, 96, 3, 2],
        [3 * 64 * 2, 64 * 2, 96 * 3 * 64 * 2],
        [32, 48, 1, 1],
        [1, 1, 1, 1],
    )
    assert asked[7:] == (
        "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "CU_TENSOR_MAP_SWIZZLE_64B",
        "CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    )


def test_the_same_map_is_encoded_once(driver):
    x = torch.zeros(8, 64)
    for _ in range(3):
        cuda.tensor_map(x, (8, 32)).driver_bytes()
    assert len(driver.asked) == 1
    cuda.tensor_map(x, (8, 32), "128B").driver_bytes()
    assert len(driver.asked) == 2 and driver.asked[0][8] == "CU_TENSOR_MAP_SWIZZLE_NONE"


def test_a_driver_that_is_too_old(driver):
    driver.raised = RuntimeError('Function "cuTensorMapEncodeTiled" not found')
    with pytest.raises(ToolchainError, match="offers no cuTensorMapEncodeTiled .*. Install a driver for CUDA 12.0"):
        cuda.tensor_map(torch.zeros(8, 8), (8, 8)).driver_bytes()


def test_a_driver_that_refuses(driver):
    driver.status = 1
    with pytest.raises(ShapeError, match=r"driver refuses the map \(CUDA_ERROR_INVALID_VALUE\): .* box \(4, 8\)"):
        cuda.tensor_map(torch.zeros(8, 8), (8, 4)).driver_bytes()


def test_without_the_bindings(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    MAPS._encode.cache_clear()
    with pytest.raises(ToolchainError, match="pip install 'cuda-core"):
        cuda.tensor_map(torch.zeros(8, 8), (8, 8)).driver_bytes()


def test_a_gpu_without_tma(monkeypatch):
    class OnGpu(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(device, "engine", lambda: "gpu")
    monkeypatch.setattr(device, "current", lambda: device.KNOWN_GPUS["A100"])
    with pytest.raises(UnsupportedError, match=r"compute capability 9.0, and this GPU \(NVIDIA A100.*\) has 8.0"):
        cuda.tensor_map(torch.zeros(8, 8).as_subclass(OnGpu), (8, 8))


def test_the_gpu_engine_passes_the_128_bytes(driver):
    pytest.importorskip("cupy")
    [parameter] = signature.parse(DECLARATION, "k")
    made = packed.pack(parameter, cuda.tensor_map(torch.zeros(8, 8), (8, 8)))
    assert made.nbytes == 128 and made.tobytes() == struct.pack("<16Q", *range(16))


def test_another_address_is_no_other_configuration():
    one, two = (cuda.tensor_map(torch.zeros(8, 8), (8, 8)) for _ in range(2))
    assert cupy_engine._key(one) == cupy_engine._key(two) != cupy_engine._key(cuda.tensor_map(one.tensor, (4, 8)))
