"""Chapter 00: its pages, its pictures, what it measures with, and the script that made its stored rows."""

import csv

import nbformat
import pytest
import torch

from benchmarks import naive_attention
from benchmarks.harness import main
from course_lib import measure, viz
from course_lib.book.chapters import read_chapter
from course_lib.book.notebooks import pictures as pictures_of
from course_lib.cli import doctor
from course_lib.cli.doctor_card import Doctor, short
from course_lib.grading.exercise import registry
from course_lib.viz import bar_charts, chapter_map, footprint

STEM = "00_the_driving_question"


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / f"{STEM}.md")


@pytest.fixture(scope="module")
def pictures(root):
    """(PNG bytes, alternative text) of the committed lecture."""
    lecture = nbformat.read(root / "notebooks" / f"{STEM}.ipynb", as_version=4)
    outputs = [output for cell in lecture["cells"] for output in cell.get("outputs", ())]
    return [picture for output in outputs for picture in pictures_of(output.get("data", {}))]


def markdown(chapter, part):
    return "\n".join(cell.source for cell in chapter.part(part) if cell.kind == "markdown")


def test_the_exercise_says_what_the_judge_says(chapter):
    exercise, text = registry.get("00.1"), markdown(chapter, "exercises")
    assert f"**Size** {exercise.size_lines} line. **Time** {exercise.minutes} minutes." in text
    assert f"| torch | {exercise.size_lines} | {exercise.minutes} |" in text
    for part in (
        "**Contract.**",
        "**Predict first.**",
        "**After passing.**",
        "<details><summary>The prediction",
        'hint("00.1")',
    ):
        assert part in text, part


def test_the_committed_map_knows_the_chapters_of_today(pictures, root):
    alt = next(alt for _, alt in pictures if alt.startswith("Map of the chapters"))
    assert alt == viz.course_map(chapter_map.way_to("10")).alt_text, f"run: course build {STEM[:2]}"


def test_the_map_marks_what_is_planned(tmp_path):
    for name in ("00_a.md", "03_b.md", "glossary.md"):
        (tmp_path / name).touch()
    written = chapter_map.existing(tmp_path)
    assert written == {"00", "03"}
    alt = viz.course_map(written=written).alt_text
    assert "01 GPU memory needs 00 (planned)" in alt and "03 Online softmax needs 01, 02 helps;" in alt
    assert alt.count("(planned)") == len(chapter_map.read_plan()) - 2


def test_short_cuts_follow_what_chapters_need():
    assert chapter_map.way_to("10") == ["00", "01", "03", "07", "09", "10"]
    plan = chapter_map.read_plan()
    assert list(plan) == [f"{number:02}" for number in range(16)]
    assert all(other < number for number, stop in plan.items() for other in stop.needs + stop.helps)
    assert len({stop.place for stop in plan.values()}) == len(plan)


@pytest.mark.parametrize("seq_len", [512, 4096, 16384])
def test_the_growing_matrix_tells_its_bytes(seq_len):
    words = footprint.growth_sentence(seq_len)
    assert footprint.size_text(seq_len**2 * 4) in words
    assert footprint.growth_step(seq_len, 16384).alt_text.endswith(f"{words}.")
    assert ("64 MiB, 16 times as much" in words) == (seq_len == 4096)


def test_the_slider_says_each_size():
    player = viz.growth_slider((512, 1024), start=1024)
    (frames,) = player.tracks.values()
    assert [frame.stop for frame in frames] == ["512", "1,024"] and player.start == 1
    assert all(f"N = {frame.stop}" in frame.sentence for frame in frames)
    assert "to scale" in player.still.alt_text


def test_waiting_is_what_arithmetic_leaves():
    assert bar_charts.waiting_share(10.0, 100.0) == pytest.approx(0.9)
    assert bar_charts.waiting_share(100.0, 10.0) == 0.0
    assert bar_charts.waiting_share(10.0, 100.0, measured=200.0) == pytest.approx(0.95)
    assert "four: arithmetic 7 us, bytes 70 us, measured 90 us" in viz.waiting_bars({"four": (7, 70, 90)}).alt_text


def test_the_formula_counts_what_four_kernels_touch():
    """Bytes of the tensors that each of four torch calls takes and gives."""
    cost = measure.AttentionCost(seq_len=48, head_dim=8, num_heads=3, itemsize=4)
    q, k, v = torch.randn(3, 3, 48, 8)
    scores = q @ k.transpose(-1, -2)
    scaled, probs = scores * 8**-0.5, torch.softmax(scores * 8**-0.5, dim=-1)
    calls = [((q, k), scores), ((scores,), scaled), ((scaled,), probs), ((probs, v), probs @ v)]
    touched = [(sum(t.nbytes for t in taken), given.nbytes) for taken, given in calls]
    assert list(cost.steps().values()) == touched
    assert cost.step_by_step_bytes == sum(map(sum, touched)) and cost.fewest_bytes == 4 * q.nbytes
    assert cost.flop == 2 * 2 * 3 * 48 * 48 * 8 and cost.matrix_bytes == scores.nbytes
    assert cost.microseconds(10**9, peak_tflops=1.0, memory_gbps=1000.0) == pytest.approx((cost.flop / 1e6, 1000.0))


