"""Servers with OpenAI's Chat Completions or Responses API, called by plain HTTP requests."""

from __future__ import annotations

import atexit
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media import refuse_over
from repoagent.llm.model import OnText, Reply, Request, Retryable, Usage, Wishes, wire_text
from repoagent.llm.providers import errors, openai_errors
from repoagent.llm.providers.endpoints import Endpoint, context_of, find_key
from repoagent.llm.providers.openai_errors import parse_error
from repoagent.llm.providers.openai_request import (
    THINKS,
    Learned,
    chat_body,
    learn,
    media_limits,
    responses_body,
)
from repoagent.llm.providers.openai_stream import StreamedChat, StreamedResponse

if TYPE_CHECKING:
    import httpx2

RESPONSES = "responses"  # the trait
_SHORT_PROMPT = 1_000  # tokens; shorter prompts are never truncated
_ACCOUNT_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}

_lock = threading.Lock()
_clients: dict[tuple[str, str], httpx2.Client] = {}


def preload(endpoint: Endpoint) -> None:
    """Import the HTTP library and open a connection in a thread."""
    errors.in_background(lambda: connect(endpoint), "openai-preload")


def connect(endpoint: Endpoint) -> tuple[httpx2.Client, dict[str, str], list[str]]:
    """The client for `endpoint`, created once per server; the headers of requests; the secrets to remove from errors.
    Raises ModelError for a missing or unusable key."""
    key = find_key(endpoint)
    if key is None and endpoint.needs_key:
        page = endpoint.hint("key_page")
        raise ModelError(
            f"no key for {endpoint.name}: export {endpoint.key_variables[0]}=... "
            + (f"with a key from {page}" if page else "with your key")
            + f", or set api_key_command in [providers.{endpoint.name}] of your configuration"
        )
    if key is not None and errors.unusable_key(key.secret):
        raise ModelError(
            f"the key for {endpoint.name} ({key.origin}) contains a line break or another invalid character: "
            "set it again"
        )
    headers = {"Authorization": f"Bearer {key.secret}"} if key else {}
    if endpoint.name == "openai":  # do not reveal the account to other servers
        named = {name: os.environ.get(variable, "") for name, variable in _ACCOUNT_HEADERS.items()}
        headers |= {name: value for name, value in named.items() if value}
    with _lock:  # the thread of `preload` holds it during the import
        client_key = endpoint.socket or endpoint.base_url, os.environ.get("SSL_CERT_FILE", "")
        if client_key not in _clients:
            _clients[client_key] = errors.new_http_client(endpoint)
            atexit.register(_clients[client_key].close)
            if not endpoint.socket:
                errors.open_early(_clients[client_key], endpoint.base_url)
        client = _clients[client_key]
    password = urlsplit(endpoint.base_url).password
    return client, headers, [secret for secret in (key.secret if key else "", password) if secret]


