"""The public functions of model, serving and parallel under wrong arguments: a right result or a sentence."""

import numpy
import pytest
import torch

from course_lib.errors import ArgumentError, CourseError, ModelError, RefusedError, ShapeError, WorldError
from course_lib.model import Decoder, KVCache, ModelConfig, NgramDraft, Sampling, generate, speculate
from course_lib.parallel import context, pipeline, router, run, wire_bytes
from course_lib.parallel import tensor as tp
from course_lib.serving import Request, Scheduler, ServingConfig, ServingEngine, default_config, load, traces
from course_lib.serving.service import Service
from course_lib.serving.simulator import fit
from course_lib.serving.text import TextOutput
from tests.unit import random_calls, random_model
from tests.unit.fake_engine import FakeEngine

MODEL = random_model.model("gpt2")


def test_random_calls_give_a_right_result_or_a_sentence():
    right, refused, wrong = random_calls.run(1500, seed=5, makers=random_calls.ROOMS)
    assert not wrong and right > 400 and refused > 800


def _generate(prompts=((1, 2),), **options):
    generate(MODEL, prompts, **({"max_new_tokens": 2} | options))


def _cached(ids, lengths=(2,), new=((3,),)):
    cache = MODEL.new_cache(1, 30)
    MODEL.prefill(torch.tensor(ids), lengths, cache)
    MODEL.extend(torch.tensor(new), cache)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: _generate([[1.5]]), "prompt 0[0] is 1.5; expected a whole number"),
        (lambda: _generate([torch.tensor([1.0])]), "prompt 0[0] is 1.0; expected a whole number"),
        (lambda: _generate([[True]]), "prompt 0[0] is True; expected a whole number"),
        (lambda: _generate("text"), "prompts is 'text'; expected a list of lists of tokens"),
        (lambda: _generate(["text"]), "prompt 0 is 'text'; expected a list of tokens, whole numbers; a tokenizer"),
        (lambda: _generate(torch.ones(1, 2)), "prompts are torch.float32 (1, 2); expected whole numbers"),
        (lambda: _generate(max_new_tokens=True), "max_new_tokens is True; expected a whole number"),
        (lambda: _generate(max_new_tokens=2.0), "max_new_tokens is 2.0; expected a whole number"),
        (lambda: _generate(eos=torch.tensor(3)), "eos is a Tensor; expected a whole number"),
        (lambda: _generate(max_new_tokens=10**5000), "and a number of 16610 bits are to follow"),
        (lambda: _generate(eos=29), "eos is 29; it must be at most 28"),
        (lambda: _generate(sampling=0.7), "sampling is 0.7; expected a Sampling"),
        (lambda: _generate(stream="x"), "stream is 'x'; expected a function"),
        (lambda: _generate(decoder=Decoder(random_model.model("llama"), 1, 9, 2)), "made for another model"),
        (lambda: generate(None, [[1]]), "model is None; expected a Transformer: Transformer.load(folder) makes one"),
        (lambda: Decoder(MODEL, 1, 9, 2).start([[1.5]], [Sampling()], 2), "prompt 0[0] is 1.5"),
        (lambda: speculate(MODEL, [1], NgramDraft(), max_new_tokens=2, num_draft=True), "num_draft is True; exp"),
        (lambda: speculate(MODEL, [1], None, max_new_tokens=2), "draft is None; expected a draft"),
        (lambda: NgramDraft(0), "longest is 0; it must be at least 1"),
        (lambda: Sampling(temperature=float("nan")), "temperature is nan; expected a finite number"),
        (lambda: Sampling(temperature=-1.0), "temperature is -1.0; it must be at least 0"),
        (lambda: Sampling(top_k=True), "top_k is True; expected a whole number"),
        (lambda: Sampling(top_p=1.5), "top_p is 1.5; it must be at most 1"),
        (lambda: KVCache(MODEL.config, 1, 1 << 40), "capacity is 1099511627776; it must be at most 2147483647"),
        (lambda: MODEL.forward([[1]]), "ids is a list; expected whole numbers (batch_size, seq_len)"),
        (lambda: _cached([[1, 2]], lengths=[0]), "lengths has the length 0; expected lengths from 1 to 2"),
        (lambda: _cached([[1, 2]], new=[[29]]), "token 29 is out of range"),
        (lambda: _cached([[1, 2]], new=[[3], [4]]), "ids have 2 rows and the cache 1"),
        (lambda: _cached([[1] * 20], lengths=[20]), "the longest row has 20 tokens and 1 are to follow"),
        (lambda: ModelConfig("llama", 9, 8, 1, 2, 2, 3, 8, 8), "head_dim is 3; rotary positions turn pairs"),
        (lambda: ModelConfig("gpt2", True, 8, 1, 2, 2, 4, 8, 8), "vocab_size is True; expected a whole number"),
    ],
)
def test_a_model_is_asked_for_what_it_has(call, sentence):
    with pytest.raises(ModelError) as raised:
        call()
    assert sentence in str(raised.value)


