"""Claude through the `anthropic` package: Anthropic's API, Amazon Bedrock, Google Vertex AI.

The import of the package takes more than a second of CPU time (3,300 modules), so it runs in a background thread after
the connection is opened, while the main thread waits for git and reads files (see `AnthropicBackend.preload`).
"""

from __future__ import annotations

import gc
import json
import os
import re
import threading
from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm import catalog
from repoagent.llm import model as models
from repoagent.llm.conversation import observation_text
from repoagent.llm.media import refuse_over
from repoagent.llm.model import Part, Reply, Request, Retryable, Usage, Wishes
from repoagent.llm.providers import anthropic_clouds as clouds
from repoagent.llm.providers import errors, http
from repoagent.llm.providers.anthropic_stream import StreamedReply
from repoagent.llm.providers.endpoints import display_address
from repoagent.llm.registry import Backend, ModelOptions, ModelStatus, missing_extra

if TYPE_CHECKING:
    import httpx2
    from anthropic import Anthropic, APIStatusError

    from repoagent.config.settings import Settings
    from repoagent.llm.model import Model, OnText

    Client = Anthropic | clouds.CloudClient

_TITLE = 200  # characters


@dataclass(frozen=True)
class AnthropicPrompt:
    """The content of a request. `prefix` is a hash of it without cache breakpoints; `sent_back` has the prefixes of the
    replies whose thinking is included."""

    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    prefix: str
    sent_back: frozenset[str]


def prompt_of(request: Request, cache: str, spec: str = "", refused: Collection[str] = ()) -> AnthropicPrompt:
    """Convert `request` for the model `spec`.

    Only the last four cache breakpoints remain, since the longest prefixes save the most. A reply is sent as its blocks
    while they are valid. A signature is bound to the model and to everything before it, so after an edited or omitted
    turn, later replies are sent as text. So are those with a prefix in `refused`.
    """
    mark: dict[str, Any] = {"cache_control": {"type": "ephemeral"} | ({"ttl": "1h"} if cache == "1h" else {})}
    mark = {} if cache == "off" else mark
    system = _blocks(request.system, mark)
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in request.tools
    ]
    digest = sha256(json.dumps([_uncached(system), tools]).encode())
    messages: list[dict[str, Any]] = []
    sent_back: set[str] = set()
    valid = models.with_results(
        request, lambda reply: reply.spec == spec and reply.prefix in {"", digest.hexdigest()} - set(refused)
    )
    for message, blocks, results in valid:
        if blocks is not None:
            content = [{**item} for item in blocks.items]
            sent_back.update({blocks.prefix} - {""})
        else:
            content = []
            for part in results:
                inner = [{"type": "text", "text": models.wire_text(observation_text(part.text))}]
                inner += [_media_block(part)] if part.media else []
                result = {"type": "tool_result", "tool_use_id": part.answers, "content": inner}
                content.append({**result, "is_error": part.failed})
            content += _blocks([part for part in message.parts if part not in results], mark)
            if results and message.parts[-1].cache:  # the last part may not be the last block
                content[-1].update(mark)
        digest.update(json.dumps([message.role, _uncached(content)]).encode())
        messages.append({"role": message.role, "content": content})
    all_blocks = [*system, *(block for message in messages for block in message["content"])]
    for block in [block for block in all_blocks if "cache_control" in block][: -errors.BREAKPOINTS]:
        del block["cache_control"]
    return AnthropicPrompt(system, tools, messages, digest.hexdigest(), frozenset(sent_back))


def _blocks(parts: Sequence[Part], mark: dict[str, Any]) -> list[dict[str, Any]]:
    """Text and media, with the cache breakpoint `mark` where a part has one."""
    blocks = []
    for part in models.non_blank(parts):
        block: dict[str, Any] = _media_block(part) if part.media else {"type": "text", "text": part.text}
        blocks.append(block | mark if part.cache else block)
    return blocks


def _media_block(part: Part) -> dict[str, Any]:
    assert part.media is not None
    data = b64encode(part.media.data).decode("ascii")
    source = {"type": "base64", "media_type": part.media.type, "data": data}
    if part.media.is_image:
        return {"type": "image", "source": source}
    title = {"title": models.wire_text(part.media.name)[:_TITLE]} if part.media.name else {}
    return {"type": "document", "source": source, **title}


