"""05.5 Predict the bytes: what the judge runs."""

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.report.verdict import Diagnosis

_KEYS = ("batch_size", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "head_dim", "itemsize")

_NAMES = ("naive", "fused", "never")

_TRIPS = {"naive": 8, "fused": 4, "never": 0}  # of the matrix through memory


def _parts(batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, itemsize):
    """(matrix, queries, keys) in bytes: the scores; q or the result; k or v."""
    matrix = batch_size * num_heads * seq_len_q * seq_len_kv * itemsize
    queries = batch_size * num_heads * seq_len_q * head_dim * itemsize
    return matrix, queries, batch_size * num_kv_heads * seq_len_kv * head_dim * itemsize


def right_bytes(name, sizes):
    """Bytes of the way `name`, from a dict of sizes."""
    matrix, queries, keys = _parts(**sizes)
    return _TRIPS[name] * matrix + 2 * queries + 2 * keys


def accept_bytes(case, _inputs, outputs):
    """None when all three numbers are right; otherwise a Diagnosis for the first wrong one, the simplest way first."""
    got, right = ([int(outputs[name]) for name in _NAMES], [right_bytes(name, case.sizes) for name in _NAMES])
    if got != right and sorted(got) == sorted(right):
        said = f"In the case {case.name!r} the three numbers are right, in another order"
        return Diagnosis("changed_places", f"{said}: return (naive, fused, never), the largest first.")
    for name in reversed(_NAMES):
        got, right = int(outputs[name]), right_bytes(name, case.sizes)
        if got != right:
            code, thought = _thought(name, got, case.sizes)
            start = f"In the case {case.name!r} {name} is {got:,} bytes, expected {right:,}"
            return Diagnosis(code, f"{start}. {thought}".strip())
    return None


def _thought(name, got, sizes):
    """(code, sentence): the slip that gives this number, where one is known."""
    matrix, queries, keys = _parts(**sizes)
    wide = keys * sizes["num_heads"] // sizes["num_kv_heads"]
    trips, itemsize = _TRIPS[name], sizes["itemsize"]
    right = right_bytes(name, sizes)
    table = (
        (trips * matrix + 2 * queries + 2 * wide, "heads_not_grouped",
         f"That counts k and v with num_heads = {sizes['num_heads']} heads; they have {sizes['num_kv_heads']}."),
        (trips * matrix * sizes["num_kv_heads"] // sizes["num_heads"] + 2 * queries + 2 * keys, "matrix_heads",
         f"That counts the matrix for {sizes['num_kv_heads']} heads; each of the {sizes['num_heads']} query heads has "
         "its own."),
        (trips * matrix // itemsize * 4 + 2 * queries + 2 * keys, "itemsize_ignored",
         f"That counts 4 bytes for a number of the matrix; here it has {itemsize}."),
        (right - keys, "v_forgotten", "k and v are read, both of the same size."),
        (right // itemsize, "in_numbers", f"That is the number of numbers; each has {itemsize} bytes."),
        (right // itemsize * 4, "itemsize_ignored", f"That counts 4 bytes for a number; here it has {itemsize}."),
        (right // sizes["batch_size"], "batch_forgotten", f"That is one of {sizes['batch_size']} batch entries."),
        (right - queries, "result_forgotten", "The result is written as well: as many bytes as q."),
        (trips * matrix + 4 * queries, "lengths_equal", "That takes seq_len_q for the length of k and v."),
        (trips * matrix, "inputs_forgotten", "q, k, v and the result travel as well."),
    )  # fmt: skip
    for value, code, words in table:
        if got == value and value != right:
            return code, words
    moved = (got - 2 * queries - 2 * keys) / matrix
    if moved == int(moved) and moved >= 0:
        return "trips", (
            f"That is q, k, v and the result and {moved:.0f} trips of the {matrix:,} bytes of the matrix; "
            f"there are {trips}{_why(name)}."
        )
    return "wrong_bytes", f"The matrix has {matrix:,} bytes, q {queries:,}, k {keys:,}."


def _why(name):
    """The trips in words."""
    return {
        "naive": ": scores written; scale and mask each read and write; softmax reads and writes; weights read",
        "fused": ": scores written, read by the fused kernel, weights written, read by the last one",
        "never": "",
    }[name]


def _case(name, *sizes):
    return Case(name, dict(zip(_KEYS, sizes, strict=True)), name, "whole number")


def _run(case, tensors):
    arguments = tuple(case.sizes.values())
    return Run(case.name, tensors, {name: ((), "int64") for name in _NAMES}, arguments)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("2 queries, 7 keys, width 5", 1, 1, 1, 2, 7, 5, 4),
        _case("one head", 1, 1, 1, 128, 128, 64, 4),
        _case("more keys than queries", 1, 1, 1, 16, 128, 64, 4),
        _case("two batch entries", 2, 4, 4, 64, 64, 32, 4),
        _case("8 heads on 2", 1, 8, 2, 64, 64, 32, 4),
        _case("half precision", 1, 4, 4, 64, 64, 32, 2),
        _case("8192 tokens, 32 heads on 8", 1, 32, 8, 8192, 8192, 128, 2),
        _case("all sizes different, 1 byte", 3, 10, 2, 7, 17, 13, 1),
        _case("more queries than keys, 8 bytes", 5, 12, 3, 41, 19, 11, 8),
        _case("100,003 queries and 99,991 keys", 3, 30, 10, 100_003, 99_991, 113, 2),
    ),
    make_inputs=lambda case, gen: {},
    make_run=_run,
    accept=accept_bytes,
)
