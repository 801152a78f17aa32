"""The cost of serving: each number by hand where that can be done, and how it moves with what it depends on."""

import pytest

from course_lib.errors import CourseError
from course_lib.measure import serving_cost
from course_lib.measure.serving_cost import MODELS, kv_bytes, most_users, plan, read_parameters, step_parts


def planned(model="Llama 3.1 8B", card="H200", users=1, context=1000, euro_per_hour=3.6, **options):
    return plan(model, card, users=users, context=context, euro_per_hour=euro_per_hour, **options)


def test_bytes_of_a_token_are_those_of_its_heads():
    assert kv_bytes(MODELS["Llama 3.1 8B"]) == 32 * 2 * 8 * 128 * 2 == 131_072
    assert kv_bytes(MODELS["DeepSeek-V3"]) == 61 * (512 + 64) * 2


def test_a_step_of_one_user_by_hand():
    one = planned()
    assert (one.cards, one.replicas, one.tensor_parallel, one.batch) == (1, 1, 1, 1)
    assert one.step_seconds == pytest.approx((8.03e9 * 2 + 1000 * 131_072) / 4.8e12)
    assert one.limit == "weights" and one.seconds["all-reduces"] == 0.0
    assert one.tokens_per_second == pytest.approx(1 / one.step_seconds)
    assert one.euro_per_million == pytest.approx(1e6 * one.step_seconds * 0.001)  # 3.6 euro an hour: 0.001 a second


def test_a_prompt_is_bound_by_arithmetic():
    flop = 2 * 8.03e9 + 2 * 32 * 4096 * 1000  # a token sees half of the context on average
    assert planned().prompt_euro_per_million == pytest.approx(1e6 * 0.001 * flop / 989.4e12)


def test_more_users_make_a_token_cheaper_until_their_keys_take_the_time():
    prices = [planned(users=users).euro_per_million for users in (1, 8, 64, 512)]
    assert prices == sorted(prices, reverse=True)
    assert planned(users=512).limit == "keys and values"


def test_as_many_users_as_fit_and_one_more():
    most = most_users(MODELS["Llama 3.1 8B"], "H200", 1, 8000)
    assert most == int((0.9 * 141e9 - 16.06e9) // (131_072 * 8000))
    assert planned(users=most, context=8000).cards == 1
    assert planned(users=most + 1, context=8000).cards == 2


def test_a_model_that_one_card_does_not_hold_takes_several():
    assert planned("Llama 3.1 70B", "H100", users=4).cards == 2  # 141 GB of weights, 72 GB to use of a card
    large = planned("Llama 3.1 70B", "H100", users=4, context=8000)
    assert large.tensor_parallel == large.cards == 4
    assert large.seconds["all-reduces"] == pytest.approx(160 * (10e-6 + 1.5 * 4 * 8192 * 2 / 450e9))
    with pytest.raises(CourseError, match="DeepSeek-V3 with one user of 1,000 tokens takes 1,342 GB; eight H100 have"):
        planned("DeepSeek-V3", "H100")
    assert planned("DeepSeek-V3", "H200", weight_bytes=1.0).cards == 8


def test_cards_beyond_the_kv_heads_hold_the_same_keys_twice():
    shape = MODELS["Qwen3 30B-A3B"]
    four, eight = (step_parts(shape, "H200", n, 8, 4000) for n in (4, 8))
    assert four["keys and values"] == eight["keys and values"]
    assert four["weights"] == pytest.approx(2 * eight["weights"])


def test_experts_are_read_as_far_as_some_token_chose_them():
    shape = MODELS["Qwen3 30B-A3B"]
    assert read_parameters(shape, 1) == pytest.approx(shape.active)
    assert shape.active < read_parameters(shape, 16) < read_parameters(shape, 256) <= shape.parameters
    assert read_parameters(MODELS["Llama 3.1 8B"], 7) == 8.03


def test_a_share_of_the_roof_costs_as_much_more():
    assert planned(share=0.5).euro_per_million == pytest.approx(2 * planned().euro_per_million)
    assert planned(share=0.5).step_seconds == pytest.approx(2 * planned().step_seconds)


def test_every_card_of_the_calculator_is_known():
    assert all(serving_cost.KNOWN_GPUS[card].bf16_tflops for card in serving_cost.LINK_GBPS)