def _uncached(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


_KEY_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_FEDERATION_RULE_ID",
    "ANTHROPIC_CONFIG_DIR",
)


def may_have_credentials() -> bool:
    """Whether the SDK is likely to find a key, a token, a profile or an identity."""
    if any(map(os.environ.get, _KEY_VARIABLES)):
        return True
    folder = Path(os.environ.get("HOME", "/"), ".config", "anthropic")
    return any(os.path.lexists(folder / name) for name in ("active_config", "configs"))


_CLIENT_VARIABLES = ("ANTHROPIC_", "AWS_", "CLOUD_ML_", "GOOGLE_")
_lock = threading.Lock()
_clients: dict[tuple[str, frozenset[tuple[str, str]]], Client] = {}


def connect(platform: str = "anthropic") -> Client:
    """The client for the current environment, created once. Raises ModelError for missing or wrong settings."""
    settings = frozenset(item for item in os.environ.items() if item[0].startswith(_CLIENT_VARIABLES))
    with _lock:  # the thread of `preload` holds it during the import
        if (platform, settings) not in _clients:
            # The import creates up to 150,000 permanent objects: scanning them takes a fifth of the time, and freeing
            # them at exit another half second.
            gc.disable()
            try:
                _clients[platform, settings] = _new_client(platform)
            finally:
                gc.freeze()
                gc.enable()
        return _clients[platform, settings]


def _new_client(platform: str) -> Client:
    client: Client
    if platform != "anthropic":
        if sentence := missing_extra(platform):
            raise ModelError(sentence)
        connection = http.new_http_client()
        client = clouds.new_client(platform, connection)
        http.open_early(connection, str(client.base_url))
    else:
        if not may_have_credentials():
            raise _no_key()  # before the slow import
        connection = http.new_http_client()
        address = os.environ.get("ANTHROPIC_BASE_URL")
        if address is None and any(map(os.environ.get, ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))):
            address = "https://api.anthropic.com"
        if address is not None:  # otherwise a profile may set it, which only the SDK reads
            http.open_early(connection, address)
        import anthropic
        import httpx2

        try:
            client = anthropic.Anthropic(http_client=connection, max_retries=0)  # `complete` retries
        except httpx2.InvalidURL as error:
            raise ModelError(
                f"ANTHROPIC_BASE_URL is not a URL ({error}): set it to one like https://host, or unset it"
            ) from error
        except anthropic.AnthropicError as error:  # an unreadable profile
            raise _no_key(str(error)) from error
        if not any((client.api_key, client.auth_token, client.credentials)):
            raise _no_key()
    if any(map(errors.unusable_key, secrets_of(client))):
        names = "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
        names = "AWS_BEARER_TOKEN_BEDROCK" if platform == "bedrock" else names
        raise ModelError(f"{names} contains a line break or another invalid character: set it again")
    return client


def _no_key(detail: str = "") -> ModelError:
    return ModelError(
        f"no key for Anthropic's models{f' ({detail})' if detail else ''}. {errors.MODEL_ADVICE}"
    )


def secrets_of(client: Client, request: httpx2.Request | None = None) -> list[str]:
    """Secrets to remove from messages: the keys of `client`, and the credentials and signatures of `request`."""
    sent = request.headers if request is not None else {}
    headers = [sent.get(name, "").strip() for name in ("x-api-key", "x-amz-security-token", "authorization")]
    keys = [getattr(client, name, None) for name in ("api_key", "auth_token")]
    secrets = [*keys, *headers, headers[-1].removeprefix("Bearer ")]
    return [secret for secret in secrets if isinstance(secret, str) and secret]


_THINKING = re.compile(r"thinking|signature", re.IGNORECASE)
_STREAMS = ("text/event-stream", "application/vnd.amazon.eventstream")
_ADVICE = {
    401: "set a valid one as ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
    404: "check the name, for example anthropic/claude-sonnet-5-5, and ANTHROPIC_BASE_URL if you set it",
}