@dataclass
class OpenAIModel:
    """`name` is the server's name of the model.

    read_seconds: the limit without any data; None for no limit. extra: additional fields of each request. on_event:
    gets each event of a stream.
    """

    endpoint: Endpoint
    name: str
    wishes: Wishes = field(default_factory=Wishes)
    read_seconds: float | None = 120.0
    extra: Mapping[str, Any] = field(default_factory=dict)
    on_event: Callable[[Mapping[str, Any]], None] | None = None
    learned: Learned = field(default_factory=Learned, repr=False, compare=False)

    @property
    def takes(self) -> frozenset[str]:
        caches = "breakpoints" in self.endpoint.traits and self.name.startswith("anthropic/")
        names = {"effort", "temperature", "tools"} | ({"cache"} if caches else set())
        return frozenset(names if self._uses_responses else names | {"stop"})

    @property
    def _uses_responses(self) -> bool:
        """Whether to use the Responses API: for a model that thinks, if the server has that API."""
        available = RESPONSES in self.endpoint.traits and RESPONSES not in self.learned.without
        return available and THINKS.search(self.name) is not None

    @property
    def spec(self) -> str:
        return f"{self.endpoint.name}/{self.name}"

    @cached_property
    def context_tokens(self) -> int | None:
        """The window reported by a local server, queried once; None for any other server."""
        return context_of(self.endpoint, self.name)

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """One streamed attempt; see `llm.model.Model`. Raises UsageError for an image or PDF that is not accepted."""
        refuse_over(request, media_limits(self.endpoint), self.spec)
        truncates, least = "truncates" in self.endpoint.traits, _min_tokens(request)
        if truncates and least >= _SHORT_PROMPT and least > (window := self.context_tokens or least):
            raise openai_errors.cut_prompt(self.endpoint, self.name, least, context=window)
        http, headers, secrets = connect(self.endpoint)
        import ssl

        import httpx2

        received: StreamedChat
        if self._uses_responses:
            path, received = "/responses", StreamedResponse(request.tools)
            body = responses_body(self.spec, self.name, request, self.wishes, self.learned)
        else:
            path, received = "/chat/completions", StreamedChat(request.tools, self.on_event)
            body = chat_body(self.endpoint, self.name, request, self.wishes, self.learned) | {**self.extra}
        timeout = httpx2.Timeout(self.read_seconds, connect=errors.CONNECT_SECONDS)
        connected = False
        try:
            url = self.endpoint.base_url + path
            with http.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
                connected = True
                if response.status_code >= 400:
                    text = response.read().decode("utf-8", "replace")
                    try:
                        content = json.loads(text)
                    except ValueError:
                        content = text
                    raise self._rejection(
                        response.status_code,
                        content,
                        response.headers,
                        body=body,
                        request=request,
                        usage=Usage(),
                        secrets=secrets,
                    )
                received.take(response.iter_bytes(), on_text)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError, ValueError) as error:
            if not connected:
                if isinstance(error, ValueError):
                    raise
                raise openai_errors.no_response(error, self.endpoint, self.read_seconds, secrets) from error
            if not received.ended:
                raise errors.broken_stream(error, self.read_seconds, received.usage(request)) from error
        return self._reply(request, received, body, secrets)

    def _reply(
        self, request: Request, received: StreamedChat, body: Mapping[str, Any], secrets: list[str]
    ) -> Reply:
        usage = received.usage(request, in_dollars="cost" in self.endpoint.traits)
        if received.error is not None:
            raise self._rejection(
                200, received.error, {}, body=body, request=request, usage=usage, secrets=secrets
            )
        if received.failed:
            raise Retryable(f"the server failed during the reply ({received.finish})", usage=usage)
        if not received.ended or received.garbled:
            if received.other and not received.began:
                raise openai_errors.not_chat_completions(self.endpoint, received.other, secrets)
            raise Retryable("the reply broke off: the server ended it early", usage=usage)
        read, least = received.prompt_tokens, _min_tokens(request)
        if "truncates" in self.endpoint.traits and read and read * 2 < least:
            raise openai_errors.cut_prompt(self.endpoint, self.name, least, read=read)
        model = f"{self.endpoint.name}/{received.model}" if received.model else self.spec
        blocks = received.blocks(self.spec) if received.stop == "end" else None
        return Reply(received.refusal or received.text, received.stop, usage, model, blocks)

    def _rejection(
        self,
        status: int,
        content: object,
        headers: Mapping[str, str],
        *,
        body: Mapping[str, Any],
        request: Request,
        usage: Usage,
        secrets: list[str],
    ) -> ModelError:
        """The error for a response; a Retryable if the next attempt can omit the fields that the server rejects."""
        error = parse_error(status, content)
        change: str | None
        if "input" in body and error.status in {404, 405} and not openai_errors.NO_MODEL.search(error.all):
            self.learned.without.add(RESPONSES)
            change = "has no Responses API: continuing with Chat Completions"
        else:
            change = learn(error, body, self.learned)
        if change is not None:
            return Retryable(f"{self.spec} {change}", retry_after=0, usage=usage)
        rejection = openai_errors.rejected(
            error, self.endpoint, self.name, headers=headers, usage=usage, secrets=secrets
        )
        return errors.with_attached(rejection, request)


def _min_tokens(request: Request) -> int:
    """The minimum number of tokens of the prompt: four bytes per token; a run of a character counts as three of them,
    since tokenizers merge runs."""
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    text = re.sub(r"(.)\1{3,}", r"\1\1\1", "".join(part.text for part in parts), flags=re.DOTALL)
    return len(wire_text(text).encode()) // 4
