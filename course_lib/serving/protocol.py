"""The OpenAI API as this server speaks it: what a body may say, prompts, answers and errors.

Every field is checked; a field that this server cannot honour is refused in words unless it asks for nothing.

May import: errors, pydantic.

Source: OpenAI API reference, Completions and Chat, https://platform.openai.com/docs/api-reference; top_k, min_p,
ignore_eos, priority and cache_salt are vLLM's additions, https://docs.vllm.ai/en/stable/serving/openai_compatible_server
"""

import time
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..errors import ServingError

INT32, INT64 = 2**31, 2**63
MAX_STOPS, MAX_STOP_LEN = 4, 256  # strings, characters
COMPLETION_TOKENS = 16  # max_tokens of a completion that names none
# fields of the API without a counterpart here -> the values that ask for nothing
NEUTRAL = {
    "n": (1,), "best_of": (1,), "echo": (False,), "suffix": ("",), "logprobs": (False,), "top_logprobs": (),
    "presence_penalty": (0, 0.0), "frequency_penalty": (0, 0.0), "logit_bias": ({},), "tools": ([],),
    "tool_choice": ("none",), "functions": ([],), "function_call": ("none",), "response_format": ({"type": "text"},),
    "modalities": (["text"],), "service_tier": ("auto", "default"),
}  # fmt: skip
IGNORED = ("user", "metadata", "safety_identifier", "store", "parallel_tool_calls")  # nothing here depends on them


class ApiError(ServingError):
    """A request that is refused.

    Attributes
    ----------
    status : int, the HTTP status
    code, param : str or None, as OpenAI's errors have them
    """

    def __init__(self, message, status=400, *, code=None, param=None):
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


def error_body(message, status, code=None, param=None):
    """OpenAI's form of an error, a dict."""
    kinds = {404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _stops(value):
    """One string or a list of them, as a list."""
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > MAX_STOPS:
        raise ValueError(f"expected a string or a list of at most {MAX_STOPS}")
    if not all(isinstance(each, str) and 0 < len(each) <= MAX_STOP_LEN for each in stops):
        raise ValueError(f"every stop string is text of 1 to {MAX_STOP_LEN} characters")
    return stops


def _one_prompt(value):
    """Text or a list of tokens; a list of one of them is that one."""
    if isinstance(value, list) and value and isinstance(value[0], (str, list)):
        if len(value) > 1:
            raise ValueError(f"expected one prompt and got {len(value)}; send a request for each")
        value = value[0]
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise ValueError("expected text or a list of tokens, whole numbers")
    return value


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    include_usage: bool = False


class Body(BaseModel):
    """What completions and chats share."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    model: str
    max_tokens: int | None = Field(None, ge=1, lt=INT32)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=-1, lt=INT32)
    min_p: float = Field(0.0, ge=0, le=1)
    seed: int | None = Field(None, ge=-INT64, lt=INT64)
    stop: Annotated[list[str], BeforeValidator(_stops)] = []
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    ignore_eos: bool = False
    priority: int = Field(0, ge=-INT32, lt=INT32)
    cache_salt: str = Field("", max_length=256)

    @model_validator(mode="before")
    @classmethod
    def _without_what_asks_for_nothing(cls, values):
        if not isinstance(values, dict):
            raise ValueError("expected a JSON object")
        kept = {name: value for name, value in values.items() if value is not None and name not in IGNORED}
        for name, neutral in NEUTRAL.items():
            value = kept.pop(name, None)
            if value is not None and not any(type(value) is type(each) and value == each for each in neutral):
                raise ValueError(f"{name} is not supported by this server; leave it out")
        return kept


class CompletionBody(Body):
    prompt: Annotated[str | list[int], BeforeValidator(_one_prompt)]


class TextPart(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    type: Literal["text"]
    text: str


class Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    @property
    def text(self):
        """The content as one string."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(Body):
    messages: list[Message] = Field(min_length=1, max_length=1024)
    max_completion_tokens: int | None = Field(None, ge=1, lt=INT32)


def parse(kind, body):
    """`kind` from the bytes of a body.

    Raises
    ------
    ApiError  it is no JSON, or a field is wrong; the sentence names it
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        raise ApiError(f"the body is no JSON: {first['msg'].removeprefix('Invalid JSON: ')}.", code="json_invalid")
    path = ".".join(str(part) for part in first["loc"] if part != "str" and not str(part).startswith("list["))[:100]
    unknown = "this server knows no such field"
    text = unknown if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    value = first["input"]
    came = f"; it is {value!r:.60}" if isinstance(value, (bool, int, float)) else ""
    raise ApiError(f"{f'{path}: ' if path else ''}{text[:1].lower()}{text[1:]}{came}.", param=path or None)


def chat_prompt(messages):
    """The dialogue as text that ends where the assistant's turn begins, and the strings that end this turn.

    The template is for the shipped model, which was trained on prose, not on dialogues:

        SYSTEM

        User: TEXT
        Assistant: TEXT
        User: TEXT
        Assistant:
    """
    lines = []
    for message in messages:
        if message.role in ("system", "developer"):
            lines.append(f"{message.text}\n\n")
        else:
            lines.append(f"{message.role.capitalize()}: {message.text}\n")
    return "".join(lines) + "Assistant:", ("\nUser:",)


@dataclass
class Answer:
    """The answer to one request, whole or in chunks.

    Attributes
    ----------
    name : str, its id
    model : str
    chat : bool
    num_prompt_tokens, num_cached_tokens, num_tokens : int, for the usage
    """

    name: str
    model: str
    chat: bool
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_tokens: int = 0
    created: int = field(default_factory=lambda: int(time.time()))

    def usage(self):
        """Tokens in, out and together."""
        return {
            "prompt_tokens": self.num_prompt_tokens,
            "completion_tokens": self.num_tokens,
            "total_tokens": self.num_prompt_tokens + self.num_tokens,
            "prompt_tokens_details": {"cached_tokens": self.num_cached_tokens},
        }

    def whole(self, text, reason):
        """The answer that is not streamed."""
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion" if self.chat else "text_completion"
        return self._object(kind, [self._choice(content, reason)]) | {"usage": self.usage()}

    def chunk(self, text, reason=None, *, first=False):
        """A piece of a streamed answer; reason: on the last one."""
        delta = ({"role": "assistant"} if first else {}) | ({"content": text} if text or first else {})
        content = {"delta": delta} if self.chat else {"text": text}
        return self._object(self._chunk_kind, [self._choice(content, reason)])

    def usage_chunk(self):
        """The chunk that follows the last piece where stream_options ask for the usage."""
        return self._object(self._chunk_kind, []) | {"usage": self.usage()}

    @property
    def _chunk_kind(self):
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _choice(self, content, reason):
        return {"index": 0, **content, "logprobs": None, "finish_reason": reason}

    def _object(self, kind, choices):
        return {"id": self.name, "object": kind, "created": self.created, "model": self.model, "choices": choices}
