"""Keys and values in pages, and the attention of a step over them: by the course's kernels, or by torch on a CPU.

Both attentions have two methods, each returns the `attend` of `Transformer.hidden`:
    rows(table, seq_lens, slots, longest)     a row of tokens is a query with a table and a length of its own
    ragged(starts, seq_lens, table, slots)    requests with any number of new tokens each

May import: model.torch_kernels, ops, torch.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F

from ..model import torch_kernels


class Pools:
    """Pages of all layers on the model's device, and pages on the host for sequences that were swapped out.

    Attributes
    ----------
    pages : tensor, (2, num_layers, num_pages, page_size, num_kv_heads, head_dim): keys, values
    host : tensor, (num_swap_pages, 2, num_layers, page_size, num_kv_heads, head_dim); pinned beside a GPU
    """

    def __init__(self, model, num_pages, page_size, num_swap_pages=0):
        config, on_gpu = model.config, model.device.type == "cuda"
        page = (page_size, config.num_kv_heads, config.head_dim)
        shape = (2, config.num_layers, num_pages, *page)
        self.pages = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.host = torch.zeros((num_swap_pages, *shape[:2], *page), dtype=model.dtype, pin_memory=on_gpu)
        self.page_size = page_size

    def layer(self, index):
        """(k_pages, v_pages) of a layer, each (num_pages, page_size, num_kv_heads, head_dim)."""
        return self.pages[0, index], self.pages[1, index]

    def swap(self, outs, ins):
        """Copy pages to the host, then from it; both are pairs (page, host page)."""
        for page, host_page in outs:
            self.host[host_page].copy_(self.pages[:, :, page].contiguous(), non_blocking=True)
        for page, host_page in ins:
            self.pages[:, :, page] = self.host[host_page].to(self.pages.device, non_blocking=True)

    @staticmethod
    def page_bytes(model, page_size):
        """Bytes of a page in all layers."""
        return 2 * model.config.num_layers * page_size * model.config.kv_size * model.dtype.itemsize


class TorchAttention:
    """Gathers the pages of every request, then torch's attention over them."""

    addresses = ()

    def __init__(self, model, pools, max_rows, deterministic=False):
        self.pools = pools

    def rows(self, table, seq_lens, slots, longest):
        num_pages = -(-longest // self.pools.page_size)
        table = table[:, :num_pages]

        def attend(layer, q, k, v):
            k_pages, v_pages = self._append(layer, k, v, slots)
            keys, values = (pages[table].flatten(1, 2) for pages in (k_pages, v_pages))
            return torch_kernels.decode(q, keys, values, seq_lens, longest).flatten(1)

        return attend

    def ragged(self, starts, seq_lens, table, slots):
        pieces = []  # (first token, end, pages, keys, mask)
        for (first, end), seq_len, pages in zip(pairwise(starts), seq_lens, table, strict=True):
            mask = torch.ones(end - first, seq_len, dtype=torch.bool, device=table.device).tril(seq_len - end + first)
            pieces.append((first, end, pages[: -(-seq_len // self.pools.page_size)], seq_len, mask))

        def attend(layer, q, k, v):
            k_pages, v_pages = self._append(layer, k, v, slots)
            out = torch.empty_like(q)
            for first, end, pages, seq_len, mask in pieces:
                keys, values = (x[pages].flatten(0, 1)[None, :seq_len].transpose(1, 2) for x in (k_pages, v_pages))
                queries, gqa = q[None, first:end].transpose(1, 2), q.shape[1] != keys.shape[1]
                found = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=gqa)
                out[first:end] = found[0].transpose(0, 1)
            return out.flatten(1)

        return attend

    def _append(self, layer, k, v, slots):
        k_pages, v_pages = self.pools.layer(layer)
        k_pages.flatten(0, 1)[slots], v_pages.flatten(0, 1)[slots] = k, v
        return k_pages, v_pages


class KernelAttention:
    """The course's kernels: paged/01 writes, paged/04 reads rows, the attention engine reads what is ragged.

    A row of `slots` below 0 is not written; a row of `seq_lens` 0 reads no page.
    """

    def __init__(self, model, pools, max_rows, deterministic=False):
        from ..ops.engine import AttentionEngine

        config, device = model.config, model.device
        hopper = device.type == "cuda" and torch.cuda.get_device_capability(device) == (9, 0)
        sizes = (config.num_heads, config.num_kv_heads, config.head_dim)
        self.engine = AttentionEngine(
            *sizes, dtype=model.dtype, products="wgmma" if hopper else "mma", device=model.device
        )
        self.pools, self.deterministic = pools, deterministic
        self.counters = torch.zeros(max_rows, config.num_kv_heads, dtype=torch.int32, device=device)

    def rows(self, table, seq_lens, slots, longest):
        from ..ops.paged import paged_attention

        options = {"max_seq_len": longest, "deterministic": self.deterministic}
        options["counters"] = self.counters[: len(seq_lens)]

        def attend(layer, q, k, v):
            pages = self._append(layer, k, v, slots)
            return paged_attention(q, *pages, table, seq_lens, **options)[0].flatten(1)

        return attend

    @property
    def addresses(self):
        """What a recorded ragged step depends on, beside its number of tokens."""
        return self.engine.addresses

    def reserve(self, sizes, max_num_seqs, longest, max_pages):
        """Plan large batches of so many tokens, so that no buffer must grow later: records would be of no more use."""
        for size in sizes:
            for count in {1, min(size, max_num_seqs)}:
                starts = [0, *range(size - count + 1, size + 1)]
                table = torch.zeros(count, max_pages, dtype=torch.int32, device=self.counters.device)
                self.engine.plan(starts, [longest] * count, table)

    def ragged(self, starts, seq_lens, table, slots):
        self.engine.plan(starts, seq_lens, table)

        def attend(layer, q, k, v):
            return self.engine.run(q, *self._append(layer, k, v, slots))[0].flatten(1)

        return attend

    def _append(self, layer, k, v, slots):
        from ..ops._paged_writes import reshape_and_cache

        pages = self.pools.layer(layer)
        reshape_and_cache(k, v, *pages, slots)
        return pages
