"""The generated tables of README.md and docs/: from files only, empty where nothing is stored."""

import csv
from pathlib import Path

import pytest

from course_lib.book.pages import between, chapters_table, filled, ladder
from course_lib.book.pages.claims import claims
from course_lib.book.pages.evidence import (
    KILLS,
    counters_table,
    engines_table,
    kills_table,
    mutants_table,
    verdicts_table,
)
from course_lib.book.pages.speed import speed_table
from course_lib.errors import CourseError

ATTENTION = "variant,language,direction,head_dim,seq_len,causal,dtype,tflops,ratio_to_sdpa_flash,note\n"
RESULTS_PAGE = "# Results\n\n<!-- begin speed -->\nold\n<!-- end speed -->\n"


def store(root, device, family, text):
    path = root / "benchmarks" / "results" / device / f"{family}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_chapters_are_listed_with_their_notebooks(tiny_course):
    row = "| 42 | Add two numbers | [read](notebooks/42_add.ipynb) · [2 exercises](exercises/42_exercises.ipynb) |"
    assert row in chapters_table(tiny_course)


def test_every_lecture_of_a_chapter_has_its_link(tiny_course, split):
    (tiny_course / "chapters/plan.csv").write_text("number,title\n42,Adding\n")
    split()
    lectures = "[read 42a](notebooks/42a_two.ipynb) · [42b](notebooks/42b_more.ipynb)"
    links = f"{lectures} · [2 exercises](exercises/42_exercises.ipynb)"
    assert f"| 42 | Adding | {links} |" in chapters_table(tiny_course)


@pytest.mark.parametrize("table", [kills_table, verdicts_table, counters_table, engines_table, speed_table, claims])
def test_without_stored_rows_a_table_is_empty(table, tiny_course):
    assert table(tiny_course) == ""


def test_kills_are_summed(tiny_course):
    rows = "exercise,killed,wrong,false_alarms,right\n03.1,4,4,0,2\n03.2,8,9,1,3\n"
    store(tiny_course, *KILLS, rows)
    text = kills_table(tiny_course)
    assert "killed 12/13, false alarms 1/5" in text and "| 03.2 | 8 of 9 | 1 of 3 |" in text
    assert "**12 of 13** known wrong answers" in claims(tiny_course)


def test_kills_on_a_card_are_one_sentence(tiny_course):
    store(tiny_course, *KILLS, "exercise,killed,wrong,false_alarms,right\n03.1,4,4,0,2\n")
    assert "With a GPU" not in kills_table(tiny_course)
    store(tiny_course, "h200", "kills", "exercise,killed,wrong,false_alarms,right\n03.1,3,4,0,2\n03.2,5,5,1,1\n")
    assert "With a GPU: killed 8/9, false alarms 1/3 on an NVIDIA H200." in kills_table(tiny_course)


def test_counters_are_counted_and_differences_have_their_reason(tiny_course):
    rows = "case,counter,as_written,measured,why\na,sectors,4,4,\na,requests,4,1,loads were merged\nb,sectors,8,9,\n"
    store(tiny_course, "h200", "counters", rows)
    text = counters_table(tiny_course)
    assert "1 of 3 readings of Nsight Compute on an NVIDIA H200 (2 launches)" in text
    assert "| 1 | loads were merged |" in text and "| 1 | not explained |" in text
    assert "**33 %** of 3 readings" in claims(tiny_course)


def test_false_alarms_over_seeds_are_summed(tiny_course):
    store(tiny_course, *KILLS, "exercise,killed,wrong,false_alarms,right\n03.1,4,4,0,2\n")
    store(tiny_course, "cpu", "false_alarms", "exercise,runs,false_alarms\n03.1,40,0\n03.2,1000,1\n")
    store(tiny_course, "h200", "false_alarms", "exercise,runs,false_alarms\n03.1,30,0\n")
    text = kills_table(tiny_course)
    assert "that it refused, with new inputs over many seeds: 1 of 1,040 on a CPU, 0 of 30 on an NVIDIA H200." in text