@dataclass(frozen=True)
class AnthropicModel:
    """A Claude model.

    `name` is the platform's name for it. `refused` has the hashes of prompt prefixes for which the server rejected the
    thinking.
    """

    name: str
    wishes: Wishes = field(default_factory=Wishes)
    read_seconds: float = 120.0  # limit without any data; a server sends pings while the model thinks
    platform: str = "anthropic"
    refused: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def takes(self) -> frozenset[str]:
        optional = {"effort": catalog.has_effort(self.name), "temperature": not self._thinks}
        return frozenset({"cache", "tools", *(name for name, takes in optional.items() if takes)})

    @property
    def spec(self) -> str:
        return f"{self.platform}/{self.name}"

    @property
    def context_tokens(self) -> int | None:
        return catalog.context_tokens(self.name)

    @property
    def _thinks(self) -> bool:
        return catalog.thinks(self.name)

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """Make one attempt; see `llm.model.Model`. Raises UsageError for an image or PDF that is not accepted."""
        refuse_over(request, self.spec)
        received = StreamedReply(request.tools)
        prompt = prompt_of(request, self.wishes.cache, self.spec, self.refused)
        for piece in self._stream(request, prompt, received):
            if piece:
                on_text(piece)
        reply = received.reply(request, self.platform, self.spec, prompt.prefix)
        if not received.ended or (received.garbled and reply.stop == "end"):
            broken = errors.BAD_CALL if received.ended else errors.CLOSED_EARLY
            raise Retryable(broken, usage=received.usage(request))
        return reply

    def _stream(self, request: Request, prompt: AnthropicPrompt, received: StreamedReply) -> Iterator[str]:
        """The text of the reply. A generator, so that an exception of `on_text` is not treated as the server's."""
        client = connect(self.platform)
        import anthropic

        effort = self.wishes.effort if catalog.has_effort(self.name) else None
        temperature = self.wishes.temperature if request.temperature is None else request.temperature
        arguments: dict[str, Any] = {
            "stream": True,
            "max_tokens": request.max_output_tokens + (errors.THINKING_TOKENS if self._thinks else 0),
            "output_config": {"effort": effort} if effort else anthropic.omit,
            # the SDK has no parameter for it, since current models do not support it
            "extra_body": None if temperature is None or self._thinks else {"temperature": temperature},
            "model": self.name,
            "system": prompt.system or anthropic.omit,
            "tools": prompt.tools or anthropic.omit,
            "messages": prompt.messages,
            "thinking": {"type": "adaptive"} if self._thinks else anthropic.omit,
            "timeout": anthropic.Timeout(self.read_seconds, connect=http.CONNECT_SECONDS),
        }
        with (
            self._errors(client, request, received, prompt.sent_back),
            client.messages.create(**arguments) as events,
        ):
            kind = events.response.headers.get("content-type", _STREAMS[0])
            if not kind.startswith(_STREAMS):
                raise anthropic.AnthropicError(
                    f"it answered with {kind.partition(';')[0]} instead of an event stream"
                )
            try:
                for event in events:
                    yield received.take(event)
            except (AttributeError, TypeError) as error:
                raise anthropic.AnthropicError(f"malformed event: {error}") from error
            except clouds.stream_errors(self.platform) as error:
                raise errors.broken_stream(error, self.read_seconds, received.usage(request)) from error

    @contextmanager
    def _errors(
        self, client: Client, request: Request, received: StreamedReply, sent_back: frozenset[str]
    ) -> Iterator[None]:
        """Turn exceptions of the SDK and its libraries into a ModelError. `sent_back` is that of the prompt."""
        import anthropic
        import httpx2

        address = (
            "ANTHROPIC_BASE_URL" if self.platform == "anthropic" else clouds.CLOUDS[self.platform].address
        )
        try:
            yield
        except anthropic.APIStatusError as error:
            if sent_back and error.status_code == 400 and _THINKING.search(str(error)):
                self.refused.update(sent_back)  # from another account, for example; the text is sufficient
                raise Retryable(
                    f"{self.spec} rejected the thinking in its earlier replies: continuing without it",
                    retry_after=0,
                ) from error
            secrets = secrets_of(client, error.request)
            raise self._rejection(error, request, received.usage(request), secrets) from error
        except anthropic.APIConnectionError as error:
            host = error.request.url.host or str(error.request.url)
            secrets = secrets_of(client, error.request)
            raise errors.unreachable(
                error, host, self.read_seconds, secrets, f"{address} and the key"
            ) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise errors.broken_stream(error, self.read_seconds, received.usage(request)) from error
        except (anthropic.CredentialsError, anthropic.WorkloadIdentityError) as error:
            raise _no_key(str(error)) from error
        except anthropic.AnthropicError as error:
            message = errors.brief(str(error), secrets_of(client))
            raise ModelError(
                f"the server for {self.spec} does not speak the Messages API ({message}): check {address}"
            ) from error
        except clouds.library_errors(self.platform) as error:
            raise clouds.no_credentials(self.platform, error) from error
        except ValueError as error:  # a name that is invalid in a URL
            raise ModelError(f"cannot build a request for {self.spec} ({error}): check its name") from error

    def _rejection(
        self, error: APIStatusError, request: Request, usage: Usage, secrets: list[str]
    ) -> ModelError:
        """The error for a status of 400 and above, or for an error event in a stream."""
        headers = error.response.headers
        body = error.body if isinstance(error.body, dict | list) else error.message
        parsed = errors.parse_error(error.status_code, body, headers.get("x-amzn-errortype", ""))
        if self.platform != "anthropic" and parsed.meaning == 401:
            # the message about a signature quotes the request including its token
            parsed = replace(parsed, message=parsed.code or "401")
        return errors.rejection(
            parsed,
            host=error.request.url.host,
            spec=self.spec,
            advice=_ADVICE if self.platform == "anthropic" else clouds.CLOUDS[self.platform].remedies,
            headers=headers if error.status_code >= 400 else {},
            usage=usage,
            request=request,
            secrets=secrets,
        )


