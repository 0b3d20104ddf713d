"""Claude, through the `anthropic` package: Anthropic's own API, Amazon Bedrock, Google Vertex AI.

The import of the package takes more than a second of CPU time (3,300 modules), so it runs in a thread while the main
thread waits for git and reads files, after the connection is opened (see `AnthropicBackend.preload`).
"""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any, Literal, cast

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm import catalog
from repoagent.llm.catalog import refuse_unknown_effort, thinks
from repoagent.llm.conversation import observation_text
from repoagent.llm.media import MediaLimits, refuse_over
from repoagent.llm.model import (
    Blocks,
    Message,
    Model,
    OnText,
    Part,
    Reply,
    Request,
    Retryable,
    Usage,
    Wishes,
    wire_text,
)
from repoagent.llm.providers import anthropic_clouds as clouds
from repoagent.llm.providers.anthropic_clouds import Api, api_of
from repoagent.llm.providers.anthropic_stream import StreamedReply, stop_when_silent
from repoagent.llm.providers.errors import (
    CONNECT_SECONDS,
    MODEL_ADVICE,
    STATUS_OF,
    Rejection,
    brief,
    broken_stream,
    causes,
    in_background,
    new_http_client,
    open_early,
    unreachable,
    unusable_key,
    with_attached,
    without_gc,
)
from repoagent.llm.registry import PROVIDERS, Backend, Diagnosis, ModelOptions, Status, not_installed

if TYPE_CHECKING:
    import anthropic
    import httpx2
    from anthropic import Anthropic
    from anthropic.types import (
        CacheControlEphemeralParam,
        DocumentBlockParam,
        ImageBlockParam,
        MessageParam,
        TextBlockParam,
        ToolParam,
        ToolResultBlockParam,
    )

    from repoagent.config.settings import Settings
    from repoagent.llm.media import Media

    Block = TextBlockParam | ImageBlockParam | DocumentBlockParam | ToolResultBlockParam
    Client = Anthropic | clouds.CloudClient

Platform = Literal["anthropic", "bedrock", "vertex"]

BREAKPOINTS = 4  # of the prompt cache, in one request
THINKING_TOKENS = 32_000  # thinking counts against `max_tokens` and must not use up the reply
MUTE = 10  # times `read_seconds`: how long a server may only ping, as it does while a model thinks
_LONG_WINDOW = 1_000_000  # tokens; with such a window more images and pages fit into one request
_TITLE = 200  # characters
# As of platform.claude.com in 2026, "Vision", "PDF support" and "API overview", and the lower limits of the clouds on a
# request. The size of an image counts in base64 and in units of 1,024.
_IMAGE_BYTES = {"anthropic": 10 * 1024 * 1024, "bedrock": 5 * 1024 * 1024, "vertex": 5 * 1024 * 1024}
_REQUEST_BYTES = {"anthropic": 32_000_000, "bedrock": 20_000_000, "vertex": 30_000_000}


def media_limits(platform: Platform, context_tokens: int | None) -> MediaLimits:
    """What the models of a platform take at once, by the window of the model."""
    is_long = context_tokens is None or context_tokens >= _LONG_WINDOW
    return MediaLimits(
        image_bytes=_IMAGE_BYTES[platform],
        request_bytes=_REQUEST_BYTES[platform],
        images=600 if is_long else 100,
        side=8000,
        many=20,
        many_side=2000,
        pages=600 if is_long else 100,
    )


@dataclass(frozen=True)
class Prompt:
    """What is sent. `prefix` is a hash of all of it but the cache breakpoints; `sent_back` has the prefixes of the
    replies whose thinking is included."""

    system: list[TextBlockParam]
    tools: list[ToolParam]
    messages: list[MessageParam]
    prefix: str
    sent_back: frozenset[str]


