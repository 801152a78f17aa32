"""Random programs of operators: the quick ways give what the language's own ways give, bit for bit."""

import operator
import sys
import warnings

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course_lib.triton import _accesses, _functions, _operators, _private

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:tl.where")
TYPES = (tl.float32, tl.float16, tl.bfloat16, tl.float64, tl.int32, tl.int64, tl.int8, tl.uint32, tl.int1)
SHAPES = (None, (1,), (4,), (8,), (4, 1), (1, 8), (4, 8), (8, 4), (1, 1))
NUMBERS = (
    0,
    1,
    3,
    -1,
    2**31,
    2**40,
    True,
    0.5,
    -2.0,
    0.1,
    1e-45,
    1e300,
    float("inf"),
    float("nan"),
    -0.0,
    tl.constexpr(3),
    tl.constexpr(0.5),
)
BINARY = {
    name: getattr(operator, name) for name in "add sub mul truediv floordiv mod and_ or_ lt le gt ge eq ne".split()
} | {f"r{name}": lambda x, y, name=name: getattr(operator, name)(y, x) for name in "add sub mul truediv".split()}
FUNCTIONS = ("where", "maximum", "minimum", "load", "store", "dot", "arange", "trans")
MATHS = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt")
MEMBERS = {"and_": "__and__", "or_": "__or__"}
SLICES = ((slice(None), None), (None, slice(None)), (None, slice(None), None), (slice(None), slice(None)), (0, None))


@triton.jit
def empty_kernel():
    tl.debug_barrier()


class Language:
    """The two ways of the language: its own, and the one that a kernel gets."""

    def __init__(self):
        self.interpreter = sys.modules["triton.runtime.interpreter"]
        self.semantic = tl.semantic.TritonSemantic(self.interpreter.interpreter_builder)
        self.own = {name: getattr(tl.tensor, MEMBERS.get(name, f"__{name}__")) for name in BINARY}
        self.own |= {name: getattr(tl.tensor, name) for name in ("__neg__", "__invert__", "__getitem__", "to")}
        self.own |= {name: getattr(tl, name) for name in (*FUNCTIONS, *MATHS)}

    def tensor(self, rng, kind, shape, transposed=False):
        dtype = self.interpreter._get_np_dtype(kind)
        sizes = (shape or (1,))[:: -1 if transposed else 1]
        if kind.is_floating():
            values = rng.choice([0.0, -0.0, 1.5, -3.25, 7e4, np.nan, np.inf, -np.inf, 1e-7], sizes)
        else:
            values = rng.integers(-9, 9, sizes)
        with np.errstate(all="ignore"):
            data = values.astype(np.float32).view(np.uint32) >> 16 if kind is tl.bfloat16 else values
            data = data.astype(dtype)
        data = data.T if transposed else data
        block = kind if shape is None else tl.block_type(kind, list(shape))
        return tl.tensor(self.interpreter.TensorHandle(data, kind), block)

    def both(self, name, quick, *operands):
        """What the own way and the quick way give."""
        own = described(lambda: self.own[name](*operands, _semantic=self.semantic))
        return own, described(lambda: quick(*operands))


