"""An OpenAI-compatible HTTP server over a service: completions and chats, whole or as server-sent events.

    app = create_app(service, Served("small", tokenizer, model.config.vocab_size, model.config.max_positions))
    with running(app) as url: …                 # in a thread, on a free port
    serve(app, "127.0.0.1", 8000)               # until Ctrl-C

It listens on the loopback address unless told otherwise, and asks for no key: do not put it on an open network.

May import: errors, serving's metrics, protocol and server_answers; fastapi, starlette, uvicorn.
"""

import asyncio
import contextlib
import logging
import math
import socket
import threading

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from .. import errors
from .metrics import Metrics
from .protocol import ChatBody, CompletionBody, error_body
from .server_answers import Served, answered, need_model, status_of

__all__ = ["Served", "create_app", "running", "serve"]
SECONDS_BETWEEN_RESTARTS = (0.5, 30.0)  # the first wait and, doubling, the longest


def create_app(service, served):
    """The FastAPI application; it starts the service and stops it, and restarts an engine that failed."""
    metrics = Metrics(served.name, lambda: service.stats)
    service.listener = metrics

    @contextlib.asynccontextmanager
    async def lifespan(app):
        service.start()
        keeper = asyncio.create_task(_keep_running(service))
        yield
        keeper.cancel()
        await asyncio.to_thread(service.stop)

    app = FastAPI(title="Attention, kernel by kernel", lifespan=lifespan, docs_url=None, redoc_url=None)
    _add_errors(app)
    _add_routes(app, service, served, metrics)
    return app


def _add_routes(app, service, served, metrics):
    """What clients ask, and those who watch the server."""
    model = {"id": served.name, "object": "model", "created": 0, "owned_by": "course", "max_model_len": served.max_len}

    @app.post("/v1/completions")
    async def completions(http: Request):
        return await answered(http, CompletionBody, service, served)

    @app.post("/v1/chat/completions")
    async def chat_completions(http: Request):
        return await answered(http, ChatBody, service, served)

    @app.get("/v1/models")
    async def models():
        return {"object": "list", "data": [model]}

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str):
        need_model(name, served)
        return model

    @app.get("/health")
    async def health():
        if service.state != "running":
            raise errors.EngineStopped(service.error or "the engine is not started.")
        return {"status": "ok"}

    @app.get("/metrics")
    async def read_metrics():
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def serve(app, host, port, announce=print):
    """Listen until Ctrl-C; announce(url) is called before the first request can come."""
    with _listening(host, port) as listening:
        announce(_url(listening))
        server = _server(app, graceful_s=5)
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


@contextlib.contextmanager
def running(app, host="127.0.0.1", port=0):
    """The server in a thread of this process, port 0 for a free one; gives its URL."""
    with _listening(host, port) as listening:
        server = _server(app, graceful_s=1)
        thread = threading.Thread(target=server.run, args=([listening],), name="serving-http", daemon=True)
        thread.start()
        try:
            while not server.started:
                if not thread.is_alive():
                    raise errors.ServingError("the server did not start; its log says why.")
                thread.join(0.01)
            yield _url(listening)
        finally:
            server.should_exit = True
            thread.join()


def _server(app, graceful_s):
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=graceful_s))


def _listening(host, port):
    """A socket, closed at the end of a `with`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        text = f"no server can listen on {host}, port {port}: {error.strerror or error}"
        raise errors.ServingError(f"{text}. Choose another port, or 0 for a free one.") from None


def _url(listening):
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _keep_running(service):
    """Restart the engine after a failure, later and later where it fails again at once."""
    wait, longest = SECONDS_BETWEEN_RESTARTS
    while True:
        await asyncio.sleep(wait)
        if service.state == "failed" and service.make_engine is not None:
            wait = min(longest, 2 * wait)
            try:
                await asyncio.to_thread(service.restart)
            except Exception:  # the next try comes later
                logging.getLogger(__name__).exception("the engine did not start again")
        else:
            wait = max(SECONDS_BETWEEN_RESTARTS[0], wait / 2)


def _add_errors(app):
    """Every failure in OpenAI's form."""

    @app.exception_handler(errors.CourseError)
    async def of_the_course(http, error):
        status = status_of(error)
        headers = {"Retry-After": str(math.ceil(getattr(error, "retry_after", 1)))} if status in (429, 503) else {}
        code, param = getattr(error, "code", None), getattr(error, "param", None)
        return JSONResponse(error_body(str(error), status, code, param), status, headers)

    @app.exception_handler(HTTPException)
    async def of_the_route(http, error):
        text = f"{http.method} {http.url.path[:100]}: {error.detail.lower()}; this server has /v1/completions, "
        text += "/v1/chat/completions, /v1/models, /health and /metrics."
        return JSONResponse(error_body(text, error.status_code), error.status_code, error.headers)

    @app.exception_handler(ClientDisconnect)
    async def of_the_client(http, error):
        return Response(status_code=499)  # nobody reads it

    @app.exception_handler(Exception)
    async def of_the_server(http, error):
        return JSONResponse(error_body("the server failed; its log says how.", 500), 500)
