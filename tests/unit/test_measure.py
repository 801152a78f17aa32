"""Tables, roofline, results files, timing: small facts that the notebooks rely on."""

import math
import re

import pytest
import torch

from course_lib import measure
from course_lib.measure.tables import format_cell


def test_shape_table_counts_bytes_by_dtype():
    table = measure.shape_table(x=torch.zeros(3, 5, dtype=torch.float16), lens=torch.zeros(2, dtype=torch.int32))
    assert table.rows == (("x", "3 x 5", "float16", 30), ("lens", "2", "int32", 8))


def test_table_text_aligns_numbers_right_and_words_left():
    table = measure.Table(("kernel", "bytes"), (("a", 1048576), ("longer", None)), caption="Bytes")
    assert str(table).splitlines() == [
        "Bytes",
        "kernel      bytes",
        "------  ---------",
        "a       1,048,576",
        "longer          –",
    ]


def test_table_html_escapes_and_names_columns_as_headers():
    html = measure.Table(("a < b",), (("<script>",),), note="1 & 2")._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert '<th style="text-align:left">a &lt; b</th>' in html and "1 &amp; 2" in html


def test_table_aligns_columns_of_numbers_whatever_their_type_to_the_right():
    columns = ("a number", "its text", "a percentage", "unknown", "a word", "a shape")
    rows = ((1, "1.30", "9 %", None, "x", "2"), (None, "1.4e-02", "12%", None, "3", "2 x 8"))
    sides = re.findall(r'<th style="text-align:(\w+)">', measure.Table(columns, rows)._repr_html_())
    assert sides == ["right"] * 4 + ["left"] * 2


def test_table_refuses_a_short_row():
    with pytest.raises(ValueError, match="1 cells, the table has 2 columns"):
        measure.Table(("a", "b"), ((1,),))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (0.45678, "0.4568"), (12345.6, "12,346"), (None, "–"), (True, "yes"), ("x", "x")],
)
def test_cells(value, text):
    assert format_cell(value) == text


def test_traffic_table_puts_counts_beside_the_formula():
    table = measure.traffic_table({"one": 8, "two": 12}, {"CUDA": {"one": 8}})
    assert table.columns == ("kernel", "bytes by formula", "CUDA")
    assert table.rows == (("one", 8, 8), ("two", 12, None))


def test_roofline_has_two_sides_that_meet_at_the_ridge():
    machine = {"peak_tflops": 60.0, "memory_gbps": 4000.0}
    ridge = measure.ridge_intensity(**machine)
    assert ridge == 15.0
    assert measure.attainable_tflops(1.0, **machine) == 4.0
    assert measure.attainable_tflops(100.0, **machine) == 60.0
    assert math.isclose(measure.attainable_tflops(ridge, **machine), 60.0)
    assert measure.limiting_resource(14.9, **machine) == "memory bandwidth"
    assert measure.limiting_resource(15.0, **machine) == "arithmetic"


def test_results_are_read_with_numbers_and_filtered(tmp_path):
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / "softmax.csv").write_text("# measured\nvariant,num_cols,time\na,4096,1.5\nb,8192,\n")
    results = measure.read_results("h200", "softmax", root=tmp_path)
    assert results.rows[0] == {"variant": "a", "num_cols": 4096, "time": 1.5}
    assert results.rows[1] == {"variant": "b", "num_cols": 8192, "time": None}
    assert results.where(num_cols=4096).table("variant", "time").rows == (("a", 1.5),)
    assert results.pairs("num_cols", "time") == [(4096, 1.5)]


def test_two_variants_side_by_side(tmp_path):
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / "softmax.csv").write_text(
        "variant,language,num_cols,us\nx/01_old,cuda,8,10\nx/01_old,cuda,16,30\nnew,cuda,8,20\nnew,triton,8,1\nnew,cuda,16,20\n"
    )
    results = measure.read_results("h200", "softmax", root=tmp_path)
    table = results.speedup("x/01_old", "new", per=("language", "num_cols"), time="us")
    assert table.columns == ("language", "num_cols", "old, us", "new, us", "speed-up")
    assert table.rows == (("cuda", 8, 10, 20, 0.5), ("cuda", 16, 30, 20, 1.5))
    series = results.series([("new", "cuda"), ("new", "mojo")], x="num_cols", y="us")
    assert series == {"new, cuda": [(8, 20), (16, 20)], "new, mojo": []}
    nothing = measure.read_results("h100", "softmax", root=tmp_path)
    assert "no such rows" in str(nothing.speedup("old", "new", per=("num_cols",), time="us"))


def test_missing_results_say_so_and_invent_nothing(tmp_path):
    results = measure.read_results("h200", "softmax", root=tmp_path)
    assert not results
    assert "benchmarks/results/h200/softmax.csv holds no such rows" in str(results.table("variant", "time"))


def test_a_results_file_without_a_wanted_column_is_an_error(tmp_path):
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / "softmax.csv").write_text("variant\na\n")
    with pytest.raises(KeyError, match="median_us"):
        measure.read_results("h200", "softmax", root=tmp_path).table("median_us")


def test_median_time_counts_calls_and_orders_its_numbers():
    calls = []
    timing = measure.median_time(lambda: calls.append(1), num_runs=7, num_warmup=2)
    assert len(calls) == 9 and timing.num_runs == 7 and timing.where == "cpu"
    assert 0 <= timing.low_ms <= timing.median_ms <= timing.high_ms
    with pytest.raises(ValueError, match="at least 2 runs"):
        measure.median_time(lambda: None, num_runs=1)
