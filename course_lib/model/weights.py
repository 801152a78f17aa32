"""Weights of a model: one table of names and shapes, read from and written to Hugging Face's files.

The forward pass has its own names, the same for both architectures; a matrix is (out, in). What it multiplies
together lies together: query, key and value rows are one matrix, and so are the gate and the up projection of SwiGLU.

May import: errors, expect, model.checked, model.config, model.checkpoint, torch.
"""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from .. import expect
from ..errors import ModelError, UnsupportedError
from .checked import SEED_BITS, checked_device, checked_dtype
from .checkpoint import Checkpoint, write
from .config import ModelConfig

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
PREFIXES = {"gpt2": "transformer.", "llama": "model."}  # of every name but the head's; some files leave it out
BUFFERS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")  # stored by old versions; computed here
HEAD = "lm_head.weight"


@dataclass(frozen=True)
class Entry:
    """One tensor of the model and the tensors of a file that it is made of.

    Attributes
    ----------
    name : str, ours
    shape : tuple of int, ours
    sources : tuple of (name in the file without prefix, rows of ours)
    transposed : bool; the file has (in, out), as GPT-2's Conv1D
    """

    name: str
    shape: tuple
    sources: tuple
    transposed: bool = False

    def shape_in_file(self, rows):
        """Shape of a source that fills `rows` rows."""
        shape = (rows, *self.shape[1:])
        return shape[::-1] if self.transposed else shape


def table(config):
    """Every Entry of a model."""
    hidden, layers = config.hidden_size, range(config.num_layers)
    if config.architecture == "gpt2":
        entries = [_same("embedding.weight", "wte.weight", config.vocab_size, hidden)]
        entries.append(_same("positions.weight", "wpe.weight", config.max_positions, hidden))
        entries += [entry for index in layers for entry in _gpt2_layer(config, f"layers.{index}.", f"h.{index}.")]
        entries += [_same(f"norm.{kind}", f"ln_f.{kind}", hidden) for kind in ("weight", "bias")]
    else:
        entries = [_same("embedding.weight", "embed_tokens.weight", config.vocab_size, hidden)]
        entries += [entry for index in layers for entry in _llama_layer(config, f"layers.{index}.")]
        entries.append(_same("norm.weight", "norm.weight", hidden))
    if not config.tie_embeddings:
        entries.append(_same("head.weight", HEAD, config.vocab_size, hidden))
    return entries


def _same(name, source, *shape):
    return Entry(name, shape, ((source, shape[0]),))


def _gpt2_layer(config, ours, theirs):
    hidden, inner = config.hidden_size, config.intermediate_size
    for norm, source in (("norm_1", "ln_1"), ("norm_2", "ln_2")):
        yield from (_same(f"{ours}{norm}.{kind}", f"{theirs}{source}.{kind}", hidden) for kind in ("weight", "bias"))
    products = {
        "qkv": ("attn.c_attn", 3 * hidden, hidden),
        "out": ("attn.c_proj", hidden, hidden),
        "up": ("mlp.c_fc", inner, hidden),
        "down": ("mlp.c_proj", hidden, inner),
    }
    for name, (source, rows, columns) in products.items():
        weight = ((f"{theirs}{source}.weight", rows),)
        yield Entry(f"{ours}{name}.weight", (rows, columns), weight, transposed=True)
        yield _same(f"{ours}{name}.bias", f"{theirs}{source}.bias", rows)


def _llama_layer(config, layer):
    hidden, inner, q_size, kv_size = config.hidden_size, config.intermediate_size, config.q_size, config.kv_size
    yield _same(f"{layer}norm_1.weight", f"{layer}input_layernorm.weight", hidden)
    yield _same(f"{layer}norm_2.weight", f"{layer}post_attention_layernorm.weight", hidden)
    parts = (("q", q_size), ("k", kv_size), ("v", kv_size))
    sources = tuple((f"{layer}self_attn.{part}_proj.weight", rows) for part, rows in parts)
    yield Entry(f"{layer}qkv.weight", (q_size + 2 * kv_size, hidden), sources)
    yield _same(f"{layer}out.weight", f"{layer}self_attn.o_proj.weight", hidden, q_size)
    sources = tuple((f"{layer}mlp.{part}_proj.weight", inner) for part in ("gate", "up"))
    yield Entry(f"{layer}up.weight", (2 * inner, hidden), sources)
    yield _same(f"{layer}down.weight", f"{layer}mlp.down_proj.weight", hidden, inner)