def prompt_of(request: Request, cache: str, spec: str = "", refused: Collection[str] = ()) -> Prompt:
    """The request for the model `spec`, with the last four of its cache breakpoints: the longest prefix is worth most.

    A reply is sent as its blocks where they are still valid. A signature is bound to the model and to everything before
    it, so an edited or omitted turn makes text of all later thinking; so does a prefix in `refused`.
    """
    system = _text_blocks(request.system, cache)
    tools: list[ToolParam] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in request.tools
    ]
    digest = sha256(json.dumps([_uncached(system), tools]).encode())
    messages: list[MessageParam] = []
    blocks: list[Any] = [*system]
    sent_back: set[str] = set()
    calls: list[str] = []  # that the next message answers
    for message, following in zip(request.messages, (*request.messages[1:], None), strict=True):
        reply = message.blocks
        is_valid = (
            reply is not None
            and reply.spec == spec
            and reply.prefix in {"", digest.hexdigest()} - set(refused)
            and _is_answered(reply, following, bool(tools))
        )
        if reply is not None and is_valid:
            calls = [call for call, _ in reply.calls]
            content = [cast("Block", {**item}) for item in reply.items]
            sent_back.update({reply.prefix} - {""})
        else:
            content = _content(message.parts, cache, calls)
            calls = []
        blocks += content
        digest.update(json.dumps([message.role, _uncached(content)]).encode())
        messages.append(cast("MessageParam", {"role": message.role, "content": content}))
    for block in [block for block in blocks if "cache_control" in block][:-BREAKPOINTS]:
        del block["cache_control"]
    return Prompt(system, tools, messages, digest.hexdigest(), frozenset(sent_back))


def _is_answered(blocks: Blocks, following: Message | None, has_tools: bool) -> bool:
    """Whether each call has its result in the next message; the API rejects a call without."""
    calls = [call for call, _ in blocks.calls]
    answers = [part.answers for part in following.parts if part.answers] if following else []
    return not calls or (has_tools and sorted(calls) == sorted(answers))


