"""Servers with OpenAI's Chat Completions or Responses API, called by plain HTTP requests."""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media import refuse_over
from repoagent.llm.model import OnText, Reply, Request, Retryable, Usage, Wishes, wire_text
from repoagent.llm.providers import errors, http
from repoagent.llm.providers import openai_request as requests
from repoagent.llm.providers.endpoints import Endpoint, context_of, find_key
from repoagent.llm.providers.openai_stream import StreamedChat, StreamedResponse

if TYPE_CHECKING:
    import httpx2

RESPONSES = "responses"  # the trait
_ACCOUNT_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
_NO_TOOLS = re.compile(r"support[^.]{0,20}\btool|\btools?\b[^.]{0,30}\bnot\b[^.]{0,10}support")

_lock = threading.Lock()
_clients: dict[tuple[str, str], httpx2.Client] = {}


def connect(endpoint: Endpoint) -> tuple[httpx2.Client, dict[str, str], list[str]]:
    """The client for `endpoint` (created once per server), the headers of requests, and the secrets to remove from
    errors. Raises ModelError for a missing or unusable key."""
    key, variable = find_key(endpoint)
    if not key and endpoint.needs_key:
        page = endpoint.hint("key_page")
        raise ModelError(
            f"no key for {endpoint.name}: set {endpoint.key_variables[0]} to "
            f"{f'a key from {page}' if page else 'your key'}"
        )
    if errors.unusable_key(key):
        raise ModelError(
            f"the key for {endpoint.name} (environment {variable}) contains a line break or another invalid "
            "character: set it again"
        )
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if endpoint.name == "openai":  # do not reveal the account to other servers
        named = {name: os.environ.get(variable, "") for name, variable in _ACCOUNT_HEADERS.items()}
        headers |= {name: value for name, value in named.items() if value}
    with _lock:  # the thread of `preload` holds it during the import
        client_key = endpoint.socket or endpoint.base_url, os.environ.get("SSL_CERT_FILE", "")
        if client_key not in _clients:
            _clients[client_key] = http.new_http_client(endpoint)
            atexit.register(_clients[client_key].close)
            if not endpoint.socket:
                http.open_early(_clients[client_key], endpoint.base_url)
        client = _clients[client_key]
    return client, headers, [secret for secret in (key, urlsplit(endpoint.base_url).password) if secret]


