"""Bars, curves and the sweep over splits: their numbers are in the alternative text, their labels do not overlap."""

from course_lib import viz


def test_alternative_text_holds_the_numbers():
    assert "nothing to draw" in viz.curves({"a": []}, x="n", y="%", title="speed").alt_text
    assert "b: 1 at 1, 3.01 at 4" in viz.curves({"b": [(4, 3.01), (1, 1)]}, x="n", y="%").alt_text
    alt_text = viz.bytes_bars({"a": 3000}, {"a": 1000}, bound=2000).alt_text
    assert "a reads 3,000 and writes 1,000" in alt_text and "2,000 bytes" in alt_text


def test_ticks_that_would_touch_have_no_number():
    axes = viz.curves({"b": [(n, 1) for n in range(1, 17)]}, x="n", y="%").axes[0]
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == [*map(str, range(1, 13)), "", "14", "", "16"]  # 13 and 15 would touch their neighbours


def test_few_bytes_are_in_kib():
    few, many = viz.bytes_bars({"a": 3000}, {"a": 1000}), viz.bytes_bars({"a": 3 << 20}, {"a": 0})
    assert few.axes[0].get_xlabel() == "KiB of global memory" and few.axes[0].texts[0].get_text() == "  3.91 KiB"
    assert many.axes[0].get_xlabel() == "MiB of global memory" and many.axes[0].texts[0].get_text() == "  3.00 MiB"


def test_the_name_of_a_reference_is_at_the_end_without_points():
    for points, side in (([(1, 30), (2, 60), (4, 99)], "left"), ([(1, 99), (2, 60), (4, 30)], "right")):
        axes = viz.curves({"a": points}, x="n", y="%", reference=(100, "copy")).axes[0]
        assert [text.get_ha() for text in axes.texts if text.get_text() == "copy"] == [side]


def test_a_name_that_is_not_at_the_end_of_its_line_has_its_marker():
    axes = viz.curves({"a": [(1, 5), (2, 9)], "b": [(1, 5), (2, 9)], "c": [(1, 1), (2, 3)]}, x="n", y="y").axes[0]
    alone = [line.get_marker() for line in axes.lines[3:]]
    assert alone == [axes.lines[1].get_marker()] and [len(line.get_xdata()) for line in axes.lines[3:]] == [1]


def test_rates_as_bars():
    picture = viz.rate_bars(
        {"ours": 300.0, "theirs": 350.0, "not measured": None}, marked=("theirs",), lines={"peak": 989}
    )
    assert picture.alt_text == "TFLOP/s, higher is better: ours 300; theirs 350; peak 989."
    assert "no rows are stored yet" in viz.rate_bars({"ours": None}, title="ladder").alt_text


def test_counts_as_stacked_bars_name_every_part_that_there_is():
    picture = viz.count_bars(
        {"03.1": {"pass": 3, "fail": 0}, "03.2": {"pass": 1, "fail": 2}}, title="Class", unit="learners"
    )
    assert picture.alt_text == "Class, in learners. 03.1: 3 pass; 03.2: 1 pass, 2 fail."
    assert [text.get_text() for text in picture.axes[0].texts] == ["3", "1", "2"]
    assert picture.axes[0].patches[-1].get_x() == 1  # the second part begins where the first ends


def sweep(batches=(1, 4, 16), lengths=(1024, 4096)):
    rows = [
        {"batch_size": b, "seq_len": n, "num_splits": s, "median_us": b * n / s + s, "chosen": int(s == 4)}
        for b in batches
        for n in lengths
        for s in (1, 2, 4, 8)
    ]
    floor = {"variant": "read_only", "batch_size": 1, "seq_len": 1024, "num_splits": None, "median_us": 20}
    return [*rows, floor | {"chosen": None}]


def test_the_sweep_names_ends_fastest_and_chosen():
    alt_text = viz.split_curves(sweep(), title="a sweep").alt_text
    assert alt_text.startswith("a sweep, in us")
    assert "batch size 1, 1,024 keys: 1 split: 1.02e+03, fastest 8: 136, chosen 4: 260" in alt_text
    assert alt_text.count("batch size") == 6
    assert "nothing to draw" in viz.split_curves([]).alt_text
    assert "nothing to draw" in viz.split_curves([row | {"median_us": None} for row in sweep()]).alt_text


def test_every_batch_size_has_a_panel_with_one_ring_a_line():
    figure = viz.split_curves(sweep())
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in shown] == ["batch size 1", "batch size 4", "batch size 16"]
    for axes in shown:
        rings = [line for line in axes.lines if line.get_markersize() == 12]
        assert [list(ring.get_xdata()) for ring in rings] == [[4], [4]]
    assert sum(line.get_linestyle() == ":" for line in shown[0].lines) == 1  # one floor is known
    assert len(figure.axes) == 4
    assert 1_000 < len(figure.png()) < 60_000


def test_names_on_the_roofline_sit_at_their_marks():
    """Within 30 points of the mark, even where two marks are close."""
    intensities = {"softmax": 0.83, "decode": 1, "scores in memory": 62, "matrix product": 1365, "one kernel": 2048}
    points = {name: (value, None) for name, value in intensities.items()}
    axes = viz.roofline("H200", points, peak_tflops=989, memory_gbps=4800).axes[0]
    names = [text for text in axes.texts if text.get_text() in points]
    assert len(names) == len(points) and all(max(map(abs, text.xyann)) < 20 for text in names)


def test_the_legend_names_what_is_there_for_comparison():
    def entries(marked):
        figure = viz.rate_bars({"a": 1, "b": 2, "c": 3}, marked=marked)
        return [text.get_text() for legend in figure.legends for text in legend.get_texts()]

    assert entries(("b", "c")) == ["kernels of the course", "for comparison"] and entries(()) == []


def test_a_loss_curve_says_where_it_begins_and_what_is_its_best():
    rows = [
        {"step": 10 * n, "loss": 8.0 / n, "validation_loss": 3.0 + abs(n - 3) if n % 2 else None} for n in (1, 2, 3, 4)
    ]
    picture = viz.loss_picture({"course": rows, "torch": rows[:2], "none": []})
    assert "course: 8.00 in the first 10 steps, 2.00 at step 40, validation at best 3.00 at step 30" in picture.alt_text
    names = [text.get_text() for text in picture.axes[0].get_legend().get_texts()]
    assert names == ["course", "course, validation", "torch", "torch, validation"]
    assert "nothing to draw" in viz.loss_picture({}).alt_text
