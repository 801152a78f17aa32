"""Chapter 08: its words say what the stored rows and counters say, its bits and bounds are those of the kernels."""

from itertools import pairwise

import pytest
import torch

from course_lib import measure, viz
from course_lib.cuda import notes, sass, sass_facts
from course_lib.cuda.source import KERNELS_ROOT, with_headers_digest
from course_lib.ops import flash_attention_2 as ops_2
from course_lib.ops import flash_attention_3 as ops
from course_lib.reference import fp8

LENGTHS = (1024, 2048, 4096, 8192, 16384)
BEFORE, CUDNN = "flash_attention_2/10_heavy_first", "sdpa_cudnn"
TRITON = f"{BEFORE} in Triton"
FP8, QUANTISED, BACKWARD = ops.STEM_FP8, ops.FAMILY_QUANTISE, ops.STEM_BACKWARD
RUNGS = [f"flash_attention_3/{name}" for name in ops.VARIANTS if "fp8" not in name]
WGMMA, RING, ROLES, OVERLAP, TURNS, TUNED, PERSISTENT = RUNGS


@pytest.fixture(scope="module")
def rows():
    """(variant, head_dim, causal, seq_len) -> row, of bfloat16."""
    stored = measure.read_results("h200", "flash_attention_3").where(dtype="bfloat16").rows
    keys = "variant", "head_dim", "causal", "seq_len"
    return {tuple(row[key] for key in keys): row for row in stored if row["language"] != "triton"}


def gains(rows, new, old, head_dims=(64, 128), causals=(0, 1), lengths=LENGTHS):
    """Times of `old` over times of `new`, one for each size."""
    sizes = [(d, causal, n) for d in head_dims for causal in causals for n in lengths]
    return [rows[(old, *size)]["median_us"] / rows[(new, *size)]["median_us"] for size in sizes]


def between(values, low, high):
    return low <= min(values) and max(values) <= high


def test_the_first_picture_is_what_the_words_say():
    size = {"dtype": "bfloat16", "direction": "forward", "seq_len": 4096, "head_dim": 128, "causal": 0}
    stored = measure.read_results("h200", "flash_attention").where(**size).rows
    rates = {row["variant"]: row["tflops"] for row in stored if row["language"] != "triton"}
    assert 0.61 < rates[BEFORE] / 0.65 / 989.4 < 0.63  # "about 62 % of the peak"
    assert 0.39 < rates[BEFORE] / 989.4 < 0.415  # "some 40 %"
    (counted,) = measure.read_results("h200", "flash_attention_2_rungs").where(variant=BEFORE, head_dim=128).rows
    assert 64.5 < counted["percent_tensor"] < 65.5


def test_what_the_lecture_says_of_the_first_rungs(rows):
    assert between(gains(rows, WGMMA, BEFORE, (128,)), 0.945, 1.0)  # "loses 0 to 5 %"
    assert between(gains(rows, RING, WGMMA), 1.14, 1.335)  # "14 to 33 %"
    largest = max(sum(gains(rows, new, old)) for old, new in pairwise([BEFORE, *RUNGS]))
    assert largest == sum(gains(rows, RING, WGMMA))  # "the largest step of the ladder"
    assert min(gains(rows, ROLES, RING, (128,))) > 1  # "pays everywhere"
    assert min(gains(rows, ROLES, RING, (128,), (0, 1), LENGTHS[2:])) > 1.119  # "11.9 % and more from 4,096 on"
    assert 1 - min(gains(rows, ROLES, RING, (64,), (1,), (1024,))) == pytest.approx(0.32, abs=0.006)
    assert min(gains(rows, ROLES, RING, (64,), (0, 1), (1024,))) == min(gains(rows, ROLES, RING))


def test_what_the_lecture_says_of_overlap_and_turns(rows):
    for causal, best in ((0, 1.15), (1, 1.13)):
        grown = gains(rows, OVERLAP, ROLES, (128,), (causal,))
        assert grown == sorted(grown) and grown[-1] == pytest.approx(best, abs=0.006)
    assert between(gains(rows, OVERLAP, ROLES, (64,)), 0.98, 1.032)  # "at most 3 %, mostly nothing"
    assert max(gains(rows, TURNS, OVERLAP)) < 1.0135  # "at most 1.3 %"
    assert between(gains(rows, TURNS, OVERLAP, (128,), lengths=(16384,)), 0.9765, 0.9845)  # "a loss of 1.6 to 2.3 %"


