"""The HTTP client of all providers, opened early: a slow import and a handshake run in threads."""

from __future__ import annotations

import atexit
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from repoagent.errors import ModelError

if TYPE_CHECKING:
    import httpx2

    from repoagent.llm.providers.endpoints import Endpoint

CONNECT_SECONDS = 15.0
_IMPORT_SECONDS = 30.0  # to wait for an import at exit, on a loaded machine too


def new_http_client(endpoint: Endpoint | None = None) -> httpx2.Client:
    """A client that uses the proxies and certificates set in the environment. Idle connections stay open for 60
    seconds, long enough for a check between two calls, instead of the usual five.

    A local `endpoint` is reached without a proxy; without TLS, no certificates are loaded, which saves 30 ms. Raises
    ModelError for unusable settings.
    """
    import ssl

    import httpx2

    options: dict[str, Any] = {}
    if endpoint is not None and endpoint.socket:
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        options["transport"] = httpx2.HTTPTransport(uds=endpoint.socket, verify=verify)
    elif endpoint is not None and endpoint.local:
        address = urlsplit(endpoint.base_url)
        options["mounts"] = {f"all://{address.netloc.rpartition('@')[2]}": None}
        if address.scheme == "http":
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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

        with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError):  # ValueError: an invalid host name
            http.head(address, timeout=CONNECT_SECONDS)

    threading.Thread(target=connect, name="open-early", daemon=True).start()


def in_background(work: Callable[[], object], name: str) -> None:
    """Start an import in a thread; a ModelError is ignored, since the first call raises it again.

    At exit, the program waits for the import, because the interpreter crashes if it is finalized while C modules load.
    """

    def run() -> None:
        with suppress(ModelError):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    atexit.register(thread.join, _IMPORT_SECONDS)


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable the garbage collector for the block, and permanently exempt all objects that exist at its end from
    collection.

    The import of an SDK creates up to 150,000 permanent objects. Scanning them takes a fifth of the import's time, and
    freeing them at exit another half second.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
