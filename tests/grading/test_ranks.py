"""Answers that run on several ranks: every collective does what it says, is counted, and no rank waits for ever."""

import os
import time

import pytest
import torch

from course_lib.errors import UnsupportedError
from course_lib.grading.processes import isolation, ranks
from course_lib.grading.processes.faults import Problem
from course_lib.grading.processes.protocol import ChildTask, Ref, Run


def on(num_ranks, function, *arguments):
    """(results, calls of each rank)."""
    returned, ledger = ranks.call(function, num_ranks, arguments, {})
    return returned, ledger["calls"]


def problem(num_ranks, function):
    with pytest.raises(Problem) as caught:
        on(num_ranks, function)
    return caught.value.fault


def test_collectives_give_what_torch_would_compute():
    def answer(world):
        x = torch.arange(6.0).reshape(6, 1) + 10 * world.rank
        largest, total = world.all_reduce(x.clone(), "max"), world.all_reduce(x.clone())
        return largest, total, world.all_gather(x, dim=1), world.reduce_scatter(x), world.all_to_all(x)

    returned, _ = on(3, answer)
    all_x = [torch.arange(6.0).reshape(6, 1) + 10 * rank for rank in range(3)]
    for rank, (largest, total, gathered, part, exchanged) in enumerate(returned):
        assert torch.equal(largest, all_x[2]) and torch.equal(total, sum(all_x))
        assert torch.equal(gathered, torch.cat(all_x, 1))
        rows = slice(2 * rank, 2 * rank + 2)
        assert torch.equal(part, sum(all_x)[rows]) and torch.equal(exchanged, torch.cat([x[rows] for x in all_x]))


def test_all_reduce_replaces_what_it_is_given():
    def answer(world):
        x = torch.ones(2)
        assert world.all_reduce(x) is x
        return x

    assert on(4, answer)[0][3].tolist() == [4.0, 4.0]


def test_rows_of_unequal_number_reach_their_ranks_in_order():
    def answer(world):
        sizes = [[0, 3], [1, 0]][world.rank]
        rows = torch.arange(float(sum(sizes)))[:, None] + 10 * world.rank
        return world.all_to_all(rows, sizes).flatten().tolist()

    assert on(2, answer)[0] == [[10.0], [0.0, 1.0, 2.0]]


def test_a_ring_goes_round_and_is_counted():
    def answer(world):
        x = torch.full((2, 3), float(world.rank))
        for _ in range(world.num_ranks - 1):
            x = world.ring_exchange(x)
        return x[0, 0].item()

    returned, calls = on(3, answer)
    assert returned == [1.0, 2.0, 0.0]
    assert calls[2] == 2 * [{"op": "ring_exchange", "peer": 0, "shape": [2, 3], "bytes": 24}]


def test_messages_and_what_is_received_later():
    def answer(world):
        out = torch.zeros(2)
        if world.rank == 0:
            world.send(torch.tensor([1.0, 2.0]), 1)
            return world.recv(out, 1).tolist()
        pending = world.start_exchange([(torch.tensor([5.0, 6.0]), 0)], [(out, 0)])
        return pending.wait()[0].tolist()

    assert on(2, answer)[0] == [[5.0, 6.0], [1.0, 2.0]]


def test_an_exchange_that_is_never_waited_for_is_named():
    def answer(world):
        out = torch.zeros(1)
        world.start_ring(torch.ones(1), out=[out])
        return out

    assert "Rank 0 started 1 exchange whose wait() it never called" in problem(2, answer).message


def test_every_rank_that_sends_first_waits_for_ever():
    def answer(world):
        x = torch.ones(1)
        world.send(x, (world.rank + 1) % 3)
        return world.recv(x, (world.rank - 1) % 3)

    fault = problem(3, answer)
    assert fault.kind == "deadlock"
    assert "rank 0 waits to send to rank 1; rank 1 waits to send to rank 2" in fault.message


def test_a_rank_that_returned_is_named():
    fault = problem(4, lambda world: None if world.rank == 2 else world.barrier())
    assert "rank 0 waits in barrier for all ranks" in fault.message and "rank 2 returned" in fault.message


def test_ranks_that_call_different_collectives_are_named():
    fault = problem(2, lambda world: world.barrier() if world.rank else world.all_reduce(torch.ones(3)))
    assert "rank 0 calls all_reduce of (3,) float32, rank 1 calls barrier" in fault.message
    fault = problem(2, lambda world: world.all_reduce(torch.ones(3 + world.rank)))
    assert "(3,) float32, rank 1 calls all_reduce of (4,)" in fault.message


def test_a_message_into_a_tensor_of_another_shape():
    def answer(world):
        return world.send(torch.ones(3), 1) if world.rank == 0 else world.recv(torch.ones(2), 0)

    assert "Rank 0 sends (3,) float32 to rank 1, which receives it into (2,)" in problem(2, answer).message


def test_the_rank_that_raises_is_named_and_the_others_end():
    def answer(world):
        if world.rank == 1:
            raise KeyError("k")
        world.barrier()

    for _ in range(20):  # whichever rank is first
        fault = problem(3, answer)
        assert fault.kind == "exception" and fault.message.startswith("Rank 1: KeyError")