def test_what_the_lecture_says_of_the_last_rungs(rows):
    tuned = gains(rows, TUNED, OVERLAP)
    assert between(tuned, 1.015, 1.135)  # "2 to 13 %"
    assert sum(1.065 < gain < 1.125 for gain in tuned) > len(tuned) / 2  # "at most lengths 7 to 12 %"
    assert between(gains(rows, PERSISTENT, TUNED, lengths=(1024,)), 1.125, 1.255)  # "13 to 25 %"
    assert between(gains(rows, PERSISTENT, TUNED, lengths=(16384,)), 1.005, 1.03)  # "1 to 3 %"
    assert between(gains(rows, PERSISTENT, CUDNN, (128,)), 1.035, 1.185)  # "1.04 to 1.18 times as fast as cuDNN"
    ahead = gains(rows, PERSISTENT, CUDNN, (64,), (0,)) + gains(rows, PERSISTENT, CUDNN, (64,), (1,), LENGTHS[1:])
    assert between(ahead, 1.01, 1.235)  # "in all sizes, by up to 23 %, but one"
    assert between(gains(rows, PERSISTENT, CUDNN, (64,), (1,), (1024,)), 0.835, 0.845)  # "16 % slower"
    short = {name: rows[name, 64, 1, 1024]["tflops"] for name in RUNGS}
    assert max(short, key=short.get) == RING


def test_what_the_lecture_says_of_fp8(rows):
    for variant, full, causal in ((FP8, 1.22, 1.29), (QUANTISED, 1.17, 1.18)):
        grown = gains(rows, variant, PERSISTENT, (128,), lengths=(16384,))
        assert grown == pytest.approx([full, causal], abs=0.006)  # "1.22 and 1.29", "1.17 and 1.18 times"
    small = sorted(gains(rows, FP8, PERSISTENT, (64,)))
    assert small[-2] < 1 < small[-1] < 1.025  # "gains 2 % at one size and loses at the others"
    assert max(gains(rows, QUANTISED, PERSISTENT, (64,))) < 1  # "and at all once you quantise"


def test_what_the_lecture_says_of_the_backward_pass():
    stored = measure.read_results("h200", "flash_attention_3_backward").where(dtype="bfloat16").rows
    timed = {(row["variant"], row["head_dim"], row["causal"], row["seq_len"]): row for row in stored}
    assert between(gains(timed, BACKWARD, CUDNN), 1.025, 1.165)  # "1.03 to 1.16 times as fast as cuDNN's"
    two_walks = gains(timed, BACKWARD, ops_2.STEM_BACKWARD, (128,))
    assert between(two_walks, 1.155, 1.375)  # "1.16 to 1.37 times as fast as chapter 07's two kernels"


def test_what_the_lecture_says_of_triton(rows):
    stored = measure.read_results("h200", "flash_attention_3").where(dtype="bfloat16", language="triton").rows
    twin = {(TRITON, row["head_dim"], row["causal"], row["seq_len"]): row for row in stored if row["variant"] == BEFORE}
    both, sizes = rows | twin, {"head_dims": (128,), "lengths": LENGTHS[2:]}
    assert min(gains(both, TRITON, RING, **sizes)) > 1 > max(gains(both, TRITON, ROLES, **sizes))  # "between 02 and 03"


def test_what_the_lecture_says_of_the_stamps():
    stored = measure.read_results("h200", "attention_stamps")
    ends = {}
    for name, over in (("03_producer_consumer", False), ("04_overlap", True)):
        spans = stored.where(variant=name).rows
        ends[name] = max(span["end"] for span in spans if span["actor"] != "producer")
        products = {(span["actor"], span["label"]): span for span in spans if span["kind"] == "wgmma"}
        for softmax in (span for span in spans if span["kind"] == "softmax"):
            consumer, step = softmax["actor"][-1], softmax["label"].split()[-1]
            product = products[f"products of {consumer}", f"PV {step}"]
            assert (
                product["start"] < softmax["start"] and softmax["end"] <= product["end"]
            ) is over  # "under the softmax"
    assert 0.95 < ends["03_producer_consumer"] / ends["04_overlap"] < 1.05  # "about as long in both"


def test_what_the_lecture_says_of_the_sanitizer():
    said = {
        (row["mutant"], row["tool"]): row["says"] for row in measure.read_results("h200", "sanitizer_of_mutants").rows
    }
    seen = {mutant for (mutant, _), says in said.items() if "Barrier error" in says}
    assert seen == {"no wait for K", "no wait for an empty K"}  # "two of the three mistakes are seen"
    unseen = {"none: the rung itself", "no proxy fence before the store"}
    assert all(says.startswith("0 ") for (mutant, _), says in said.items() if mutant in unseen)
    assert {mutant for mutant, _ in said} == seen | unseen


