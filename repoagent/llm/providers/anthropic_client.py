"""The client of the `anthropic` package: made once, and early, in a thread.

Its import takes about a second of CPU time (3,300 modules, all loaded by the package's `__init__`, so no public
name comes without them). It starts first, while the main thread waits for git and reads files; and before it the
connection is opened, whose handshakes are over when it is done.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from repoagent.errors import ModelError
from repoagent.llm.anthropic_errors import no_key

if TYPE_CHECKING:
    import httpx2
    from anthropic import Anthropic

CONNECT_SECONDS = 15.0

_lock = threading.Lock()
_clients: dict[frozenset[tuple[str, str]], tuple[Anthropic, httpx2.Client]] = {}


def preload() -> None:
    """Import the SDK and open a connection in a thread, while the caller does something else.

    Says nothing when that fails: the first call will, in words that fit.
    """
    threading.Thread(target=_warm, name="anthropic-preload", daemon=True).start()


def _warm() -> None:
    with suppress(ModelError):
        connect()


def connect() -> tuple[Anthropic, httpx2.Client]:
    """The client for what the environment says now, made once. Raises ModelError when no key is found."""
    environment = frozenset(
        (name, value) for name, value in os.environ.items() if name.startswith("ANTHROPIC_")
    )
    with _lock:  # held by the thread of `preload` until it has imported
        if environment not in _clients:
            with _uncollected():
                _clients[environment] = _new_client()
        return _clients[environment]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the garbage collector off for the block, and let it never look at what there is after it.

    An import makes 150,000 objects that stay to the end. To go through them again and again is a fifth of its
    time, and to take them apart when the process ends another half a second.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def _new_client() -> tuple[Anthropic, httpx2.Client]:
    http = _new_http_client()
    address = _address()
    if address is not None:
        threading.Thread(target=_open_connection, args=(http, address), daemon=True).start()
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
    if any(not key.isascii() or not key.isprintable() or " " in key for key in secrets_of(client)):
        raise no_key(
            "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN holds a line end or another character no key has"
        )
    return client, http


def _new_http_client() -> httpx2.Client:
    """As the SDK makes it (proxies and certificates of the environment, redirects followed), which can't be asked
    before it is imported. Idle connections are kept for as long as a check between two calls may take, not for
    the usual five seconds."""
    import httpx2

    try:
        return httpx2.Client(follow_redirects=True, limits=httpx2.Limits(keepalive_expiry=60))
    except (OSError, ValueError, httpx2.InvalidURL) as error:
        raise ModelError(
            f"no connection can be made ({error}): check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, SSL_CERT_DIR"
        ) from error


def _address() -> str | None:
    """Where the SDK will send requests; None where a profile may say so, which only the SDK reads."""
    address = os.environ.get("ANTHROPIC_BASE_URL")
    if address is None and any(map(os.environ.get, ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))):
        return "https://api.anthropic.com"
    return address


def _open_connection(http: httpx2.Client, address: str) -> None:
    """Leave an open connection in the pool of `http`; without the key, and in silence when it fails."""
    import httpx2

    with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError):  # the last for a name that is no host's
        http.head(address, timeout=CONNECT_SECONDS)


def secrets_of(client: Anthropic) -> list[str]:
    return [secret for secret in (client.api_key, client.auth_token) if secret]
