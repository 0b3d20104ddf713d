"""Any server that speaks OpenAI's Chat Completions, through the `openai` package."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media.limits import refuse_over
from repoagent.llm.model import OnText, Reply, Request, Retryable, Usage, Wishes
from repoagent.llm.providers.endpoint import Endpoint
from repoagent.llm.providers.failures import broken_stream, with_attached
from repoagent.llm.providers.http_client import CONNECT_SECONDS
from repoagent.llm.providers.openai.catalogue import context_of
from repoagent.llm.providers.openai.client import connect
from repoagent.llm.providers.openai.errors import (
    NO_MODEL,
    Told,
    no_connection,
    read_half,
    rejected,
    something_else,
    told,
    too_small,
)
from repoagent.llm.providers.openai.media import media_limits
from repoagent.llm.providers.openai.parameters import THINKS, Learned, as_arguments, learn, parameters
from repoagent.llm.providers.openai.responses import ReceivedResponse, response_parameters
from repoagent.llm.providers.openai.stream import Received
from repoagent.llm.rendering import wire_text

RESPONSES = "responses"  # the trait
_WORTH_A_LOOK = 1_000  # tokens of a prompt; a short one is not cut


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

        received: Received
        create: Any  # each of the two has overloads of its own
        if self._responds:
            sent = response_parameters(self.spec, self.name, request, self.wishes, self.learned)
            received = ReceivedResponse(request.tools)
            create = client.responses.with_streaming_response.create
        else:
            sent = parameters(self.endpoint, self.name, request, self.wishes, self.learned)
            received = Received(request.tools)
            create = client.chat.completions.with_streaming_response.create
        try:
            with create(
                **as_arguments(sent),
                extra_headers=headers,
                timeout=openai.Timeout(self.read_seconds, connect=CONNECT_SECONDS),
            ) as response:
                received.take(response.iter_bytes(), on_text)
        except openai.APIStatusError as error:
            failed = told(error.status_code, error.body)
            refused = self._refused(failed, error.response.headers, sent, received.usage(request), secrets)
            raise with_attached(refused, request) from error
        except openai.APIConnectionError as error:
            raise no_connection(error, self.endpoint, self.read_seconds, secrets) from error
        except (httpx2.HTTPError, httpx2.StreamError, ssl.SSLError, json.JSONDecodeError) as error:
            if not received.ended:
                raise broken_stream(error, self.read_seconds, received.usage(request)) from error
        except openai.OpenAIError as error:
            raise something_else(self.endpoint, str(error), secrets) from error
        return self._reply(request, received, sent, secrets)

    def _reply(
        self, request: Request, received: Received, sent: Mapping[str, Any], secrets: list[str]
    ) -> Reply:
        usage = received.usage(request, in_dollars="cost" in self.endpoint.traits)
        if received.error is not None:
            raise with_attached(self._refused(told(200, received.error), {}, sent, usage, secrets), request)
        if received.failed:
            raise Retryable(f"the server failed in mid-reply ({received.finish})", usage=usage)
        if not received.ended or received.garbled:
            if received.other and not received.began:
                raise something_else(self.endpoint, received.other, secrets)
            raise Retryable("the reply broke off: the server ended it half way", usage=usage)
        read, least = received.prompt_tokens, _least(request)
        if "truncates" in self.endpoint.traits and read and read * 2 < least:
            raise read_half(self.endpoint, self.name, read, least)
        text = received.refusal or received.text
        model = f"{self.endpoint.name}/{received.model}" if received.model else self.spec
        blocks = received.blocks(self.spec) if received.stop == "end" else None
        return Reply(text, received.stop, usage, model, blocks)

    def _refused(
        self,
        failed: Told,
        headers: Mapping[str, str],
        sent: Mapping[str, Any],
        usage: Usage,
        secrets: list[str],
    ) -> ModelError:
        if "input" in sent and failed.status in {404, 405} and not NO_MODEL.search(failed.all):
            self.learned.without.add(RESPONSES)
            words: str | None = "has no Responses API: going on with Chat Completions"
        else:
            words = learn(failed, sent, self.learned)
        if words is not None:
            return Retryable(f"{self.spec} {words}", retry_after=0, usage=usage)
        return rejected(failed, self.endpoint, self.name, headers=headers, usage=usage, secrets=secrets)

    def _refuse_what_will_be_cut(self, request: Request) -> None:
        if "truncates" not in self.endpoint.traits or _least(request) < _WORTH_A_LOOK:
            return
        context = self.context_tokens
        if context is not None and context < _least(request):
            raise too_small(self.endpoint, self.name, context, _least(request))


def _least(request: Request) -> int:
    """How many tokens the prompt has at the least: four bytes for one, where runs of a character count as three
    of them, since a tokenizer takes those together."""
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    text = re.sub(r"(.)\1{3,}", r"\1\1\1", "".join(part.text for part in parts), flags=re.DOTALL)
    return len(wire_text(text).encode()) // 4
