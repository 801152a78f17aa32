"""What lectures share: repeatable tensors, time and memory of a call, tables of what kernels load."""

from types import SimpleNamespace

import pytest
import torch

from course_lib import measure


def test_set_up_makes_tensors_repeat():
    device = torch.get_default_device()
    try:
        first, again, other = [(measure.set_up(seed=seed), torch.randn(4))[1] for seed in (3, 3, 4)]
        assert torch.equal(first, again) and not torch.equal(first, other)
        assert f"{torch.tensor([0.5])}".startswith("tensor([0.5000]")
    finally:
        torch.set_default_device(device)


def test_time_and_peak_are_those_of_the_call():
    milliseconds, num_bytes = measure.time_and_peak(lambda: torch.zeros(1024, device="cpu"), num_runs=2)
    assert milliseconds > 0 and num_bytes == 4096


def test_a_table_of_loads_has_the_columns_asked_for():
    load = SimpleNamespace(bytes=32, sectors=2, requests=4)
    profile = SimpleNamespace(global_load=load, shared_load=SimpleNamespace(requests=8, wavefronts=16))
    table = measure.load_table({"01_naive": profile}, 64, ("FLOP per byte", "shared loads", "wavefronts"))
    assert table.columns == ("variant", "FLOP per byte", "shared loads", "wavefronts")
    assert table.rows == ((measure.spoken("01_naive"), 2.0, 8, 16),)
    with pytest.raises(ValueError, match="bytes loaded"):
        measure.load_table({}, 1, ("bytes loaded",))