def test_cpu_engines_are_compared(tiny_course):
    rows = "engine,num_rows,num_cols,median_ms,times_numba,cpu,cores\nsimt fast,8,1024,0.5625,2286,AMD EPYC,2\n"
    store(tiny_course, "cpu", "simt_speed", rows)
    assert "| simt fast | 0.56 ms · 2,286 |" in engines_table(tiny_course)
    assert "at least **2,286 times** as fast" in claims(tiny_course)


def test_speed_has_a_row_a_variant_and_a_column_a_size(tiny_course):
    rows = "variant,language,num_cols,gbps\ncopy,torch,128,4150\n02_online,cuda,128,564\n02_online,cuda,4096,2368\n"
    store(tiny_course, "h200", "softmax", "# made by bench\n" + rows)
    text = speed_table(tiny_course)
    assert text.startswith("## Softmax\n") and "|  | 128 | 4,096 |" in text
    assert "| copy (torch) | 4150 |  |" in text and "| 02_online (cuda) | 564 | 2368 |" in text


def test_speed_of_attention_has_a_table_for_each_case_and_ratios(tiny_course):
    rows = (
        "sdpa_flash,torch,forward,64,4096,1,bfloat16,283.5,1.0,\n"
        "flash_attention_2/10_heavy_first,cuda,forward,64,4096,1,bfloat16,340.2,1.2,\n"
        "flash_attention_2/02_mma,cuda,forward,64,1024,1,bfloat16,,,wrong\n"
        "flash_attention_2/02_mma,cuda,forward,64,1024,0,bfloat16,3.14,0.01,\n"
    )
    store(tiny_course, "h200", "flash_attention", ATTENTION + rows)
    text = speed_table(tiny_course)
    full, causal = text.index("head_dim 64, without a mask"), text.index("head_dim 64, causal")
    assert full < text.index("| 02_mma (cuda) | 3.1 (0.01) |") < causal
    assert causal < text.index("| sdpa_flash (torch) |  | 284 (1.00) |")
    assert text.index("| sdpa_flash (torch)") < text.index("| 10_heavy_first (cuda) |  | 340 (1.20) |")
    assert "| 02_mma (cuda) |  |  |" in text and text.count("## Attention") == 1


@pytest.fixture
def rungs(tiny_course):
    """Two kernel files of FlashAttention-2, one with a stored row; a row whose kernel is gone; the libraries."""
    folder = tiny_course / "kernels_cu" / "flash_attention_2"
    folder.mkdir(parents=True)
    for stem in ("02_mma", "10_heavy_first"):
        (folder / f"{stem}.cu").touch()
    case = "forward,128,16384,1,bfloat16"
    rows = (
        f"sdpa_flash,torch,{case},300,1.0,\nsdpa_cudnn,torch,{case},600,2.0,\n"
        f"flash_attention_2/10_heavy_first,cuda,{case},400,1.333,\nflash_attention_2/10_heavy_first,triton,{case},500,1.667,\n"
        f"flash_attention_2/04_gone,cuda,{case},350,1.167,\n"
    )
    store(tiny_course, "h200", "flash_attention", ATTENTION + rows)
    return tiny_course


def test_the_ladder_has_a_bar_for_each_stored_rung(rungs):
    assert [(name, tflops) for name, tflops, _, _ in ladder.bars(rungs)] == [
        ("FA2 heavy first", 400),
        ("FA2 heavy first, Triton", 500),
        ("PyTorch SDPA, flash backend", 300),
        ("PyTorch SDPA, cuDNN backend", 600),
    ]
    picture = ladder.picture(rungs)
    assert "400 (1.33)" in picture and "on an NVIDIA H200: FA2 heavy first 400, " in picture


