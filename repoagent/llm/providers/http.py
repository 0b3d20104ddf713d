"""The HTTP client of all providers, opened early: a slow import and a handshake run in threads."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from repoagent.errors import ModelError

if TYPE_CHECKING:
    import httpx2

    from repoagent.llm.providers.endpoints import Endpoint

CONNECT_SECONDS = 15.0
_IMPORT_SECONDS = 30.0  # to wait for an import at exit, on a loaded machine too


def new_http_client(endpoint: Endpoint | None = None) -> httpx2.Client:
    """A client that uses the proxies and certificates set in the environment, but no proxy for a local `endpoint`.

    Idle connections stay open for 60 seconds, long enough for a check between two calls. Raises ModelError for unusable
    settings.
    """
    import httpx2

    options: dict[str, Any] = {}
    if endpoint is not None and endpoint.socket:
        options["transport"] = httpx2.HTTPTransport(uds=endpoint.socket)
    elif endpoint is not None and endpoint.local:
        options["mounts"] = {f"all://{urlsplit(endpoint.base_url).netloc.rpartition('@')[2]}": None}
    try:
        return httpx2.Client(follow_redirects=True, limits=httpx2.Limits(keepalive_expiry=60), **options)
    except (OSError, ValueError, httpx2.InvalidURL) as error:
        raise ModelError(
            f"cannot connect ({error}): check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from error


def open_early(http: httpx2.Client, address: str) -> None:
    """Open a connection to `address` in a thread, for the pool of `http`. Sends no key and ignores failures."""

    def connect() -> None:
        import httpx2

        # ValueError: an invalid host name; RuntimeError: the client is closed, as the program ends
        with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError, RuntimeError):
            http.head(address, timeout=CONNECT_SECONDS)

    threading.Thread(target=connect, name="open-early", daemon=True).start()


def in_background(work: Callable[[], object], name: str) -> None:
    """Start an import in a background thread.

    A ModelError is ignored, since the first call raises it again. At exit, the program waits for the import, because
    the interpreter crashes if it is finalized while C modules load.
    """

    def run() -> None:
        with suppress(ModelError):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    atexit.register(thread.join, _IMPORT_SECONDS)
