"""A serving engine: many requests at once on one model, with a paged KV cache.

- `request`, `config`: a request and its sequence; limits and policies
- `scheduler`: which tokens are computed in the next step
- `prefix`: pages, and what is known of their contents

May import: errors, device, kv, ops, model, reference, measure, its own modules, torch; fastapi, uvicorn and
prometheus_client in server and metrics only.
"""

from .config import ServingConfig
from .request import PENDING, Request, Sequence, State
from .scheduler import Output, Piece, Scheduler, Step

__all__ = ["PENDING", "Output", "Piece", "Request", "Scheduler", "Sequence", "ServingConfig", "State", "Step"]
