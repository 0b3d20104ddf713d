"""The clients of the `anthropic` package: made once, and early, in a thread.

Its import takes about a second of CPU time (3,300 modules, all loaded by the package's `__init__`, so no public
name comes without them). It starts first, while the main thread waits for git and reads files; and before it the
connection is opened, whose handshakes are over when it is done.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from repoagent.errors import ModelError
from repoagent.llm.providers.anthropic.errors import no_key
from repoagent.llm.providers.anthropic.signs import any_sign
from repoagent.llm.providers.failures import unusable_key
from repoagent.llm.providers.http_client import in_background, new_http_client, open_early, uncollected

if TYPE_CHECKING:
    import httpx2
    from anthropic import Anthropic, AnthropicBedrock, AnthropicBedrockMantle, AnthropicVertex

    Client = Anthropic | AnthropicBedrock | AnthropicBedrockMantle | AnthropicVertex

Platform = Literal["anthropic", "bedrock", "vertex"]
Door = Literal["anthropic", "bedrock", "mantle", "vertex"]  # Bedrock has two: see `door_of`

_BARE = re.compile(r"anthropic\.claude(-(?!v\d)\w+)+")
_SETTINGS = ("ANTHROPIC_", "AWS_", "CLOUD_ML_", "GOOGLE_")

_lock = threading.Lock()
_clients: dict[tuple[Door, frozenset[tuple[str, str]]], Client] = {}


def door_of(platform: Platform, name: str) -> Door:
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
    door = door_of(platform, name)
    in_background(lambda: _warm(door), "anthropic-preload")


def _warm(door: Door) -> None:
    with suppress(ModelError):
        connect(door)


def connect(door: Door = "anthropic") -> Client:
    """The client for what the environment says now, made once. Raises ModelError when no key is found."""
    settings = frozenset((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
    with _lock:  # held by the thread of `preload` until it has imported
        if (door, settings) not in _clients:
            with uncollected():
                _clients[door, settings] = _new_client(door)
        return _clients[door, settings]


def _new_client(door: Door) -> Client:
    if door == "anthropic":
        return _new_first_party()
    from repoagent.llm.providers.anthropic.clouds import new_client, refuse_missing

    refuse_missing(door)
    http = new_http_client()
    client = new_client(door, http)
    open_early(http, str(client.base_url))
    return client


def _new_first_party() -> Anthropic:
    if not any_sign():
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
            f"ANTHROPIC_BASE_URL is no URL ({error}): set it like https://host, or unset it"
        ) from error
    except anthropic.AnthropicError as error:  # a profile that can't be read
        raise no_key(str(error)) from error
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise no_key()
    if any(map(unusable_key, secrets_of(client))):
        raise no_key(
            "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN holds a line end or another character no key has"
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
