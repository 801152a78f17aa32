"""What runs when: copies beside products, launches beside a graph, blocks in waves."""

import pytest

from course_lib import viz


def test_copies_overlap_products_when_there_are_two_buffers():
    apart = viz.overlap_steps(4, 2, 3, pipelined=False)
    under = viz.overlap_steps(4, 2, 3, pipelined=True)
    assert (apart[-1][3], under[-1][3]) == (4 * (2 + 3), 2 + 4 * 3)
    assert viz.overlap_steps(4, 5, 3, pipelined=True)[-1][3] == 4 * 5 + 3  # slow copies: they decide
    assert "End: load, barrier, multiply: 9; two buffers" in viz.overlap_picture().alt_text


def test_a_graph_launches_once_and_its_kernels_wait_only_for_each_other():
    one_by_one = viz.launch_steps(5, 3.0, 2.0, graph=False)
    graph = viz.launch_steps(5, 3.0, 2.0, graph=True)
    assert one_by_one[-1][3] == 5 * 3 + 2 and graph[-1][3] == 3 + 5 * 2
    assert sum(lane == "host" for lane, *_ in one_by_one) == 5 and sum(lane == "host" for lane, *_ in graph) == 1
    long_kernels = viz.launch_steps(5, 1.0, 2.0, graph=False)
    assert long_kernels[-1][3] == 1 + 5 * 2  # the host is ahead: nothing is gained but the host's time


def test_launches_say_that_they_are_not_measured():
    alt_text = viz.launch_picture(6, 1.6, 1.0).alt_text
    assert "a drawing and not a measurement" in alt_text and "one launch of a graph: 7.6" in alt_text


def test_the_one_launch_of_a_graph_is_named_and_every_kernel_is_numbered():
    """The upper lane is the first one of the pair, in each panel."""
    each, graph = viz.launch_picture(3, 1.6, 1.0).axes
    assert [text.get_text() for text in graph.texts] == ["graph", "1", "2", "3"]
    assert sorted(text.get_text() for text in each.texts) == ["1", "1", "2", "2", "3", "3"]
    assert [text.get_position()[1] > 1 for text in graph.texts] == [True, False, False, False]
    assert [label.get_text() for label in graph.get_yticklabels()] == ["device", "host"]


@pytest.mark.parametrize(
    ("num_blocks", "busy"), [(1, [1]), (131, [131]), (132, [132]), (133, [132, 1]), (264, [132, 132]), (0, [])]
)
def test_a_wave_is_as_wide_as_the_card(num_blocks, busy):
    assert viz.block_waves(num_blocks, 132) == busy


def test_waves_give_the_cost_of_a_last_wave():
    """8 pairs, 132 slots: 17 splits leave four blocks for a second wave, and take nearly twice as long as 16."""
    alt_text = viz.waves_picture(8, (16, 17, 33), 132).alt_text
    assert "16 splits: 128 blocks in 1 wave of at most 132, the last with 128, 97 % of the slots used" in alt_text
    assert "17 splits: 136 blocks in 2 waves of at most 132, the last with 4, 52 %" in alt_text
    assert "end at 0.118" in alt_text
    assert "33 splits: 264 blocks in 2 waves" in alt_text and "end at 0.0606" in alt_text
    assert "end at 0.218" in viz.waves_picture(8, (17,), 132, start=0.05).alt_text  # two waves start twice
