"""Models and prompts as arguments: looked at once, before anything runs.

May import: errors, expect, model.checked, model.transformer, torch.
"""

import torch

from .. import expect
from ..errors import ModelError
from .checked import require_tensor, require_tokens
from .transformer import Transformer


def checked_prompts(model, prompts, max_new_tokens, eos=None):
    """(prompts as lists of int, max_new_tokens); ModelError where one is empty, too long or has what is no token."""
    require_model(model)
    most = model.config.vocab_size
    max_new_tokens = expect.whole("max_new_tokens", max_new_tokens, 0, most=None, error=ModelError)
    if eos is not None:
        expect.whole("eos", eos, 0, most - 1, error=ModelError)
    if isinstance(prompts, torch.Tensor):
        require_tensor("prompts", prompts, 2, (torch.int64, torch.int32), "whole numbers (num_prompts, num_tokens)")
    if isinstance(prompts, str | bytes | dict) or getattr(prompts, "ndim", 1) == 0 or not hasattr(prompts, "__len__"):
        raise ModelError(f"prompts is {expect.shown(prompts)}; expected a list of lists of tokens, as in [[1, 2, 3]].")
    if len(prompts) == 0:
        raise ModelError("there is no prompt; a model continues at least one.")
    checked = [_checked_prompt(model.config, row, prompt, max_new_tokens) for row, prompt in enumerate(prompts)]
    return checked, max_new_tokens


def _checked_prompt(config, row, prompt, max_new_tokens):
    prompt = expect.tokens(f"prompt {row}", prompt, error=ModelError, least=None, most=None)
    if not prompt:
        raise ModelError(f"prompt {row} is empty; a model continues at least one token.")
    if len(prompt) + max_new_tokens > config.max_positions:
        raise ModelError(
            f"prompt {row} has {len(prompt)} tokens and {expect.shown(max_new_tokens)} are to follow; the context of "
            f"this model has {config.max_positions}."
        )
    require_tokens(min(prompt), max(prompt), config.vocab_size)
    return prompt


def require_model(model, name="model"):
    """Raise where this is no Transformer."""
    expect.kind(name, model, Transformer, how="Transformer.load(folder) makes one", error=ModelError)
