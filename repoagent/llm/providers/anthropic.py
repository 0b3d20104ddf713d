"""Images and PDFs as blocks of the Messages API, and how much of them it takes.

A request as the blocks of the Messages API: text, cache breakpoints, images and PDFs; thinking and calls of tools
that are sent back.

Whether there is anything that the `anthropic` package could take for credentials, said without importing it.

The package looks for a key or a token in the environment, then for a profile, an identity of the workload, and last for
a file of its own command in a folder of settings. Only where there is no trace of any of these is the answer certain,
so a variable of its family that is not known here counts as one.

The clients of the `anthropic` package: made once, and early, in a thread.

Its import takes about a second of CPU time (3,300 modules, all loaded by the package's `__init__`, so no public
name comes without them). It starts first, while the main thread waits for git and reads files; and before it the
connection is opened, whose handshakes are over when it is done.

Claude, through the `anthropic` package: Anthropic's own API, Amazon Bedrock, Google Vertex AI.

The import of the package takes more than a second of CPU time: see `client.preload`.

Whether Claude can be reached, without a call that is paid for.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
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
    Wishes,
    wire_text,
)
from repoagent.llm.provider import PROVIDERS, Backend, Diagnosis, ModelOptions, Status, not_installed
from repoagent.llm.providers import anthropic_clouds as clouds
from repoagent.llm.providers.anthropic_clouds import CREDENTIAL_VARIABLES, missing
from repoagent.llm.providers.anthropic_stream import (
    StreamedReply,
    no_connection,
    no_key,
    not_messages_api,
    rejected,
    stop_when_silent,
)
from repoagent.llm.providers.errors import (
    CONNECT_SECONDS,
    brief,
    broken_stream,
    causes,
    in_background,
    new_http_client,
    open_early,
    unusable_key,
    with_attached,
    without_gc,
)

if TYPE_CHECKING:
    from anthropic.types import DocumentBlockParam, ImageBlockParam

    from repoagent.config.settings import Settings
    from repoagent.llm.media import Media

_LONG_WINDOW = 1_000_000  # tokens; with such a window more images and pages go into one request
_TITLE = 200  # characters

# As of platform.claude.com in 2026, "Vision", "PDF support" and "API overview", and for the clouds their own lower
# limits on a request. An image of more bytes is refused by its size in base64, which counts in units of 1,024.
_IMAGE_BYTES = {"anthropic": 10 * 1024 * 1024, "bedrock": 5 * 1024 * 1024, "vertex": 5 * 1024 * 1024}
_REQUEST_BYTES = {"anthropic": 32_000_000, "bedrock": 20_000_000, "vertex": 30_000_000}


def media_limits(platform: Platform, context_tokens: int | None) -> MediaLimits:
    """What the models of a platform take at once, by the window of the one that is asked."""
    many = context_tokens is None or context_tokens >= _LONG_WINDOW
    return MediaLimits(
        image_bytes=_IMAGE_BYTES[platform],
        request_bytes=_REQUEST_BYTES[platform],
        images=600 if many else 100,
        side=8000,
        many=20,
        many_side=2000,
        pages=600 if many else 100,
    )


def media_block(media: Media) -> ImageBlockParam | DocumentBlockParam:
    """The block that holds `media`."""
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


if TYPE_CHECKING:
    from anthropic.types import (
        CacheControlEphemeralParam,
        DocumentBlockParam,
        ImageBlockParam,
        MessageParam,
        TextBlockParam,
        ToolParam,
        ToolResultBlockParam,
    )

    Block = TextBlockParam | ImageBlockParam | DocumentBlockParam | ToolResultBlockParam

BREAKPOINTS = 4  # of the prompt cache, in one request


@dataclass(frozen=True)
class Prompt:
    """What is sent. `prefix` is a hash of all of it but the cache breakpoints; `sent_back` has the prefixes of the
    replies whose thinking is in it."""

    system: list[TextBlockParam]
    tools: list[ToolParam]
    messages: list[MessageParam]
    prefix: str
    sent_back: frozenset[str]


def prompt_of(request: Request, cache: str, spec: str = "", refused: Collection[str] = ()) -> Prompt:
    """The request for the model `spec`, with the last four of the cache breakpoints asked for: the longest prefix is
    worth most.

    A reply is sent as its blocks where they still hold. A signature is bound to the model and to everything before it,
    so a turn that was edited or left out makes text of all that was thought after it; so does a prefix in `refused`.
    """
    system = _blocks(request.system, cache)
    tools: list[ToolParam] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in request.tools
    ]
    known = sha256(json.dumps([_unmarked(system), tools]).encode())
    messages: list[MessageParam] = []
    every: list[Any] = [*system]
    sent_back: set[str] = set()
    live: frozenset[str] = frozenset()  # ids of calls that the next message answers
    for message, after in zip(request.messages, (*request.messages[1:], None), strict=True):
        blocks = message.blocks
        if (
            blocks is not None
            and blocks.spec == spec
            and blocks.prefix in {"", known.hexdigest()} - set(refused)
            and _answered(blocks, after, bool(tools))
        ):
            live = frozenset(call for call, _ in blocks.calls)
            content = [cast("Block", {**item}) for item in blocks.items]
            sent_back.update({blocks.prefix} - {""})
        else:
            content = _content(message.parts, cache, live)
            live = frozenset()
        every += content
        known.update(json.dumps([message.role, _unmarked(content)]).encode())
        messages.append(
            {"role": "user", "content": content}
            if message.role == "user"
            else {"role": "assistant", "content": content}
        )
    for block in [block for block in every if "cache_control" in block][:-BREAKPOINTS]:
        del block["cache_control"]
    return Prompt(system, tools, messages, known.hexdigest(), frozenset(sent_back))


def _answered(blocks: Blocks, after: Message | None, has_tools: bool) -> bool:
    """Whether each call has its result in the next message; the API takes no call without."""
    calls = [call for call, _ in blocks.calls]
    answers = [part.answers for part in after.parts if part.answers] if after else []
    return not calls or (has_tools and sorted(calls) == sorted(answers))


def _unmarked(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


def _content(parts: tuple[Part, ...], cache: str, live: Collection[str]) -> list[Block]:
    """The blocks of a message: first the results of the calls `live`, then the rest."""
    results = [part for part in parts if part.answers in live]
    content: list[Block] = [
        *map(_result, results),
        *_user_content(tuple(p for p in parts if p not in results), cache),
    ]
    if results and cache != "off" and parts[-1].cache:  # what was last need not be now
        content[-1]["cache_control"] = _cache_control(cache)
    return content


def _result(part: Part) -> ToolResultBlockParam:
    text = wire_text(observation_text(part.text))
    content: list[TextBlockParam | ImageBlockParam | DocumentBlockParam] = [{"type": "text", "text": text}]
    if part.media is not None:
        content.append(media_block(part.media))
    return {"type": "tool_result", "tool_use_id": part.answers, "content": content, "is_error": part.failed}


def _user_content(parts: tuple[Part, ...], cache: str) -> list[Block]:
    """Text, and after the text of its part what is attached to it."""
    content: list[Block] = []
    texts: list[Part] = []
    for part in parts:
        if part.media is None:
            texts.append(part)
            continue
        content += _blocks((*texts, Part(part.text)), cache)
        block = media_block(part.media)
        if part.cache and cache != "off":
            block["cache_control"] = _cache_control(cache)
        content.append(block)
        texts = []
    return [*content, *_blocks(tuple(texts), cache)]


def _cache_control(cache: str) -> CacheControlEphemeralParam:
    return {"type": "ephemeral", "ttl": "1h"} if cache == "1h" else {"type": "ephemeral"}


def _blocks(parts: tuple[Part, ...], cache: str) -> list[TextBlockParam]:
    """Text blocks; the API rejects blank ones, so those join their neighbour."""
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


# Variables of Anthropic's that are set by many and let nobody in.
_NO_CREDENTIALS = frozenset(
    f"ANTHROPIC_{name}"
    for name in (
        *("BASE_URL", "BEDROCK_BASE_URL", "BEDROCK_MANTLE_BASE_URL", "VERTEX_BASE_URL", "CUSTOM_HEADERS"),
        *("LOG", "MODEL", "SMALL_FAST_MODEL", "VERTEX_PROJECT_ID", "BETAS"),
    )
)


def may_have_credentials() -> bool:
    """Whether the package may find credentials. Where this is false, it finds none."""
    for name, value in os.environ.items():
        if value and name.startswith("ANTHROPIC_") and name not in _NO_CREDENTIALS:
            return True
    try:
        folder = _folder()
        return any(os.path.lexists(folder / name) for name in ("active_config", "configs"))
    except RuntimeError:  # nobody knows where home is
        return True


def has_profile() -> bool:
    """Whether the profile that the package would take without being told to is there."""
    try:
        folder = _folder()
        named = (folder / "active_config").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        named = ""
    except (OSError, RuntimeError, UnicodeDecodeError):
        return False
    return (folder / "configs" / f"{named or 'default'}.json").is_file()


def _folder() -> Path:
    """Where its profiles are (ANTHROPIC_CONFIG_DIR moves it, and is a sign itself)."""
    if sys.platform == "win32":
        roaming = os.environ.get("APPDATA")
        return (Path(roaming) if roaming else Path.home() / "AppData" / "Roaming") / "Anthropic"
    return Path.home() / ".config" / "anthropic"


if TYPE_CHECKING:
    import httpx2
    from anthropic import Anthropic, AnthropicBedrock, AnthropicBedrockMantle, AnthropicVertex

    Client = Anthropic | AnthropicBedrock | AnthropicBedrockMantle | AnthropicVertex

Platform = Literal["anthropic", "bedrock", "vertex"]
Api = Literal["anthropic", "bedrock", "mantle", "vertex"]  # Bedrock has two: see `door_of`

_BARE = re.compile(r"anthropic\.claude(-(?!v\d)\w+)+")
_SETTINGS = ("ANTHROPIC_", "AWS_", "CLOUD_ML_", "GOOGLE_")

_lock = threading.Lock()
_clients: dict[tuple[Api, frozenset[tuple[str, str]]], Client] = {}


def api_of(platform: Platform, name: str) -> Api:
    """Bedrock serves inference profiles (`us.anthropic.…`, an ARN) and models with a revision (`…-v1:0`) by its
    InvokeModel API, and models by their bare name (`anthropic.claude-opus-5`) by a Messages API of its own. Who
    has set an address for the first means that one."""
    if platform == "bedrock" and not os.environ.get("ANTHROPIC_BEDROCK_BASE_URL"):
        return "mantle" if _BARE.fullmatch(name) else platform
    return platform


def preload(platform: Platform = "anthropic", name: str = "") -> None:
    """Import the SDK and open a connection in a thread, while the caller does something else.

    Says nothing when that fails: the first call will, in words that fit.
    """
    door = api_of(platform, name)
    in_background(lambda: _warm(door), "anthropic-preload")


def _warm(door: Api) -> None:
    with suppress(ModelError):
        connect(door)


def connect(door: Api = "anthropic") -> Client:
    """The client for what the environment says now, made once. Raises ModelError when no key is found."""
    settings = frozenset((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
    with _lock:  # held by the thread of `preload` until it has imported
        if (door, settings) not in _clients:
            with without_gc():
                _clients[door, settings] = _new_client(door)
        return _clients[door, settings]


def _new_client(door: Api) -> Client:
    if door == "anthropic":
        return _new_first_party()
    from repoagent.llm.providers.anthropic_clouds import new_client, refuse_missing

    refuse_missing(door)
    http = new_http_client()
    client = new_client(door, http)
    open_early(http, str(client.base_url))
    return client


def _new_first_party() -> Anthropic:
    if not may_have_credentials():
        raise no_key()  # before the import: a hook or an edit that can't be should not take long to say so
    http = new_http_client()
    address = _address()
    if address is not None:
        open_early(http, address)
    import anthropic
    import httpx2

    try:
        client = anthropic.Anthropic(http_client=http, max_retries=0)  # call.py retries
    except httpx2.InvalidURL as error:
        raise ModelError(
            f"ANTHROPIC_BASE_URL is not a URL ({error}): set it to one like https://host, or unset it"
        ) from error
    except anthropic.AnthropicError as error:  # a profile that can't be read
        raise no_key(str(error)) from error
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise no_key()
    if any(map(unusable_key, secrets_of(client))):
        raise no_key(
            "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN contains a line break or another invalid character"
        )
    return client


def _address() -> str | None:
    """Where the SDK will send requests; None where a profile may say so, which only the SDK reads."""
    address = os.environ.get("ANTHROPIC_BASE_URL")
    if address is None and any(map(os.environ.get, ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))):
        return "https://api.anthropic.com"
    return address


def secrets_of(client: Client, request: httpx2.Request | None = None) -> list[str]:
    """What must stand in no message: the keys of `client`, and what `request` was signed or let in with."""
    held = [getattr(client, name, None) for name in ("api_key", "auth_token")]
    sent = request.headers if request is not None else {}
    carried = [sent.get(name, "").strip() for name in ("x-api-key", "x-amz-security-token", "authorization")]
    whole = [*held, *carried, carried[-1].removeprefix("Bearer ")]
    return [secret for secret in whole if isinstance(secret, str) and secret]


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
        has = {"stop", "cache", "tools", *(["effort"] if catalog.effort_of(self.name, "low") else [])}
        return frozenset(has if thinks(self.name) else has | {"temperature"}) - {*self.ignored()}

    @property
    def spec(self) -> str:
        return f"{self.platform}/{self.name}"

    @property
    def context_tokens(self) -> int | None:
        return catalog.context_tokens(self.name)

    def ignored(self) -> tuple[str, ...]:
        """The names of wishes that are set and that this model can't be told."""
        told = _supported_wishes(self)
        wishes = ("effort", "temperature", "stop")
        return tuple(wish for wish in wishes if getattr(told, wish) != getattr(self.wishes, wish))

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """One streamed attempt; see `llm.model.Model`. Raises UsageError for an image or PDF that is not taken."""
        refuse_over(request, media_limits(self.platform, self.context_tokens), self.spec)
        received = StreamedReply(request.tools)
        prompt = prompt_of(request, self.wishes.cache, self.spec, self.refused)
        for piece in self._pieces(request, prompt, received):
            if piece:
                on_text(piece)
        reply = received.reply(request, self.platform, self.spec, prompt.prefix)
        if not received.ended or (received.garbled and reply.stop == "end"):
            raise Retryable("the reply broke off: the server ended it early", usage=received.usage(request))
        return reply

    def _pieces(self, request: Request, prompt: Prompt, received: StreamedReply) -> Iterator[str]:
        """The text of the reply, as it comes. A generator, so that what `on_text` raises is not taken for a
        failure of the server."""
        door = api_of(self.platform, self.name)
        client = connect(door)
        import anthropic

        told, effort = _supported_wishes(self), catalog.effort_of(self.name, self.wishes.effort)
        stop = (*told.stop, *request.stop)
        with (
            _model_errors(self, door, client, request, received, sent_back=prompt.sent_back),
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
                    f"it answered with {kind.partition(';')[0]} instead of a stream of events"
                )
            with stop_when_silent(events.response, received, MUTE * self.read_seconds):
                try:
                    for event in events:
                        yield received.take(event)
                except (AttributeError, TypeError) as error:
                    raise anthropic.AnthropicError(f"malformed event: {error}") from error
                except clouds.stream_errors(door) as error:
                    raise broken_stream(error, self.read_seconds, received.usage(request)) from error

    def count_tokens(self, request: Request) -> int | None:
        """How many tokens the input of `request` is, by the server's count; None where it does not count. Raises
        ModelError when it can't be asked."""
        door = api_of(self.platform, self.name)
        if door == "bedrock":
            return None
        client = connect(door)
        import anthropic

        prompt = prompt_of(request, self.wishes.cache, self.spec, self.refused)
        try:
            with _model_errors(self, door, client, request, StreamedReply()):
                counted = client.messages.count_tokens(
                    model=self.name,
                    system=prompt.system or anthropic.omit,
                    tools=prompt.tools or anthropic.omit,
                    messages=prompt.messages,
                    thinking={"type": "adaptive"} if thinks(self.name) else anthropic.omit,
                    timeout=anthropic.Timeout(self.read_seconds, connect=CONNECT_SECONDS),
                )
        except ModelError as error:
            cause = error.__cause__
            if isinstance(cause, anthropic.APIStatusError) and cause.status_code in {400, 404, 405, 501}:
                return None
            raise
        tokens = getattr(counted, "input_tokens", None)
        return tokens if isinstance(tokens, int) else None


