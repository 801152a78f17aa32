"""Tokens from a model: greedy or sampled, a batch of prompts of any lengths, from a cache.

All chance of a request comes from its own seed, so its tokens depend neither on the batch beside it nor on its row.

May import: errors, expect, model.graph, model.prompts, torch.
"""

import hashlib
from dataclasses import dataclass

import torch

from .. import expect
from ..errors import ModelError
from .graph import Graph, Graphs
from .prompts import checked_prompts, require_model

MOST_TEMPERATURE = 3.0e38  # the largest float32, nearly
SEEDS = 1 << 32  # that torch's generator on a CPU tells apart
MOST_PREFILLS = 4  # shapes of prompts of a decoder whose prefill is kept as a CUDA graph
MOST_TOKENS = 1 << 15  # of such a shape, all rows together: with more the host is never what the GPU waits for
CHECK_EVERY = 16  # tokens between two looks of the host at a GPU's tokens, where only EOS needs them


@dataclass(frozen=True)
class Sampling:
    """How a request chooses its tokens; the filters as in `ops.sampling.sample`.

    Attributes
    ----------
    temperature : float, at least 0; 0 takes the largest logit
    top_k : int, 0 for all
    top_p, min_p : float, 0 to 1; 1 and 0 keep all
    seed : int, any; two requests of one seed and one prompt get the same tokens. torch's generator on a CPU reads 32
        bits: a seed outside 0 to 2^32 - 1 is folded to them by SHA-256, so that no bit of it is without effect

    Raises
    ------
    ModelError  a seed that is no whole number; a temperature or a filter out of its range
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self):
        checked = {
            "temperature": expect.real("temperature", self.temperature, 0, MOST_TEMPERATURE, error=ModelError),
            "top_k": expect.whole("top_k", self.top_k, 0, error=ModelError),
            "top_p": expect.real("top_p", self.top_p, 0, 1, error=ModelError),
            "min_p": expect.real("min_p", self.min_p, 0, 1, error=ModelError),
            "seed": expect.whole("seed", self.seed, most=None, error=ModelError),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def generator(self):
        """A torch.Generator at the beginning of the stream that the seed decides."""
        seed = self.seed
        if not 0 <= seed < SEEDS:
            seed = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:4], "little")
        return torch.Generator().manual_seed(seed)

    def noise(self, num_tokens):
        """(num_tokens,) float32 from 0 to below 1, the first of a stream that only the seed decides."""
        return torch.rand(num_tokens, generator=self.generator(), device="cpu")


def generate(model, prompts, *, max_new_tokens=32, sampling=None, eos=None, stream=None, decoder=None):
    """New tokens of each prompt.

    Parameters
    ----------
    model : Transformer
    prompts : list of lists of int, one a row; each at least one token
    max_new_tokens : int, 0 or more
    sampling : Sampling for all rows, a list of one a row, or None: greedy
    eos : int or None; a row ends with this token of the vocabulary, which is its last, the others go on
    stream : function(row, token), called for each token as soon as it is known, or None
    decoder : Decoder of a call before, whose cache and graph are used again, or None for a new one

    Returns
    -------
    list of lists of int: the new tokens of each prompt, without the prompt

    Raises
    ------
    ModelError  a prompt that is empty, too long or has what is no token; a decoder that is too small or of another
                model; an argument of another type
    """
    prompts, max_new_tokens = checked_prompts(model, prompts, max_new_tokens, eos)
    rows = _samplings(sampling, len(prompts))
    _require_helpers(model, stream, decoder)
    if max_new_tokens == 0:
        return [[] for _ in prompts]
    longest = max(map(len, prompts))
    decoder = decoder or Decoder(model, len(prompts), longest + max_new_tokens, max_new_tokens)
    decoder._start(prompts, rows, max_new_tokens)
    result = _Result(len(prompts), eos, stream)
    look_every = 1 if stream or not decoder.tokens.is_cuda else CHECK_EVERY
    for made in range(1, max_new_tokens + 1):
        if made > 1:
            decoder.advance()
        if made == max_new_tokens or ((stream or eos is not None) and made % look_every == 0):
            if result.take(decoder.tokens[len(result) : made].tolist()):
                break
    return result.rows


class Decoder:
    """A cache and the buffers of a batch that is generated: everything that a step touches keeps its address.

    On a GPU the second step runs as it is and the third is recorded as a CUDA graph, the token's choice included; all
    later ones, and those of further batches, replay it. So does a prefill: prompts are padded to one of `prompt_len`'s
    lengths, the first of a length run as they are, the second are recorded, all later ones replay that. A single call
    of `generate` gains nothing from it, and what is to be timed comes after two.
    """

    def __init__(self, model, batch_size, capacity, max_new_tokens, *, graph=None):
        """graph : bool or None: record a CUDA graph where the model is on a GPU"""
        require_model(model)
        max_new_tokens = expect.whole("max_new_tokens", max_new_tokens, 1, error=ModelError)
        device = model.device
        self.model, self.cache = model, model.new_cache(batch_size, capacity)
        self.tokens = torch.zeros(max_new_tokens, batch_size, dtype=torch.int64, device=device)
        self.noise = torch.zeros(max_new_tokens, batch_size, device=device)
        self.ids = torch.zeros(batch_size, dtype=torch.int64, device=device)
        self.index = self.cache.steps[:1]  # of the newest token in `tokens`, the same for all rows
        kinds = {"temperature": torch.float32, "top_k": torch.int32, "top_p": torch.float32, "min_p": torch.float32}
        self.options = {name: torch.zeros(batch_size, dtype=dtype, device=device) for name, dtype in kinds.items()}
        self.prompts = torch.zeros(batch_size, capacity, dtype=torch.int64, device=device)
        self.lengths = torch.ones(batch_size, dtype=torch.int64, device=device)
        self._graphs, self._wants_graph = {}, model.device.type == "cuda" if graph is None else graph
        self._prefills = Graphs(self._prefill, MOST_PREFILLS)

    def start(self, prompts, rows, max_new_tokens):
        """Prefill the cache with prompts (lists of int) and choose the first token of each row; rows: of Sampling."""
        prompts, max_new_tokens = checked_prompts(self.model, prompts, max_new_tokens)
        expect.whole("max_new_tokens", max_new_tokens, 1, error=ModelError)
        self._start(prompts, _samplings(rows, len(prompts)), max_new_tokens)

    def _start(self, prompts, rows, max_new_tokens):
        """`start` of what was checked."""
        lengths = [len(prompt) for prompt in prompts]
        self._require(len(prompts), max(lengths) + max_new_tokens - 1, max_new_tokens)
        for name, tensor in self.options.items():
            tensor.copy_(torch.tensor([getattr(row, name) for row in rows]))
        used = self._choice(rows)
        if used:
            self.noise[:max_new_tokens].copy_(torch.stack([row.noise(max_new_tokens) for row in rows], dim=1))
        self.graph = self._step_graph(used)
        ids = torch.zeros(len(prompts), max(lengths), dtype=torch.int64)
        for row, prompt in zip(ids, prompts, strict=True):
            row[: len(prompt)] = torch.tensor(prompt)
        self.prompts[:, : max(lengths)].copy_(ids)
        self.lengths.copy_(torch.tensor(lengths))
        padded = min(prompt_len(max(lengths)), self.cache.capacity, self.model.config.max_positions)
        if self._wants_graph and len(prompts) * padded <= MOST_TOKENS:
            self._prefills(padded, used)
        else:
            self._prefill(max(lengths), used)
        self.cache.longest, self.made = max(lengths), 1

    @torch.no_grad()  # with gradients other kernels would run, and keep what nobody reads
    def _prefill(self, seq_len, used):
        """The first `seq_len` tokens of `prompts` into the cache, and the first new token of each row.

        used : as `_choice` returns it; a record holds one choice
        """
        self._take(self.model.prefill(self.prompts[:, :seq_len], self.lengths, self.cache))

    def _step_graph(self, used):
        """The record of a step that chooses so, None where none is wanted."""
        return self._graphs.setdefault(used, Graph(self._step)) if self._wants_graph else None

    def advance(self):
        """One more token of each row."""
        self._require(self.cache.batch_size, self.cache.longest + 1, self.made + 1)
        self.made += 1
        if self.graph is None:
            self._step()
        else:
            with self.cache.lengths_on_device():
                self.graph()
            self.cache.longest += 1

    @torch.no_grad()
    def _step(self):
        count = self.model.kernels.counts("sample" if self._used else "greedy")
        self._take(self.model.step(self.ids, self.cache, counted=not count), count)

    def _take(self, logits, count=False):
        """Choose from logits (batch_size, vocab_size) and keep the tokens; nothing comes to the host.

        count : bool; the launch that chooses counts a step and keeps its token
        """
        kernels, options = self.model.kernels, {"out": self.ids}
        if count:
            options |= {"counts": self.cache.counts, "history": self.tokens}
        if self._used:
            noise = (self.noise[1:] if count else self.noise).index_select(0, self.index)[0]
            kernels.sample(logits, noise=noise, **{name: self.options[name] for name in self._used}, **options)
        else:
            kernels.greedy(logits, **options)
        if not count:
            self.tokens.index_copy_(0, self.index, self.ids[None])

    def _choice(self, rows):
        """Names of the options that some row uses; none where all are greedy."""
        neutral = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
        filters = [name for name, value in neutral.items() if any(getattr(row, name) != value for row in rows)]
        self._used = ("temperature", *filters) if any(row.temperature > 0 for row in rows) else ()
        return self._used

    def _require(self, batch_size, capacity, max_new_tokens):
        if batch_size != self.cache.batch_size or max_new_tokens > len(self.tokens):
            raise ModelError(
                f"this decoder was made for {self.cache.batch_size} rows of at most {len(self.tokens)} new tokens; "
                f"{batch_size} rows of {max_new_tokens} were asked for."
            )
        if capacity > self.cache.capacity:
            raise ModelError(
                f"{capacity} tokens a row are to be kept and the cache has room for {self.cache.capacity}; "
                "make the decoder larger or generate fewer."
            )


def prompt_len(longest):
    """The length to which a recorded prefill pads its prompts: four for each doubling, so that few are recorded."""
    quarter = max(8, 1 << max(0, (longest - 1).bit_length() - 3))
    return quarter * -(-longest // quarter)


class _Result:
    """Tokens of each row as far as the host knows them; a row is done after its EOS."""

    def __init__(self, num_rows, eos, stream):
        self.rows, self.done, self.made = [[] for _ in range(num_rows)], [False] * num_rows, 0
        self.eos, self.stream = eos, stream

    def __len__(self):
        return self.made

    def take(self, steps):
        """Add some steps, each a token a row; returns whether every row is done."""
        for tokens in steps:
            self.made += 1
            for row, token in enumerate(tokens):
                if self.done[row]:
                    continue
                self.rows[row].append(token)
                self.done[row] = token == self.eos
                if self.stream:
                    self.stream(row, token)
        return all(self.done)


def _samplings(sampling, num_prompts):
    """A Sampling for each prompt."""
    rows = sampling if isinstance(sampling, list | tuple) else [Sampling() if sampling is None else sampling]
    for row in rows:
        expect.kind("sampling", row, Sampling, how="Sampling(temperature=0.8) makes one", error=ModelError)
    rows = rows if isinstance(sampling, list | tuple) else rows * num_prompts
    if len(rows) != num_prompts:
        raise ModelError(f"there are {num_prompts} prompts and {len(rows)} samplings; give one, or one a prompt.")
    return rows


def _require_helpers(model, stream, decoder):
    """Raise where a stream or a decoder is given that is none, or a decoder whose cache belongs to another model."""
    if stream is not None:
        expect.function("stream", stream, error=ModelError)
    if decoder is None:
        return
    expect.kind("decoder", decoder, Decoder, error=ModelError)
    if decoder.model is not model:
        raise ModelError("this decoder was made for another model, whose cache and graphs it has; make one for this.")
