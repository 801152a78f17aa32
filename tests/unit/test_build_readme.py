"""README's generated tables: from files only, between markers, gone when there is nothing to say."""

import pytest

from course_lib.book import readme
from course_lib.errors import CourseError

EMPTY = "\n".join(f"<!-- begin {name} -->\nold\n<!-- end {name} -->" for name in readme.TABLES)


def store(root, device, family, text):
    path = root / "benchmarks" / "results" / device / f"{family}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_chapters_are_listed_with_their_notebooks(tiny_course):
    text = readme.refreshed(EMPTY, tiny_course)
    assert "| 42 | Add two numbers | [read](notebooks/42_add.ipynb) · [2 exercises](exercises/42_add.ipynb) |" in text


def test_without_stored_rows_there_is_no_table_and_no_heading(tiny_course):
    text = readme.refreshed(EMPTY, tiny_course)
    assert "###" not in text and "old" not in text


def test_kills_are_summed(tiny_course):
    rows = "exercise,killed,wrong,false_alarms,right\n03.1,4,4,0,2\n03.2,8,9,1,3\n"
    store(tiny_course, *readme.KILLS, rows)
    text = readme.refreshed(EMPTY, tiny_course)
    assert "killed 12/13, false alarms 1/5" in text and "| 03.2 | 8 of 9 | 1 of 3 |" in text


def test_kills_on_a_card_are_one_sentence(tiny_course):
    store(tiny_course, *readme.KILLS, "exercise,killed,wrong,false_alarms,right\n03.1,4,4,0,2\n")
    assert "With a GPU" not in readme.refreshed(EMPTY, tiny_course)
    store(tiny_course, "h200", "kills", "exercise,killed,wrong,false_alarms,right\n03.1,3,4,0,2\n03.2,5,5,1,1\n")
    assert "With a GPU: killed 8/9, false alarms 1/3 on an NVIDIA H200." in readme.refreshed(EMPTY, tiny_course)


def test_counters_are_counted_and_differences_have_their_reason(tiny_course):
    rows = "case,counter,as_written,measured,why\na,sectors,4,4,\na,requests,4,1,loads were merged\nb,sectors,8,9,\n"
    store(tiny_course, "h200", "counters", rows)
    text = readme.refreshed(EMPTY, tiny_course)
    assert "1 of 3 readings of Nsight Compute on an NVIDIA H200 (2 launches)" in text
    assert "| 1 | loads were merged |" in text and "| 1 | not explained |" in text


def test_false_alarms_over_seeds_are_summed(tiny_course):
    store(tiny_course, *readme.KILLS, "exercise,killed,wrong,false_alarms,right\n03.1,4,4,0,2\n")
    store(tiny_course, "cpu", "false_alarms", "exercise,runs,false_alarms\n03.1,40,0\n03.2,1000,1\n")
    store(tiny_course, "h200", "false_alarms", "exercise,runs,false_alarms\n03.1,30,0\n")
    text = readme.refreshed(EMPTY, tiny_course)
    assert "that it refused, with new inputs over many seeds: 1 of 1,040 on a CPU, 0 of 30 on an NVIDIA H200." in text


def test_cpu_engines_are_compared(tiny_course):
    rows = "engine,num_rows,num_cols,median_ms,times_numba,cpu,cores\nsimt fast,8,1024,0.5625,2286,AMD EPYC,2\n"
    store(tiny_course, "cpu", "simt_speed", rows)
    assert "| simt fast | 0.56 ms · 2,286 |" in readme.refreshed(EMPTY, tiny_course)


def test_speed_has_a_row_a_variant_and_a_column_a_size(tiny_course):
    rows = "variant,language,num_cols,gbps\ncopy,torch,128,4150\n02_online,cuda,128,564\n02_online,cuda,4096,2368\n"
    store(tiny_course, "h200", "softmax", "# made by bench\n" + rows)
    text = readme.refreshed(EMPTY, tiny_course)
    assert "| softmax | 128 | 4,096 |" in text
    assert "| copy (torch) | 4150 |  |" in text and "| 02_online (cuda) | 564 | 2368 |" in text


def test_speed_of_attention_has_blocks_and_ratios(tiny_course):
    head = "variant,language,direction,head_dim,seq_len,causal,dtype,tflops,ratio_to_sdpa_flash,note\n"
    rows = (
        "flash_attention_2/10_heavy_first,cuda,forward,64,4096,1,bfloat16,340.2,1.2,\n"
        "flash_attention_2/02_mma,cuda,forward,64,1024,1,bfloat16,,,wrong\n"
        "sdpa_flash,torch,forward,64,4096,1,bfloat16,283.5,1.0,\n"
    )
    store(tiny_course, "h200", "flash_attention", head + rows)
    text = readme.refreshed(EMPTY, tiny_course)
    first = text.index("| d = 64, causal, sdpa_flash (torch) |  | 284 (1.00) |")
    assert first < text.index("| d = 64, causal, 10_heavy_first (cuda) |  | 340 (1.20) |")
    assert "| d = 64, causal, 02_mma (cuda) |  |  |" in text and "attention backward" not in text


def test_refreshing_twice_changes_nothing(tiny_course):
    once = readme.refreshed(EMPTY, tiny_course)
    assert readme.refreshed(once, tiny_course) == once


def test_a_missing_marker_is_named(tiny_course):
    with pytest.raises(CourseError, match="end kills"):
        readme.refreshed(EMPTY.replace("<!-- end kills -->", ""), tiny_course)


def test_waiting_for_a_verdict_is_summed_by_language(tiny_course):
    rows = "exercise,language,pass_s,fail_median_s,fail_slowest_s\n03.2,cuda,0.78,1.0,1.15\n03.5,cuda,1.02,2.0,2.5\n"
    store(tiny_course, "cpu", "verdict_times", "# 2 cores\n" + rows)
    assert "| cuda | 2 | 0.9 s | 1.5 s | 2.5 s |" in readme.refreshed(EMPTY, tiny_course)
