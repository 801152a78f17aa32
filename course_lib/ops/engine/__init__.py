"""An attention engine for serving: one object that plans a batch on the host and runs it in one launch.

    engine = AttentionEngine(num_heads=32, num_kv_heads=8, head_dim=128, page_size=16)
    engine.plan(cu_seqlens_q, seq_lens, block_table)     # once a step: lengths, pages
    out, lse = engine.run(q, k_pages, v_pages)           # once a layer

    engine = MlaEngine(num_heads=128)                    # the same over pages of latents

`schedule` cuts the batch into items and deals them out to the blocks; `attention` holds the buffers and launches,
and so does `mla` for multi-head latent attention.

May import: its own modules.
"""

from .attention import AttentionEngine
from .mla import MlaEngine, absorbed_query, values_of_latents
from .schedule import Schedule, make_schedule

__all__ = ["AttentionEngine", "MlaEngine", "Schedule", "absorbed_query", "make_schedule", "values_of_latents"]
