"""13.6 Name the bottleneck: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, bottleneck, say

H200 = (4350, 989)  # GB/s that it reads, TFLOP/s of its tensor cores in half precision
ROWS, TOKENS = 248, 640

# (kernels, read_gbps, peak_tflops); a kernel: name, launched, start, duration, bytes, FLOP
SMALL = [
    ([("copy_kernel", 0, 0, 1, 0, 0)], 1, 1),
    ([("copy_kernel", 5, 9, 10, 23, 0)], 4, 2),
    ([("copy_kernel", 5, 9, 10, 0, 6001)], 4, 2),
    ([("copy_kernel", 0, 29, 71, 57, 0)], 1, 1),  # 100 * (29 / 100) is 28.999… in floats, and so for 57
    ([("b", 0, 2, 6, 8, 0), ("a", 1, 8, 6, 8, 0)], 4, 1),  # equal gains
    ([("a", 0, 0, 10, 0, 1000), ("a", 12, 16, 4, 4, 0)], 4, 1),  # a gap, half of it the host's
    ([("a", 0, 0, 10, 28, 1000), ("b", 10, 10, 10, 12, 0)], 4, 1),  # exactly half
    ([("a", 0, 0, 10, 0, 5000), ("b", 0, 10, 10, 20, 0)], 4, 1),  # equal parts
    ([("a", 0, 0, 5, 4, 0), ("b", 10, 10, 5, 4, 0)], 4, 1),
    ([("a", 0, 0, 5, 4, 0), ("b", 15, 15, 5, 4, 0)], 4, 1),  # exactly half is the host's
    ([("a", 0, 0, 5, 60, 0), ("b", 15, 15, 5, 4, 0)], 4, 1),  # and the roofs are more, with bytes from the L2 cache
    ([("a", 0, 1, 100, 200, 0), ("b", 2, 10, 20, 40, 0), ("a", 3, 110, 10, 8, 0)], 4, 1),  # two streams
    ([("a <float, 4>(int)", 0, 0, 9, 4, 0), (" a", 1, 9, 9, 4, 0), ("b(int)", 2, 18, 12, 4, 0)], 4, 1),
    ([("a<1>", 0, 0, 9, 80, 0), ("a<2>", 0, 9, 9, 4, 0), ("b", 0, 18, 7, 4, 0)], 4, 1),  # one below its roof
    ([("a", 0, 0, 7, 28, 3000), ("b", 9, 12, 3, 3, 0), ("c", 4, 12, 8, 16, 4000)], 4, 1),  # two start at once
    ([("a", 0, 0, 9, 12, 3000), ("b", 0, 9, 1, 0, 0)], 4, 1),  # bytes and FLOP need equally long
    ([("a", 0, 0, 60, 0, 49_500), ("b", 0, 60, 40, 2, 0)], 4, 1),
    ([("a", 0, 0, 20, 28, 0), ("b", 0, 20, 10, 0, 8000)], 4, 1),  # 23 % and 26 %: together half
    ([("a", 0, 20, 5, 4, 0), ("b", 1, 10, 10, 4, 0)], 4, 1),  # launched first, started last
    ([("b", 0, 0, 9, 36, 0), ("a", 0, 9, 3, 4, 0)], 4, 1),  # the longest gains nothing
    ([("a", 0, 0, 200, 61 * 4350, 0), ("b", 0, 200, 150, 0, 122 * 989_000)], *H200),  # whole nanoseconds
    ([("void a<float>(int*)", 0, 0, 9, 4, 0), ("void b", 0, 9, 10, 4, 0), ("void a", 0, 19, 9, 4, 0)], 4, 1),
]


def _timeline(kernels, launch_ns, gap_ns):
    """[(name, launched, start, duration, bytes, FLOP), …] of one stream from (name, duration, bytes, FLOP)."""
    found, free = [], 0
    for number, (name, duration, num_bytes, num_flop) in enumerate(kernels):
        launched = number * launch_ns
        start = max(launched + 3000, free + gap_ns)
        found.append((name, launched, start, duration, num_bytes, num_flop))
        free = start + duration
    return found


def _gpt2(rng):
    """A step of GPT-2 124M at batch 1: 11.13 ms launched one by one, 0.47 ms as a graph; measured on an H200.

    The two totals are measured; the division of 0.47 ms among the kernels is not.
    """
    layer = [("add_layer_norm_kernel", 1700, 4608, 8000), ("gemv_kernel<qkv>", 3400, 3_543_552, 3_538_944)]
    layer += [("append_kernel", 1500, 6144, 0), ("decode_kernel<64>", 6200, 391_680, 196_608)]
    layer += [("combine_kernel<64>", 1600, 26_112, 12_288), ("gemv_kernel<out>", 2600, 1_183_488, 1_179_648)]
    layer += [("add_layer_norm_kernel", 1700, 4608, 8000), ("gemv_kernel<up>", 3700, 4_727_808, 4_718_592)]
    layer += [("gelu_kernel", 1300, 12_288, 30_000), ("gemv_kernel<down>", 4100, 4_726_272, 4_718_592)]
    last = [("layer_norm_kernel", 1700, 3072, 8000), ("gemv_kernel<head>", 27_000, 77_299_968, 77_194_752)]
    kernels = [("embedding_kernel", 1500, 4608, 768), *layer * 12, *last, ("sample_kernel", 9000, 201_028, 100_514)]
    return [(_timeline(kernels, launch, gap), *H200) for launch, gap in ((90_419, 500), (0, 773))]


def _product(name, duration, rows, columns):
    """A product of the batch with a matrix in half precision."""
    return name, duration, 2 * (rows * columns + ROWS * (rows + columns)), 2 * ROWS * rows * columns


def _serving(rng):
    """A decode step of 248 rows as a graph, 5.74 ms: durations from an H200, bytes of the shapes at 640 tokens a row.

    28 layers, hidden size 1024, 16 heads and 8 KV heads of 128; the products' durations in the order of their bytes.
    """
    cached = 2 * ROWS * TOKENS * 8 * 128 * 2
    norm = ("add_rms_norm_kernel<1024>", 2200, 4 * ROWS * 1024 * 2, 5 * ROWS * 1024)
    layer = [norm, _product("matmul_kernel<qkv>", 7400, 1024, 4096)]
    layer += [("rope_kernel(half*)", 2600, 2 * ROWS * 3072 * 2, 3 * ROWS * 3072)]
    layer += [("reshape_and_cache_kernel(half*)", 2200, 2 * ROWS * 2048 * 2, 0)]
    layer += [("paged_grouped_kernel<128, 2>", 159_900, cached + 2 * ROWS * 2048 * 2, 4 * ROWS * TOKENS * 16 * 128)]
    layer += [_product("matmul_kernel<out>", 6300, 2048, 1024), norm, _product("matmul_kernel<up>", 7600, 1024, 6144)]
    layer += [("swiglu_kernel(half*)", 2000, 3 * ROWS * 3072 * 2, 5 * ROWS * 3072)]
    layer += [_product("matmul_kernel<down>", 6500, 3072, 1024)]
    head = _product("head_kernel", 112_900, 1024, 151_936)
    kernels = [*layer * 28, head, ("sample_kernel(float*)", 33_300, ROWS * 151_936 * 2, ROWS * 151_936)]
    return [(_timeline(kernels, launch, 78), *H200) for launch in (0, 2500)]


def _drawn(count, most):
    def make(rng):
        return [_call(rng, rng.randint(1, most)) for _ in range(count)]

    return make


def _call(rng, num_kernels):
    """Kernels of up to three streams, in no order, on a card between few and thousands of bytes a nanosecond."""
    read_gbps, peak_tflops = rng.choice(((7, 1), (320, 65), (2039, 312), (4350, 989)))
    names = [rng.choice(" x") + rng.choice("abcd") + "_kernel" for _ in range(4)]
    wait, work = rng.choice(((0, 1), (60, 1), (60, 30), (400, 200))), rng.choice((0.2, 0.7, 1.1))
    free, launched, kernels = [0] * rng.randint(1, 3), rng.randint(0, 1000), []
    for _ in range(num_kernels):
        stream, duration = rng.randrange(len(free)), rng.randint(1, 90)
        start = max(launched + rng.randint(0, rng.choice((5, 5, 60))), free[stream])
        by_bytes, by_flop = (work * duration * rng.random() ** 0.5 * rng.choice((0, 1, 1)) for _ in range(2))
        name = rng.choice(names) + rng.choice(("", "<1>", "<2, add<float>>(int)", " <1>(int*)", "(int*)"))
        need = int(by_bytes * read_gbps), int(by_flop * 1000 * peak_tflops)
        kernels.append((name, launched, start, duration, *need))
        free[stream] = start + duration
        launched += rng.randint(0, rng.choice(wait))
    rng.shuffle(kernels)
    return kernels, read_gbps, peak_tflops


EXERCISE = plain_exercise(
    __file__,
    cases={
        "few kernels": lambda rng: SMALL,
        "GPT-2, one by one and as a graph": _gpt2,
        "a serving step of 248 rows": _serving,
        "drawn, up to 5 kernels": _drawn(60, 5),
        "drawn, up to 80 kernels": _drawn(12, 80),
    },
    form=(int | float, [int | float], str, str, int | float),
    outcome=bottleneck,
    say=say,
    mistakes=MISTAKES,
)