def described(compute):
    """A result as type, shape, layout and bits, or an error as its sentence; with NumPy's warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = compute()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        else:
            result = result.value if isinstance(result, tl.constexpr) else result  # of a constexpr on the left
            data = result.handle.data
            bits = np.where(np.isnan(data), np.nan, data).tobytes() if data.dtype.kind == "f" else data.tobytes()
            layout = (data.flags.c_contiguous, data.flags.f_contiguous) if data.dtype.kind == "f" else None
            shape = [int(n) for n in result.shape], int(result.numel)
            text = (str(result.type), str(result.dtype), shape, str(result.handle.dtype), data.dtype, layout, bits)
    return text, sorted((str(one.message), one.filename, one.lineno) for one in caught)


@pytest.fixture(scope="module")
def language():
    made = Language()
    scope = made.interpreter._patch_lang(empty_kernel.fn)
    yield made
    scope.restore()


def drawn(language, rng, kinds=TYPES):
    """A random operand: a tensor, at times with its dimensions swapped, or a number."""
    if rng.random() < 0.2:
        return NUMBERS[rng.integers(len(NUMBERS))]
    shape = SHAPES[rng.integers(len(SHAPES))]
    return language.tensor(rng, kinds[rng.integers(len(kinds))], shape, transposed=rng.random() < 0.3)


@pytest.mark.parametrize("name", BINARY)
def test_operators_are_those_of_the_language(language, name):
    rng = np.random.default_rng(5)
    for _ in range(400):
        kinds = TYPES if rng.random() < 0.5 else (TYPES[rng.integers(len(TYPES))],)
        lhs, rhs = drawn(language, rng, kinds), drawn(language, rng, kinds)
        if isinstance(lhs, tl.tensor):
            own, quick = language.both(name, BINARY[name], lhs, rhs)
            assert own == quick, (name, lhs, rhs)


def test_programs_give_the_same_results_step_by_step(language):
    rng, names = np.random.default_rng(6), [*BINARY]
    for _ in range(60):
        pool = [language.tensor(rng, kind, shape) for kind in (tl.float32, tl.int32) for shape in (None, (4,), (4, 8))]
        for _ in range(12):
            name = names[rng.integers(len(names))]
            lhs, rhs = (pool[rng.integers(len(pool))] for _ in range(2))
            own, quick = language.both(name, BINARY[name], lhs, rhs)
            assert own == quick, (name, lhs, rhs)
            if not isinstance(own[0], str):
                pool.append(BINARY[name](lhs, rhs))


def test_what_has_one_operand_is_that_of_the_language(language):
    rng = np.random.default_rng(7)
    for _ in range(400):
        x = language.tensor(rng, TYPES[rng.integers(len(TYPES))], SHAPES[rng.integers(len(SHAPES))], rng.random() < 0.3)
        index, to = SLICES[rng.integers(len(SLICES))], TYPES[rng.integers(len(TYPES))]
        calls = {
            "__neg__": (operator.neg,),
            "__invert__": (operator.invert,),
            "__getitem__": (operator.getitem, index),
            "to": (lambda x, dtype: x.to(dtype), to),
        }
        calls |= {name: (getattr(tl, name),) for name in MATHS}
        for name, (quick, *operands) in calls.items():
            own, fast = language.both(name, quick, x, *operands)
            assert own == fast, (name, x, operands)


def test_choices_are_those_of_the_language(language):
    rng = np.random.default_rng(8)
    for _ in range(800):
        kinds = (TYPES[rng.integers(len(TYPES))],)
        condition = drawn(language, rng, (tl.int1,))
        x, y = drawn(language, rng, kinds), drawn(language, rng, kinds)
        for name, operands in {"where": (condition, x, y), "maximum": (x, y), "minimum": (x, y)}.items():
            own, quick = language.both(name, getattr(tl, name), *operands)
            assert own == quick, (name, operands)


def test_ranges_and_transposed_matrices_are_those_of_the_language(language):
    rng = np.random.default_rng(11)
    for bounds in ((0, 8), (0, 8), (8, 16), (3, 3), (0, 5), (0, 2**33), (0.0, 8), (tl.constexpr(0), tl.constexpr(4))):
        own, quick = language.both("arange", tl.arange, *bounds)
        assert own == quick, bounds
    for kind in TYPES:
        for shape in SHAPES:
            x = language.tensor(rng, kind, shape, rng.random() < 0.3)
            for dims in ((), (1, 0), (0, 1)):
                own, quick = language.both("trans", tl.trans, x, *dims)
                assert own == quick, (x, dims)


def test_products_are_those_of_the_language(language):
    rng = np.random.default_rng(9)
    for _ in range(200):
        kinds = (tl.float32, tl.float16, tl.int8, tl.bfloat16)
        shapes = [((4, 8), (8, 4)), ((8, 4), (4, 8)), ((4, 8), (4, 8)), ((4,), (4,)), ((1, 1), (1, 8))]
        first, second = shapes[rng.integers(len(shapes))]
        x = language.tensor(rng, kinds[rng.integers(4)], first, rng.random() < 0.3)
        y = language.tensor(rng, x.dtype if rng.random() < 0.8 else tl.float32, second, rng.random() < 0.3)
        acc = None if rng.random() < 0.5 else language.tensor(rng, tl.float32, (first[0], second[-1]))
        for precision in ("ieee", "tf32", "half", None):
            own, quick = language.both("dot", tl.dot, x, y, acc, precision)
            assert own == quick, (x, y, acc, precision)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.int32, torch.bfloat16, torch.bool, torch.int8])
def test_accesses_are_those_of_the_language(language, kind):
    rng = np.random.default_rng(10)
    memory = torch.arange(64).to(kind)
    _private._guard.begin_launch([memory])
    pointer = language.interpreter._implicit_cvt(memory)
    for _ in range(150):
        offsets = language.tensor(rng, (tl.int32, tl.int64)[rng.integers(2)], SHAPES[rng.integers(len(SHAPES))])
        offsets.handle.data = np.abs(offsets.handle.data)
        own, quick = language.both("add", operator.add, pointer, offsets)
        assert own == quick, offsets
        place = pointer + offsets
        mask = None if rng.random() < 0.3 else drawn(language, rng, (tl.int1,))
        other = None if rng.random() < 0.5 else drawn(language, rng, (tl.float32, tl.int32))
        own, quick = language.both("load", tl.load, place, mask, other)
        assert own == quick, (place.type, mask, other)
        stored(language, memory, place, drawn(language, rng), mask)


def stored(language, memory, place, value, mask):
    """Both ways leave the same in memory, or refuse with the same words."""
    before, results = memory.clone(), []
    for store in (lambda: language.own["store"](place, value, mask, _semantic=language.semantic),
                  lambda: tl.store(place, value, mask)):  # fmt: skip
        memory.copy_(before)
        try:
            words = str(store().type)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
        results.append((words, memory.view(torch.uint8).tolist()))
    memory.copy_(before)
    assert results[0] == results[1], (place.type, value, mask)


def test_plain_operands_do_not_go_the_own_way(language, monkeypatch):
    made = [part.replacements(language.interpreter) for part in (_operators, _functions, _accesses)]
    assert sum(map(len, made)) == 36
    for name in ("add", "mul", "less_than", "and_", "expand_dims", "where", "cast", "floordiv"):
        monkeypatch.setattr(tl.semantic.TritonSemantic, name, None)
    x, index = (language.tensor(np.random.default_rng(0), kind, (4,)) for kind in (tl.float32, tl.int32))
    mask = (index[:, None] + index[None, :] * 8 < 9) & (index[None, :] // 3 < 2)
    assert tl.where(mask, (x * 2.0 + x)[:, None], 0.0).handle.data.shape == (4, 4) and index.to(tl.float32) is not index


def test_a_spread_view_is_that_of_numpy():
    for shape in ((4, 1), (1, 8), (1, 1), (4, 8)):
        data = np.arange(np.prod(shape)).reshape(shape)
        for array in (data, data.T.copy().T):
            assert np.array_equal(_accesses.spread(array, (4, 8)), np.broadcast_to(array, (4, 8)))
