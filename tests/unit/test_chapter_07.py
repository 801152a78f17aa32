"""Chapter 07: its kernel has under 50 lines, its pictures count what the kernels count, its words what the rows say."""

import inspect

import pytest
import torch

from course_lib import measure, viz
from course_lib.ops import flash_attention_2 as ops


def test_the_triton_kernel_that_is_read_aloud_has_under_50_lines():
    from course_lib.triton_kernels.flash_attention_2 import forward_kernel

    lines = [
        line for line in inspect.getsource(forward_kernel.fn).splitlines() if line.strip() and "region" not in line
    ]
    assert len(lines) < 50


@pytest.mark.parametrize(("num_q", "num_kv", "head_dim", "block_m", "block_n"), [(16, 16, 4, 4, 4), (5, 9, 4, 4, 4)])
def test_the_animation_counts_what_the_kernel_counts(num_q, num_kv, head_dim, block_m, block_n, monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    steps = viz.loop_steps(num_q, num_kv, head_dim, block_m, block_n, q_outside=True)
    q, k = torch.randn(1, 1, num_q, head_dim), torch.randn(1, 1, num_kv, head_dim)
    launch = ops.plan(q, k, k, variant="01_loop_order", block_m=block_m, block_n=block_n)
    assert sum(steps[-1].moved_bytes.values()) == sum(launch.traffic()) - 4 * num_q  # lse is not in the picture


def rate(variant, language, **size):
    """TFLOP/s of the one stored row of an H200: forward unless said otherwise, bf16, 4,096 tokens."""
    wanted = {"direction": "forward", "dtype": "bfloat16", "seq_len": 4096} | size
    (row,) = measure.read_results("h200", "flash_attention").where(variant=variant, language=language, **wanted).rows
    return row["tflops"]


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("causal", [0, 1])
def test_what_the_lecture_says_of_speed_is_what_the_rows_say(head_dim, causal):
    size = {"head_dim": head_dim, "causal": causal}
    rungs = [
        rate(f"flash_attention_2/{name}", "cuda", **size)
        for name in ("02_mma", "03_swizzled", "04_pipelined", "10_heavy_first")
    ]
    theirs = rate("sdpa_flash", "torch", **size)
    assert rungs == sorted(rungs)
    assert 0.19 < rungs[0] / theirs < 0.29  # "a fifth to a quarter"
    assert 2.6 < rungs[1] / rungs[0] < 3.4  # "about three times as fast"
    assert 1.1 < rungs[3] / theirs < 1.3  # "1.1 to 1.3 times as fast"
    read_aloud, tuned = (
        rate(f"flash_attention_2/{name}", "triton", **size) for name in ("01_loop_order", "10_heavy_first")
    )
    assert rungs[3] < read_aloud < tuned and 1.4 < tuned / theirs < 1.75  # "half as fast again"
    backward = {"direction": "backward", **size}
    ratio = rate("flash_attention_2_backward/01_two_walks", "triton", **backward) / rate(
        "sdpa_flash", "torch", **backward
    )
    assert ratio > (1.5 if head_dim == 128 and causal else 1.3)  # "more than one and a half times" where the picture is


def test_what_the_lecture_says_of_the_rungs_is_what_the_rows_say():
    times = {}
    rows = measure.read_results("h200", "flash_attention").where(direction="forward", language="cuda").rows
    for row in rows:
        size = row["head_dim"], row["causal"], row["seq_len"], row["dtype"]
        times.setdefault(size, {})[row["variant"].split("/")[1]] = row["median_us"]

    def gains(rung, before, head_dims=(64, 128)):
        return [time[before] / time[rung] for size, time in times.items() if size[0] in head_dims]

    last_first = gains("07_last_keys_first", "06_lazy_rescale")
    assert 0.955 < min(last_first) and max(last_first) < 0.99  # "by itself this costs 1 to 4 %"
    wide = gains("08_wide_stores", "07_last_keys_first")
    assert 0.97 < min(wide) and max(wide) < 1.03  # "within 3 %"
    assert 0.985 < sorted(wide)[len(wide) // 2] < 0.995  # "at most sizes 1 % below it"
    wide_heads, narrow = (gains("09_fewer_q_reads", "08_wide_stores", (d,)) for d in (128, 64))
    assert 1.04 < min(wide_heads) and max(wide_heads) < 1.095  # "4 to 9 %"
    assert 1.025 < min(narrow) and max(narrow) < 1.045  # "3 to 4 %"


def test_what_the_lecture_says_of_counters_is_what_the_rows_say():
    stored = measure.read_results("h200", "flash_attention_2_rungs").where(head_dim=128).rows
    rows = {row["variant"].split("/")[-1]: row for row in stored}
    mma, swizzled, pipelined, tuned = (
        rows[name] for name in ("02_mma", "03_swizzled", "04_pipelined", "10_heavy_first")
    )
    assert 8 * mma["ldmatrix_conflicts"] == 7 * mma["ldmatrix_wavefronts"]  # what the SIMT machine counts, exactly
    assert swizzled["ldmatrix_wavefronts"] == 4 * swizzled["ldmatrix_requests"] and swizzled["ldmatrix_conflicts"] == 0
    assert swizzled["stall_global_memory"] > 1 > 0.2 > pipelined["stall_global_memory"]
    assert tuned["instructions"] < 0.6 * pipelined["instructions"]
    assert tuned["instructions"] < rows["sdpa_flash"]["instructions"]
    inputs = 3 * 64 * 4096 * 128 * 2
    assert all(row["dram_read_bytes"] < 1.04 * inputs for row in rows.values())  # "within 4 %"


def test_what_the_lecture_says_of_the_two_orders_is_what_the_rows_say():
    rows = measure.read_results("h200", "loop_order").rows
    times = {
        (row["pass"], row["variant"].split("/")[0], row["num_heads"], row["seq_len"]): row["median_us"] for row in rows
    }
    gains = {
        (which, heads, length): times[which, "attention", heads, length] / time
        for (which, family, heads, length), time in times.items()
        if family.startswith("flash_attention_2")
    }
    assert 11 <= gains["forward", 16, 512] < 12 and 27.5 < gains["forward", 16, 4096] < 28.5
    assert all(2.4 < gain < 2.6 for (which, heads, _), gain in gains.items() if (which, heads) == ("forward", 264))
    assert all(5.6 < gain < 12 for (which, heads, _), gain in gains.items() if (which, heads) == ("backward", 16))
    assert all(0.87 < gain < 0.93 for (which, heads, _), gain in gains.items() if (which, heads) == ("backward", 264))