def test_what_the_lecture_says_of_counters():
    stored = measure.read_results("h200", "flash_attention_3_rungs").rows
    counted = {(row["variant"], row["head_dim"]): row for row in stored}
    first, last, theirs = (counted[name, 128] for name in (WGMMA, PERSISTENT, CUDNN))
    assert round(first["percent_tensor"]) == 42 and round(last["percent_tensor"]) == 83
    assert last["percent_tensor"] > theirs["percent_tensor"]
    assert 0.4 < last["instructions"] / first["instructions"] < 0.55  # "half of the instructions"
    narrow = counted[PERSISTENT, 64]
    assert between([narrow["percent_tensor"], narrow["percent_special"]], 62, 63)
    assert counted[OVERLAP, 64]["percent_tensor"] == pytest.approx(counted[ROLES, 64]["percent_tensor"], abs=0.1)


def test_the_descriptor_of_the_lecture_is_that_of_the_kernels():
    bits = 32768 // 16 | 16 // 16 << 16 | 8 * 128 // 16 << 32 | 1 << 62
    read = viz.describe_descriptor(bits)
    assert (read.address, read.leading_bytes, read.stride_bytes, read.swizzle) == (32768, 16, 1024, 1)
    assert viz.step_offsets(128, 128, "k")[4] - viz.step_offsets(128, 128, "k")[3] == 16_288  # question 3


def test_the_registers_of_the_lecture_fit():
    entry = viz.registers_at_entry(384)
    assert entry == 168 and 2 * 128 * 240 + 128 * 24 == 384 * entry == 64_512 < 2 * 128 * 248 + 128 * 24 == 66_560
    assert 3 * 128 * 168 + 128 * 32 == 68_608 > 65_536 == 512 * viz.registers_at_entry(512)


def test_what_the_machine_counts_of_the_rungs(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    q, (k, v) = torch.randn(1, 1, 128, 128).half(), torch.randn(2, 1, 1, 640, 128).half()
    before = ops_2.plan(q, k, v, variant="10_heavy_first").profile().global_load
    products, ring = (ops.plan(q, k, v, variant=name).profile() for name in ops.VARIANTS[:2])
    assert products.global_load.requests == 16 * ring.global_load.requests  # "a sixteenth of the instructions"
    assert products.global_load.bytes == ring.global_load.bytes  # "the same bytes"
    assert products.global_load.bytes - before.bytes == 2 * 640 * 128 * 2  # K and V twice
    assert ring.global_load.requests == 4 + 2 * 10 * 4  # Q of two blocks; "4 boxes for each tile of keys"


def test_the_rotation_removes_what_the_lecture_says():
    errors = fp8.errors(1024)
    plain, rotated = errors["one scale a tensor"], errors["rotation and block scales"]
    assert 0.35 < 1 - rotated / plain < 0.45  # "some 40 % of the error"
    assert plain - errors["block scales"] < (plain - errors["rotation"]) / 2  # "the scales of blocks matter less"


def text_of(variant):
    return (KERNELS_ROOT / f"flash_attention_3/{variant}.cu").read_text(encoding="utf-8")


def as_compiled(variant, *edits):
    """A rung with edits, as machine code for Hopper, head_dim 128."""
    text = text_of(variant)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    defines = {"HEAD_DIM": 128, "ELEMENT": "__nv_bfloat16"}
    return sass.as_compiled(text, "flash_attention_3_kernel", defines=defines, arch="sm_90a")


def test_what_the_lecture_says_of_the_compiler(compiled_before):
    pytest.importorskip("cuda.bindings.nvrtc")
    if compiled_before(with_headers_digest(text_of("04_overlap"))):
        return
    wait = "        wgmma_wait_group<0>();  // before it, neither acc nor probs may be touched\n"
    rescale, pack = "        rescale(acc, alpha);\n", "        pack_probs<ELEMENT>(probs, scores);\n"
    missing = as_compiled("04_overlap", (wait, ""))
    assert notes.codes(missing.notes) == ["C7517", "C7514"] and sass_facts.facts(missing).is_serialised
    packed = as_compiled("04_overlap", (rescale + pack, rescale), (wait, pack + wait))
    assert notes.codes(packed.notes) == ["C7513"]
    rescaled = as_compiled("04_overlap", (rescale, ""), (wait, rescale + wait))
    assert rescaled.notes == ""  # "this version of it says nothing"


def test_the_shuffle_keeps_descriptors_in_uniform_registers(compiled_before):
    pytest.importorskip("cuda.bindings.nvrtc")
    if compiled_before(with_headers_digest(text_of("07_persistent"))):
        return
    plain = ("__shfl_sync(ALL_LANES, next_tile[q_ring.stage], 0)", "next_tile[q_ring.stage]")
    with_shuffle, without = (
        sum("R2UR" in line for line in as_compiled("07_persistent", *edits).machine_instructions())
        for edits in ((), (plain,))
    )
    assert without > 1.5 * with_shuffle