def test_an_answer_that_hides_every_error_still_ends():
    def answer(world):
        try:
            world.barrier() if world.rank else world.recv(torch.ones(1), 1)
        except BaseException:
            return None

    assert problem(2, answer).kind == "deadlock"


def run_in_child(source, num_ranks=3, gloo=False, **limits):
    outputs = {"y": ((num_ranks, 2), "float32")}
    run = Run("only", {"x": torch.ones(2)}, outputs, (Ref("x"),), world=num_ranks, gloo=gloo)
    return isolation.run_task(ChildTask("python", source, "answer", (run,), **limits)).runs[0]


def test_outputs_of_the_ranks_come_back_one_after_the_other():
    result = run_in_child("def answer(world, x): return world.all_reduce(x * world.rank) + world.rank")
    assert result.outputs["y"].tolist() == [[3.0, 3.0], [4.0, 4.0], [5.0, 5.0]]
    assert [call["op"] for calls in result.ledger["calls"] for call in calls] == 3 * ["all_reduce"]


def test_a_rank_with_another_result_is_named():
    result = run_in_child("def answer(world, x): return x if world.rank < 2 else x[:1]")
    assert result.fault.message.startswith("Rank 2: answer returned y as float32 of shape (1,)")


def test_a_deadlock_names_the_line_and_is_known_at_once():
    started = time.perf_counter()
    result = run_in_child(
        "def answer(world, x):\n    if world.rank:\n        return world.recv(x.clone(), 0)\n    return x"
    )
    assert result.fault.kind == "deadlock" and result.fault.line == 3
    assert "rank 1 waits for a message of rank 0 (line 3)" in result.fault.message
    assert time.perf_counter() - started < 15.0  # the wall limit is 20 s


def test_a_loop_without_end_on_one_rank_names_its_line():
    source = (
        "def answer(world, x):\n    if world.rank == 1:\n        while True:\n            pass\n    world.barrier()"
    )
    result = run_in_child(source, cpu_seconds=0.3)
    assert result.fault.kind == "timeout" and result.fault.line == 3


def test_a_signature_without_world_is_named():
    assert "cannot be called with 2 arguments" in run_in_child("def answer(x): return x").fault.message


EVERYTHING = """
import torch
def answer(world, x):
    x = x + world.rank
    assert world.all_gather(x).tolist() == [1, 1, 2, 2] and world.all_gather(x[None], dim=1).shape == (1, 4)
    assert world.reduce_scatter(x).tolist() == [3] and world.all_reduce(x.clone(), "max").tolist() == [2, 2]
    assert world.all_to_all(x).tolist() == [1, 2]
    assert len(world.all_to_all(x, [2, 0] if world.rank else [0, 2])) == 2
    assert world.ring_exchange(x).tolist() == [2 - world.rank] * 2
    world.barrier()
    if world.rank:
        world.send(x, 0)
    else:
        world.recv(x, 1)
    return x
"""


@pytest.mark.parametrize("gloo", [False, True])
def test_an_answer_gets_the_same_from_threads_and_from_processes(gloo):
    result = run_in_child(EVERYTHING, 2, gloo)
    assert result.fault is None, result.fault
    assert result.outputs["y"].tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_two_processes_meet_in_the_sandbox_too():
    run = Run("only", {"x": torch.ones(2)}, {"y": ((2, 2), "float32")}, (Ref("x"),), world=2, gloo=True)
    try:
        result = isolation.run_task(ChildTask("python", EVERYTHING, "answer", (run,)), sandbox=True).runs[0]
    except UnsupportedError as error:
        assert "bubblewrap" in str(error)
        return
    assert result.fault is None and result.outputs["y"].tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_process_that_raises_is_named_before_the_one_that_waits():
    source = "def answer(world, x):\n    if world.rank:\n        x[5]\n    return world.all_reduce(x)"
    fault = run_in_child(source, 2, gloo=True).fault
    assert fault.kind == "exception" and fault.line == 3 and fault.message.startswith("Rank 1: IndexError")


def test_a_process_that_leaves_is_no_hang():
    source = "import os\ndef answer(world, x):\n    if world.rank:\n        os._exit(0)\n    return world.all_reduce(x)"
    assert "ended its process" in run_in_child(source, 2, gloo=True).fault.message


def test_a_process_that_waits_in_vain_says_where():
    source = (
        "from course_lib.grading.processes import gloo\ngloo.SECONDS = 0.4\nimport time\n"
        "def answer(world, x):\n    if world.rank:\n        time.sleep(1)\n"
        "    return x if world.rank else world.all_reduce(x)"
    )
    fault = run_in_child(source, 2, gloo=True).fault
    assert fault.kind == "deadlock" and "Rank 0 waits in all_reduce" in fault.message


def test_all_processes_end_with_the_time():
    source = "import os\ndef answer(world, x):\n    os.write(1, b'%d ' % os.getpid())\n    while True:\n        pass"
    run = Run("only", {"x": torch.ones(2)}, {"y": ((2, 2), "float32")}, (Ref("x"),), world=2, gloo=True)
    result = isolation.run_task(ChildTask("python", source, "answer", (run,), wall_seconds=1.5))
    assert result.fault.kind == "timeout"
    pids = [int(word) for word in result.printed.split()]
    assert len(pids) == 2 and not any(os.path.exists(f"/proc/{pid}") for pid in pids)