@contextmanager
def _model_errors(
    model: AnthropicModel,
    door: Api,
    client: Client,
    request: Request,
    received: StreamedReply,
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
                f"{model.spec} rejects its own thinking: continuing without it", retry_after=0
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
        raise not_messages_api(error, model.spec, secrets_of(client)) from error
    except clouds.library_errors(door) as error:
        raise clouds.no_credentials(door, error) from error
    except ValueError as error:  # a name of which no address can be made
        raise ModelError(f"cannot build a request for {model.spec} ({error})") from error


def _supported_wishes(model: AnthropicModel) -> Wishes:
    """What of `model.wishes` it can be told."""
    wishes = model.wishes
    return replace(
        wishes,
        effort=catalog.effort_of(model.name, wishes.effort),
        temperature=None if thinks(model.name) else wishes.temperature,
        stop=tuple(text for text in wishes.stop if text.strip()),  # the API rejects blank ones
    )


KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID")
SECONDS = 5.0


class AnthropicBackend(Backend):
    """Claude, of Anthropic's own API and of each cloud that has it."""

    @property
    def platform(self) -> Platform:
        return cast("Platform", self.name)

    def open_model(self, model: str, options: ModelOptions) -> Model:
        return AnthropicModel(model, options.wishes, options.seconds, self.platform)

    def preload(self, model: str) -> None:
        preload(self.platform, model)

    def has_credentials(self) -> bool:
        return bool(self._key_origin()) or has_profile()

    def check(self, settings: Settings, model: str) -> Status:
        """A cloud is not asked: that would take its libraries, and its credentials may need the user."""
        origin = self._key_origin()
        if self.platform != "anthropic":
            problem = "" if origin else missing(self.platform) or "no credentials in the environment"
            return Status(origin, problem, tried=False)
        key, token = os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("ANTHROPIC_AUTH_TOKEN")
        if not (key or token):
            return Status(
                origin, "" if may_have_credentials() else "no key: set ANTHROPIC_API_KEY", tried=False
            )
        return Status(
            origin,
            _why_unreachable(os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com", key, token),
        )

    def diagnose(self, settings: Settings, model: str) -> Diagnosis:
        if not PROVIDERS[self.name].is_installed:
            return not_installed(PROVIDERS[self.name])
        if origin := self._key_origin():
            return Diagnosis(f"key in the environment variable {origin.removeprefix('environment ')}")
        if self.platform == "anthropic" and not (Path.home() / ".config" / "anthropic").is_dir():
            return Diagnosis("no key", "set ANTHROPIC_API_KEY")
        return Diagnosis("credentials of its own tools, not checked")

    def media_limits(self, settings: Settings, context: int | None) -> MediaLimits:
        return media_limits(self.platform, context)

    def _key_origin(self) -> str:
        """Where the credentials most likely come from, "" where nothing tells."""
        names = KEYS if self.platform == "anthropic" else CREDENTIAL_VARIABLES[self.platform]
        found = next((name for name in names if os.environ.get(name)), "")
        return f"environment {found}" if found else ""


def _why_unreachable(base_url: str, key: str | None, token: str | None) -> str:
    import httpx2

    headers = {"anthropic-version": "2023-06-01"}
    headers |= {"x-api-key": key} if key else {"authorization": f"Bearer {token}"}
    secrets = [secret for secret in (key, token) if secret]
    try:
        with new_http_client() as http:
            answer = http.get(f"{base_url.rstrip('/')}/v1/models?limit=1", headers=headers, timeout=SECONDS)
    except (ModelError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        host = base_url.partition("://")[2].partition("/")[0] or base_url
        return brief(f"cannot reach {host} ({_without_number(list(causes(error))[-1])})", secrets)
    if answer.status_code in {401, 403}:
        return f"{answer.url.host} rejected the key"
    # Gateways need not list their models: that they answer at all is enough.
    failing = answer.status_code >= 500 and answer.status_code != 501
    return f"{answer.url.host} fails ({answer.status_code})" if failing else ""


def _without_number(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)