_CHECK_SECONDS = 5.0


class AnthropicBackend(Backend):
    """Opens and checks Claude models, on Anthropic's API and on cloud platforms."""

    def open_model(self, model: str, options: ModelOptions) -> Model:
        return AnthropicModel(model, options.wishes, options.seconds, self.name)

    def preload(self, model: str) -> None:
        http.in_background(lambda: connect(self.name), "anthropic-preload")

    def has_credentials(self) -> bool:
        return may_have_credentials()

    def check(self, settings: Settings, model: str, *, online: bool = True) -> ModelStatus:
        """Like `Backend.check`, but never contacts a cloud platform, since the user might have to log in first."""
        names = _KEY_VARIABLES if self.name == "anthropic" else clouds.CLOUDS[self.name].evidence
        variable = next((name for name in names if os.environ.get(name)), "")
        origin = f"environment {variable}" if variable else ""  # the most likely one
        if self.name != "anthropic":
            problem = missing_extra(self.name)
            if not (origin or model):  # the credentials for a model may come from the cloud's own tools
                problem = problem or "no credentials in the environment"
            return ModelStatus(origin, problem, tried=False)
        key, token = os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("ANTHROPIC_AUTH_TOKEN")
        if not (online and (key or token)):
            problem = "" if may_have_credentials() else "no key: set ANTHROPIC_API_KEY"
            return ModelStatus(origin, problem, tried=False)
        import httpx2

        base_url = os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
        secrets = {"x-api-key": key} if key else {"authorization": f"Bearer {token}"}
        headers = {"anthropic-version": "2023-06-01", **secrets}
        try:
            with http.new_http_client() as connection:
                url = f"{base_url.rstrip('/')}/v1/models?limit=1"
                response = connection.get(url, headers=headers, timeout=_CHECK_SECONDS)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            host, known = display_address(base_url), [text for text in (key, token) if text]
            return ModelStatus(
                origin, str(errors.unreachable(error, host, _CHECK_SECONDS, known, "ANTHROPIC_BASE_URL"))
            )
        code, problem = response.status_code, ""
        if code in {401, 403}:
            problem = f"{response.url.host} rejected the key: {_ADVICE[401]}"
        elif code >= 500 and code != 501:  # a gateway may not list its models
            problem = f"{response.url.host} failed ({code})"
        return ModelStatus(origin, problem)
