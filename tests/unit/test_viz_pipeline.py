"""Pictures of a pipeline inside a block: the timeline of its actors, its mbarriers, and both widgets."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from matplotlib.patches import FancyArrowPatch, Rectangle

from course_lib import viz
from course_lib.ops import flash_attention_3
from course_lib.viz.schedule import Span, spans_between

RUNS = {"in order": viz.attention_schedule(3), "overlap": viz.attention_schedule(3, overlap=True)}


def end(spans):
    return max(span.end for span in spans)


def lanes_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_a_span_names_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="'sleep'; expected one of copy"):
        Span("producer", "sleep", 0, 1)
    with pytest.raises(ValueError, match="ends at 1, before its start 2"):
        Span("producer", "copy", 2, 1)


def test_a_span_in_words_has_barrier_parity_and_line():
    wait = Span("producer", "wait", 1, 3, "", "k_empty[0] parity 1", 31)
    assert wait.sentence() == "producer: waits for k_empty[0] parity 1, 1 to 3, line 31"
    assert "copy K 2 completing k_full[0] parity 1" in Span("TMA", "copy", 1, 3, "K 2", "k_full[0] parity 1").sentence()


def test_each_consumer_runs_each_product_once_and_tensor_cores_never_two_at_a_time():
    for overlap, ping_pong in ((False, False), (True, False), (False, True), (True, True)):
        spans = viz.attention_schedule(5, overlap=overlap, ping_pong=ping_pong)
        for group in (0, 1):
            labels = {span.label for span in spans if span.actor == f"products of {group}" and span.kind == "wgmma"}
            assert labels == {f"{name} {tile}" for name in ("QK", "PV") for tile in range(5)}
        products = sorted((span.start, span.end) for span in spans if span.kind == "wgmma")
        assert len(products) == 20 and all(a[1] <= b[0] + 1e-9 for a, b in zip(products, products[1:], strict=False))


def test_nothing_is_used_before_it_is_there():
    """A product follows its copy, a softmax its scores, a copy the release of its stage by both consumers."""
    spans = viz.attention_schedule(6, overlap=True, copy=2.0)
    ends = {(span.actor, span.label): span.end for span in spans if span.kind in ("copy", "wgmma")}
    for span in spans:
        kind, _, tile = span.label.partition(" ")
        if span.kind == "wgmma":
            assert span.start >= ends["TMA copies", f"{'K' if kind == 'QK' else 'V'} {tile}"]
        if span.kind == "softmax":
            assert span.start >= ends[f"products of {span.actor[-1]}", f"QK {span.label}"]
        if span.kind == "copy" and int(tile) >= 2:
            reader = f"{'QK' if kind == 'K' else 'PV'} {int(tile) - 2}"
            assert span.start >= max(ends[f"products of {group}", reader] for group in (0, 1))


def test_overlap_hides_the_softmax_and_turns_gain_nothing_when_products_queue():
    in_order, overlap = (viz.attention_schedule(40, overlap=flag) for flag in (False, True))
    assert end(in_order) / 40 == pytest.approx(2 + 2.5, rel=0.02)  # two products and the softmax of a consumer
    assert end(overlap) / 40 == pytest.approx(4, rel=0.02)  # the products of both: tensor cores never idle
    assert end(viz.attention_schedule(40, overlap=True, ping_pong=True)) == end(overlap)
    with pytest.raises(ValueError, match="num_groups=3"):
        viz.attention_schedule(4, 3, ping_pong=True)


def test_turns_are_waited_for_where_the_order_of_issue_differs():
    spans = viz.attention_schedule(4, ping_pong=True)
    turns = [span.barrier for span in spans if span.kind == "wait" and "turn" in span.barrier]
    assert turns and set(turns) <= {"turn of consumer 0", "turn of consumer 1"}


def test_a_wait_ends_with_the_last_span_that_names_its_barrier():
    spans = [
        Span("TMA copies", "copy", 0, 4, "K 0", "k_full[0] parity 0"),
        Span("TMA copies", "copy", 4, 9, "K 2", "k_full[0] parity 0"),
        Span("consumer 0", "wait", 1, 4, "", "k_full[0] parity 0"),
        Span("consumer 0", "wait", 5, 5.5, "", "k_full[1] parity 0"),
    ]
    assert viz.releases(spans) == [(spans[2], spans[0])]
    assert viz.releases(spans, least=3) == []
    assert viz.waiting_time(spans) == {"consumer 0": 3.5}


def test_the_part_between_two_times_is_cut():
    spans = [Span("a", "copy", 0, 4), Span("a", "copy", 4, 9), Span("a", "copy", 10, 12)]
    assert [(span.start, span.end) for span in spans_between(spans, 2, 6)] == [(2, 4), (4, 6)]


def test_the_timeline_draws_a_bar_for_each_span_and_an_arrow_for_each_ended_wait():
    spans = RUNS["overlap"]
    picture = viz.actors_picture(spans, unit="steps", title="overlap")
    axes = picture.axes[0]
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(bars) == 2 * sum(span.end > span.start for span in spans)  # a white one behind each
    long_enough = viz.releases(spans, least=0.015 * end(spans))
    assert sum(isinstance(patch, FancyArrowPatch) for patch in axes.patches) == len(long_enough) > 5
    assert len(axes.lines) - (len(lanes_of(axes)) - 1) == sum(span.kind == "arrive" for span in spans)
    texts = {text.get_text() for text in axes.texts}
    assert {"QK 2", "PV 1", "K 2"} <= texts and any(text.startswith("v_empty[0]") for text in texts)
    assert lanes_of(axes)[:4] == ["producer", "TMA copies", "consumer 0", "products of 0"]
    assert "what ended a wait" in [text.get_text() for text in picture.legends[0].get_texts()]


def test_the_timeline_in_words_and_its_part():
    alt_text = viz.actors_panels(RUNS, unit="steps").alt_text
    assert f"in order: 0 to {end(RUNS['in order']):.4g} steps" in alt_text and "overlap: 0 to" in alt_text
    assert "waits for v_empty[0] parity 0" in alt_text and "ended by consumer 1" in alt_text
    part = viz.actors_picture(RUNS["overlap"], between=(3, 5))
    assert part.axes[0].get_xlim() == (3, 5) and " 3 to 5." in part.alt_text
    with pytest.raises(ValueError, match="at least one span"):
        viz.actors_picture([])


def test_copies_in_flight_together_are_stacked_in_a_higher_lane():
    spans = [Span("TMA copies", "copy", 2 * i, 2 * i + 7, f"K {i}") for i in range(4)] + [
        Span("producer", "wait", 0, 9)
    ]
    axes = viz.actors_picture(spans).axes[0]
    bars = [patch for patch in axes.patches if patch.get_hatch()]
    assert [bar.get_x() for bar in bars] == [0, 2, 4, 6] and len({bar.get_y() for bar in bars}) == 4
    assert all(upper.get_y() + upper.get_height() <= lower.get_y() + 1e-9 for upper, lower in itertools.pairwise(bars))
    bottom, top = axes.get_ylim()
    assert bottom - top == pytest.approx(1 + 4 * 0.48 + 0.1)
    later = [Span("TMA copies", "copy", 10 * i, 10 * i + 7) for i in range(4)]
    assert len({patch.get_y() for patch in viz.actors_picture(later).axes[0].patches}) == 1


def event(warp, kind, start, end, line, block=0, barrier=None, parity=None):
    return SimpleNamespace(
        block=block, warp=warp, kind=kind, start=start, end=end, line=line, barrier=barrier, parity=parity
    )


def test_events_of_the_machine_become_spans_of_one_block():
    events = [
        event(0, "tma_load", 2, 40, 10),
        event(4, "mbarrier_wait", 5, 40, 20),
        event(5, "mbarrier_wait", 5, 40, 20),
        event(4, "wgmma", 41, 60, 21),
        event(0, "tma_load", 1, 9, 10, block=1),
    ]
    spans = viz.spans_of_events(events, {"producer": 0, "consumer 0": 4}, labels={20: "k_full", 10: "K"})
    assert [(span.actor, span.kind, span.label, span.barrier) for span in spans] == [
        ("TMA copies", "copy", "K", "k_full"),
        ("consumer 0", "wait", "", "k_full"),
        ("products of 0", "wgmma", "line 21", ""),
    ]
    assert viz.releases(spans) == [(spans[1], spans[0])] and spans[1].line == 20
    with pytest.raises(ValueError, match="block 3"):
        viz.spans_of_events(events, {"producer": 0}, block=3)


def test_lines_are_named_after_what_they_do():
    source = """
    mbarrier_wait_parity(&barriers.k_empty[ring.stage], ring.parity ^ 1);
    load_panels<HEAD_DIM, BLOCK_N>(k_smem + ring.stage * KV_BYTES, k_map, k_full, j, tile.head, tile.batch);
    issue_p_v<ELEMENT>(acc, probs, v_desc);
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    named_barrier_sync(own_turn, 256);
    wgmma_wait_group<1>();
    """
    names = {2: "k_empty", 3: "K", 4: "PV", 5: "block", 6: "full", 7: "own_turn", 8: "wgmma_wait_group<1>"}
    assert viz.line_labels(source) == names


def test_recorded_waits_name_stage_and_parity_and_products_are_followed_by_a_softmax():
    events = [
        event(0, "tma_load", 0, 30, 10),
        event(0, "tma_load", 2, 32, 10),  # the second panel of the same tile
        event(0, "mbarrier_wait", 4, 60, 11, barrier=5, parity=0),
        event(0, "tma_load", 61, 90, 10),
        event(4, "mbarrier_wait", 1, 32, 20, barrier=3, parity=1),
        event(4, "wgmma", 33, 50, 21),
        event(4, "wgmma_wait", 40, 50, 22),
        event(4, "mbarrier_wait", 70, 90, 20, barrier=4, parity=0),
        event(4, "wgmma", 91, 99, 21),
        event(4, "wgmma_wait", 95, 95, 22),
    ]
    labels = {10: "K", 11: "k_empty", 20: "k_full", 21: "QK", 22: "wgmma_wait_group<0>"}
    spans = viz.spans_of_events(events, {"producer": 0, "consumer 0": 4}, labels=labels)
    found = {(span.actor, span.kind, span.label, span.barrier): (span.start, span.end) for span in spans}
    assert found == {
        ("TMA copies", "copy", "K 0", "k_full[0] parity 1"): (0, 32),
        ("producer", "wait", "", "k_empty parity 0"): (4, 60),
        ("TMA copies", "copy", "K 1", "k_full[1] parity 0"): (61, 90),
        ("consumer 0", "wait", "", "k_full[0] parity 1"): (1, 32),
        ("consumer 0", "wait", "", "k_full[1] parity 0"): (70, 90),
        ("products of 0", "wgmma", "QK 0", "QK 0, consumer 0"): (33, 50),
        ("products of 0", "wgmma", "QK 1", ""): (91, 99),
        ("consumer 0", "wait", "", "QK 0, consumer 0"): (40, 50),
        ("consumer 0", "wait", "", "wgmma_wait_group<0>"): (95, 95),
        ("consumer 0", "softmax", "0", ""): (50, 70),
        ("consumer 0", "softmax", "1", ""): (99, 99),
    }


@pytest.mark.parametrize(("variant", "overlaps"), [("03_producer_consumer", False), ("04_overlap", True)])
def test_a_recorded_rung_shows_whether_products_run_under_the_softmax(variant, overlaps, root):
    q, k = (torch.randn(1, 1, n, 64).half() for n in (192, 512))
    launch = flash_attention_3.plan(q, k, k, variant=variant)
    labels = viz.line_labels((root / f"kernels_cu/flash_attention_3/{variant}.cu").read_text())
    actors = {"producer": 0, "consumer 0": 4, "consumer 1": 8, "consumer 2": 12}
    spans = viz.spans_of_events(launch.profile(timeline=True).timeline, actors, labels=labels)
    copies = [span.label for span in spans if span.kind == "copy"]
    assert copies == ["Q", "K 0", "V 0", "K 1", "V 1", "K 2", "V 2", "K 3", "V 3"]
    products = [span.label for span in spans if span.actor == "products of 2"]
    assert sorted(products) == sorted(f"{name} {tile}" for name in ("QK", "PV") for tile in range(4))
    for actor, name, parities in (("producer", "k_empty", (1, 0)), ("consumer 1", "v_full", (0, 1))):
        waits = [span.barrier for span in spans if span.actor == actor and span.barrier.startswith(name)]
        assert waits == [f"{name}[{stage}] parity {parity}" for parity in parities for stage in (0, 1)]
    busy = [span for span in spans if span.actor == "consumer 0" and span.kind == "softmax"]
    values = [span for span in spans if span.actor == "products of 0" and span.label.startswith("PV")]
    under = any(one.start < other.start < one.end for one in values for other in busy)
    assert len(busy) == 4 and under == overlaps


def test_rows_of_a_file_become_spans_from_time_0():
    rows = [
        {
            "block": "1",
            "actor": "producer",
            "kind": "wait",
            "start": "1000",
            "end": "1500",
            "barrier": "b",
            "line": "7",
        },
        {"block": "2", "actor": "producer", "kind": "copy", "start": "10", "end": "20"},
    ]
    assert viz.spans_of_rows(rows, block=1) == [Span("producer", "wait", 0, 500, "", "b", 7)]
    assert [span.end for span in viz.spans_of_rows(rows)] == [1490, 10]
    with pytest.raises(ValueError, match="no rows of block 9"):
        viz.spans_of_rows(rows, block=9)


def test_a_new_mbarrier_has_completed_parity_1_and_not_0():
    barrier = viz.MbarrierModel(2)
    assert barrier.test_parity(1) and not barrier.test_parity(0)


def test_the_truth_table_of_phases():
    """After k phases exactly the waits for parity (k - 1) % 2 return."""
    barrier = viz.MbarrierModel(1)
    for completed in range(1, 6):
        assert barrier.arrive() is True and barrier.phase == completed and barrier.pending == 1
        for parity in (0, 1):
            assert barrier.test_parity(parity) == (parity == (completed - 1) % 2)


@pytest.mark.parametrize("order", ["expect land", "land expect"])
def test_a_phase_needs_its_arrivals_and_its_bytes_in_any_order(order):
    barrier, calls = (
        viz.MbarrierModel(1),
        {"expect": lambda b: b.arrive_expect_tx(64), "land": lambda b: b.complete_tx(64)},
    )
    first, second = (calls[name] for name in order.split())
    assert not first(barrier) and barrier.phase == 0 and barrier.state().tx_bytes == (64 if order[0] == "e" else -64)
    assert second(barrier) and barrier.phase == 1 and (barrier.pending, barrier.tx_bytes) == (1, 0)


def test_half_of_the_bytes_or_of_the_arrivals_is_not_enough():
    barrier = viz.MbarrierModel(2)
    assert not barrier.arrive_expect_tx(64) and not barrier.complete_tx(64) and barrier.phase == 0
    assert barrier.arrive() and barrier.phase == 1
    barrier.arrive_expect_tx(64)
    assert not barrier.arrive() and not barrier.complete_tx(32) and not barrier.test_parity(1)
    with pytest.raises(ValueError, match="has its 2 arrivals already and waits for 32 bytes"):
        barrier.arrive()
    assert "0 of 2 arrivals pending, 32 bytes missing" in barrier.state().sentence()


def test_what_an_mbarrier_refuses():
    with pytest.raises(ValueError, match="at least one arrival"):
        viz.MbarrierModel(0)
    with pytest.raises(ValueError, match="A parity is 0 or 1, got 2"):
        viz.MbarrierModel(1).test_parity(2)


@pytest.mark.parametrize(("tiles", "stages", "consumers"), [(3, 2, 2), (5, 1, 1), (4, 3, 2), (1, 2, 3), (9, 4, 2)])
def test_a_ring_delivers_every_tile_once(tiles, stages, consumers):
    steps = viz.ring_steps(tiles, num_stages=stages, num_consumers=consumers)
    assert steps[-1].text == "finished" and not steps[-1].waiting
    reads = [step.text for step in steps if step.text.startswith("reads")]
    assert len(reads) == tiles * consumers and not any("but" in text for text in reads)
    for stage in range(stages):
        used = len(range(stage, tiles, stages))
        assert steps[-1].barriers[f"full[{stage}]"].phase == steps[-1].barriers[f"empty[{stage}]"].phase == used


def test_wrong_first_parities_stop_the_producer_or_read_too_early():
    stopped = viz.ring_steps(parities=(0, 0))
    assert "deadlock" in stopped[-1].text and len(stopped[-1].waiting) == 3
    assert stopped[-1].waiting["producer"] == ("empty[0]", 0)
    early = viz.ring_steps(parities=(1, 1))
    assert any("reads stage 0 for tile 0, but the stage is: tile 0 on its way" in step.text for step in early)
    assert "did not hold its tile" in early[-1].text


def test_the_table_of_a_ring_shows_the_state_after_the_event():
    steps = viz.ring_steps()
    number = next(i for i, step in enumerate(steps) if step.text.startswith("tile 0 lands"))
    drawn = viz.ring_step_picture(steps, number).axes[0].texts
    texts = [text.get_text() for text in drawn]
    assert [text.get_text() for text in drawn if text.get_fontweight() == "bold"] == ["1, parity 1", "1 of 1  ○", "0"]
    assert f"{number + 1}. TMA: tile 0 lands in stage 0, which completes the phase" in texts
    assert texts.count("1, parity 1") == 1 and texts.count("0, parity 0") == 3
    assert "stage 1: tile 1 on its way" in texts and "16,384" in texts
    assert "parity 0: consumers 0, 1" in texts  # completed, and not yet noticed


def test_the_history_of_a_ring_has_a_box_for_each_phase():
    steps = viz.ring_steps()
    picture = viz.ring_picture(steps)
    upper, lower = picture.axes
    assert lanes_of(upper) == ["full[0]", "empty[0]", "full[1]", "empty[1]"]
    assert lanes_of(lower) == ["producer", "consumer 0", "consumer 1"]
    assert len(upper.patches) == (3 + 3 + 2 + 2) + 3  # phases, and three times in which bytes are missing
    assert "full[0] completes 2 phases" in picture.alt_text and "full[1] completes 1 phase;" in picture.alt_text


def test_the_explorer_shows_the_whole_time_and_its_parts():
    player = viz.actors_explorer(RUNS, unit="steps")
    assert list(player.tracks) == list(RUNS) and all(name in player.still.alt_text for name in RUNS)
    first, *parts = player.tracks["overlap"]
    assert first.sentence.startswith("Who waits for whom. overlap: ") and first.stop.startswith("0 to ")
    assert len({frame.sentence for frame in (first, *parts)}) == 5 and parts[-1].stop.endswith(" steps")


def test_the_ring_plays_right_and_wrong_parities():
    player = viz.ring_player(1)
    right, early, _ = player.tracks.values()
    assert "starts the copy of tile 0" in right[4].sentence and right[4].stop == f"5 of {len(right)}"
    assert len(early) == 5 and "deadlock" in early[-1].sentence
    assert f"{len(right)} events" in player.still.alt_text
