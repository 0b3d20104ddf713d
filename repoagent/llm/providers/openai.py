"""The client of the `openai` package: made once for each endpoint and key, and early, in a thread.

Its import takes half a second of CPU time. It starts while the main thread waits for git and reads files.

Any server that speaks OpenAI's Chat Completions, through the `openai` package.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, install_extra
from repoagent.llm.media import refuse_over
from repoagent.llm.model import OnText, Reply, Request, Retryable, Usage, Wishes, wire_text
from repoagent.llm.providers.endpoints import (
    Endpoint,
    Key,
    display_address,
    endpoint_hint,
    find_key,
    needs_key,
)
from repoagent.llm.providers.errors import (
    CONNECT_SECONDS,
    broken_stream,
    in_background,
    new_http_client,
    open_early,
    unusable_key,
    with_attached,
    without_gc,
)
from repoagent.llm.providers.openai_errors import (
    NO_MODEL,
    ApiError,
    no_connection,
    not_chat_completions,
    parse_error,
    rejected,
    small_context,
    truncated_prompt,
)
from repoagent.llm.providers.openai_models import context_of
from repoagent.llm.providers.openai_parameters import (
    THINKS,
    Learned,
    as_arguments,
    learn,
    media_limits,
    parameters,
)
from repoagent.llm.providers.openai_stream import StreamedChat, StreamedResponse, response_parameters

if TYPE_CHECKING:
    from openai import OpenAI

_lock = threading.Lock()
_clients: dict[tuple[str, str], OpenAI] = {}


def preload(endpoint: Endpoint) -> None:
    """Import the SDK and open a connection in a thread, while the caller does something else.

    Says nothing when that fails: the first call will, in words that fit.
    """
    in_background(lambda: _warm(endpoint), "openai-preload")


def _warm(endpoint: Endpoint) -> None:
    with suppress(ModelError):
        connect(endpoint)


class Connection(NamedTuple):
    """A client, the headers that each of its requests needs, and the secrets that no error may repeat."""

    client: OpenAI
    headers: dict[str, Any]
    secrets: list[str]


def connect(endpoint: Endpoint) -> Connection:
    """The client for `endpoint`, made once for a key.

    Raises ModelError when there is no key, or when the package is not installed.
    """
    with _lock:  # held by the thread of `preload` until it has imported
        key = usable_key(endpoint)
        secret = key.secret if key else ""
        made = endpoint.base_url, secret
        if made not in _clients:
            with without_gc():
                _clients[made] = _new_client(endpoint, secret)
        client = _clients[made]
    import openai

    # the SDK wants to be told for each request that it goes without a key
    headers = {} if secret else {"Authorization": openai.Omit()}
    return Connection(client, headers, secrets_of(endpoint, key))


def usable_key(endpoint: Endpoint) -> Key | None:
    """The key for `endpoint`; None where it goes without. Raises ModelError for one that is missing or none."""
    key = find_key(endpoint)
    if key is None and needs_key(endpoint):
        page = endpoint_hint(endpoint.name, "key_page")
        raise ModelError(
            f"no key for {endpoint.name}: export {endpoint.key_variables[0]}=... "
            + (f"with a key of {page}" if page else "with your key")
            + f", or set api_key_command in [providers.{endpoint.name}] of your configuration"
        )
    if key is not None and unusable_key(key.secret):
        raise ModelError(
            f"the key for {endpoint.name} ({key.origin}) contains a line break or another invalid character: "
            "set it again"
        )
    return key


def secrets_of(endpoint: Endpoint, key: Key | None) -> list[str]:
    """The key, and a password in the URL."""
    from urllib.parse import urlsplit

    password = urlsplit(endpoint.base_url).password
    return [secret for secret in (key.secret if key else "", password) if secret]


def _new_client(endpoint: Endpoint, secret: str) -> OpenAI:
    http = new_http_client(endpoint)
    open_early(http, endpoint.base_url)
    import httpx2

    try:
        import openai
    except ImportError as error:
        detail = "" if error.name == "openai" else f" ({error})"
        raise ModelError(
            f"{endpoint.name}/… needs the openai package{detail}: {install_extra('openai')}"
        ) from error
    headers: dict[str, Any] = {}
    if endpoint.name != "openai":
        # what the environment says of an OpenAI account is nothing for another server
        named = [
            line.partition(":")[0].strip() for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
        ]
        headers = dict.fromkeys(
            ["OpenAI-Organization", "OpenAI-Project", *filter(None, named)], openai.Omit()
        )
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    try:
        return openai.OpenAI(
            api_key=secret or "none",  # the SDK wants one; it is not sent
            admin_api_key="",  # else the SDK takes OPENAI_ADMIN_KEY
            base_url=endpoint.base_url,
            default_headers=headers,
            http_client=http,
            max_retries=0,  # call.py retries
        )
    except httpx2.InvalidURL as error:
        raise ModelError(
            f"{display_address(endpoint.base_url)} is no URL ({error}): set the base URL of {endpoint.name} like https://host/v1"
        ) from error


RESPONSES = "responses"  # the trait
_SHORT_PROMPT = 1_000  # tokens of a prompt; a short one is not cut


@dataclass
class OpenAIModel:
    """`name` as the server knows it. `read_seconds` is how long the server may be without a byte."""

    endpoint: Endpoint
    name: str
    wishes: Wishes = field(default_factory=Wishes)
    read_seconds: float = 120.0
    learned: Learned = field(default_factory=Learned, repr=False, compare=False)

    @property
    def takes(self) -> frozenset[str]:
        caches = "breakpoints" in self.endpoint.traits and self.name.startswith("anthropic/")
        has = {"effort", "temperature", "tools"} | ({"cache"} if caches else set())
        return frozenset(has if self._responds else has | {"stop"})

    @property
    def _responds(self) -> bool:
        """Whether it is asked through the Responses API: a model that thinks, where there is one."""
        served = RESPONSES in self.endpoint.traits and RESPONSES not in self.learned.without
        return served and THINKS.search(self.name) is not None

    @property
    def spec(self) -> str:
        return f"{self.endpoint.name}/{self.name}"

    @cached_property
    def context_tokens(self) -> int | None:
        """What a server of this machine says, asked once; None for any other."""
        return context_of(self.endpoint, self.name)

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """One streamed attempt; see `llm.model.Model`. Raises UsageError for an image or PDF that is not taken."""
        refuse_over(request, media_limits(self.endpoint), self.spec)
        self._refuse_what_will_be_cut(request)
        client, headers, secrets = connect(self.endpoint)
        import ssl

        import httpx2
        import openai

        received: StreamedChat
        create: Any  # each of the two has overloads of its own
        if self._responds:
            sent = response_parameters(self.spec, self.name, request, self.wishes, self.learned)
            received = StreamedResponse(request.tools)
            create = client.responses.with_streaming_response.create
        else:
            sent = parameters(self.endpoint, self.name, request, self.wishes, self.learned)
            received = StreamedChat(request.tools)
            create = client.chat.completions.with_streaming_response.create
        try:
            with create(
                **as_arguments(sent),
                extra_headers=headers,
                timeout=openai.Timeout(self.read_seconds, connect=CONNECT_SECONDS),
            ) as response:
                received.take(response.iter_bytes(), on_text)
        except openai.APIStatusError as error:
            failed = parse_error(error.status_code, error.body)
            refused = self._refused(failed, error.response.headers, sent, received.usage(request), secrets)
            raise with_attached(refused, request) from error
        except openai.APIConnectionError as error:
            raise no_connection(error, self.endpoint, self.read_seconds, secrets) from error
        except (httpx2.HTTPError, httpx2.StreamError, ssl.SSLError, json.JSONDecodeError) as error:
            if not received.ended:
                raise broken_stream(error, self.read_seconds, received.usage(request)) from error
        except openai.OpenAIError as error:
            raise not_chat_completions(self.endpoint, str(error), secrets) from error
        return self._reply(request, received, sent, secrets)

    def _reply(
        self, request: Request, received: StreamedChat, sent: Mapping[str, Any], secrets: list[str]
    ) -> Reply:
        usage = received.usage(request, in_dollars="cost" in self.endpoint.traits)
        if received.error is not None:
            raise with_attached(
                self._refused(parse_error(200, received.error), {}, sent, usage, secrets), request
            )
        if received.failed:
            raise Retryable(f"the server failed during the reply ({received.finish})", usage=usage)
        if not received.ended or received.garbled:
            if received.other and not received.began:
                raise not_chat_completions(self.endpoint, received.other, secrets)
            raise Retryable("the reply broke off: the server ended it early", usage=usage)
        read, least = received.prompt_tokens, _min_tokens(request)
        if "truncates" in self.endpoint.traits and read and read * 2 < least:
            raise truncated_prompt(self.endpoint, self.name, read, least)
        text = received.refusal or received.text
        model = f"{self.endpoint.name}/{received.model}" if received.model else self.spec
        blocks = received.blocks(self.spec) if received.stop == "end" else None
        return Reply(text, received.stop, usage, model, blocks)

    def _refused(
        self,
        failed: ApiError,
        headers: Mapping[str, str],
        sent: Mapping[str, Any],
        usage: Usage,
        secrets: list[str],
    ) -> ModelError:
        if "input" in sent and failed.status in {404, 405} and not NO_MODEL.search(failed.all):
            self.learned.without.add(RESPONSES)
            words: str | None = "has no Responses API: continuing with Chat Completions"
        else:
            words = learn(failed, sent, self.learned)
        if words is not None:
            return Retryable(f"{self.spec} {words}", retry_after=0, usage=usage)
        return rejected(failed, self.endpoint, self.name, headers=headers, usage=usage, secrets=secrets)

    def _refuse_what_will_be_cut(self, request: Request) -> None:
        if "truncates" not in self.endpoint.traits or _min_tokens(request) < _SHORT_PROMPT:
            return
        context = self.context_tokens
        if context is not None and context < _min_tokens(request):
            raise small_context(self.endpoint, self.name, context, _min_tokens(request))


def _min_tokens(request: Request) -> int:
    """How many tokens the prompt has at the least: four bytes for one, where runs of a character count as three
    of them, since a tokenizer takes those together."""
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    text = re.sub(r"(.)\1{3,}", r"\1\1\1", "".join(part.text for part in parts), flags=re.DOTALL)
    return len(wire_text(text).encode()) // 4
