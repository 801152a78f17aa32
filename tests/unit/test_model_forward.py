"""The model against transformers: logits, the cache, tokens; random checkpoints that transformers wrote."""

import sys

import pytest
import torch

from course_lib.errors import ModelError
from course_lib.model import Decoder, KVCache, ModelConfig, Sampling, Transformer, generate, graph
from course_lib.model.generate import prompt_len

SHAPES = {"vocab_size": 61, "bos_token_id": None, "eos_token_id": None}
GPT2 = SHAPES | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 48}
LLAMA = SHAPES | {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
    "max_position_embeddings": 48, "rms_norm_eps": 1e-5,
}  # fmt: skip
MODELS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2 untied, narrow": (
        "GPT2LMHeadModel", "GPT2Config", GPT2 | {"tie_word_embeddings": False, "n_inner": 24},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", LLAMA | {"num_key_value_heads": 4}),
    "llama grouped": (
        "LlamaForCausalLM", "LlamaConfig",
        LLAMA | {"num_key_value_heads": 2, "head_dim": 12, "rope_theta": 500.0},
    ),
    "llama tied": (
        "LlamaForCausalLM", "LlamaConfig",
        LLAMA | {"num_key_value_heads": 1, "tie_word_embeddings": True},
    ),
}  # fmt: skip
PROMPTS = [[7, 3, 3, 19, 60, 0, 5, 1], [11], [42, 8, 23]]


