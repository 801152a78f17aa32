"""Shapes and constants of a model: two architectures, named sizes, Hugging Face's config.json.

May import: errors, expect.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from .. import expect
from ..errors import ModelError, UnsupportedError

ARCHITECTURES = ("gpt2", "llama")
MOST_FLOAT = 1e30  # of a constant of the norms or the angles


@dataclass(frozen=True)
class ModelConfig:
    """What the forward pass needs to know about a model.

    Attributes
    ----------
    architecture : "gpt2" (LayerNorm, learned positions, biases, tanh GELU) or "llama" (RMSNorm, RoPE, SwiGLU)
    vocab_size, hidden_size, num_layers : int
    num_heads, num_kv_heads, head_dim : int; num_kv_heads divides num_heads, and equals it in GPT-2
    intermediate_size : int, width of the MLP
    max_positions : int, the context: prompt and new tokens together
    norm_eps : float
    rope_theta : float, base of the rotary angles; unused in GPT-2
    tie_embeddings : bool; the embedding's table is also the weight of the head
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    max_positions: int
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    tie_embeddings: bool = True

    def __post_init__(self):
        if not isinstance(self.architecture, str) or self.architecture not in ARCHITECTURES:
            raise UnsupportedError(f"architecture={self.architecture!r} is unknown; this model has gpt2 and llama.")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int:
                value = expect.whole(field.name, value, 1, error=ModelError)
            elif field.type is float:
                value = float(expect.real(field.name, value, above=0, most=MOST_FLOAT, error=ModelError))
            elif field.type is bool:
                value = expect.flag(field.name, value, error=ModelError)
            object.__setattr__(self, field.name, value)
        if self.architecture == "llama" and self.head_dim % 2:
            raise ModelError(f"head_dim is {self.head_dim}; rotary positions turn pairs, so it must be even.")
        if self.num_heads % self.num_kv_heads:
            raise ModelError(f"num_heads={self.num_heads} is no multiple of num_kv_heads={self.num_kv_heads}.")
        if self.architecture == "gpt2" and (self.num_kv_heads != self.num_heads or self.q_size != self.hidden_size):
            raise ModelError(
                f"GPT-2 has as many key heads as query heads, and together they are as wide as hidden_size; here "
                f"{self.num_kv_heads} and {self.num_heads} of {self.head_dim}, and {self.hidden_size}."
            )

    @property
    def q_size(self):
        """Width of all query heads."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self):
        """Width of all key heads."""
        return self.num_kv_heads * self.head_dim

    @classmethod
    def named(cls, name):
        """One of SIZES."""
        if not isinstance(name, str) or name not in SIZES:
            raise UnsupportedError(f"{name!r} is no named size; there are {', '.join(SIZES)}.")
        return SIZES[name]

    @classmethod
    def from_hugging_face(cls, values):
        """The configuration that a config.json of transformers describes.

        Parameters
        ----------
        values : dict

        Raises
        ------
        UnsupportedError  an architecture or a feature that this forward pass does not have
        ModelError        an entry is missing
        """
        expect.kind("values", values, dict, how="what json.loads gives of a config.json", error=ModelError)
        kind = values.get("model_type")
        readers = {"gpt2": _read_gpt2, "llama": _read_llama}
        if not isinstance(kind, str) or kind not in readers:
            raise UnsupportedError(f"model_type is {kind!r}; this model has the architectures gpt2 and llama.")
        try:
            return readers[kind](values)
        except KeyError as error:
            raise ModelError(f"config.json of a {kind} has no {error}; without it the shapes are not known.") from None
        except (TypeError, ValueError, AttributeError, RuntimeError, ZeroDivisionError) as error:
            raise ModelError(f"config.json of a {kind} has an entry of another type: {error}.") from None

    @classmethod
    def from_folder(cls, folder):
        """The configuration in folder/config.json."""
        path = Path(folder) / "config.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ModelError(f"{folder} has no config.json; expected a folder as transformers saves it.") from None
        except ValueError as error:
            raise ModelError(f"{path} is no JSON: {error}.") from None
        return cls.from_hugging_face(values)

    def to_hugging_face(self):
        """The config.json with which transformers builds the same model, a dict."""
        if self.architecture == "gpt2":
            return {
                "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": self.vocab_size,
                "n_embd": self.hidden_size, "n_layer": self.num_layers, "n_head": self.num_heads,
                "n_positions": self.max_positions, "n_inner": self.intermediate_size,
                "activation_function": "gelu_new", "layer_norm_epsilon": self.norm_eps,
                "tie_word_embeddings": self.tie_embeddings, "bos_token_id": None, "eos_token_id": None,
            }  # fmt: skip
        return {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size, "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads, "num_key_value_heads": self.num_kv_heads, "head_dim": self.head_dim,
            "intermediate_size": self.intermediate_size, "hidden_act": "silu",
            "max_position_embeddings": self.max_positions, "rms_norm_eps": self.norm_eps,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "tie_word_embeddings": self.tie_embeddings, "bos_token_id": None, "eos_token_id": None,
        }  # fmt: skip


def _require(values, wanted):
    """One sentence for the first entry of `values` that asks for something else than `wanted`, name -> allowed."""
    for name, allowed in wanted.items():
        if values.get(name, allowed[0]) not in allowed:
            raise UnsupportedError(f"{name} is {values[name]!r}; this model has {allowed[0]!r} only.")


def _of(values, name, default):
    """An entry, which some files have as null."""
    return default if values.get(name) is None else values[name]


def _read_gpt2(values):
    _require(
        values,
        {
            "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
            "scale_attn_weights": (True,),
            "scale_attn_by_inverse_layer_idx": (False,),
            "add_cross_attention": (False,),
        },
    )
    hidden, heads = values["n_embd"], values["n_head"]
    return ModelConfig(
        "gpt2", values["vocab_size"], hidden, values["n_layer"], heads, heads, hidden // heads,
        _of(values, "n_inner", 4 * hidden), values["n_positions"], values.get("layer_norm_epsilon", 1e-5),
        tie_embeddings=values.get("tie_word_embeddings", True),
    )  # fmt: skip


def _read_llama(values):
    _require(values, {"hidden_act": ("silu", "swish"), "attention_bias": (False,), "mlp_bias": (False,)})
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default" or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedError(f"the rotary positions are of the type {kind!r}: {rope}; this model has 'default' only.")
    hidden, heads = values["hidden_size"], values["num_attention_heads"]
    return ModelConfig(
        "llama", values["vocab_size"], hidden, values["num_hidden_layers"], heads,
        _of(values, "num_key_value_heads", heads), _of(values, "head_dim", hidden // heads),
        values["intermediate_size"], values["max_position_embeddings"], values.get("rms_norm_eps", 1e-6),
        rope.get("rope_theta", values.get("rope_theta", 10000.0)), values.get("tie_word_embeddings", False),
    )  # fmt: skip


def _gpt2(hidden, layers, heads):
    return ModelConfig("gpt2", 50257, hidden, layers, heads, heads, hidden // heads, 4 * hidden, 1024)


# Qwen3's own norm of each query and key head is left out of its shape here: two norms of 128 numbers a head
SIZES = {
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "gpt2-xl": _gpt2(1600, 48, 25),
    "llama-1.1b": ModelConfig("llama", 32000, 2048, 22, 32, 4, 64, 5632, 4096, tie_embeddings=False),
    "qwen3-0.6b-shape": ModelConfig("llama", 151936, 1024, 28, 16, 8, 128, 3072, 40960, 1e-6, 1e6),
    "llama-3-8b": ModelConfig("llama", 128256, 4096, 32, 32, 8, 128, 14336, 8192, 1e-5, 5e5, tie_embeddings=False),
}
