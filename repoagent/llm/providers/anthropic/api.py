"""Claude, through the `anthropic` package: Anthropic's own API, Amazon Bedrock, Google Vertex AI.

The import of the package takes more than a second of CPU time: see `client.preload`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media.limits import refuse_over
from repoagent.llm.model import OnText, Reply, Request, Retryable, Wishes
from repoagent.llm.providers.anthropic import cloud_errors as clouds
from repoagent.llm.providers.anthropic import names
from repoagent.llm.providers.anthropic.client import (
    Platform,
    connect,
    door_of,
    secrets_of,
)
from repoagent.llm.providers.anthropic.errors import broken_stream, no_connection, no_key, rejected, unusable
from repoagent.llm.providers.anthropic.media import media_limits
from repoagent.llm.providers.anthropic.names import family_name, refuse_unknown_effort, thinks
from repoagent.llm.providers.anthropic.prompt import Prompt, prompt_of
from repoagent.llm.providers.anthropic.stream import Received, ended_when_mute
from repoagent.llm.providers.failures import with_attached
from repoagent.llm.providers.http_client import CONNECT_SECONDS

if TYPE_CHECKING:
    from repoagent.llm.providers.anthropic.client import Client, Door

__all__ = ["AnthropicModel", "count_tokens", "family_name", "refuse_unknown_effort", "thinks"]

THINKING_ROOM = 32_000  # tokens; thinking counts against `max_tokens` and must not eat up the reply
MUTE = 10  # times `read_seconds`: how long a server may do nothing but ping, as it does while a model thinks
_THINKING = re.compile(r"thinking|signature", re.IGNORECASE)
_STREAMS = ("text/event-stream", "application/vnd.amazon.eventstream")


@dataclass(frozen=True)
class AnthropicModel:
    """`name` as the platform knows it. Raises UsageError for an effort that no model has."""

    name: str
    wishes: Wishes = field(default_factory=Wishes)
    read_seconds: float = 120.0  # without a byte; a server that thinks sends pings
    platform: Platform = "anthropic"
    refused: set[str] = field(
        default_factory=set, compare=False, repr=False
    )  # thinking it does not take back

    def __post_init__(self) -> None:
        refuse_unknown_effort(self.wishes.effort)

    @property
    def takes(self) -> frozenset[str]:
        """The fields of `Wishes` that the model of this name has a use for."""
        has = {"stop", "cache", "tools", *(["effort"] if names.effort_of(self.name, "low") else [])}
        return frozenset(has if thinks(self.name) else has | {"temperature"}) - {*self.ignored()}

    @property
    def spec(self) -> str:
        return f"{self.platform}/{self.name}"

    @property
    def context_tokens(self) -> int | None:
        return names.context_tokens(self.name)

    def ignored(self) -> tuple[str, ...]:
        """The names of wishes that are set and that this model can't be told."""
        told = _told(self)
        wishes = ("effort", "temperature", "stop")
        return tuple(wish for wish in wishes if getattr(told, wish) != getattr(self.wishes, wish))

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """One streamed attempt; see `llm.model.Model`. Raises UsageError for an image or PDF that is not taken."""
        refuse_over(request, media_limits(self.platform, self.context_tokens), self.spec)
        received = Received(request.tools)
        prompt = prompt_of(request, self.wishes.cache, self.spec, self.refused)
        for piece in self._pieces(request, prompt, received):
            if piece:
                on_text(piece)
        reply = received.reply(request, self.platform, self.spec, prompt.prefix)
        if not received.ended or (received.garbled and reply.stop == "end"):
            raise Retryable(
                "the reply broke off: the server ended it half way", usage=received.usage(request)
            )
        return reply

    def _pieces(self, request: Request, prompt: Prompt, received: Received) -> Iterator[str]:
        """The text of the reply, as it comes. A generator, so that what `on_text` raises is not taken for a
        failure of the server."""
        door = door_of(self.platform, self.name)
        client = connect(door)
        import anthropic

        told, effort = _told(self), names.effort_of(self.name, self.wishes.effort)
        stop = (*told.stop, *request.stop)
        with (
            _in_plain_words(self, door, client, request, received, sent_back=prompt.sent_back),
            client.messages.create(
                stream=True,
                model=self.name,
                system=prompt.system or anthropic.omit,
                tools=prompt.tools or anthropic.omit,
                messages=prompt.messages,
                max_tokens=request.max_output_tokens + (THINKING_ROOM if thinks(self.name) else 0),
                thinking={"type": "adaptive"} if thinks(self.name) else anthropic.omit,
                output_config={"effort": effort} if effort else anthropic.omit,
                stop_sequences=stop or anthropic.omit,
                # the SDK has no parameter for it any more, since current models take none
                extra_body=None if told.temperature is None else {"temperature": told.temperature},
                timeout=anthropic.Timeout(self.read_seconds, connect=CONNECT_SECONDS),
            ) as events,
        ):
            kind = events.response.headers.get("content-type", _STREAMS[0])
            if not kind.startswith(_STREAMS):
                raise anthropic.AnthropicError(
                    f"it answers with {kind.partition(';')[0]}, no stream of events"
                )
            with ended_when_mute(events.response, received, MUTE * self.read_seconds):
                try:
                    for event in events:
                        yield received.take(event)
                except (AttributeError, TypeError) as error:
                    raise anthropic.AnthropicError(f"an event is not as it should be: {error}") from error
                except clouds.stream_errors(door) as error:
                    raise broken_stream(error, self.read_seconds, received.usage(request)) from error


