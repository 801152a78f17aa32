"""A language model in one room: GPT-2 and Llama on the course's kernels, and the small model that ships with it.

    model = Transformer.load("folder")            # or Transformer.random("gpt2")
    model.use("course")                           # whose kernels run it
    tokens = generate(model, [[1, 2, 3]], max_new_tokens=8)

- `config`: shapes and constants; `weights`, `checkpoint`: tensors by name, from and to Hugging Face's files
- `kernels`: which function runs each operation, of `torch_kernels` or `course_kernels`
- `answers`, `yours`: the learner's answers in work/ as operations, and beside the course's and torch's
- `cache`, `transformer`: keys and values so far, the forward pass
- `tokenizer`: text to tokens and back, and as a stream
- `generate`, `graph`: tokens, and a step of them as a CUDA graph; `prompts`, `checked`: their arguments
- `speculative`: tokens that a draft proposes and the model judges; `packed`: weights of four bits
- `corpus`: the text that the small model learns from, its tokenizer and its tokens
- `training_kernels`, `train`: the training run, ``python -m course_lib.model.train``
- `card`: the files of a trained model; `shipped`: the two that ship with the course, their tokenizer and their curves

May import: errors, expect, device, cuda, ops, operators, reference, grading (the learner's answers), measure, its own
modules, torch, safetensors, tokenizers.
"""

from .cache import KVCache
from .config import SIZES, ModelConfig
from .generate import Decoder, Sampling, generate
from .kernels import Kernels
from .speculative import ModelDraft, NgramDraft, speculate
from .tokenizer import TextStream, load_tokenizer
from .transformer import Transformer
from .weights import Weights, load, random_weights

__all__ = [
    "SIZES",
    "Decoder",
    "KVCache",
    "Kernels",
    "ModelConfig",
    "ModelDraft",
    "NgramDraft",
    "Sampling",
    "TextStream",
    "Transformer",
    "Weights",
    "generate",
    "load",
    "load_tokenizer",
    "random_weights",
    "speculate",
]
