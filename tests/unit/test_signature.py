"""signature.py: every declaration that the course uses, and the sentences for those it refuses."""

import pytest

from course_lib.cuda import signature
from course_lib.errors import SignatureError

SOURCE = """
#include "common/constants.cuh"
typedef float real;  // a comment with (parentheses and extern "C" __global__ void ghost(int x)
using index_t = long long;
#define ELEMENT __half
template <int N> __device__ int helper(int x) { return x + N; }
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
many_kernel(const float* __restrict__ x, /* in, */ real* out, int num_rows, unsigned flags, size_t count,
            const ELEMENT* t, float4 const * v, Pair map, bool causal, const T* typed, index_t offset,
            __nv_bfloat16 z, const int lengths[], double* volatile d, float2 pair) {}
extern "C" { __global__ void none_kernel() { } }
"""


def parse(declaration, **options):
    return signature.parse(f'extern "C" __global__ void k({declaration}) {{}}', "k", **options)


def test_names_in_order_without_those_in_comments():
    assert signature.kernel_names(SOURCE) == ["many_kernel", "none_kernel"]


@pytest.mark.parametrize(
    ("name", "ctype", "is_pointer", "element", "is_const", "size"),
    [
        ("x", "const float*", True, "float", True, 8),
        ("out", "float*", True, "float", False, 8),
        ("num_rows", "int", False, "int", False, 4),
        ("flags", "unsigned int", False, "unsigned int", False, 4),
        ("count", "unsigned long long", False, "unsigned long long", False, 8),
        ("t", "const half*", True, "half", True, 8),
        ("v", "const float4*", True, "float4", True, 8),
        ("map", "Pair", False, "Pair", False, 0),
        ("causal", "bool", False, "bool", False, 1),
        ("typed", "const bfloat16*", True, "bfloat16", True, 8),
        ("offset", "long long", False, "long long", False, 8),
        ("z", "bfloat16", False, "bfloat16", False, 2),
        ("lengths", "const int*", True, "int", True, 8),
        ("d", "double*", True, "double", False, 8),
        ("pair", "float2", False, "float2", False, 8),
    ],
)
def test_every_kind_of_parameter(name, ctype, is_pointer, element, is_const, size):
    parameters = signature.parse(SOURCE, "many_kernel", defines={"T": "__nv_bfloat16"})
    found = {parameter.name: parameter for parameter in parameters}[name]
    assert (found.ctype, found.is_pointer, found.element, found.is_const, found.size_bytes) == (
        ctype,
        is_pointer,
        element,
        is_const,
        size,
    )


def test_no_parameters():
    assert signature.parse(SOURCE, "none_kernel") == []
    assert parse("void") == []


def test_struct_is_known_as_bytes():
    [parameter] = parse("const __grid_constant__ Pair map")
    assert parameter.is_struct and parameter.element == "Pair" and not parameter.is_tensor_map


def test_a_tensor_map_is_known():
    [first, second] = parse("const __grid_constant__ TensorMap map, const __grid_constant__ Pair pair")
    assert first.is_tensor_map and first.is_struct and not second.is_tensor_map


@pytest.mark.parametrize("declaration", ["TensorMap map", "const TensorMap map", "const TensorMap* map"])
def test_a_tensor_map_elsewhere_is_refused(declaration):
    with pytest.raises(SignatureError, match='must be "const __grid_constant__ TensorMap map": TMA reads'):
        parse(declaration)


def test_const_pointer_is_not_a_pointer_to_const():
    [first, second] = parse("float* const x, float const* y")
    assert not first.is_const and second.is_const


@pytest.mark.parametrize(
    ("source", "name", "sentence"),
    [
        (SOURCE, "missing", "Its kernels: many_kernel, none_kernel"),
        (SOURCE, None, "2 kernels"),
        ("__device__ int f() { return 1; }", None, "no __global__ function"),
        ("template <int N> __global__ void k(int x) {}", "k", "template"),
        ("__global__ void k(int x) {}", "k", 'extern "C"'),
        ('extern "C" __global__ void k(float& x) {}', "k", "reference"),
        ('extern "C" __global__ void k(float*) {}', "k", "needs a type and a name"),
    ],
)
def test_refused_with_a_sentence(source, name, sentence):
    with pytest.raises(SignatureError, match=sentence):
        signature.parse(source, name)


def test_the_only_kernel_needs_no_name():
    assert signature.choose('extern "C" __global__ void only_kernel(int x) {}') == "only_kernel"


def test_strings_are_not_comments():
    source = 'extern "C" __global__ void k(int x) { printf("// no comment"); }\nextern "C" __global__ void l(int y) {}'
    assert signature.kernel_names(source) == ["k", "l"]


def test_comments_keep_line_numbers():
    text = "a /* one\ntwo */ b // c\nd"
    assert signature.strip_comments(text).count("\n") == 2 and "c" not in signature.strip_comments(text)