def count_tokens(model: AnthropicModel, request: Request) -> int | None:
    """How many tokens the input of `request` is, by the server's count; None where it does not count. Raises
    ModelError when it can't be asked."""
    door = door_of(model.platform, model.name)
    if door == "bedrock":
        return None
    client = connect(door)
    import anthropic

    prompt = prompt_of(request, model.wishes.cache, model.spec, model.refused)
    try:
        with _in_plain_words(model, door, client, request, Received()):
            counted = client.messages.count_tokens(
                model=model.name,
                system=prompt.system or anthropic.omit,
                tools=prompt.tools or anthropic.omit,
                messages=prompt.messages,
                thinking={"type": "adaptive"} if thinks(model.name) else anthropic.omit,
                timeout=anthropic.Timeout(model.read_seconds, connect=CONNECT_SECONDS),
            )
    except ModelError as error:
        cause = error.__cause__
        if isinstance(cause, anthropic.APIStatusError) and cause.status_code in {400, 404, 405, 501}:
            return None
        raise
    tokens = getattr(counted, "input_tokens", None)
    return tokens if isinstance(tokens, int) else None


@contextmanager
def _in_plain_words(
    model: AnthropicModel,
    door: Door,
    client: Client,
    request: Request,
    received: Received,
    *,
    sent_back: frozenset[str] = frozenset(),
) -> Iterator[None]:
    """Turn whatever the SDK and the libraries below it raise into a ModelError. `sent_back` is that of the prompt."""
    import anthropic
    import httpx2

    try:
        yield
    except anthropic.APIStatusError as error:
        if sent_back and error.status_code == 400 and _THINKING.search(str(error)):
            model.refused.update(sent_back)  # another account's, say: the text says enough
            raise Retryable(
                f"{model.spec} does not take its own thinking back: going on without", retry_after=0
            ) from error
        secrets, usage = secrets_of(client, error.request), received.usage(request)
        if door == "anthropic":
            failed = rejected(error, model.spec, usage, secrets)
        else:
            failed = clouds.cloud_rejected(door, error, model.spec, usage, secrets)
        raise with_attached(failed, request) from error
    except anthropic.APIConnectionError as error:
        raise no_connection(error, model.read_seconds, secrets_of(client, error.request)) from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise broken_stream(error, model.read_seconds, received.usage(request)) from error
    except (anthropic.CredentialsError, anthropic.WorkloadIdentityError) as error:
        raise no_key(str(error)) from error
    except anthropic.AnthropicError as error:
        raise unusable(error, model.spec, secrets_of(client)) from error
    except clouds.library_errors(door) as error:
        raise clouds.no_credentials(door, error) from error
    except ValueError as error:  # a name of which no address can be made
        raise ModelError(f"no request can be made for {model.spec} ({error})") from error


def _told(model: AnthropicModel) -> Wishes:
    """What of `model.wishes` it can be told."""
    wishes = model.wishes
    return replace(
        wishes,
        effort=names.effort_of(model.name, wishes.effort),
        temperature=None if thinks(model.name) else wishes.temperature,
        stop=tuple(text for text in wishes.stop if text.strip()),  # the API rejects blank ones
    )
