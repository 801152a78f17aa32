"""Clients of the soak test: some read their answer, others leave, stall, or send what no server should take.

Each speaks HTTP/1.0 over a socket of its own, so that a body is whatever comes until the end of the connection.

May import: the standard library.
"""

import asyncio
import collections
import json
import time

LENGTHS = (1, 7, 8, 33, 80)  # of prompts; few, so that many requests ask for the same
OPTIONS = ({"temperature": 0}, {"temperature": 0.8, "top_k": 40}, {"temperature": 1.0, "top_p": 0.9, "min_p": 0.02})
ABSURD = (
    {"temperature": -1}, {"temperature": 1e308}, {"temperature": "hot"}, {"top_p": 0}, {"top_k": -7}, {"min_p": 3},
    {"max_tokens": 0}, {"max_tokens": -1}, {"max_tokens": 10**9}, {"max_tokens": 10**40}, {"seed": 2**80}, {"n": 5},
    {"logprobs": 3}, {"stop": ["a"] * 9}, {"stop": ""}, {"prompt": []}, {"prompt": [10**9]}, {"prompt": [-1]},
    {"prompt": ["a", "b"]}, {"prompt": None}, {"prompt": {"a": 1}}, {"prompt": [1] * 5000}, {"model": "other"},
    {"stream": 7}, {"colour": "red"}, {"prompt": "x " * 3000, "max_tokens": 400}, {"cache_salt": "x" * 999},
)  # fmt: skip
PATHS = (
    ("GET", "/"),
    ("GET", "/v1/completions"),
    ("POST", "/v1/models"),
    ("DELETE", "/v1/models/small"),
    ("PUT", "/x"),
)


class Wrong(Exception):
    """The server did what it must not do."""