def test_the_claim_of_the_kernels_is_of_the_last_rung_that_has_a_row(tiny_course):
    folder = tiny_course / "kernels_cu" / "flash_attention_3"
    folder.mkdir(parents=True)
    for stem in ("01_wgmma", "06_tuned", "07_persistent"):
        (folder / f"{stem}.cu").touch()
    head = "variant,language,direction,head_dim,seq_len,causal,ratio_to_sdpa_cudnn\n"
    ratios = {"01_wgmma": 0.5, "06_tuned": 1.25}
    rows = (f"flash_attention_3/{stem},cuda,forward,128,16384,1,{ratio}\n" for stem, ratio in ratios.items())
    store(tiny_course, "h200", "flash_attention_3", head + "".join(rows))
    assert "reaches **1.25 times** the speed" in claims(tiny_course)


def test_the_claim_of_the_server_is_of_the_model_that_it_names(tiny_course):
    head = "variant,scenario,model,tokens_per_s\n"
    rows = "".join(
        f"course,offline,{model},{ours}\nnano_vllm_flashinfer,offline,{model},{peer}\n"
        for model, ours, peer in (("qwen3-0.6b-shape", 300, 200), ("llama-3-8b", 100, 100))
    )
    store(tiny_course, "h200", "serving", head + rows)
    (claim,) = claims(tiny_course).splitlines()
    assert "**1.50 times** as many tokens a second" in claim
    assert claim.count("**") == 4  # a title and one number


def test_filling_twice_changes_nothing_and_old_text_goes(tiny_course):
    once = filled("docs/results.md", RESULTS_PAGE, tiny_course)
    assert "old" not in once and between(once, "speed") == ""
    store(tiny_course, "h200", "softmax", "variant,language,num_cols,gbps\ncopy,torch,128,4150\n")
    once = filled("docs/results.md", RESULTS_PAGE, tiny_course)
    assert between(once, "speed") == speed_table(tiny_course)
    assert filled("docs/results.md", once, tiny_course) == once


def test_a_missing_marker_is_named(tiny_course):
    with pytest.raises(CourseError, match="docs/results.md: .*end speed"):
        filled("docs/results.md", RESULTS_PAGE.replace("<!-- end speed -->", ""), tiny_course)


def test_waiting_for_a_verdict_is_summed_by_language(tiny_course):
    rows = "exercise,language,pass_s,fail_median_s,fail_slowest_s\n03.2,cuda,0.78,1.0,1.15\n03.5,cuda,1.02,2.0,2.5\n"
    store(tiny_course, "cpu", "verdict_times", "# 2 cores\n" + rows)
    assert "| cuda | 2 | 0.9 s | 1.5 s | 2.5 s |" in verdicts_table(tiny_course)


def test_mutants_are_counted_by_kind_and_survivors_named_with_their_reason(tmp_path):
    head = "# small mistakes\nstep,file,line,kind,mutation,found_by,detail,why\n"
    rows = (
        'a/01_b,,7,barrier,`__syncthreads()` deleted,finding,"race, forward",\n'
        "a/01_b,,9,barrier,`__syncthreads()` deleted,nothing,,one warpgroup\n"
        "a/01_b,common/c.cuh,3,index,`x_smem[i]` with 1 more,values,forward,\n"
        "a/01_b,,4,index,`x_smem[i]` with 1 more,not run,,\n"
    )
    store(tmp_path, "cpu", "mutants", head + rows)
    table = mutants_table(tmp_path)
    assert "| barrier | 2 | 1 | 0 | 1 |" in table and "| index | 1 | 0 | 1 | 0 |" in table
    assert "| a/01_b, 9 | `__syncthreads()` deleted | one warpgroup |" in table and "c.cuh" not in table
    assert mutants_table(tmp_path / "empty") == ""


def test_every_stored_survivor_has_a_reason():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "cpu" / "mutants.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(rows) > 500 and {row["found_by"] for row in rows} <= {"finding", "values", "nothing", "does not compile"}
    assert not [row for row in rows if row["found_by"] == "nothing" and not row["why"]]
