"""A transformer, GPT-2's or Llama's, written once over the operations of `kernels`.

Tokens are one list, (num_tokens, hidden_size), whatever rows they belong to; only attention knows the rows.

May import: errors, expect, ops.rope, model.checked, model.config, model.weights, model.kernels, model.packed,
model.few_tokens, model.cache, torch.
"""

import torch

from .. import expect
from ..errors import ModelError
from ..ops.rope import cos_sin_cache
from . import few_tokens
from .cache import KVCache
from .checked import require_tensor, require_tokens
from .config import ModelConfig
from .kernels import Kernels
from .packed import Packed, quantise
from .weights import Weights, load, random_weights

WHOLE = (torch.int64, torch.int32)


class Transformer:
    """A model: weights, and the kernels that run it.

    Attributes
    ----------
    config : ModelConfig
    weights : Weights
    kernels : Kernels; replaced by `use`
    """

    def __init__(self, weights, kernels=None):
        expect.kind("weights", weights, Weights, how="random_weights(config) makes them", error=ModelError)
        self.config, self.weights = weights.config, weights
        table = weights["embedding.weight"]
        self.device, self.dtype = table.device, table.dtype
        half = table.is_cuda and table.dtype != torch.float32
        self.kernels = kernels or Kernels("fast" if half else "torch")
        self.cos_sin = None
        if self.config.architecture == "llama":
            sizes = (self.config.max_positions, self.config.head_dim)
            self.cos_sin = cos_sin_cache(*sizes, base=self.config.rope_theta, device=self.device)

    @classmethod
    def load(cls, folder, *, dtype=None, device=None):
        """The model in a folder as transformers saves it, or of a name of the hub; see `weights.load`."""
        return cls(load(folder, dtype=dtype, device=device))

    @classmethod
    def random(cls, config, seed=0, *, dtype=torch.float32, device=None):
        """A model with random weights; `config` may be the name of a size."""
        config = ModelConfig.named(config) if isinstance(config, str) else config
        return cls(random_weights(config, seed, dtype=dtype, device=device))

    def use(self, backend, **others):
        """Run on other kernels from now on. Returns the model.

        backend : "torch", "course" or "fast", others as `Kernels`; or "work", the learner's answers that passed, others
            as `yours.work_kernels`
        """
        if backend == "work":
            from .yours import work_kernels

            self.kernels = work_kernels(self.config, **others)
        else:
            self.kernels = Kernels(backend, **others)
        return self

    def quantised(self, group=None):
        """A model of the same kernels whose layers have weights of four bits; see `packed.quantise`."""
        return Transformer(quantise(self.weights, group), self.kernels)

    def new_cache(self, batch_size, capacity):
        """A KVCache in the model's dtype and on its device."""
        return KVCache(self.config, batch_size, capacity, dtype=self.dtype, device=self.device)

    def forward(self, ids, *, last=False):
        """Logits of every token, without a cache: ids (batch_size, seq_len) -> (batch_size, seq_len, vocab_size).

        last : bool; of the last token of each row alone, (batch_size, 1, vocab_size)
        """
        self.check(ids)
        expect.flag("last", last, error=ModelError)
        batch_size, seq_len = ids.shape
        positions = torch.arange(seq_len, device=self.device).repeat(batch_size)

        def attend(layer, q, k, v):
            return self._causal(q, k, v, batch_size)

        x = self.hidden(ids, positions, attend).unflatten(0, (batch_size, seq_len))
        x = x[:, -1:] if last else x
        return self.logits(x.flatten(0, 1)).unflatten(0, x.shape[:2])

    def prefill(self, ids, lengths, cache):
        """Logits of the last token of each row (batch_size, vocab_size); keys and values go to an empty cache.

        ids (batch_size, seq_len): row i has lengths[i] tokens, and padding of any kind to the right of them
        """
        self.check(ids)
        self._require_cache(ids, cache)
        lengths = self._lengths(lengths, *ids.shape)
        cache.clear()
        cache.require(ids.shape[1])
        batch_size, seq_len = ids.shape
        positions = torch.arange(seq_len, device=self.device).expand(batch_size, -1)
        slots = cache.slots(positions, positions < lengths[:, None])

        def attend(layer, q, k, v):  # causal: no token sees the padding to its right
            self.kernels.append(k, v, cache.k[layer], cache.v[layer], slots)
            return self._causal(q, k, v, batch_size)

        x = self.hidden(ids, positions.flatten(), attend).unflatten(0, (batch_size, seq_len))
        cache.set_lengths(lengths)
        cache.longest = seq_len
        return self.logits(x[torch.arange(batch_size, device=self.device), lengths - 1])

    def step(self, ids, cache, *, counted=True):
        """Logits (batch_size, vocab_size) of one new token a row, ids (batch_size,); the cache grows by one token.

        counted : bool; False where the caller counts it after the step, as `cache.advance(1)` does

        Nothing here makes the host wait: the lengths stay on the device, so a CUDA graph can record the step.
        """
        require_tensor("ids", ids, 1, WHOLE, "whole numbers (batch_size,)")
        self.check_new(ids[:, None], cache)
        logits = self._extend(ids[:, None], cache)[:, 0]
        if counted:
            cache.advance(1)
        return logits

    def extend(self, ids, cache):
        """Logits (batch_size, num_new, vocab_size) of a few new tokens a row, ids (batch_size, num_new)."""
        self.check_new(ids, cache)
        logits = self._extend(ids, cache)
        cache.advance(ids.shape[1])
        return logits

    # region: extend
    def _extend(self, ids, cache):
        """`extend`, but for the count of the tokens, which follows it."""
        batch_size, num_new = ids.shape
        longest, positions = cache.grow(num_new), cache.next_positions(num_new)
        slots, seq_lens = cache.places(positions)

        def attend(layer, q, k, v):
            if k is not None:
                self.kernels.append(k, v, cache.k[layer], cache.v[layer], slots)
            return self._decode(q, *cache.rows(layer), seq_lens, longest)

        x = self._layers(ids, positions.flatten(), attend, lambda layer: (cache.k[layer], cache.v[layer], slots))
        return self._head(*x).unflatten(0, (batch_size, num_new))

    # endregion

    def hidden(self, ids, positions, attend):
        """Every token through every layer and the last norm, (num_tokens, hidden_size).

        ids, positions (num_tokens,): tokens of any requests in any order. attend(layer, q, k, v) is the attention of
        all of them, (num_tokens, num_heads * head_dim); what each of them sees is its affair.
        """
        return self._norm(self.weights.tensors, "norm", *self._layers(ids, positions, attend))[0]

    def _layers(self, ids, positions, attend, place=None):
        """(update, residual) after every layer; the update is None where it has been added.

        place(layer) is (k_cache, v_cache, slots): where it is given, few tokens have their keys and values put there,
        and attend gets None.
        """
        weights, update = self.weights, None
        few = place is not None and few_tokens.fits(self, len(positions))
        # region: layers
        residual = self._embed(ids.flatten().contiguous(), positions.contiguous())
        for index, layer in enumerate(weights.layers):
            q, k, v, residual = self._project(layer, update, residual, positions, place(index) if few else None)
            update, residual = self._add(layer, "out", attend(index, q, k, v), residual, few)
            x, residual = self._widen(layer, update, residual, few)
            update, residual = self._add(layer, "down", x, residual, few)
        return update, residual
        # endregion

    def _head(self, update, residual):
        """Logits of what `_layers` returned: the last norm and the head, of few tokens one launch."""
        if update is None and few_tokens.fits_head(self, len(residual)):
            return self._whole_logits(few_tokens.head(self, residual))
        return self.logits(self._norm(self.weights.tensors, "norm", update, residual)[0])

    def _embed(self, ids, positions):
        table = self.weights["embedding.weight"]
        if self.config.architecture == "llama":
            return self.kernels.embedding(ids, table)
        return self.kernels.embedding(ids, table, positions.to(ids.dtype), self.weights["positions.weight"])

    def _norm(self, layer, name, update, residual):
        """(norm of residual + update, residual + update); no update before the first layer."""
        run, weight, eps = self.kernels, layer[f"{name}.weight"], self.config.norm_eps
        if self.config.architecture == "gpt2":
            residual = residual if update is None else residual + update
            return run.layer_norm(residual, weight, layer[f"{name}.bias"], eps), residual
        if update is None:
            return run.rms_norm(residual, weight, eps), residual
        return run.add_rms_norm(update, residual, weight, eps)

    def _linear(self, layer, name, x):
        """x weight^T + bias, the weight as it is or packed in four bits."""
        weight = layer[f"{name}.weight"]
        linear = self.kernels.packed_linear if isinstance(weight, Packed) else self.kernels.linear
        return linear(x, weight, layer.get(f"{name}.bias"))

    def _project(self, layer, update, residual, positions, place):
        """(q, k, v, residual + update): norm, product, and in Llama the rotation.

        q (num_tokens, num_heads, head_dim), k and v (num_tokens, num_kv_heads, head_dim); None where `place` is given
        """
        if place is not None:
            return few_tokens.project(self, layer, residual, positions, *place), None, None, residual
        config = self.config
        x, residual = self._norm(layer, "norm_1", update, residual)
        qkv = self._linear(layer, "qkv", x)
        q, k, v = qkv.split((config.q_size, config.kv_size, config.kv_size), dim=-1)
        q, k, v = (each.unflatten(-1, (-1, config.head_dim)) for each in (q, k, v))
        if config.architecture == "llama":
            q, k = self.kernels.rope(q, k, positions, self.cos_sin)
        return q, k, v, residual

    def _widen(self, layer, update, residual, few):
        """(activated columns of the MLP, residual + update): norm, product, activation."""
        if few:
            return few_tokens.widen(self, layer, residual), residual
        run = self.kernels
        x, residual = self._norm(layer, "norm_2", update, residual)
        x = self._linear(layer, "up", x)
        return run.gelu(x) if self.config.architecture == "gpt2" else run.swiglu(x), residual

    def _add(self, layer, name, x, residual, few):
        """(product, residual), which the next norm adds; of few tokens (None, their sum)."""
        if few:
            return None, few_tokens.add(layer, name, x, residual)
        return self._linear(layer, name, x), residual

    def _causal(self, q, k, v, batch_size):
        """Attention of whole rows: every token sees itself and what precedes it."""
        q, k, v = (x.unflatten(0, (batch_size, -1)).transpose(1, 2) for x in (q, k, v))
        return self.kernels.attention(q, k, v).transpose(1, 2).flatten(0, 1).flatten(1)

    def _decode(self, q, k, v, seq_lens, longest):
        """Attention over the cache; several new tokens of a row are that many queries over the same keys."""
        batch_size, num_new = seq_lens.shape
        if num_new == 1:
            return self.kernels.decode(q, k, v, seq_lens.flatten(), longest).flatten(1)
        rows = []
        for row, queries in enumerate(q.unflatten(0, (batch_size, num_new))):
            keys, values = (x[row].expand(num_new, *x.shape[1:]) for x in (k, v))
            rows.append(self.kernels.decode(queries, keys, values, seq_lens[row], longest))
        return torch.cat(rows).flatten(1)

    def logits(self, x):
        """Logits (num_tokens, vocab_size) of what `hidden` returned, or of some rows of it."""
        return self._whole_logits(self.kernels.linear(x, self.weights.head))

    def _whole_logits(self, logits):
        """Logits of the whole vocabulary, of those that this model's head gives."""
        return logits

    def check(self, ids):
        """Raise where `ids` (batch_size, seq_len) are no prompts that this model takes."""
        require_tensor("ids", ids, 2, WHOLE, "whole numbers (batch_size, seq_len)")
        if ids.numel() == 0:
            raise ModelError("the prompt is empty; a model continues at least one token.")
        if ids.shape[1] > self.config.max_positions:
            raise ModelError(
                f"the prompt has {ids.shape[1]} tokens; the context of this model has {self.config.max_positions}."
            )
        if not ids.is_cuda:  # on a GPU the host would wait for it; `generate` looks before it copies
            require_tokens(*map(int, torch.aminmax(ids)), self.config.vocab_size)

    def check_new(self, ids, cache):
        """Raise where `ids` (batch_size, num_new) are no tokens that may follow those of a cache."""
        self.check(ids)
        self._require_cache(ids, cache)
        if cache.longest + ids.shape[1] > self.config.max_positions:
            raise ModelError(
                f"the longest row has {cache.longest} tokens and {ids.shape[1]} are to follow; the context of this "
                f"model has {self.config.max_positions}."
            )

    def _require_cache(self, ids, cache):
        expect.kind("cache", cache, KVCache, how="model.new_cache(batch_size, capacity) makes one", error=ModelError)
        if len(ids) != cache.batch_size:
            raise ModelError(f"ids have {len(ids)} rows and the cache {cache.batch_size}; they must agree.")

    def _lengths(self, lengths, batch_size, seq_len):
        """The tokens of each row, on the device."""
        if not isinstance(lengths, torch.Tensor):
            lengths = torch.tensor(expect.tokens("lengths", lengths, 1, seq_len, of="length", error=ModelError))
        require_tensor("lengths", lengths, 1, WHOLE, "whole numbers (batch_size,)")
        wrong = len(lengths) != batch_size
        if wrong or not (lengths.is_cuda or bool(((lengths >= 1) & (lengths <= seq_len)).all())):
            raise ModelError(f"lengths are {lengths.tolist()}; expected {batch_size} numbers from 1 to {seq_len}.")
        return lengths.to(self.device)
