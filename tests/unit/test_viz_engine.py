"""Work lists and shared keys as pictures, and the tables of the attention engine."""

from course_lib import measure, viz
from course_lib.measure import engine
from course_lib.ops.engine import make_schedule


def test_a_block_for_each_request_starts_on_the_first_free_slot():
    costs = [(0, 5.0), (1, 1.0), (2, 2.0), (3, 1.0)]
    assert viz.one_block_each(costs, 2) == [[(0, 5.0)], [(1, 1.0), (2, 2.0), (3, 1.0)]]


def test_work_lists_say_when_they_end():
    launches = {"one": [[(0, 900.0)], [(1, 100.0)]], "lists": [[(0, 500.0)], [(0, 400.0), (1, 100.0)]]}
    picture = viz.work_lists_picture(launches)
    assert "one: 2 blocks, the last ends at 900 keys, the mean at 500" in picture.alt_text
    assert "lists: 2 blocks, the last ends at 500 keys" in picture.alt_text
    assert len(picture.axes) == 2
    player = viz.work_lists_slider({"1": launches, "2": launches}, start=1)
    assert len(player.tracks[""]) == 2 and "keys of the long request" in player.html()


def test_a_schedule_as_lists():
    schedule = make_schedule([0, 1, 2], [4000, 300], num_kv_heads=1, group=4, num_blocks=4)
    assert len(schedule.lists) == 4
    assert {request for items in schedule.lists for request, _ in items} == {0, 1}
    assert sum(cost for items in schedule.lists for _, cost in items) == schedule.item_costs.sum()


def test_items_lie_where_the_schedule_says():
    schedule = make_schedule([0, 40, 41], [40, 200], num_kv_heads=2, group=4, num_blocks=2)
    places = schedule.places([0, 40, 41], group=4)
    assert [(request, first, rows) for _, request, first, rows, *_ in sorted(places, key=lambda place: place[1:])] == [
        (0, 0, 128), (0, 128, 32), (1, 0, 4)
    ]  # fmt: skip
    picture = viz.items_picture([(40, 40, 4), (1, 200, 4)], places)
    assert "2 of request 0, 1 of request 1" in picture.alt_text


def test_shared_keys_are_counted_once():
    assert "Flat: 50 tiles are read; in two levels 18" in viz.shared_prefix_picture(5, 8, 2).alt_text


def test_tables_name_every_mix_and_the_fastest_peer():
    mixes = engine.mixes_table()
    assert isinstance(mixes, measure.Table) and len(mixes.rows) == len(engine.MIXES)
    for _, ours, peer, theirs, ratio, _ in mixes.rows:
        assert peer.startswith("flashinfer") and abs(ratio - theirs / ours) < 1e-9
    assert all(row[3] == row[2] / row[1] for row in engine.determinism_table().rows)
    assert engine.shares().keys() == {row[0] for row in mixes.rows}
    assert dict(zip(engine.MIXES, (row[5] for row in mixes.rows), strict=True))["prefill"] > mixes.rows[2][4]  # wgmma
    assert all(row[1] is None for row in engine.mixes_table("no_card").rows)


def test_a_modified_score_has_its_time_beside_each_peer():
    rows = engine.mods_table().rows
    assert [row[:2] for row in rows] == [(m, s) for m in engine.MODS.values() for s in engine.MOD_SHAPES.values()]
    for _, _, ours, *peers, ratio in rows:
        assert ratio == min(us for us in peers if us) / ours
    assert [row[4] for row in rows[4:]] == [None, None], "FlashInfer's fa3 gave wrong values with ALiBi"
    assert all(cell is None for row in engine.mods_table("no_card").rows for cell in row[2:])
