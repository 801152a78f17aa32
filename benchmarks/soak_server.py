"""The server of the soak test: as `course serve`, audited after every step, with a switch that kills its engine.

    python3 -m benchmarks.soak_server           prints its port; ends when its standard input does

May import: course_lib, fastapi by way of its server; psutil.
"""

import ctypes
import logging
import sys
import threading

import psutil

from course_lib.serving.server import Served, create_app, running
from course_lib.serving.service import Service

MODEL, NUM_PAGES, PAGE_SIZE, MAX_LEN, MAX_OPEN = "draft", 40, 8, 160, 24  # few pages: requests are preempted


class Audited:
    """An engine whose pages and queues are checked after every step; a broken invariant fails it."""

    num_audits = num_preemptions = 0  # of all engines

    def __init__(self, engine):
        self.engine, self.in_step, self._counted = engine, False, 0

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def step(self):
        self.in_step = True
        outputs = self.engine.step()
        self.in_step = False
        self.engine.scheduler.audit()
        Audited.num_audits += 1
        count = self.engine.stats().num_preemptions
        Audited.num_preemptions, self._counted = Audited.num_preemptions + count - self._counted, count
        return outputs


def real_engine():
    """(function() that gives an engine of the shipped draft model, its tokenizer)."""
    import torch

    from course_lib.model.shipped import load_shipped
    from course_lib.serving import ServingConfig
    from course_lib.serving.engine import ServingEngine

    torch.set_num_threads(1)
    model, tokenizer = load_shipped(MODEL, dtype=torch.float32)
    more = {"max_num_tokens": 64, "max_num_seqs": 12, "max_chunk": 16, "max_model_len": MAX_LEN, "deterministic": True}
    config = ServingConfig(NUM_PAGES, PAGE_SIZE, **more)
    return lambda: ServingEngine(model, tokenizer, config), tokenizer


def application(make_engine, tokenizer):
    """create_app with /soak/state and /soak/kill."""

    def make():
        return Audited(make_engine())

    for name in ("course_lib.serving.service", "uvicorn.error"):  # they tell of each kill and each broken request
        logging.getLogger(name).addFilter(lambda record: False)
    service = Service(make(), make, max_open=MAX_OPEN)
    served = Served("small", tokenizer, 4096, MAX_LEN, bos=0, eos=0, timeout=60.0, max_body_bytes=1 << 16)
    app = create_app(service, served)
    process = psutil.Process()

    @app.get("/soak/state")
    async def state():
        stats = service.stats
        return {
            "rss_mb": process.memory_info().rss / 1e6,
            "num_open": service.num_open,
            "num_restarts": service.num_restarts,
            "num_audits": Audited.num_audits,
            "num_preemptions": Audited.num_preemptions,
            "error": service.error if service.state == "failed" else None,
            "num_held": 0 if stats is None else round(stats.kv_usage * NUM_PAGES),
            "num_threads": threading.active_count(),
        }

    @app.post("/soak/kill")
    async def kill():
        return {"killed": service.state == "running" and _kill(service)}

    return app


def _kill(service):
    """Raise SystemExit in the engine's thread wherever it is within a step; whether it was in one."""
    if not service.engine.in_step:
        return False
    thread = ctypes.c_ulong(service.thread.ident)
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(SystemExit)) == 1


def main():
    """Serve until standard input ends."""
    with running(application(*real_engine())) as url:
        print(url.rpartition(":")[2], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
