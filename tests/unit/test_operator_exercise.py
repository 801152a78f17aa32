"""Exercise 12.6 against torch's own judge: opcheck takes its solution and refuses what the exercise refuses."""

import pytest
import torch

from course_lib import checklist
from course_lib.grading.exercise import registry

TEXTS = {name: text for _, name, text, _ in checklist.answers(registry.get("12.6"))}
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def registered(name, text):
    """The operator that a learner makes of an answer."""
    answer = {}
    exec(compile(text, name, "exec"), answer)
    operator = torch.library.custom_op(f"exercise12::{name}", answer["rms_norm_kernel"], mutates_args=())
    operator.register_fake(answer["fake_rms_norm"])
    operator.register_autograd(answer["gradients"], setup_context=answer["save"])
    in_place = torch.library.custom_op(
        f"exercise12::add_{name}",
        answer["add_rms_norm_kernel"],
        mutates_args=answer["changed_by_add_rms_norm"](),
    )
    in_place.register_fake(answer["fake_add_rms_norm"])
    return operator, in_place


def check(operator, in_place):
    x, weight = torch.randn(2, 3, 4).transpose(0, 2).requires_grad_(), torch.randn(2, requires_grad=True)
    torch.library.opcheck(operator, (x, weight, 1e-6), test_utils=CHECKS)
    tensors = (torch.randn(3, 4), torch.randn(3, 4), torch.randn(4))
    torch.library.opcheck(in_place, (*tensors, 1e-6), test_utils=CHECKS)


def test_opcheck_takes_the_solution():
    check(*registered("right", TEXTS["solution"]))


@pytest.mark.parametrize("wrong", ["strides of x", "rstd keeps the dimension", "residual alone", "out is x"])
def test_opcheck_refuses_what_the_exercise_refuses(wrong):
    with pytest.raises(Exception, match=r"(?i)stride|shape|mutate|modif|alias|return"):
        check(*registered(wrong.replace(" ", "_"), TEXTS[wrong]))