@dataclass
class OpenAIModel:
    """A model on a server that speaks OpenAI's protocol.

    name: the server's name for the model.
    read_seconds: the longest wait for data, in seconds; None for no limit.
    extra: additional fields of each request.
    without: the fields that the server rejects, which later calls omit.
    """

    endpoint: Endpoint
    name: str
    wishes: Wishes = field(default_factory=Wishes)
    read_seconds: float | None = 120.0
    extra: Mapping[str, Any] = field(default_factory=dict)
    without: set[str] = field(default_factory=set, repr=False, compare=False)

    @property
    def takes(self) -> frozenset[str]:
        caches = "breakpoints" in self.endpoint.traits and self.name.startswith("anthropic/")
        return frozenset({"effort", "temperature", "tools"} | ({"cache"} if caches else set()))

    @property
    def _uses_responses(self) -> bool:
        available = RESPONSES in self.endpoint.traits and RESPONSES not in self.without
        return available and requests.THINKS.search(self.name) is not None

    @property
    def spec(self) -> str:
        return f"{self.endpoint.name}/{self.name}"

    @cached_property
    def context_tokens(self) -> int | None:
        """The window in tokens that a local server reports; None for any other server."""
        return context_of(self.endpoint, self.name)

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """One streamed attempt; see `llm.model.Model`. Raises UsageError for an image or PDF that is not accepted."""
        refuse_over(request, self.spec, no_pdf=self.endpoint.no_pdf)
        # the minimum: four bytes per token; a run of a character counts as three, since tokenizers merge runs
        parts = [*request.system, *(part for message in request.messages for part in message.parts)]
        text = re.sub(r"(.)\1{3,}", r"\1\1\1", "".join(part.text for part in parts), flags=re.DOTALL)
        least = len(wire_text(text).encode()) // 4
        client, headers, secrets = connect(self.endpoint)
        import ssl

        import httpx2

        received: StreamedChat
        if self._uses_responses:
            path, received = "/responses", StreamedResponse(request.tools)
            body = requests.responses_body(self.spec, self.name, request, self.wishes, self.without)
        else:
            path, received = "/chat/completions", StreamedChat(request.tools)
            body = requests.chat_body(self.endpoint, self.name, request, self.wishes, self.without) | {
                **self.extra
            }
        timeout = httpx2.Timeout(self.read_seconds, connect=http.CONNECT_SECONDS)
        status, response_headers = 0, {}  # status 0: no response
        failure: errors.ServerError | None = None
        try:
            url = self.endpoint.base_url + path
            with client.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
                status, response_headers = response.status_code, dict(response.headers)
                if status >= 400:
                    failure = errors.parse_error(status, response.read().decode("utf-8", "replace"))
                else:
                    received.take(response.iter_bytes(), on_text)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ssl.SSLError, ValueError) as error:
            if not status and isinstance(error, ValueError):
                raise
            if not status:
                raise self.endpoint.no_response(error, self.read_seconds, secrets) from error
            if not received.ended:
                raise errors.broken_stream(error, self.read_seconds, received.usage(request)) from error
        usage = received.usage(request, in_dollars="cost" in self.endpoint.traits)
        if failure is None and received.error is not None:
            failure = errors.parse_error(200, received.error)
        if failure is not None:
            raise self._rejection(
                failure, headers=response_headers, body=body, request=request, usage=usage, secrets=secrets
            )
        if received.failed:
            raise Retryable(f"the server failed during the reply ({received.finish})", usage=usage)
        if not received.ended or received.garbled:
            if received.other and not received.began:
                shown = errors.brief(errors.without_page(received.other), secrets)[:100] or "an empty answer"
                raise ModelError(
                    f"the server at {self.endpoint.address} does not speak Chat Completions ({shown}): "
                    f"{self._check_address()}"
                )
            broken = errors.BAD_CALL if received.ended else errors.CLOSED_EARLY
            raise Retryable(broken, usage=usage)
        read = received.counts.get("prompt", 0)
        if "truncates" in self.endpoint.traits and read and read * 2 < least:
            raise self._truncated(read, least)
        model = f"{self.endpoint.name}/{received.model}" if received.model else self.spec
        blocks = received.blocks(self.spec) if received.stop == "end" else None
        return Reply(received.refusal or received.text, received.stop, usage, model, blocks)

    def _rejection(
        self,
        error: errors.ServerError,
        *,
        headers: Mapping[str, str],
        body: Mapping[str, Any],
        request: Request,
        usage: Usage,
        secrets: list[str],
    ) -> ModelError:
        """The error for a response; a Retryable if the next attempt can omit the fields that the server rejects."""
        endpoint = self.endpoint
        if "input" in body and error.status in {404, 405} and error.code != "model_not_found":
            self.without.add(RESPONSES)
            change: str | None = "has no Responses API: continuing with Chat Completions"
        else:
            change = requests.learn(error, body, self.without)
        if change is not None:
            return Retryable(f"{self.spec} {change}", retry_after=0, usage=usage)
        message = errors.brief(error.message, secrets) or "no reason given"
        if "more system memory" in error.text:  # Ollama, with a 500
            return ModelError(f"the server cannot load {self.spec} ({message}): use a smaller model")
        if "tools" in body and _NO_TOOLS.search(error.text):
            return ModelError(
                f'{self.spec} does not accept native tools ({message}): set protocol = "tags" under '
                f'[models."{self.spec}"] in your configuration'
            )
        variables = " or ".join(endpoint.key_variables)
        advice = {
            401: f"set a valid one as {variables}"
            if variables
            else f"set `api_key_env` under [providers.{endpoint.name}] in your configuration to the key's variable",
            404: f"{endpoint.hint('get').format(name=self.name) or 'check the name'}, or {self._check_address()}",
        }
        return errors.rejection(
            error,
            host=endpoint.address,
            spec=self.spec,
            advice=advice,
            headers=headers,
            usage=usage,
            request=request,
            secrets=secrets,
        )

    def _truncated(self, read: int, sent: int) -> ModelError:
        """The error for a prompt of about `sent` tokens that the server truncated: an edit based on the rest would be
        wrong."""
        size = 8192
        while size < sent * 1.5:  # the prompt and a reply
            size *= 2
        remedy = f"load the model with a context of {size} tokens or more"
        if "ollama_api" in self.endpoint.traits:
            remedy = f"restart it with OLLAMA_CONTEXT_LENGTH={size} ollama serve"
        return ModelError(
            f"{self.endpoint.name} read only {read:,} of the roughly {sent:,} prompt tokens for {self.name}, so the "
            f"reply was discarded: {remedy}, or name fewer files"
        )

    def _check_address(self) -> str:
        path = self.endpoint.base_url.rpartition("/")[2]
        ending = ", which usually ends in /v1" if not re.fullmatch(r"v\d\w*|openai", path) else ""
        return f"check {self.endpoint.address_setting}{ending}"
