"""A serving engine: many requests at once on one model, with a paged KV cache.

- `request`, `config`: a request and its sequence; limits and policies
- `scheduler`, `step`, `admission`, `audit`: which tokens are computed in the next step; what must hold between two
- `tables`, `prefix`, `radix`: the pages of each sequence; how a prefix is found in them, by chained hashes or in a tree
- `trace`: requests played on a simulated clock with a made-up model
- `engine`: scheduler and runner, and the loop around the two
- `runner`: executes a step; `rows`, `inputs`: its tokens as arrays, and as one buffer; `paged_forward`: keys and values
  in pages, and attention over them; `graphs`: steps as CUDA graphs
- `service`, `stream`: the engine in a thread of its own, and the outputs of one request
- `text`, `protocol`, `metrics`: text as its tokens come; OpenAI's requests and answers; vLLM's names of metrics
- `server`, `server_answers`: HTTP, which `course serve` opens

May import: errors, expect, device, kv, ops, model, reference, measure, its own modules, torch; fastapi, uvicorn and
prometheus_client in server, server_answers and metrics only.
"""

from .config import ServingConfig
from .engine import ServingEngine, Stats, agreement, default_config
from .request import PENDING, Request, Sequence, State
from .scheduler import Scheduler
from .step import Counters, Output, Piece, Step

__all__ = [
    "PENDING",
    "Counters",
    "Output",
    "Piece",
    "Request",
    "Scheduler",
    "Sequence",
    "ServingConfig",
    "ServingEngine",
    "State",
    "Stats",
    "Step",
    "agreement",
    "default_config",
]