def _request(prompt=(1, 2), count=2, **options):
    return Request("a", prompt, count, **options)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: _request(None), "a request's prompt is None; expected a list of tokens"),
        (lambda: _request("text"), "a request's prompt is 'text'; expected a list of tokens"),
        (lambda: _request((1.5,)), "a request's prompt[0] is 1.5; expected a whole number"),
        (lambda: _request((1, -1)), "a request's prompt has the token -1"),  # PENDING within an engine
        (lambda: _request(count=True), "a request's max_new_tokens is True; expected a whole number"),
        (lambda: _request(eos=torch.tensor(1)), "a request's eos is a Tensor; expected a whole number"),
        (lambda: _request(eos=-1), "a request's eos is -1; it must be at least 0"),
        (lambda: _request(stop="end"), "a request's stop is 'end'; expected a list of strings"),
        (lambda: _request(sampling=None), "a request's sampling is None; expected a Sampling"),
        (lambda: _request(arrival=float("nan")), "a request's arrival is nan; expected a finite number"),
        (lambda: Request(7, (1,), 2), "a request's name is 7; expected a word in quotes"),
        (lambda: ServingEngine(MODEL).add((1, 2)), "request is a tuple; expected a Request: Request(name, prompt"),
        (lambda: ServingEngine(MODEL).run([None]), "request is None; expected a Request"),
        (lambda: ServingEngine(MODEL).run(None), "requests is None; expected a list of Request"),
        (lambda: Scheduler(ServingConfig(4)).add("a"), "request is 'a'; expected a Request"),
        (lambda: Service(FakeEngine(len)).submit({}), "request is a dict; expected a Request"),
        (lambda: traces.arriving([None], 1.0), "request is None; expected a Request"),
    ],
)
def test_what_is_no_request_is_refused_where_it_is_made_or_added(call, sentence):
    with pytest.raises(RefusedError) as raised:
        call()
    assert sentence in str(raised.value)


def test_a_prompt_may_be_a_range_an_array_or_a_tensor_and_is_a_tuple_of_ints():
    for prompt in ([3, 4], range(3, 5), numpy.array([3, 4]), torch.tensor([3, 4]), [numpy.int64(3), 4]):
        made = _request(prompt).prompt
        assert made == (3, 4) and set(map(type, made)) == {int} and type(made) is tuple
        assert generate(MODEL, [prompt], max_new_tokens=2) == generate(MODEL, [[3, 4]], max_new_tokens=2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ServingConfig("8"), "num_pages is '8'; expected a whole number"),
        (lambda: ServingConfig(None), "num_pages is None; expected a whole number"),
        (lambda: ServingConfig(8, overlap=1), "overlap is 1; expected True or False"),
        (lambda: ServingConfig(8, watermark=float("nan")), "watermark is nan; expected a finite number"),
        (lambda: default_config(MODEL, page_size=0), "page_size is 0; it must be at least 1"),
        (lambda: default_config(MODEL, pages=3), "'pages' is no field of a ServingConfig"),
        (lambda: load.ClosedLoop([], 0), "clients is 0; it must be at least 1"),  # a run without a request
        (lambda: load.percentile([1.0, float("nan")], 50), "a value is nan; expected a finite number"),
        (lambda: traces.uniform_trace(3, seed=None), "seed is None; expected a whole number"),
        (lambda: traces.uniform_trace(1 << 40), "num_requests is 1099511627776; it must be at most"),
        (lambda: fit([{"ms": 1.0, "num_tokens": 1, "is_decode": 1}]), "kv_tokens of row 0 is missing; expected a num"),
        (lambda: TextOutput(random_model.tokenizer(), "end"), "stop is 'end'; expected a list of strings"),
    ],
)
def test_a_server_is_told_what_it_can_do(call, sentence):
    with pytest.raises(ArgumentError) as raised:
        call()
    assert sentence in str(raised.value)