def test_the_numbers_of_the_text_are_those_of_the_stored_rows(chapter):
    text = markdown(chapter, "lecture")
    stored = measure.read_results("h200", "naive_attention").where(head_dim=64, dtype="bfloat16")
    naive, flash, cudnn = (
        {row["seq_len"]: row for row in stored.where(variant=variant).rows}
        for variant in ("naive", "sdpa_flash", "sdpa_cudnn")
    )
    slow, fast = naive[4096]["median_us"], flash[4096]["median_us"]
    assert f"{slow:,.0f} µs for the four steps" in text and f"{fast:.0f} µs for the one kernel" in text
    rates = {"peak_tflops": 989, "memory_gbps": 4800}
    arithmetic, memory = measure.AttentionCost(4096, 64, 16, 2).microseconds(naive[4096]["formula_bytes"], **rates)
    assert slow / memory == pytest.approx(2, abs=0.1) and 3 < fast / arithmetic < 4
    faster = {n: naive[n]["median_us"] / flash[n]["median_us"] for n in (512, 2048, 4096, 8192)}
    assert faster[512] < 2 and all(4.5 < faster[n] < 7 for n in (2048, 4096, 8192))
    assert all(flash[n]["median_us"] / cudnn[n]["median_us"] == pytest.approx(1.5, abs=0.11) for n in flash)
    carried = {n: naive[n]["formula_bytes"] / naive[n]["median_us"] / 1e6 for n in (8192, 16384)}
    assert f"at {carried[16384]:.1f} TB/s, at 8,192 at {carried[8192]:.1f}" in text
    peaks = naive[16384]["peak_bytes"] / 2**30, flash[16384]["peak_bytes"] / 2**20
    assert "need {:.0f} GiB beyond their inputs, the fused kernel {:.0f} MiB".format(*peaks) in text
    assert naive[32768]["median_us"] is None and "they would take 64 GiB" in text


def test_peak_memory_is_what_lives_at_the_worst_moment():
    x = torch.randn(1024)

    def chain():
        y = x + 1
        y = y * 2
        return y.view(32, 32).transpose(0, 1)

    def in_place():
        y = x.clone()
        return y.add_(1).mul_(2)

    assert measure.peak_bytes(lambda: x.view(32, 32)) == 0
    assert measure.peak_bytes(lambda: x + 1) == x.nbytes
    assert measure.peak_bytes(chain) == 2 * x.nbytes
    assert measure.peak_bytes(in_place) == x.nbytes
    assert measure.peak_bytes(lambda: [x + 1 for _ in range(5)]) == 5 * x.nbytes
    assert measure.peak_bytes(lambda: sum((x + 1).sum() for _ in range(5))) < 2 * x.nbytes


def test_the_doctors_card_says_what_is_missing_and_keeps_paths_short(root):
    found = [
        doctor.Finding(doctor.GOOD, "torch", "2.13."),
        doctor.Finding(doctor.MISSING, "CUDA on the CPU", "no compiler: `apt install g++` <now>."),
    ]
    card = Doctor(found)
    assert "Missing here: CUDA on the CPU" in str(card) and "✔ ok" in str(card)
    assert "<code>apt install g++</code> &lt;now&gt;" in card._repr_html_()
    assert "Nothing is missing" in str(Doctor(found[:1]))
    assert short(f"{root}/work keeps it") == "work keeps it"


def test_the_benchmark_writes_its_rows_in_a_dry_run(root, tmp_path, monkeypatch, capsys):
    def run(out):
        assert main(naive_attention.BENCHMARK, ["--dry", "--runs", "2", "--out", str(out)]) == 0

    run(tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert {row["variant"] for row in rows} == {"naive", "sdpa_flash"}
    for row in rows:
        cost = measure.AttentionCost(int(row["seq_len"]), 64, 16, 4)
        least = cost.vector_bytes + (2 * cost.matrix_bytes if row["variant"] == "naive" else 0)
        assert least <= int(row["peak_bytes"]) <= 1.05 * least
        assert float(row["median_us"]) > 0 and float(row["max_error"]) <= 1e-5 and "dry" in row["device"]
    with pytest.raises(SystemExit):
        run(root / "benchmarks" / "results" / "h200" / "x.csv")
    assert "outside benchmarks/" in capsys.readouterr().err