def _uncached(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


def _content(parts: tuple[Part, ...], cache: str, calls: Collection[str]) -> list[Block]:
    """The blocks of a message: the results of `calls` first, then text, each with its attachment after it."""
    results = [part for part in parts if part.answers in calls]
    content: list[Block] = []
    for part in results:
        result: list[TextBlockParam | ImageBlockParam | DocumentBlockParam] = [
            {"type": "text", "text": wire_text(observation_text(part.text))}
        ]
        if part.media is not None:
            result.append(media_block(part.media))
        content.append(
            {
                "type": "tool_result",
                "tool_use_id": part.answers,
                "content": result,
                "is_error": part.failed,
            }
        )
    texts: list[Part] = []
    for part in parts:
        if part in results:
            continue
        if part.media is None:
            texts.append(part)
            continue
        content += _text_blocks((*texts, Part(part.text)), cache)
        block = media_block(part.media)
        if part.cache and cache != "off":
            block["cache_control"] = _cache_control(cache)
        content.append(block)
        texts = []
    content += _text_blocks(texts, cache)
    if results and cache != "off" and parts[-1].cache:  # the last part may not be the last block
        content[-1]["cache_control"] = _cache_control(cache)
    return content


def media_block(media: Media) -> ImageBlockParam | DocumentBlockParam:
    """The block that contains `media`."""
    data = b64encode(media.data).decode("ascii")
    if media.type != "application/pdf":
        return {"type": "image", "source": {"type": "base64", "media_type": media.type, "data": data}}
    block: DocumentBlockParam = {
        "type": "document",
        "source": {"type": "base64", "media_type": media.type, "data": data},
    }
    if media.name:
        block["title"] = wire_text(media.name)[:_TITLE]
    return block


def _cache_control(cache: str) -> CacheControlEphemeralParam:
    return {"type": "ephemeral", "ttl": "1h"} if cache == "1h" else {"type": "ephemeral"}


def _text_blocks(parts: Sequence[Part], cache: str) -> list[TextBlockParam]:
    """Text blocks; the API rejects blank ones, so those join their neighbor."""
    blocks: list[TextBlockParam] = []
    blank = ""
    for part in parts:
        text = blank + wire_text(part.text)
        blank = ""
        if text.strip():
            blocks.append({"type": "text", "text": text})
        elif blocks:
            blocks[-1]["text"] += text
        else:
            blank = text
        if blocks and part.cache and cache != "off":
            blocks[-1]["cache_control"] = _cache_control(cache)
    return blocks


# Variables of Anthropic's that many users set and that are not credentials.
_NO_CREDENTIALS = frozenset(
    f"ANTHROPIC_{name}"
    for name in (
        *("BASE_URL", "BEDROCK_BASE_URL", "BEDROCK_MANTLE_BASE_URL", "VERTEX_BASE_URL", "CUSTOM_HEADERS"),
        *("LOG", "MODEL", "SMALL_FAST_MODEL", "VERTEX_PROJECT_ID", "BETAS"),
    )
)
_PROFILES = Path(".config", "anthropic")  # below the home folder; ANTHROPIC_CONFIG_DIR moves it


def may_have_credentials() -> bool:
    """Whether the package may find a key, a token, a profile or an identity. False only where it finds none: an
    unknown variable of its family counts, and so does a home folder that cannot be determined."""
    for name, value in os.environ.items():
        if value and name.startswith("ANTHROPIC_") and name not in _NO_CREDENTIALS:
            return True
    try:
        folder = Path.home() / _PROFILES
        return any(os.path.lexists(folder / name) for name in ("active_config", "configs"))
    except RuntimeError:
        return True


def has_profile() -> bool:
    """Whether the package's default profile exists."""
    try:
        folder = Path.home() / _PROFILES
        active = folder / "active_config"
        name = active.read_text(encoding="utf-8").strip() if active.exists() else ""
    except (OSError, RuntimeError, UnicodeDecodeError):
        return False
    return (folder / "configs" / f"{name or 'default'}.json").is_file()


_CLIENT_VARIABLES = ("ANTHROPIC_", "AWS_", "CLOUD_ML_", "GOOGLE_")
_lock = threading.Lock()
_clients: dict[tuple[Api, frozenset[tuple[str, str]]], Client] = {}


def connect(api: Api = "anthropic") -> Client:
    """The client for the environment as it is now, made once. Raises ModelError when there is no key."""
    settings = frozenset(item for item in os.environ.items() if item[0].startswith(_CLIENT_VARIABLES))
    with _lock:  # held by the thread of `preload` until it has imported
        if (api, settings) not in _clients:
            with without_gc():
                _clients[api, settings] = _new_client(api)
        return _clients[api, settings]


def _new_client(api: Api) -> Client:
    if api != "anthropic":
        if sentence := clouds.missing("bedrock" if api == "mantle" else api):
            raise ModelError(sentence)
        http = new_http_client()
        client = clouds.new_client(api, http)
        open_early(http, str(client.base_url))
        return client
    if not may_have_credentials():
        raise _no_key()  # before the import: a hook or an edit without a key should fail quickly
    http = new_http_client()
    address = os.environ.get("ANTHROPIC_BASE_URL")
    if address is None and (os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        address = "https://api.anthropic.com"
    if address is not None:  # else a profile may set it, which only the SDK reads
        open_early(http, address)
    import anthropic
    import httpx2

    try:
        first_party = anthropic.Anthropic(http_client=http, max_retries=0)  # `client.complete` retries
    except httpx2.InvalidURL as error:
        raise ModelError(
            f"ANTHROPIC_BASE_URL is not a URL ({error}): set it to one like https://host, or unset it"
        ) from error
    except anthropic.AnthropicError as error:  # an unreadable profile
        raise _no_key(str(error)) from error
    if not any((first_party.api_key, first_party.auth_token, first_party.credentials)):
        raise _no_key()
    if any(map(unusable_key, secrets_of(first_party))):
        raise _no_key(
            "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN contains a line break or another invalid character"
        )
    return first_party


def _no_key(detail: str = "") -> ModelError:
    return ModelError(f"no key for Anthropic's models{f' ({detail})' if detail else ''}. {MODEL_ADVICE}")


def secrets_of(client: Client, request: httpx2.Request | None = None) -> list[str]:
    """What no message may contain: the keys of `client`, and the credentials and signatures of `request`."""
    sent = request.headers if request is not None else {}
    headers = [sent.get(name, "").strip() for name in ("x-api-key", "x-amz-security-token", "authorization")]
    keys = [getattr(client, name, None) for name in ("api_key", "auth_token")]
    return [
        secret
        for secret in (*keys, *headers, headers[-1].removeprefix("Bearer "))
        if isinstance(secret, str) and secret
    ]


_THINKING = re.compile(r"thinking|signature", re.IGNORECASE)
_STREAMS = ("text/event-stream", "application/vnd.amazon.eventstream")
_TOO_LONG = ("prompt is too long", "context limit", "context window", "maximum context")
_SPENT = ("contract_spend_limit_reached", "enforced_spend_limit_reached")  # a 429 that waiting does not end


@dataclass(frozen=True)
class AnthropicModel:
    """`name` as the platform knows it. `refused` has prefixes whose thinking the server rejects. Raises UsageError for
    an effort that no model has."""

    name: str
    wishes: Wishes = field(default_factory=Wishes)
    read_seconds: float = 120.0  # without a byte; a server that thinks sends pings
    platform: Platform = "anthropic"
    refused: set[str] = field(default_factory=set, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_unknown_effort(self.wishes.effort)

    @property
    def takes(self) -> frozenset[str]:
        names = {"stop", "cache", "tools", *(["effort"] if catalog.effort_of(self.name, "low") else [])}
        return frozenset(names if thinks(self.name) else names | {"temperature"}) - {*self.ignored()}

    @property
    def spec(self) -> str:
        return f"{self.platform}/{self.name}"

    @property
    def context_tokens(self) -> int | None:
        return catalog.context_tokens(self.name)

    def ignored(self) -> tuple[str, ...]:
        """The names of wishes that are set and that this model does not support."""
        supported, names = self._supported_wishes(), ("effort", "temperature", "stop")
        return tuple(name for name in names if getattr(supported, name) != getattr(self.wishes, name))

    def _supported_wishes(self) -> Wishes:
        return replace(
            self.wishes,
            effort=catalog.effort_of(self.name, self.wishes.effort),
            temperature=None if thinks(self.name) else self.wishes.temperature,
            stop=tuple(text for text in self.wishes.stop if text.strip()),  # the API rejects blank ones
        )

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """One streamed attempt; see `llm.model.Model`. Raises UsageError for an image or PDF that is not taken."""
        refuse_over(request, media_limits(self.platform, self.context_tokens), self.spec)
        received = StreamedReply(request.tools)
        prompt = prompt_of(request, self.wishes.cache, self.spec, self.refused)
        for piece in self._stream(request, prompt, received):
            if piece:
                on_text(piece)
        reply = received.reply(request, self.platform, self.spec, prompt.prefix)
        if not received.ended or (received.garbled and reply.stop == "end"):
            raise Retryable("the reply broke off: the server ended it early", usage=received.usage(request))
        return reply

    def _stream(self, request: Request, prompt: Prompt, received: StreamedReply) -> Iterator[str]:
        """The text of the reply. A generator, so that an exception of `on_text` does not count as the server's."""
        api = api_of(self.platform, self.name)
        client = connect(api)
        import anthropic

        wishes = self._supported_wishes()
        with (
            self._errors(api, client, request, received, prompt.sent_back),
            client.messages.create(
                stream=True,
                max_tokens=request.max_output_tokens + (THINKING_TOKENS if thinks(self.name) else 0),
                output_config={"effort": cast("Any", wishes.effort)} if wishes.effort else anthropic.omit,
                stop_sequences=(*wishes.stop, *request.stop) or anthropic.omit,
                # the SDK has no parameter for it, since current models take none
                extra_body=None if wishes.temperature is None else {"temperature": wishes.temperature},
                **self._arguments(prompt),
            ) as events,
        ):
            kind = events.response.headers.get("content-type", _STREAMS[0])
            if not kind.startswith(_STREAMS):
                raise anthropic.AnthropicError(
                    f"it answered with {kind.partition(';')[0]} instead of a stream of events"
                )
            with stop_when_silent(events.response, received, MUTE * self.read_seconds):
                try:
                    for event in events:
                        yield received.take(event)
                except (AttributeError, TypeError) as error:
                    raise anthropic.AnthropicError(f"malformed event: {error}") from error
                except clouds.stream_errors(api) as error:
                    raise broken_stream(error, self.read_seconds, received.usage(request)) from error

    def count_tokens(self, request: Request) -> int | None:
        """The number of input tokens of `request` by the server's count; None where it does not count. Raises
        ModelError when the server cannot be reached."""
        api = api_of(self.platform, self.name)
        if api == "bedrock":
            return None
        client = connect(api)
        import anthropic

        prompt = prompt_of(request, self.wishes.cache, self.spec, self.refused)
        try:
            with self._errors(api, client, request, StreamedReply()):
                count = client.messages.count_tokens(**self._arguments(prompt))
        except ModelError as error:
            cause = error.__cause__
            if isinstance(cause, anthropic.APIStatusError) and cause.status_code in {400, 404, 405, 501}:
                return None
            raise
        tokens = getattr(count, "input_tokens", None)
        return tokens if isinstance(tokens, int) else None

    def _arguments(self, prompt: Prompt) -> dict[str, Any]:
        import anthropic

        return {
            "model": self.name,
            "system": prompt.system or anthropic.omit,
            "tools": prompt.tools or anthropic.omit,
            "messages": prompt.messages,
            "thinking": {"type": "adaptive"} if thinks(self.name) else anthropic.omit,
            "timeout": anthropic.Timeout(self.read_seconds, connect=CONNECT_SECONDS),
        }

    @contextmanager
    def _errors(
        self,
        api: Api,
        client: Client,
        request: Request,
        received: StreamedReply,
        sent_back: frozenset[str] = frozenset(),
    ) -> Iterator[None]:
        """Turn what the SDK and the libraries below it raise into a ModelError. `sent_back` is that of the prompt."""
        import anthropic
        import httpx2

        try:
            yield
        except anthropic.APIStatusError as error:
            if sent_back and error.status_code == 400 and _THINKING.search(str(error)):
                self.refused.update(sent_back)  # of another account, say: the text is enough
                raise Retryable(
                    f"{self.spec} rejects its own thinking: continuing without it", retry_after=0
                ) from error
            usage, secrets = received.usage(request), secrets_of(client, error.request)
            cloud_error = None
            if api != "anthropic":
                cloud_error = clouds.cloud_rejected(api, error, self.spec, usage, secrets)
            raise with_attached(
                cloud_error or _rejection(error, self.spec, usage, secrets).error(), request
            ) from error
        except anthropic.APIConnectionError as error:
            host = error.request.url.host or str(error.request.url)
            secrets = secrets_of(client, error.request)
            settings = "ANTHROPIC_BASE_URL and the key"
            raise unreachable(error, host, self.read_seconds, secrets, settings) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise broken_stream(error, self.read_seconds, received.usage(request)) from error
        except (anthropic.CredentialsError, anthropic.WorkloadIdentityError) as error:
            raise _no_key(str(error)) from error
        except anthropic.AnthropicError as error:
            message = brief(str(error), secrets_of(client))
            raise ModelError(
                f"the server for {self.spec} does not speak the Messages API ({message})"
            ) from error
        except clouds.library_errors(api) as error:
            raise clouds.no_credentials(api, error) from error
        except ValueError as error:  # a name that does not fit into an address
            raise ModelError(f"cannot build a request for {self.spec} ({error})") from error


def _rejection(error: anthropic.APIStatusError, spec: str, usage: Usage, secrets: list[str]) -> Rejection:
    """For a status of 400 and above, or an error event in a stream; `usage` is what the attempt has cost."""
    in_stream = error.status_code < 400
    status = STATUS_OF.get(error.type or "", 500) if in_stream else error.status_code
    message = brief(error.api_message or error.message, secrets)
    return Rejection(
        status,
        message,
        error.request.url.host,
        spec,
        key_advice="set a valid one as ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
        name_advice=(
            "check the name, for example anthropic/claude-sonnet-5-5, and ANTHROPIC_BASE_URL if you set it"
        ),
        too_long=status == 400 and any(mark in message.lower() for mark in _TOO_LONG),
        spent=error.error_code in _SPENT,
        headers={} if in_stream else error.response.headers,
        usage=usage,
    )


_KEY_VARIABLES = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID"),
)
_CHECK_SECONDS = 5.0


class AnthropicBackend(Backend):
    """Claude, of Anthropic's own API and of each cloud that has it."""

    @property
    def platform(self) -> Platform:
        return cast("Platform", self.name)

    def open_model(self, model: str, options: ModelOptions) -> Model:
        return AnthropicModel(model, options.wishes, options.seconds, self.platform)

    def preload(self, model: str) -> None:
        api = api_of(self.platform, model)
        in_background(lambda: connect(api), "anthropic-preload")

    def has_credentials(self) -> bool:
        return bool(self._key_origin()) or has_profile()

    def check(self, settings: Settings, model: str) -> Status:
        """A cloud is not contacted: that needs its libraries, and its credentials may need the user."""
        origin = self._key_origin()
        if self.platform != "anthropic":
            problem = "" if origin else clouds.missing(self.platform) or "no credentials in the environment"
            return Status(origin, problem, tried=False)
        key, token = os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("ANTHROPIC_AUTH_TOKEN")
        if not (key or token):
            problem = "" if may_have_credentials() else "no key: set ANTHROPIC_API_KEY"
            return Status(origin, problem, tried=False)
        base_url = os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
        return Status(origin, _why_unreachable(base_url, key, token))

    def diagnose(self, settings: Settings, model: str) -> Diagnosis:
        if not PROVIDERS[self.name].is_installed:
            return not_installed(PROVIDERS[self.name])
        if origin := self._key_origin():
            return Diagnosis(f"key in the environment variable {origin.removeprefix('environment ')}")
        if self.platform == "anthropic" and not (Path.home() / _PROFILES).is_dir():
            return Diagnosis("no key", "set ANTHROPIC_API_KEY")
        return Diagnosis("credentials of its own tools, not checked")

    def media_limits(self, settings: Settings, context: int | None) -> MediaLimits:
        return media_limits(self.platform, context)

    def _key_origin(self) -> str:
        """Where the credentials most likely come from, "" where there is no evidence."""
        names = clouds.CREDENTIAL_VARIABLES.get(self.platform, _KEY_VARIABLES)
        variable = next((name for name in names if os.environ.get(name)), "")
        return f"environment {variable}" if variable else ""


def _why_unreachable(base_url: str, key: str | None, token: str | None) -> str:
    import httpx2

    headers = {"anthropic-version": "2023-06-01"}
    headers |= {"x-api-key": key} if key else {"authorization": f"Bearer {token}"}
    try:
        with new_http_client() as http:
            url = f"{base_url.rstrip('/')}/v1/models?limit=1"
            response = http.get(url, headers=headers, timeout=_CHECK_SECONDS)
    except (ModelError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        host = base_url.partition("://")[2].partition("/")[0] or base_url
        cause = list(causes(error))[-1]
        reason = getattr(cause, "strerror", None) or cause
        return brief(f"cannot reach {host} ({reason})", [secret for secret in (key, token) if secret])
    if response.status_code in {401, 403}:
        return f"{response.url.host} rejected the key"
    # Gateways need not list their models: any other response is enough.
    failing = response.status_code >= 500 and response.status_code != 501
    return f"{response.url.host} fails ({response.status_code})" if failing else ""