def test_a_fit_of_steps_that_read_no_keys_has_a_line():
    rows = [{"ms": 1 + n, "num_tokens": n, "kv_tokens": 0, "is_decode": 1} for n in (1, 2, 5)]
    assert fit(rows).decode.seconds(3, 0) == pytest.approx(4e-3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tp.heads_of(-1, 4, 8, 2), "rank is -1; it must be at least 0"),
        (lambda: tp.heads_of(4, 4, 8, 2), "rank is 4; it must be at most 3"),
        (lambda: tp.heads_of(0, 1, 3, 2), "3 query heads and 2 KV heads; the KV heads must divide the others"),
        (lambda: tp.vocabulary_of(True, 2, 9), "rank is True; expected a whole number"),
        (lambda: tp.part_of(torch.ones(4), 0, 2, dim=1), "dim is 1; it must be at most 0"),
        (lambda: pipeline.order_1f1b(-1, 4, 8), "stage is -1; it must be at least 0"),
        (lambda: pipeline.order_1f1b(4, 4, 8), "stage is 4; it must be at most 3"),
        (lambda: pipeline.order_gpipe(0, 4, 1 << 40), "num_micro is 1099511627776; it must be at most"),
        (lambda: pipeline.bubble_formula(-1, 4), "num_stages is -1; it must be at least 1"),
        (lambda: pipeline.bubble_formula(1, 0), "num_micro is 0; it must be at least 1"),
        (lambda: pipeline.timetable([[("X", 0)]]), "an order has the entry ('X', 0); expected ('F', micro)"),
        (lambda: context.visible(0, 1, "striped"), "order='striped' is unknown; choose one of contiguous, zigzag"),
        (lambda: context.ring_bytes(3, 10, 2, 8, 4), "10 tokens on 3 ranks; every rank has as many"),
        (lambda: wire_bytes("gather", 8, 2), "kind='gather' is unknown; choose one of all_reduce"),
        (lambda: wire_bytes("all_reduce", -8, 2), "num_bytes is -8; it must be at least 0"),
        (lambda: router.Replica().submit([]), "the prompt is empty; a replica computes at least one token"),
        (lambda: router.PrefixAffinity(2, 0).route([1], (0, 0, 0)), "there are 3 loads; expected one for each of 2"),
        (lambda: run(print, True), "num_ranks is True; expected a whole number"),
        (lambda: run(print, 1, seconds=float("inf")), "seconds is inf; expected a finite number"),
    ],
)
def test_ranks_and_counts_that_are_none_get_a_sentence(call, sentence):
    with pytest.raises(CourseError) as raised:
        call()
    assert sentence in str(raised.value)


def test_a_group_of_ranks_says_which_argument_is_wrong():
    def both(world):
        x = torch.ones(4, 2)
        for call, error in (
            (lambda: world.all_gather(x, 2), ShapeError),
            (lambda: world.all_to_all(x, [1.5, 2.5]), ShapeError),  # 1 and 2 are not what was said
            (lambda: world.send(x, True), WorldError),
            (lambda: tp.row_parallel(world, x, torch.ones(3, 3)), ShapeError),
            (lambda: tp.mlp(world, x, x, x, None), ArgumentError),
        ):
            with pytest.raises(error):
                call()
        return world.all_gather(x, 1).shape

    assert run(both, 2).results == [(4, 4)] * 2
