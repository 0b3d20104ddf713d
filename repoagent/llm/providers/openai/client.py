"""The client of the `openai` package: made once for each endpoint and key, and early, in a thread.

Its import takes half a second of CPU time. It starts while the main thread waits for git and reads files.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from repoagent.errors import ModelError
from repoagent.extras import install_extra
from repoagent.llm.providers.endpoint import Endpoint, Key
from repoagent.llm.providers.endpoints import find_key, hint, needs_key, shown
from repoagent.llm.providers.failures import unusable_key
from repoagent.llm.providers.http_client import in_background, new_http_client, open_early, uncollected

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
            with uncollected():
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
        page = hint(endpoint.name, "key_page")
        raise ModelError(
            f"there is no key for {endpoint.name}: export {endpoint.key_variables[0]}=... "
            + (f"with a key of {page}" if page else "with your key")
            + f", or set api_key_command in [providers.{endpoint.name}] of your configuration"
        )
    if key is not None and unusable_key(key.secret):
        raise ModelError(
            f"the key for {endpoint.name} ({key.origin}) holds a line end or another character no key has: "
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
            f"{shown(endpoint.base_url)} is no URL ({error}): set the base URL of {endpoint.name} like https://host/v1"
        ) from error
