"""One completion or chat over HTTP: its body, the engine's request, the answer whole or as server-sent events.

May import: errors, model, serving's request, text and protocol; fastapi, starlette.
"""

import asyncio
import json
import secrets
import time
import uuid
from dataclasses import dataclass

from fastapi.responses import JSONResponse, StreamingResponse
from starlette.requests import ClientDisconnect

from .. import errors
from ..model import Sampling
from .protocol import COMPLETION_TOKENS, Answer, ApiError, ChatBody, chat_prompt, error_body, parse
from .request import Request
from .text import TextOutput

STATUS = {errors.RefusedError: 400, errors.BusyError: 429, errors.EngineStopped: 503, errors.TimedOut: 504}
DROPPED_BYTES = 16 << 20  # of a body over the limit that are read, so that its sender comes to read the refusal


@dataclass(frozen=True)
class Served:
    """What is served and under which limits.

    Attributes
    ----------
    name : str, the model's name in requests
    tokenizer : tokenizers.Tokenizer
    vocab_size, max_len : int, tokens; prompt and answer together have at most max_len
    bos, eos : int or None; text begins with bos, an answer ends with eos
    timeout : float, seconds from a request to its last token
    read_timeout, write_timeout : float, seconds for a body to come, and for a client to take one chunk
    max_body_bytes : int
    """

    name: str
    tokenizer: object
    vocab_size: int
    max_len: int
    bos: int | None = None
    eos: int | None = None
    timeout: float = 600.0
    read_timeout: float = 30.0
    write_timeout: float = 60.0
    max_body_bytes: int = 1 << 20


async def answered(http, kind, service, served):
    """One completion or chat, from its bytes to the response."""
    body = parse(kind, await _body(http, served))
    need_model(body.model, served)
    request = await asyncio.to_thread(_request, body, served)  # a long prompt takes a while to tokenise
    stream = service.submit(request, served.timeout)
    answer = Answer(request.name, served.name, kind is ChatBody)
    pieces = _pieces(stream, TextOutput(served.tokenizer, request.stop), answer, request.eos)
    try:
        if not body.stream:
            found = await _unless_gone(http, _all(pieces))
            return JSONResponse(answer.whole(*found))
        first = await _unless_gone(http, anext(pieces))  # before it is known, an error still has its own status
    except BaseException:
        stream.close()
        raise
    events = _events(first, pieces, answer, body.stream_options.include_usage)
    return EventStream(events, stream, served.write_timeout)


async def _body(http, served):
    """The bytes of the body, at most max_body_bytes of them."""
    if http.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise ApiError("the header Content-Type must be application/json.", 415)  # a web page elsewhere cannot send it
    limit, body, size = served.max_body_bytes, bytearray(), 0
    try:
        async with asyncio.timeout(served.read_timeout):
            async for chunk in http.stream():
                size += len(chunk)
                body += chunk if size <= limit else b""
                if size > limit + DROPPED_BYTES:
                    break
    except TimeoutError:
        raise ApiError(f"the body was not there after {served.read_timeout:g} s.", 408) from None
    if size > limit:
        raise ApiError(f"the body is longer than {limit} bytes, the most that this server reads.", 413)
    return bytes(body)


def need_model(name, served):
    if name != served.name:
        text = f"there is no model {name[:100]!r} here; this server has {served.name!r}."
        raise ApiError(text, 404, code="model_not_found", param="model")


def _request(body, served):
    """The engine's request; raises ApiError where its prompt cannot be served."""
    chat, stop = isinstance(body, ChatBody), tuple(body.stop)
    prompt = body.messages if chat else body.prompt
    if chat:
        prompt, ends = chat_prompt(body.messages)
        stop += ends
    tokens = _tokens(prompt, served) if isinstance(prompt, str) else prompt
    wrong = next((token for token in tokens if not 0 <= token < served.vocab_size), None)
    if wrong is not None:
        text = f"prompt: token {wrong!r:.40} is out of range; the vocabulary has 0 to {served.vocab_size - 1}."
        raise ApiError(text, param="prompt")
    if not tokens:
        raise ApiError("prompt: it is empty; a model continues at least one token.", param="prompt")
    room = served.max_len - len(tokens)
    wanted = (chat and body.max_completion_tokens) or body.max_tokens or (room if chat else COMPLETION_TOKENS)
    if room < max(1, wanted):
        text = f"the prompt has {len(tokens)} tokens and max_tokens is {max(1, wanted)}"
        text += f"; together they may be {served.max_len} at most."
        raise ApiError(text, code="context_length_exceeded", param="messages" if chat else "prompt")
    seed = secrets.randbits(63) if body.seed is None else body.seed
    sampling = Sampling(body.temperature, max(0, body.top_k), body.top_p, body.min_p, seed)
    name = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
    eos = None if body.ignore_eos else served.eos
    more = {"eos": eos, "arrival": time.monotonic(), "stop": stop, "priority": body.priority, "salt": body.cache_salt}
    return Request(name, tuple(tokens), wanted, sampling, **more)


def _tokens(text, served):
    tokens = served.tokenizer.encode(text).ids
    return tokens if served.bos is None or tokens[:1] == [served.bos] else [served.bos, *tokens]


async def _pieces(stream, text, answer, eos):
    """(text, finish reason or None) as they come, late ones together; the counts of `answer` grow with them."""
    async for output in stream:
        outputs = [output, *stream.waiting()]
        tokens, reason = [token for each in outputs for token in each.tokens], outputs[-1].finish_reason
        answer.num_prompt_tokens, answer.num_cached_tokens = output.num_prompt_tokens, output.num_cached_tokens
        answer.num_tokens += len(tokens)
        piece = text.add(tokens[:-1] if reason == "stop" and tokens[-1:] == [eos] else tokens)
        if text.stopped is not None:
            stream.close("stop")
            yield piece, "stop"
            return
        yield (piece if reason is None else piece + text.finish()), reason


async def _all(pieces):
    """(whole text, finish reason)."""
    texts, reason = [], None
    async for text, reason in pieces:  # noqa: B007, the last reason is returned
        texts.append(text)
    return "".join(texts), reason


async def _unless_gone(http, coroutine):
    """The coroutine's result; ClientDisconnect where the client goes away before it is there."""
    work, gone = asyncio.ensure_future(coroutine), asyncio.ensure_future(_gone(http))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return await work
    finally:
        work.cancel()
        gone.cancel()


async def _gone(http):
    while (await http.receive())["type"] != "http.disconnect":
        pass


async def _events(first, pieces, answer, with_usage):
    """Server-sent events of one answer."""
    try:
        text, reason = first
        yield _event(answer.chunk(text, reason, first=True))
        if reason is None:
            async for text, reason in pieces:
                if text or reason:
                    yield _event(answer.chunk(text, reason))
        if with_usage:
            yield _event(answer.usage_chunk())
    except errors.ServingError as error:  # the status is sent already
        yield _event(error_body(str(error), status_of(error)))
    yield "data: [DONE]\n\n"


def _event(value):
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


class EventStream(StreamingResponse):
    """Server-sent events of a stream, which is closed when they end, for whatever reason."""

    def __init__(self, events, stream, write_timeout):
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self.stream, self.write_timeout = stream, write_timeout

    async def __call__(self, scope, receive, send):
        async def send_in_time(message):
            async with asyncio.timeout(self.write_timeout):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            pass  # the connection ends without the rest
        finally:
            self.stream.close()


def status_of(error):
    """The HTTP status of an error of the course."""
    return error.status if isinstance(error, ApiError) else STATUS.get(type(error), 500)
