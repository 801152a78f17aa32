"""Prefill and decode on two ranks: the keys and values of a prompt are sent once, from pages to pages.

The two ranks have pools of their own and give out their own pages, so a page number of the sender means nothing to the
receiver. Where the ranks can write into each other's memory, the receiver says where its pages are and the sender
writes into them. Elsewhere keys and values are sent as messages, in the order of the tokens.

Source: Y. Zhong et al., "DistServe", 2024, arXiv:2401.09670

May import: errors, expect, kv, model, parallel.checked, parallel.world, parallel.page_kernel inside a function,
torch.
"""

import torch

from .. import expect
from ..errors import ModelError, WorldError
from ..kv import PagePool
from ..model import KVCache, ModelConfig
from ..model.prompts import checked_prompts
from .checked import counted
from .world import require_world

CHUNK_BYTES = 64 << 20  # of a message: the next is gathered while this one is on its way


class KVPages:
    """Keys and values of many sequences on pages.

    Attributes
    ----------
    pool : PagePool, which page belongs to whom
    kv : tensor, (num_layers, 2, num_pages, page_size, num_kv_heads, head_dim); keys, then values
    peers : list, the `kv` of each rank, which this one can write; None where they are not shared
    """

    @counted
    def __init__(self, config, num_pages, page_size, *, dtype=torch.float32, device="cpu", world=None):
        """
        world : World or None; the pages of its ranks are shared if it can, in which case every rank makes as many, on
            its own device, at the same time
        """
        expect.kind("config", config, ModelConfig, error=ModelError)
        self.pool = PagePool(num_pages, page_size)
        shape = (config.num_layers, 2, num_pages, page_size, config.num_kv_heads, config.head_dim)
        self.peers = None if world is None else world.share(shape, dtype)
        self.kv = torch.zeros(shape, dtype=dtype, device=device) if self.peers is None else self.peers[world.rank]

    @property
    def token_bytes(self):
        """Bytes of the keys and values of a token, of all layers."""
        return self.kv[:, :, 0, 0].nbytes

    def new(self, name, num_tokens):
        """Give a sequence pages for its tokens; OutOfPages where there are too few, and nothing is changed."""
        self.pool.add(name)
        try:
            self.pool.append(name, num_tokens)
        except Exception:
            self.pool.free(name)
            raise

    def slots(self, name):
        """Where the tokens of a sequence are, (num_tokens,) int64: page * page_size + offset."""
        size, pages = self.pool.page_size, torch.tensor(self.pool.pages(name))
        slots = (pages[:, None] * size + torch.arange(size)).flatten()[: self.pool.num_tokens(name)]
        return slots.to(self.kv.device)

    def read(self, slots, layers=slice(None)):
        """Keys and values of some tokens, (layers, 2, num_tokens, num_kv_heads, head_dim), contiguous."""
        pool = self.kv[layers].flatten(2, 3)
        if not pool.is_cuda:
            return pool.index_select(2, slots)
        out = pool.new_empty(*pool.shape[:2], len(slots), *pool.shape[3:])
        self._copy(pool, out, src_slots=slots)
        return out

    def write(self, slots, values, layers=slice(None)):
        """Store what `read` gives."""
        pool = self.kv[layers].flatten(2, 3)
        if pool.is_cuda:
            self._copy(values.contiguous(), pool, dst_slots=slots)
        else:
            pool.index_copy_(2, slots, values)

    def write_to(self, rank, slots, peer_slots):
        """Copy all layers of some tokens into the pages of another rank: one kernel, nothing in between."""
        self._copy(self.kv.flatten(2, 3), self.peers[rank].flatten(2, 3), src_slots=slots, dst_slots=peer_slots)

    @staticmethod
    def _copy(src, dst, **slots):
        from .page_kernel import copy

        copy(src, dst, **slots)


def keep_prompt(pages, name, cache, row, num_tokens):
    """Move the tokens of one row of a KVCache to pages."""
    pages.new(name, num_tokens)
    first = row * cache.capacity
    pages.write(pages.slots(name), torch.stack((cache.k, cache.v), dim=1)[:, :, first : first + num_tokens])


def cache_of(pages, name, config, capacity):
    """A KVCache of one row with the tokens of a sequence, for decoding."""
    num_tokens, kv = pages.pool.num_tokens(name), pages.read(pages.slots(name))
    cache = KVCache(config, 1, capacity, dtype=kv.dtype, device=kv.device)
    cache.require(num_tokens)
    cache.k[:, :num_tokens], cache.v[:, :num_tokens] = kv[:, 0], kv[:, 1]
    cache.set_lengths(num_tokens)
    cache.longest = num_tokens
    return cache


# region: transfer
def send_sequence(world, pages, name, to, first_token=0):
    """Send the keys and values of a sequence, and the token that follows it."""
    num_tokens = pages.pool.num_tokens(name)
    world.send(torch.tensor([num_tokens, first_token], device=world.device), to, label="header")
    move = _send_messages if pages.peers is None else _write_pages
    move(world, pages, pages.slots(name), to)


