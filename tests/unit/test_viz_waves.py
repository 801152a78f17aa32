"""Wave quantisation and the sweep over splits as pictures: the arithmetic, and the words for who cannot see them."""

import pytest

from course_lib import viz

MAX_PNG_BYTES = 60_000


@pytest.mark.parametrize(
    ("num_blocks", "busy"), [(1, [1]), (131, [131]), (132, [132]), (133, [132, 1]), (264, [132, 132]), (0, [])]
)
def test_a_wave_is_as_wide_as_the_card(num_blocks, busy):
    assert viz.block_waves(num_blocks, 132) == busy


def test_waves_tell_what_a_last_wave_costs():
    """8 pairs, 132 places: 17 splits leave four blocks for a second wave, and take nearly twice as long as 16."""
    alt = viz.waves(8, (16, 17, 33), 132).alt
    assert "16 splits: 128 blocks in 1 wave of at most 132, the last with 128, 97 % of the places used" in alt
    assert "17 splits: 136 blocks in 2 waves of at most 132, the last with 4, 52 %" in alt and "end at 0.118" in alt
    assert "33 splits: 264 blocks in 2 waves" in alt and "end at 0.0606" in alt
    assert "end at 0.218" in viz.waves(8, (17,), 132, start=0.05).alt  # two waves start twice


def sweep(batches=(1, 4, 16), lengths=(1024, 4096)):
    rows = [
        {"batch_size": b, "seq_len": n, "num_splits": s, "median_us": b * n / s + s, "chosen": int(s == 4)}
        for b in batches
        for n in lengths
        for s in (1, 2, 4, 8)
    ]
    floor = {"variant": "read_only", "batch_size": 1, "seq_len": 1024, "num_splits": None, "median_us": 20}
    return [*rows, floor | {"chosen": None}]


def test_the_sweep_tells_ends_best_and_chosen():
    alt = viz.split_curves(sweep(), title="a sweep").alt
    assert alt.startswith("a sweep, in us")
    assert "batch size 1, 1,024 keys: 1 split: 1.02e+03, fastest 8: 136, chosen 4: 260" in alt
    assert alt.count("batch size") == 6
    assert "nothing to draw" in viz.split_curves([]).alt
    assert "nothing to draw" in viz.split_curves([row | {"median_us": None} for row in sweep()]).alt


def test_every_batch_size_has_a_panel_with_one_ring_a_line():
    figure = viz.split_curves(sweep())
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in shown] == ["batch size 1", "batch size 4", "batch size 16"]
    for axes in shown:
        rings = [line for line in axes.lines if line.get_markersize() == 12]
        assert [list(ring.get_xdata()) for ring in rings] == [[4], [4]]
    assert sum(line.get_linestyle() == ":" for line in shown[0].lines) == 1  # one floor is known
    assert len(figure.axes) == 4


def test_pictures_are_small():
    for picture in (viz.waves(), viz.waves(2, (1, 3, 4), 6), viz.split_curves(sweep())):
        assert 1_000 < len(picture.png()) < MAX_PNG_BYTES