class Client:
    """One client after the other; `counts` and `seconds` grow.

    Attributes
    ----------
    counts : Counter of (behaviour, result): 200, a refusing status, "left", "ended" (a failure in words)
    seconds : dict, behaviour -> list of seconds to the end of an answer
    names : set of str, ids of all answers
    num_tokens : int, of whole answers
    """

    def __init__(self, port, chance, prompts, max_tokens=48):
        """chance : random.Random; prompts : list of lists of tokens"""
        self.port, self.chance, self.prompts, self.max_tokens = port, chance, prompts, max_tokens
        self.counts, self.seconds = collections.Counter(), collections.defaultdict(list)
        self.names, self.num_tokens, self._greedy = set(), 0, {}

    async def one(self, behaviour):
        """One request of a behaviour, a name of BEHAVIOURS; Wrong where the answer is not as it must be."""
        try:
            result = await asyncio.wait_for(BEHAVIOURS[behaviour](self), 120)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise Wrong(f"{behaviour}: the connection ended without an answer ({error!r})") from None
        except TimeoutError:
            raise Wrong(f"{behaviour}: no answer in 120 s") from None
        self.counts[behaviour, result] += 1
        return result

    # what a client may do

    async def read_whole(self):
        """An answer that is not streamed, read to its end."""
        body, began = self._body(), time.monotonic()
        status, answer = await self._ask(body)
        if status != 200:
            return self._refusal(status, answer, (429, 503))
        self._check_whole(json.loads(answer), body)
        self.seconds["read a whole answer"].append(time.monotonic() - began)
        return 200

    async def read_stream(self, pause=0.0):
        """A streamed answer, read to its end, a little at a time where there is a pause (s)."""
        body, began = self._body(stream=True, stream_options={"include_usage": True}), time.monotonic()
        reader, writer = await self._open(body)
        try:
            status = await _status(reader)
            if status != 200:
                return self._refusal(status, await reader.read(), (429, 503))
            text = b""
            while piece := await reader.read(256 if pause else 65536):
                text += piece
                await asyncio.sleep(pause)
        finally:
            await _close(writer)
        if not self._check_stream(text, body):
            return "ended"
        self.seconds["read a stream slowly" if pause else "read a stream"].append(time.monotonic() - began)
        return 200

    async def read_slowly(self):
        """A streamed answer that is taken 256 bytes at a time."""
        return await self.read_stream(pause=0.02)

    async def leave_whole(self):
        """Go away before the answer comes."""
        _, writer = await self._open(self._body())
        await asyncio.sleep(self.chance.uniform(0, 0.3))
        await _close(writer, abort=self.chance.random() < 0.5)
        return "left"

    async def leave_stream(self):
        """Go away in the middle of a streamed answer."""
        reader, writer = await self._open(self._body(stream=True))
        for _ in range(self.chance.randrange(8)):
            await reader.readline()
        await _close(writer, abort=self.chance.random() < 0.5)
        return "left"

    async def leave_early(self):
        """Go away before the request is whole."""
        text = _http("POST", "/v1/completions", json.dumps(self._body()).encode())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(text[: self.chance.randrange(len(text))])
        await asyncio.sleep(self.chance.uniform(0, 0.05))
        await _close(writer)
        return "left"

    async def send_garbage(self):
        """A body that is no JSON: cut short, with a byte changed, or none at all."""
        body = bytearray(json.dumps(self._body()).encode())
        kind = self.chance.randrange(4)
        if kind == 0:
            del body[self.chance.randrange(len(body)) :]
        elif kind == 1:
            body[0] = self.chance.choice(b"[<\x00\xff,")
        elif kind == 2:
            body = bytearray(self.chance.randbytes(self.chance.randrange(1, 200)))
        else:
            body = bytearray(b'{"model":' + b"[" * self.chance.randrange(1, 20_000))
        return self._refusal(*await self._send(bytes(body)), (400,))

    async def send_absurd(self):
        """A parameter that no request can have."""
        body = self._body() | self.chance.choice(ABSURD)
        return self._refusal(*await self._ask(body), (400, 404))

    async def send_huge(self):
        """A body over the limit."""
        return self._refusal(*await self._send(b'{"prompt": "' + b"x" * (1 << 20) + b'"}'), (413,))

    async def send_elsewhere(self):
        """A path or method that the server does not have."""
        method, path = self.chance.choice(PATHS)
        return self._refusal(*await self._send(b"{}", method, path), (404, 405))

    async def send_no_http(self):
        """Bytes that are no HTTP; the protocol's own answer is 400."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"\x16\x03\x01" + self.chance.randbytes(60) + b"\r\n\r\n")
        text = await reader.read()
        await _close(writer)
        if text and not text.startswith(b"HTTP/1.1 400"):
            raise Wrong(f"bytes that are no HTTP were answered with {text[:80]!r}")
        return 400

    # how

    def _body(self, **more):
        """A request whose number of tokens is known: it does not end at the end of text."""
        prompt = self.chance.choice(self.prompts)
        prompt = prompt[: self.chance.choice(LENGTHS)]
        count = self.chance.randrange(1, self.max_tokens + 1)
        body = {"model": "small", "prompt": prompt, "max_tokens": count, "ignore_eos": True}
        return body | self.chance.choice(OPTIONS) | {"seed": self.chance.randrange(1000)} | more

    async def _ask(self, body):
        return await self._send(json.dumps(body).encode())

    async def _send(self, body, method="POST", path="/v1/completions"):
        """(status, bytes of the answer)."""
        reader, writer = await self._open(body, method, path)
        try:
            return await _status(reader), await reader.read()
        finally:
            await _close(writer)

    async def _open(self, body, method="POST", path="/v1/completions"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(_http(method, path, body))
        return reader, writer

    def _refusal(self, status, answer, expected):
        """The status of a refusal: one of those expected, with a sentence."""
        try:
            message = json.loads(answer)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            raise Wrong(f"status {status} came with {answer[:200]!r}, not with an error") from None
        if status not in expected or not message.endswith(".") or " " not in message:
            raise Wrong(f"status {status} with {message!r}; expected one of {expected} and a sentence")
        return status

    def _check_whole(self, answer, body):
        (choice,), usage = answer["choices"], answer["usage"]
        if choice["finish_reason"] != "length" or usage["prompt_tokens"] != len(body["prompt"]):
            raise Wrong(f"not the answer to this request: {choice['finish_reason']}, {usage}")
        self._check_once(answer["id"], usage["completion_tokens"], choice["text"], body)

    def _check_stream(self, text, body):
        """Whether the stream is a whole answer; False where it ended with an error in words."""
        frames = text.decode().split("\n\n")
        if frames[-2:] != ["data: [DONE]", ""]:
            raise Wrong(f"a stream ended with {text[-80:]!r}")
        events = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-2]]
        if "error" in events[-1]:
            self._refusal(503, json.dumps(events[-1]), (503,))
            return False
        reasons = [choice["finish_reason"] for event in events for choice in event["choices"]]
        if reasons != [None] * (len(reasons) - 1) + ["length"] or len({event["id"] for event in events}) != 1:
            raise Wrong(f"a stream had the finish reasons {reasons}")
        told = "".join(choice["text"] for event in events for choice in event["choices"])
        self._check_once(events[0]["id"], events[-1]["usage"]["completion_tokens"], told, body)
        return True

    def _check_once(self, name, count, text, body):
        """An answer that came once, with its tokens; greedy ones to the same prompt begin alike."""
        if name in self.names:
            raise Wrong(f"{name} was answered twice")
        if count != body["max_tokens"]:
            raise Wrong(f"{name} has {count} tokens; {body['max_tokens']} were asked for")
        if body["temperature"] == 0:
            text = text.rstrip("\ufffd")  # of a character that the last token cuts
            known = self._greedy.setdefault(tuple(body["prompt"]), text)
            if not known.startswith(text) and not text.startswith(known):
                raise Wrong(f"{name} has the text {text!r}; another answer to its prompt was {known!r}")
            self._greedy[tuple(body["prompt"])] = max(known, text, key=len)
        self.names.add(name)
        self.num_tokens += count


BEHAVIOURS = {
    "read a whole answer": Client.read_whole,
    "read a stream": Client.read_stream,
    "read a stream slowly": Client.read_slowly,
    "leave before the answer": Client.leave_whole,
    "leave a stream": Client.leave_stream,
    "leave a half-sent request": Client.leave_early,
    "malformed JSON": Client.send_garbage,
    "absurd parameter": Client.send_absurd,
    "body over the limit": Client.send_huge,
    "unknown path or method": Client.send_elsewhere,
    "no HTTP at all": Client.send_no_http,
}
WEIGHTS = (30, 30, 6, 8, 14, 4, 8, 12, 1, 2, 1)  # how often a client does each


async def fetch(port, path, method="GET"):
    """(status, bytes) of a request that asks for nothing special."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_http(method, path, b""))
    try:
        return await _status(reader), await reader.read()
    finally:
        await _close(writer)


def _http(method, path, body):
    head = f"{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _status(reader):
    """The status of an answer, whose head is read."""
    return int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])


async def _close(writer, abort=False):
    if abort:
        writer.transport.abort()  # a reset in place of an orderly end
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        pass