def recv_sequence(world, pages, name, source):
    """Receive a sequence into pages of this rank's own choice; returns the token that follows it."""
    num_tokens, first_token = world.recv(torch.zeros(2, dtype=torch.int64, device=world.device), source).tolist()
    pages.new(name, num_tokens)
    move = _recv_messages if pages.peers is None else _await_pages
    move(world, pages, pages.slots(name), source)
    return first_token


# endregion


# region: one_sided
def _write_pages(world, pages, slots, to):
    """Ask the receiver for its slots, write into them, and say that it is done.

    Why no byte is read too early: a message, on whatever stream it is sent, starts when all that this stream had to do
    before is done, the kernel and its stores included; and the receiver's stream goes on when the message has come.
    Why none is overwritten too early: the slots come after all that the receiver's stream did with these pages.
    """
    peer_slots = world.recv(torch.empty_like(slots), to, label="slots")
    num_bytes = pages.token_bytes * len(slots)
    world.one_sided(lambda: pages.write_to(to, slots, peer_slots), sent=num_bytes, label="pages")
    world.send(slots.new_ones(1), to, label="done")


# endregion


def _await_pages(world, pages, slots, source):
    """Tell the sender the slots, and wait until it has written."""
    world.send(slots, source, label="slots")
    num_bytes, done = pages.token_bytes * len(slots), slots.new_empty(1)
    world.one_sided(lambda: world.recv(done, source, label="done"), received=num_bytes, label="pages")


def _send_messages(world, pages, slots, to):
    """Some layers a message, gathered from the pages."""
    pending = None
    for layers in _chunks(pages, len(slots)):
        values = pages.read(slots, layers)  # gathered while the chunk before is on its way
        if pending is not None:
            pending.wait()
        pending = world.start_exchange([(values, to)], [], label="pages")
    pending.wait()


def _recv_messages(world, pages, slots, source):
    """The same messages, scattered into the pages."""
    before = None
    for layers in _chunks(pages, len(slots)):
        shape = (layers.stop - layers.start, 2, len(slots), *pages.kv.shape[4:])
        values = torch.empty(shape, dtype=pages.kv.dtype, device=pages.kv.device)
        pending = world.start_exchange([], [(values, source)], label="pages")
        if before is not None:
            pages.write(slots, *before)  # while the next chunk is on its way
        pending.wait()
        before = values, layers
    pages.write(slots, *before)


def _chunks(pages, num_tokens):
    """Slices of layers whose tokens are about CHUNK_BYTES, the same on both sides."""
    num_layers = len(pages.kv)
    layer_bytes = max(1, pages.token_bytes // num_layers * num_tokens)
    step = max(1, CHUNK_BYTES // layer_bytes)
    return [slice(first, min(first + step, num_layers)) for first in range(0, num_layers, step)]


@counted
def transfer_bytes(config, num_tokens, itemsize):
    """Bytes of the keys and values of a sequence: layers * 2 * tokens * KV heads * head_dim * itemsize."""
    expect.kind("config", config, ModelConfig, error=ModelError)
    return config.num_layers * 2 * num_tokens * config.kv_size * itemsize


HEADER_BYTES = 16  # number of tokens, first token
SLOT_BYTES, DONE_BYTES = 8, 8  # one-sided: of each token, from the receiver; of the message after the pages


@torch.no_grad()
@counted
def serve(world, model, prompts, max_new_tokens, *, num_pages=64, page_size=16):
    """Greedy tokens of each prompt, prefilled on rank 0 and decoded on rank 1, which returns them.

    model : Transformer, on both ranks
    """
    require_world(world)
    if world.num_ranks != 2:
        raise WorldError(f"{world.num_ranks} ranks; rank 0 prefills and rank 1 decodes.", world.rank)
    expect.whole("max_new_tokens", max_new_tokens, 1, error=ModelError)
    prompts, max_new_tokens = checked_prompts(model, prompts, max_new_tokens)
    sizes, options = (num_pages, page_size), {"dtype": model.dtype, "device": model.device}
    try:
        pages = KVPages(model.config, *sizes, **options, world=world)
    except RuntimeError:  # no access to the peers' memory, on any rank: messages
        pages = KVPages(model.config, *sizes, **options)
    body = _prefill if world.rank == 0 else _decode
    return [body(world, model, pages, number, prompt, max_new_tokens) for number, prompt in enumerate(prompts)]


def _prefill(world, model, pages, number, prompt, _):
    with world.span(f"prefill {number}"):
        cache = model.new_cache(1, len(prompt))
        logits = model.prefill(torch.tensor([prompt], device=model.device), [len(prompt)], cache)
        keep_prompt(pages, number, cache, 0, len(prompt))
    send_sequence(world, pages, number, 1, first_token=int(logits.argmax()))
    pages.pool.free(number)


def _decode(world, model, pages, number, prompt, max_new_tokens):
    tokens = [recv_sequence(world, pages, number, 0)]
    with world.span(f"decode {number}"):
        cache = cache_of(pages, number, model.config, pages.pool.num_tokens(number) + max_new_tokens)
        pages.pool.free(number)
        while len(tokens) < max_new_tokens:
            tokens.append(int(model.step(torch.tensor(tokens[-1:], device=model.device), cache).argmax()))
    return tokens
