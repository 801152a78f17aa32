"""arguments.py: what fits the declared type passes unchanged, all else is a sentence with the parameter's name."""

import struct

import numpy
import pytest
import torch

from course_lib.cuda import arguments, signature
from course_lib.errors import ArgumentError


def check(declaration, *args, **options):
    parameters = signature.parse(f'extern "C" __global__ void k({declaration}) {{}}', "k")
    return arguments.check("k", parameters, args, **options)


@pytest.mark.parametrize(
    ("declaration", "value", "expected"),
    [
        ("int n", 3, 3),
        ("int n", 3.0, 3),
        ("int n", True, 1),
        ("int n", numpy.int64(7), 7),
        ("int n", -(2**31), -(2**31)),
        ("unsigned n", 2**32 - 1, 2**32 - 1),
        ("long long n", 2**40, 2**40),
        ("size_t n", 2**63, 2**63),
        ("float s", 2, 2.0),
        ("float s", 0.5, 0.5),
        ("float s", float("inf"), float("inf")),
        ("double s", 1e300, 1e300),
        ("bool b", True, True),
        ("bool b", 0, False),
        ("char c", -128, -128),
    ],
)
def test_numbers_that_fit(declaration, value, expected):
    [got] = check(declaration, value)
    assert got == expected and type(got) is type(expected)


@pytest.mark.parametrize(
    ("declaration", "value", "sentence"),
    [
        ("int n", 3.5, "parameter n .int. wants a whole number, got 3.5"),
        ("int n", float("nan"), "whole number"),
        ("int n", 2**31, "-2147483648 to 2147483647, got 2147483648"),
        ("unsigned n", -1, "0 to 4294967295, got -1"),
        ("char c", 128, "-128 to 127"),
        ("bool b", 2, "True or False"),
        ("float s", 1e39, "numbers up to 3.40282e.38"),
        ("float s", 10**400, "numbers up to"),
        ("float s", "one", "wants a number, got a str"),
        ("float s", numpy.zeros(2), "got a numpy.ndarray"),
        ("float s", torch.tensor(1.0), r"Pass s.item\(\)"),
        ("__half h", 70000.0, "numbers up to 65504"),
        ("float4 v", (1, 2, 3), "wants 4 numbers"),
        ("Pair pair", 3, "give its bytes"),
        ("int n", None, "wants a number, got None"),
    ],
)
def test_numbers_that_do_not_fit(declaration, value, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        check(declaration, value)


@pytest.mark.parametrize(
    ("declaration", "dtype"),
    [
        ("const float* x", torch.float32),
        ("double* x", torch.float64),
        ("__half* x", torch.float16),
        ("__nv_bfloat16* x", torch.bfloat16),
        ("float4* x", torch.float32),
        ("__half2* x", torch.float16),
        ("int* x", torch.int32),
        ("long long* x", torch.int64),
        ("unsigned* x", torch.uint32),
        ("bool* x", torch.bool),
        ("__nv_fp8_e4m3* x", torch.float8_e4m3fn),
        ("void* x", torch.float64),
        ("Pair* x", torch.int32),
    ],
)
def test_tensors_that_fit(declaration, dtype):
    tensor = torch.zeros(8, dtype=dtype)
    [got] = check(declaration, tensor, device="cpu")
    assert got is tensor


@pytest.mark.parametrize(
    ("declaration", "value", "sentence"),
    [
        (
            "const float* x",
            torch.zeros(2, dtype=torch.float64),
            r"parameter x .const float\*. wants a tensor of float32, "
            r"got a tensor of float64, shape \(2,\), on cpu",
        ),
        ("__half* x", torch.zeros(2, dtype=torch.bfloat16), "wants a tensor of float16"),
        ("int* x", torch.zeros(2, dtype=torch.int64), "wants a tensor of int32"),
        ("float* x", 3, "wants a torch tensor, got 3"),
        ("float* x", numpy.zeros(2), "got a numpy.ndarray"),
        ("float4* x", torch.zeros(9)[1:], "multiple of 16 bytes"),
    ],
)
def test_tensors_that_do_not_fit(declaration, value, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        check(declaration, value)


def test_tensor_on_the_wrong_device():
    with pytest.raises(ArgumentError, match=r"on the GPU, where this kernel runs.*Pass x.cuda\(\)"):
        check("float* x", torch.zeros(2), device="cuda")


def test_none_is_a_null_pointer():
    assert check("float* x, int n", None, 1) == [None, 1]


def test_values_without_a_python_type_become_bytes():
    assert check("float4 v", (1, 2, 3, 4)) == [struct.pack("<4f", 1, 2, 3, 4)]
    assert check("__half h", 1.5) == [struct.pack("<e", 1.5)]
    assert check("__nv_bfloat16 z", 1.0) == [b"\x80\x3f"]
    assert check("Pair pair", b"\0" * 12) == [b"\0" * 12]


def test_a_missing_argument_is_named():
    with pytest.raises(ArgumentError, match=r"takes 2 arguments .float\* x, int n., got 1. Nothing was given for n"):
        check("float* x, int n", torch.zeros(1))


def test_an_argument_too_many_is_described():
    with pytest.raises(ArgumentError, match="got 2. Nothing takes argument 2, 7"):
        check("int n", 1, 7)
