"""Outputs with initial contents, which an answer changes in place: a pool of pages, a counter."""

import torch

from course_lib.grading.processes import wire
from course_lib.grading.processes.protocol import ChildTask, Ref, Run
from course_lib.grading.processes.tensors import Bindings


def run():
    before = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    outputs = {"pool": ((2, 3), "int32"), "out": ((4,), "float32")}
    return Run("one", {}, outputs, (Ref("pool"), Ref("out")), contents={"pool": before})


def test_the_output_holds_a_copy_and_the_others_poison():
    given = run()
    bound = Bindings(given)
    assert torch.equal(bound.outputs["pool"], given.contents["pool"]) and bool(bound.outputs["out"].isnan().all())
    bound.arguments[0].fill_(7)
    assert given.contents["pool"][1, 2] == 5 and bound.results()["pool"][1, 2] == 7


def test_only_poison_counts_as_unwritten():
    bound = Bindings(run())
    assert [value is bound.outputs["out"] for value in bound.unwritten] == [True]


def test_contents_travel_to_the_child():
    task = ChildTask("cuda", "", "kernel", (run(),))
    (arrived,) = wire.unpack_task(wire.pack_task(task)).runs
    assert torch.equal(arrived.contents["pool"], run().contents["pool"])