@pytest.fixture(scope="module", params=MODELS)
def pair(request, tmp_path_factory):
    """(transformers' model, ours from its files); weights large enough that the tokens differ."""
    transformers = pytest.importorskip("transformers")  # takes seconds: only where it is used
    kind, config, options = MODELS[request.param]
    torch.manual_seed(3)
    theirs = getattr(transformers, kind)(getattr(transformers, config)(**options)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("checkpoint")
    theirs.save_pretrained(folder)
    return theirs, Transformer.load(folder)


@pytest.fixture(scope="module")
def model():
    config = ModelConfig("llama", 61, 32, 2, 4, 2, 8, 40, 48, tie_embeddings=False)
    return Transformer.random(config, seed=1, dtype=torch.float32)


@torch.no_grad()
def test_logits_equal(pair):
    theirs, ours = pair
    ids = torch.randint(61, (2, 13), generator=torch.Generator().manual_seed(0))
    expected = theirs(ids).logits
    torch.testing.assert_close(ours.forward(ids), expected, rtol=1e-4, atol=1e-4)
    naive = ours.use("torch", attention="naive").forward(ids)
    torch.testing.assert_close(naive, expected, rtol=1e-4, atol=1e-4)
    ours.use("torch")


@torch.no_grad()
def test_greedy_tokens_equal_with_and_without_a_cache(pair):
    theirs, ours = pair
    ids = torch.tensor([PROMPTS[0]])
    for _ in range(12):
        ids = torch.cat((ids, ours.forward(ids)[:, -1:].argmax(-1)), dim=1)
    uncached = ids[0, len(PROMPTS[0]) :].tolist()
    assert generate(ours, PROMPTS[:1], max_new_tokens=12) == [uncached]
    theirs.generation_config.eos_token_id = theirs.generation_config.pad_token_id = None
    options = {"max_new_tokens": 12, "do_sample": False, "attention_mask": torch.ones(1, len(PROMPTS[0]))}
    expected = theirs.generate(torch.tensor(PROMPTS[:1]), **options)
    assert expected[0, len(PROMPTS[0]) :].tolist() == uncached
    assert len(set(uncached)) > 1, "a token that repeats for ever tells nothing"


@torch.no_grad()
def test_a_ragged_batch_is_each_row_alone(pair):
    _, ours = pair
    rows = [Sampling(0.9, top_k=20, top_p=0.9, seed=5), Sampling(), Sampling(1.3, min_p=0.02, seed=6)]
    together = generate(ours, PROMPTS, max_new_tokens=10, sampling=rows)
    alone = [
        generate(ours, [prompt], max_new_tokens=10, sampling=row)[0] for prompt, row in zip(PROMPTS, rows, strict=True)
    ]
    assert together == alone
    assert generate(ours, PROMPTS[::-1], max_new_tokens=10, sampling=rows[::-1]) == alone[::-1]


@torch.no_grad()
def test_unused_slots_are_never_read(pair):
    _, ours = pair
    cache = ours.new_cache(2, 20)
    cache.k.fill_(1e4)
    cache.v.fill_(-1e4)
    ids = torch.tensor([PROMPTS[0][:6], PROMPTS[2] + [0, 0, 0]])
    ours.prefill(ids, [6, 3], cache)
    for token in (4, 5):
        logits = ours.step(torch.tensor([token, token]), cache)
        assert logits.abs().max() < 100
    expected = ours.forward(torch.tensor([PROMPTS[2] + [4, 5]]))[0, -1]
    torch.testing.assert_close(logits[1], expected, rtol=1e-4, atol=1e-4)
    assert cache.lengths.tolist() == [8, 5]


@torch.no_grad()
def test_several_tokens_at_once_and_back(pair):
    _, ours = pair
    cache = ours.new_cache(2, 16)
    ids = torch.tensor([PROMPTS[0], [*PROMPTS[2], 0, 9, 9, 2, 2]])
    ours.prefill(ids[:, :4], [4, 2], cache)
    ours.extend(torch.tensor([[1, 2, 3], [4, 5, 6]]), cache)
    cache.truncate(torch.tensor([4, 2], dtype=torch.int32))
    logits = ours.extend(torch.stack((ids[0, 4:7], ids[1, 2:5])), cache)
    expected = ours.forward(ids)
    torch.testing.assert_close(logits[0], expected[0, 4:7], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logits[1], expected[1, 2:5], rtol=1e-4, atol=1e-4)


def test_tokens_end(model):
    assert generate(model, PROMPTS, max_new_tokens=0) == [[], [], []]
    one = generate(model, PROMPTS, max_new_tokens=1)
    assert [len(row) for row in one] == [1, 1, 1]
    rows = [Sampling(5.0, seed=seed) for seed in (1, 2, 3)]
    free = generate(model, PROMPTS, max_new_tokens=9, sampling=rows)
    eos = free[1][3]
    heard = []
    ended = generate(
        model, PROMPTS, max_new_tokens=9, sampling=rows, eos=eos, stream=lambda row, token: heard.append((row, token))
    )
    cut = [row[: row.index(eos) + 1] if eos in row else row for row in free]
    assert ended == cut and len(ended[1]) < 9 < 3 * 9
    assert [[token for row, token in heard if row == index] for index in range(3)] == ended


def test_steps_as_a_graph_would_record_them(model):
    """Every buffer keeps its address, the capacity bounds the keys, and gradients, for other kernels, are off."""
    rows = [Sampling(0.8, seed=2), Sampling(), Sampling(1.1, top_p=0.9, seed=3)]
    expected = generate(model, PROMPTS, max_new_tokens=9, sampling=rows)
    decoder = Decoder(model, 3, 24, 9)
    decoder.start(PROMPTS, rows, 9)
    buffers = [decoder.ids, decoder.index, decoder.tokens, decoder.noise, decoder.cache.lengths, decoder.cache.k]
    addresses, bounds = [x.data_ptr() for x in buffers], []
    decode = model.kernels.decode

    def noted(*arguments):
        bounds.append((arguments[-1], torch.is_grad_enabled()))
        return decode(*arguments)

    model.kernels.decode = noted
    decoder.graph = decoder._step  # what a graph replays
    for _ in range(8):
        decoder.advance()
    model.kernels.decode = decode
    assert decoder.tokens.T.tolist() == expected
    assert [x.data_ptr() for x in buffers] == addresses and set(bounds) == {(24, False)}
    again = generate(model, PROMPTS[::-1], max_new_tokens=5, decoder=decoder)
    assert again == generate(model, PROMPTS[::-1], max_new_tokens=5)
    with pytest.raises(ModelError, match="3 rows of at most 9 new tokens; 3 rows of 10"):
        for _ in range(30):
            decoder.advance()


class Replayed:
    """In place of Graph: `recorded` has each function that runs, with its arguments."""

    recorded = []

    def __init__(self, function, pool=None):
        self.function = function

    def __call__(self):
        self.recorded.append(self.function)
        self.function()


def test_prefills_as_graphs_would_record_them(model, monkeypatch):
    """Every prompt comes through the same buffers, padded; the latest lengths are kept, and how tokens are chosen."""
    monkeypatch.setattr(graph, "Graph", Replayed)
    monkeypatch.setattr(graph.torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(Replayed, "recorded", [])
    decoder = Decoder(model, 3, 40, 9, graph=True)
    monkeypatch.setattr(decoder, "_step_graph", lambda used: None)
    buffers = [decoder.prompts, decoder.lengths, decoder.ids, decoder.tokens, decoder.cache.k]
    addresses = [x.data_ptr() for x in buffers]
    rows = [Sampling(0.8, seed=2), Sampling(), Sampling(1.1, top_p=0.9, seed=3)]
    for lengths, samplings in (((5, 1, 3), rows), ((20, 2, 9), rows), ((6, 8, 1), None), ((30, 1, 1), rows)):
        prompts = [[(7 * i + n) % 50 for i in range(n)] for n in lengths]
        options = {"max_new_tokens": 9, "sampling": samplings}
        assert generate(model, prompts, decoder=decoder, **options) == generate(model, prompts, **options)
        assert decoder.cache.longest == max(lengths) + 8
    assert [each.args[0] for each in Replayed.recorded] == [8, 24, 8, 32]
    assert [x.data_ptr() for x in buffers] == addresses
    records = graph.Graphs(lambda key: None, most=2)
    for key in (1, 2, 1, 3):
        records(key)
    assert [*records.graphs] == [(1,), (3,)], "2 was not used for the longest time"


def test_prompts_of_many_tokens_are_not_recorded(model, monkeypatch):
    monkeypatch.setattr(sys.modules["course_lib.model.generate"], "MOST_TOKENS", 3 * 7)
    decoder = Decoder(model, 3, 24, 2, graph=True)
    monkeypatch.setattr(decoder, "_step_graph", lambda used: None)
    assert generate(model, PROMPTS, max_new_tokens=2, decoder=decoder) == generate(model, PROMPTS, max_new_tokens=2)


def test_a_prompt_is_padded_to_one_of_four_lengths_a_doubling():
    padded = [prompt_len(length) for length in range(1, 2049)]
    assert all(length <= most <= max(8, 1.25 * length + 8) for length, most in enumerate(padded, 1))
    assert sorted({n for n in padded if 64 <= n <= 128}) == [64, 80, 96, 112, 128] and len(set(padded)) == 28


def test_a_stream_of_noise_does_not_depend_on_how_much_is_drawn():
    assert torch.equal(Sampling(seed=4).noise(3), Sampling(seed=4).noise(100)[:3])
    assert not torch.equal(Sampling(seed=4).noise(3), Sampling(seed=5).noise(3))


def test_every_bit_of_a_seed_counts():
    """torch's CPU generator reads 32 bits alone: 3 and 3 + 2^32 would be one stream."""
    plain = torch.rand(5, generator=torch.Generator().manual_seed(2**32 - 1))
    assert torch.equal(Sampling(seed=2**32 - 1).noise(5), plain), "as exercise 13.5 has it"
    seeds = (3, 3 + 2**32, 3 - 2**32, 3 + 2**62, -3, 3 + 2**200)
    streams = {tuple(Sampling(seed=seed).noise(5).tolist()) for seed in seeds}
    assert len(streams) == len(seeds) and torch.equal(
        Sampling(seed=seeds[1]).noise(5), Sampling(seed=seeds[1]).noise(5)
    )
    for seed in (1.0, "1", None, True):
        with pytest.raises(ModelError, match="seed is .*; expected a whole number"):
            Sampling(seed=seed)


def test_padding_is_not_stored(model):
    cache = KVCache(model.config, 2, 4)
    positions = torch.arange(3).expand(2, -1)
    assert cache.slots(positions, positions < torch.tensor([[3], [1]])).tolist() == [0, 1, 2, 4, -1, -1]


def test_a_cache_counts_what_follows_from_its_lengths(model):
    cache = KVCache(model.config, 3, 100)
    steps = [  # each: the change, the lengths after it, steps of one token
        (lambda: cache.set_lengths(torch.tensor([5, 0, 98])), [5, 0, 98], 0),
        (lambda: cache.advance(1), [6, 1, 99], 1),
        (lambda: cache.truncate(7), [6, 1, 7], 1),
        (lambda: cache.advance(4), [10, 5, 11], 1),
        (lambda: cache.advance(1), [11, 6, 12], 2),
        (cache.clear, [0, 0, 0], 2),
        (lambda: cache.set_lengths(3), [3, 3, 3], 0),
    ]
    for change, lengths, count in steps:
        change()
        assert cache.lengths.tolist() == lengths and cache.steps.tolist() == [count] * 3
        assert cache.next_lengths.tolist() == [length + 1 for length in lengths]
        assert cache.next_slots.tolist() == [100 * row + length for row, length in enumerate(lengths)]
    assert cache.next_slots.dtype == torch.int64 and cache.next_lengths.is_contiguous()