class Weights:
    """All tensors of a model.

    Attributes
    ----------
    config : ModelConfig
    tensors : dict, name -> tensor, in the order of `table`
    layers : list of dict, for each layer short name ("qkv.weight") -> the same tensors
    """

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.layers = [{} for _ in range(config.num_layers)]
        for name, tensor in tensors.items():
            if name.startswith("layers."):
                _, index, short = name.split(".", 2)
                self.layers[int(index)][short] = tensor

    def __getitem__(self, name):
        return self.tensors[name]

    @property
    def head(self):
        """The matrix of the head, (vocab_size, hidden_size): the embedding's table where they are tied."""
        return self.tensors["embedding.weight" if self.config.tie_embeddings else "head.weight"]

    @property
    def num_parameters(self):
        return sum(math.prod(tensor.shape) for tensor in self.tensors.values())

    @property
    def num_bytes(self):
        """Of all tensors; a packed matrix has its own count."""
        return sum(getattr(x, "num_bytes", None) or x.numel() * x.element_size() for x in self.tensors.values())

    def to(self, device=None, dtype=None):
        """The same weights elsewhere or in another dtype; a tensor that is there already is shared."""
        return Weights(self.config, {name: tensor.to(device, dtype) for name, tensor in self.tensors.items()})

    def save(self, folder, **more):
        """Write config.json and model.safetensors as transformers does, in folder, which is created.

        more : further entries of config.json, for example eos_token_id
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "model.safetensors", self.to_hugging_face())
        text = json.dumps(self.config.to_hugging_face() | more, indent=1, sort_keys=True)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    def to_hugging_face(self):
        """dict, name in a file of transformers -> contiguous tensor."""
        prefix, stored = PREFIXES[self.config.architecture], {}
        for entry in table(self.config):
            rows = [rows for _, rows in entry.sources]
            for (source, _), part in zip(entry.sources, self.tensors[entry.name].detach().split(rows), strict=True):
                key = source if source == HEAD else prefix + source
                stored[key] = part.t().contiguous() if entry.transposed else part.contiguous()
        return stored


def load(folder, *, dtype=None, device=None):
    """Weights from a folder with config.json and safetensors, or from the hub.

    Parameters
    ----------
    folder : path of a folder as transformers saves it, in one file or in shards with an index; or a name of the hub
        ("openai-community/gpt2"), for which huggingface_hub and a network are needed
    dtype : torch.float32, float16, bfloat16, or None: that of the file
    device : where they go; None: torch's default device

    Raises
    ------
    ModelError        a file is missing or cut short; a tensor is missing, unknown, or of another shape or dtype
    UnsupportedError  an architecture or a feature that the forward pass does not have

    Notes
    -----
    Everything is checked before the first tensor is read.
    """
    expect.kind("folder", folder, (str, os.PathLike), error=ModelError)
    folder, device = _local(folder), checked_device(device)
    config = ModelConfig.from_folder(folder)
    if dtype not in (None, *DTYPES):
        raise UnsupportedError(f"dtype={dtype}; a model runs in float32, float16 or bfloat16.")
    with Checkpoint(folder) as checkpoint:
        names = _names(config, checkpoint)
        _check(config, checkpoint, names)
        tensors = {entry.name: _read(entry, checkpoint, names, dtype, device) for entry in table(config)}
    return Weights(config, tensors)


def random_weights(config, seed=0, *, dtype=torch.float32, device=None, std=0.02):
    """Weights as GPT-2 starts its training: matrices normal, those that end a residual branch smaller; biases 0.

    Reproducible for one `device` and dtype; drawn one tensor after the other from one generator.
    """
    expect.kind("config", config, ModelConfig, how="ModelConfig.named('gpt2') gives one", error=ModelError)
    seed = expect.whole("seed", seed, -(1 << SEED_BITS), (1 << SEED_BITS) - 1, error=ModelError)
    std, dtype, device = expect.real("std", std, 0, error=ModelError), checked_dtype(dtype), checked_device(device)
    generator = torch.Generator(device).manual_seed(seed)
    tensors = {}
    for entry in table(config):
        if len(entry.shape) == 1:
            fill = torch.ones if entry.name.endswith("weight") else torch.zeros
            tensors[entry.name] = fill(entry.shape, dtype=dtype, device=device)
            continue
        ends_branch = entry.name.endswith(("out.weight", "down.weight"))
        scale = std / (2 * config.num_layers) ** 0.5 if ends_branch else std
        empty = torch.empty(entry.shape, dtype=dtype, device=device)
        tensors[entry.name] = empty.normal_(0.0, scale, generator=generator)
    return Weights(config, tensors)


def _local(folder):
    """The folder itself, or where the hub's files of that name were put."""
    path = Path(folder)
    if path.is_dir():
        return path
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ModelError(f"There is no folder {folder}; for a name of the hub, pip install huggingface_hub.") from None
    try:
        return Path(snapshot_download(str(folder), allow_patterns=["*.json", "*.safetensors"]))
    except Exception as error:  # whatever the network, the hub or the name may raise
        raise ModelError(f"There is no folder {folder}, and the hub gave none: {_first_line(error)}") from None


def _first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _names(config, checkpoint):
    """Name in the table -> name in this file, with the prefix that the file uses."""
    prefix = PREFIXES[config.architecture]
    used = prefix if any(name.startswith(prefix) for name in checkpoint) else ""
    sources = [source for entry in table(config) for source, _ in entry.sources]
    return {source: source if source == HEAD else used + source for source in sources}


def _check(config, checkpoint, names):
    """Every tensor there, of its shape and dtype, and none that the model does not know."""
    dtypes = set()
    for entry in table(config):
        for source, rows in entry.sources:
            name, expected = names[source], entry.shape_in_file(rows)
            if name not in checkpoint:
                raise ModelError(f"{checkpoint} has no tensor {name}; a {config.architecture} model needs it.")
            shape, dtype = checkpoint.shape(name), checkpoint.dtype(name)
            if shape != expected:
                raise ModelError(f"{name} has the shape {shape}; config.json asks for {expected}.")
            if dtype not in DTYPES:
                raise ModelError(f"{name} is {dtype}; a model is float32, float16 or bfloat16.")
            dtypes.add(dtype)
    if len(dtypes) > 1:
        raise ModelError(f"{checkpoint} holds tensors of {', '.join(map(str, dtypes))}; a model has one dtype.")
    ignored = {HEAD} if config.tie_embeddings else set()
    known = set(names.values()) | ignored
    unknown = [name for name in checkpoint if name not in known and not name.endswith(BUFFERS)]
    if unknown:
        raise ModelError(f"{checkpoint} has {unknown[0]}, which a {config.architecture} model does not use.")


def _read(entry, checkpoint, names, dtype, device):
    parts = [checkpoint.read(names[source]) for source, _ in entry.sources]
    parts = [part.t() if entry.transposed else part for part in parts]
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return whole.to(device=device, dtype=dtype).contiguous()
