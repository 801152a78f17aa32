"""Chapter 01: its pages, the judge's sizes and minutes, and the numbers in its text against the stored rows."""

import pytest

from course_lib import measure
from course_lib.book.chapters import read_chapter
from course_lib.device import KNOWN_GPUS

STEM = "01_gpu_memory_hierarchy"


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / f"{STEM}.md")


def markdown(chapter, part):
    return "\n".join(cell.source for cell in chapter.part(part) if cell.kind == "markdown")


def test_starters_do_not_hold_their_answers(root):
    text = (root / "exercises" / "01_exercises.ipynb").read_text(encoding="utf-8")
    for answer in ("TILE + 1", "k * blockDim.x + threadIdx.x", "every_third = 12", "torch.clamp(intensity"):
        assert answer not in text, answer


def test_the_numbers_of_the_text_are_those_of_the_stored_rows(chapter):
    text, stored = markdown(chapter, "lecture"), measure.read_results("h200", "access")

    def rate(column, **wanted):
        return stored.where(**wanted).rows[0][column]

    assert f"{rate('moved_gbps', case='stride_8'):,}" == "4,420" and "4,420 GB/s" in text
    for said, case in (("2,600", "stride_1"), ("4,160", "float4")):
        assert said in text and round(rate("useful_gbps", case=case), -1) // 10 * 10 == pytest.approx(
            float(said.replace(",", "")), abs=10
        )
    in_l2, beyond = (rate("useful_gbps", case=case) for case in ("32 MiB", "1024 MiB"))
    assert "5,800 against 4,260" in text and round(in_l2, -2) == 5800 and beyond == 4260
    assert f"a factor of {in_l2 / beyond:.1f}" in text
    aligned, one, eight = (rate("median_us", case=f"offset_{offset}") for offset in (0, 1, 8))
    assert one / aligned == pytest.approx(1.03, abs=0.005) and eight / aligned == pytest.approx(1.03, abs=0.005)


def test_waiting_and_conflicts_are_those_of_the_stored_rows(chapter):
    text, stored = markdown(chapter, "lecture"), measure.read_results("h200", "bandwidth")
    cycles = [stored.where(case=case).rows[0]["cycles"] for case in ("L1", "L2", "device memory")]
    assert "from L1 takes {:.0f} cycles, from L2 {:.0f}, from device memory {:.0f},".format(*cycles) in text
    assert "a third of a microsecond" in text and 320 < stored.where(case="device memory").rows[0]["ns"] < 360
    paper = [level.cycles for level in measure.memory_levels("H100")[1:4]]
    assert "41, {:.0f} and {:.0f} on its H800".format(*paper[1:]) in text
    rates = dict(stored.where(kind="shared").pairs("stride", "gbps"))
    for stride in (2, 4, 8, 16):
        assert rates[1] / rates[stride] == pytest.approx(stride, rel=0.12)
    assert f"down to stride 32 with a {rates[1] / rates[32]:.0f}th of it" in text
    assert rates[31] == pytest.approx(rates[1], rel=0.01) and f"{rates[1] / 1000:.1f} TB/s is seven times" in text
    copy = measure.read_results("h200", "access").where(case="1024 MiB").rows[0]["useful_gbps"]
    assert rates[1] / copy == pytest.approx(7, rel=0.02)


def test_ridge_points_are_those_of_the_syllabus():
    ridges = {
        key: round(measure.ridge_intensity(peak_tflops=gpu.bf16_tflops, memory_gbps=gpu.memory_gbps))
        for key, gpu in KNOWN_GPUS.items()
        if key in ("A100", "H100", "H200")
    }
    assert ridges == {"A100": 153, "H100": 295, "H200": 206}


def test_the_rule_of_ten_fails_where_the_text_says_so():
    sizes = {row[0]: row[1:] for row in measure.steps_table("size").rows}
    assert all(ratio < 1 for ratio in sizes["registers to shared memory / L1"])
    assert all(1 < ratio < 9 for ratio in sizes["shared memory / L1 to L2"])
    assert all(ratio > 300 for ratio in sizes["L2 to device memory"])
    waits = {row[0]: [ratio for ratio in row[1:] if ratio] for row in measure.steps_table("wait").rows}
    assert all(8.5 < ratio < 10 for ratio in waits["shared memory / L1 to L2"])
    assert all(1.5 < ratio < 2.5 for ratio in waits["L2 to device memory"])


def test_the_benchmark_without_rows_runs_dry(root):
    import subprocess
    import sys

    command = [sys.executable, "-m", "benchmarks.bandwidth", "--dry"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == 3
