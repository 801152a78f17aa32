"""Loading and saving weights, and what is refused: one sentence each, before anything is loaded."""

import json
import math
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_lib.errors import ModelError, UnsupportedError
from course_lib.model import (
    SIZES,
    Decoder,
    ModelConfig,
    TextStream,
    Transformer,
    generate,
    load,
    load_tokenizer,
    random_weights,
)
from course_lib.model.weights import table

GPT2 = ModelConfig("gpt2", 29, 16, 2, 2, 2, 8, 24, 20)
LLAMA = ModelConfig("llama", 29, 16, 2, 4, 2, 6, 24, 20, 1e-6, 500.0, tie_embeddings=False)
CONFIGS = {"gpt2": GPT2, "llama": LLAMA}


@pytest.fixture(params=CONFIGS)
def weights(request):
    return random_weights(CONFIGS[request.param], seed=4)


@pytest.fixture
def folder(tmp_path):
    """A llama's folder."""
    random_weights(LLAMA, seed=4).save(tmp_path / "llama")
    return tmp_path / "llama"


def rewrite(folder, change):
    """Let `change` edit the dict of a folder's tensors, and write them back."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def edit_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_what_is_saved_is_loaded(weights, tmp_path):
    weights.save(tmp_path, eos_token_id=3)
    again = load(tmp_path)
    assert again.config == weights.config and same(again.tensors, weights.tensors)
    assert json.loads((tmp_path / "config.json").read_text())["eos_token_id"] == 3
    half = load(tmp_path, dtype=torch.bfloat16)
    assert {tensor.dtype for tensor in half.tensors.values()} == {torch.bfloat16}
    assert weights.num_bytes == 2 * half.num_bytes == 4 * half.num_parameters


def test_both_styles_of_names_and_what_old_files_hold_besides(weights, tmp_path):
    def old_style(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.").removeprefix("model.")] = tensors.pop(name)
        if weights.config.architecture == "gpt2":
            tensors["h.0.attn.bias"] = torch.ones(1, 1, 20, 20, dtype=torch.bool)
            tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)
            tensors["lm_head.weight"] = torch.zeros(29, 16)  # of a tied head: the table's copy

    weights.save(tmp_path)
    rewrite(tmp_path, old_style)
    assert same(load(tmp_path).tensors, weights.tensors)


def test_shards(weights, tmp_path):
    weights.save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, kept in shards.items():
        save_file({name: tensors[name] for name in kept}, tmp_path / shard)
    places = {name: shard for shard, kept in shards.items() for name in kept}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert same(load(tmp_path).tensors, weights.tensors)
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(ModelError, match="b.safetensors does not exist"):
        load(tmp_path)


WRONG = {
    "missing": (
        lambda t: t.pop("model.layers.1.mlp.up_proj.weight"),
        "has no tensor model.layers.1.mlp.up_proj.weight",
    ),
    "shape": (
        lambda t: t.update({"model.norm.weight": torch.ones(17)}),
        r"model.norm.weight has the shape \(17,\); config.json asks for \(16,\)",
    ),
    "dtype": (lambda t: t.update({"model.norm.weight": torch.ones(16, dtype=torch.int8)}), "is torch.int8"),
    "two dtypes": (lambda t: t.update({"model.norm.weight": torch.ones(16).half()}), "a model has one dtype"),
    "unknown": (
        lambda t: t.update({"model.layers.0.self_attn.q_norm.weight": torch.ones(6)}),
        "q_norm.weight, which a llama model does not use",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_tensors_that_do_not_fit(folder, name):
    change, sentence = WRONG[name]
    rewrite(folder, change)
    with pytest.raises(ModelError, match=sentence):
        load(folder)


@pytest.mark.parametrize("length", [0, 5, 300, -1])
def test_a_file_cut_short(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ModelError, match="no whole safetensors file .* cut short: copy or download it again"):
        load(folder)


UNKNOWN = {
    "model_type is 'qwen3'": {"model_type": "qwen3"},
    "hidden_act is 'gelu'": {"hidden_act": "gelu"},
    "attention_bias is True": {"attention_bias": True},
    "of the type 'llama3'": {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4}},
    "of the type 'linear'": {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}},
}


@pytest.mark.parametrize("sentence", UNKNOWN)
def test_what_the_forward_pass_does_not_have(folder, sentence):
    edit_config(folder, **UNKNOWN[sentence])
    with pytest.raises(UnsupportedError, match=sentence):
        load(folder)


def test_folders_that_are_none(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="There is no folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(UnsupportedError, match="dtype=torch.int8"):
        load(folder, dtype=torch.int8)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="is no JSON"):
        load(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(ModelError, match="has no config.json"):
        load(folder)
    with pytest.raises(ModelError, match="has no tokenizer.json"):
        load_tokenizer(folder)


def test_configurations():
    for config in SIZES.values():
        assert ModelConfig.from_hugging_face(config.to_hugging_face()) == config
    with pytest.raises(UnsupportedError, match="'gpt5' is no named size"):
        ModelConfig.named("gpt5")
    with pytest.raises(ModelError, match="num_heads=4 is no multiple of num_kv_heads=3"):
        ModelConfig("llama", 29, 16, 2, 4, 3, 6, 24, 20)
    values = LLAMA.to_hugging_face()
    del values["vocab_size"]
    with pytest.raises(ModelError, match="has no 'vocab_size'"):
        ModelConfig.from_hugging_face(values)
    old = LLAMA.to_hugging_face() | {"rope_theta": 500.0}
    del old["rope_parameters"]
    assert ModelConfig.from_hugging_face(old) == LLAMA


def test_sizes_have_the_published_numbers_of_weights():
    counts = {"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200}
    for name, count in counts.items():
        assert sum(math.prod(entry.shape) for entry in table(SIZES[name])) == count
    assert 1.09e9 < sum(math.prod(entry.shape) for entry in table(SIZES["llama-1.1b"])) < 1.11e9


REQUESTS = {
    "prompt 1 is empty": ([[1], []], 2),
    "there is no prompt": ([], 2),
    "prompt 0 has 15 tokens and 6 are to follow; the context of this model has 20": ([[1] * 15], 6),
    "token 29 is out of range; the vocabulary has the tokens 0 to 28": ([[3, 29]], 2),
    "token -1 is out of range": ([[-1]], 2),
    "max_new_tokens is -1": ([[1]], -1),
}


@pytest.mark.parametrize("sentence", REQUESTS)
def test_requests_that_are_refused(sentence):
    prompts, count = REQUESTS[sentence]
    with pytest.raises(ModelError, match=sentence):
        generate(Transformer.random(GPT2), prompts, max_new_tokens=count)


@torch.no_grad()
def test_no_room_in_the_cache():
    model = Transformer.random(GPT2)
    cache = model.new_cache(1, 4)
    with pytest.raises(ModelError, match="room for 4 tokens a row, the longest has 0 and 5 more are to come"):
        model.prefill(torch.ones(1, 5, dtype=torch.int64), [5], cache)
    model.prefill(torch.ones(1, 4, dtype=torch.int64), [4], cache)
    before = cache.k.clone()
    with pytest.raises(ModelError, match="the longest has 4 and 1 more"):
        model.step(torch.ones(1, dtype=torch.int64), cache)
    assert torch.equal(cache.k, before) and cache.lengths.tolist() == [4]
    decoder = Decoder(model, 1, 8, 4)
    with pytest.raises(ModelError, match="9 tokens a row are to be kept and the cache has room for 8"):
        generate(model, [[1] * 6], max_new_tokens=4, decoder=decoder)
    with pytest.raises(ModelError, match="made for 1 rows of at most 4 new tokens; 2 rows of 3"):
        generate(model, [[1], [2]], max_new_tokens=3, decoder=decoder)
    assert generate(model, [[1] * 5], max_new_tokens=4, decoder=decoder) == generate(model, [[1] * 5], max_new_tokens=4)


def test_transformers_is_a_peer_and_never_a_part(root):
    texts = [path.read_text(encoding="utf-8") for path in (root / "course_lib" / "model").glob("*.py")]
    assert len(texts) > 10 and not any(re.search(r"^\s*(import|from) transformers", text, re.M) for text in texts)


def test_text_comes_in_whole_characters(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["a"], trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    again = load_tokenizer(tmp_path)
    text = "naïve 🙂 ok"
    ids = again.encode(text).ids
    assert len(ids) == len(text.encode()) and again.decode(ids) == text
    stream = TextStream(again)
    pieces = [stream.add(token) for token in ids]
    assert "".join(pieces) == text and "\ufffd" not in "".join(pieces) and "" in pieces
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="describes no tokenizer"):
        load_tokenizer(tmp_path)
