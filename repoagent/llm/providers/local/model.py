"""A model file on this machine, run by llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError
from repoagent.llm.media.limits import refuse_any
from repoagent.llm.model import OnText, Reply, Request, Retryable, Stop, Usage, Wishes
from repoagent.llm.providers.local.engine import (
    Engine,
    OnProgress,
    loaded_engine,
    stop,
    why_ended,
    window_of,
)
from repoagent.llm.rendering import wire_text
from repoagent.llm.usage import estimate, estimate_tokens

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

_SAID = 300  # characters of what llama.cpp says in an error


@dataclass(frozen=True)
class LocalModel:
    """The GGUF file at `path`, written as the user wrote it (`~` and relative paths work).

    `context` is the window in tokens, by default what fits. `on_progress` gets fractions while the model is
    loaded, `on_prompt` while it reads the prompt, which may take minutes before the first word.
    """

    path: str
    wishes: Wishes = field(default_factory=Wishes)
    context: int | None = None
    on_progress: OnProgress | None = None
    on_prompt: Callable[[float], None] | None = None

    takes: ClassVar[frozenset[str]] = frozenset({"temperature", "stop"})

    @property
    def spec(self) -> str:
        return f"local/{self.path}"

    @property
    def context_tokens(self) -> int | None:
        try:
            return window_of(self.path, self.context)
        except (ModelError, UsageError):
            return None  # `complete` says why

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. The first call loads the file; ^C ends the loading or the generation.

        Raises UsageError where an image or PDF is attached.
        """
        refuse_any(request, self.spec, "a model file is run here without the part that sees")
        engine = loaded_engine(self.path, self.context, self.on_progress)
        connection = _connect(engine.socket)
        try:
            return self._ask(engine, connection, request, on_text)
        except (OSError, _broken(), Retryable) as error:
            why = why_ended(engine)
            if why:
                stop(engine)
                raise ModelError(f"{self.spec} ended in the middle of its reply: {why}") from error
            if isinstance(error, Retryable):
                raise
            raise Retryable(
                f"the connection to {self.spec} broke: {error}", usage=estimate(request)
            ) from error
        finally:
            connection.close()  # llama.cpp stops to generate what nobody reads

    def _ask(self, engine: Engine, connection: HTTPConnection, request: Request, on_text: OnText) -> Reply:
        body = json.dumps(self._body(request)).encode()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise self._refused(response.read(), engine)
        pieces: list[str] = []
        stop_reason: Stop | None = None
        usage: Usage | None = None
        for event in _events(response):
            if "error" in event:
                raise self._refused(json.dumps(event).encode(), engine)
            usage = _usage(event) or usage
            if self.on_prompt and "prompt_progress" in event:
                progress = event["prompt_progress"]
                self.on_prompt(progress["processed"] / max(progress["total"], 1))
            for choice in event.get("choices", ()):
                piece = choice["delta"].get("content")
                if piece:
                    pieces.append(piece)
                    on_text(piece)
                if choice["finish_reason"]:
                    stop_reason = "length" if choice["finish_reason"] == "length" else "end"
        text = "".join(pieces)
        used = usage or estimate(request) + Usage(output=estimate_tokens(text), estimated=True)
        if stop_reason is None:
            raise Retryable(f"the reply of {self.spec} broke off", usage=used)
        return Reply(text, stop_reason, used, self.spec)

    def _body(self, request: Request) -> dict[str, Any]:
        system = "".join(part.text for part in request.system)
        said = [("system", system)] if system else []
        said += [(message.role, message.text) for message in request.messages]
        temperature = self.wishes.temperature if request.temperature is None else request.temperature
        body: dict[str, Any] = {
            "messages": [{"role": role, "content": wire_text(text)} for role, text in said],
            "max_tokens": request.max_output_tokens,
            "temperature": 0.0 if temperature is None else temperature,
            "stop": list(self.wishes.stop),
            "cache_prompt": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": self.on_prompt is not None,
        }
        return body | ({"grammar": request.grammar} if request.grammar else {})

    def _refused(self, answer: bytes, engine: Engine) -> ModelError:
        try:
            error = json.loads(answer)["error"]
            said, tokens = str(error["message"]), error.get("n_prompt_tokens")
        except (ValueError, KeyError, TypeError, AttributeError):
            said, tokens = answer.decode(errors="replace"), None
        if tokens is not None:
            return ModelError(
                f"the prompt has {tokens:,} tokens and the window of {self.spec} {engine.plan.window:,}: name "
                "fewer or smaller files, or use a model with a larger window"
            )
        return ModelError(f"llama.cpp refused the request: {' '.join(said.split())[:_SAID]}")


def _connect(path: Path) -> HTTPConnection:
    import socket
    from http.client import HTTPConnection

    class UnixConnection(HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(path))

    return UnixConnection("localhost")


def _broken() -> type[Exception]:
    from http.client import HTTPException

    return HTTPException


def _events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of the stream, to its end or to where it broke."""
    for line in response:
        if line.startswith(b"data: {"):
            try:
                yield json.loads(line[6:])
            except ValueError:
                return  # half a line: the stream broke


def _usage(event: dict[str, Any]) -> Usage | None:
    """What llama.cpp counted, in the last event."""
    counted = event.get("usage")
    if not counted:
        return None
    cached = counted.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return Usage(counted["prompt_tokens"] - cached, counted["completion_tokens"], cached)
