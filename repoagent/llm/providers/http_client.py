"""What the clients of the SDKs share: an HTTP client that keeps its connections, opened early; a quick import."""

from __future__ import annotations

import atexit
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from repoagent.errors import ModelError
from repoagent.llm.providers.endpoint import Endpoint

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 15.0
_LAST_WAIT = 10.0  # seconds that the end of the program waits for an import


def in_background(work: Callable[[], object], name: str) -> None:
    """Start an import in a thread. A program that ends meanwhile waits for it: an interpreter that is taken down under
    modules of C that are just being loaded crashes."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    atexit.register(thread.join, _LAST_WAIT)


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the garbage collector off for the block, and let it never look at what there is after it.

    The import of an SDK makes up to 150,000 objects that stay to the end. To go through them again and again is a
    fifth of its time, and to take them apart when the process ends another half a second.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def new_http_client(endpoint: Endpoint | None = None) -> httpx2.Client:
    """As the SDKs make it (proxies and certificates of the environment, redirects followed), which can't be asked
    before they are imported. Idle connections are kept for as long as a check between two calls may take, not
    for the usual five seconds.

    A server of this machine, if `endpoint` is one, is not looked for behind a proxy; and where it is asked without
    TLS, the authorities' certificates, which take 30 ms to read, are left alone: then none is trusted.
    Raises ModelError for settings that can't be used.
    """
    import ssl

    import httpx2

    options: dict[str, Any] = {}
    if endpoint is not None and endpoint.local:
        address = urlsplit(endpoint.base_url)
        options["mounts"] = {f"all://{address.netloc.rpartition('@')[2]}": None}
        if address.scheme == "http":
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.Client(follow_redirects=True, limits=httpx2.Limits(keepalive_expiry=60), **options)
    except (OSError, ValueError, httpx2.InvalidURL) as error:
        raise ModelError(
            f"no connection can be made ({error}): check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, SSL_CERT_DIR"
        ) from error


def open_early(http: httpx2.Client, address: str) -> None:
    """Leave an open connection to `address` in the pool of `http`, in a thread; without a key, and in silence
    when it fails."""
    threading.Thread(target=_open, args=(http, address), daemon=True).start()


def _open(http: httpx2.Client, address: str) -> None:
    import httpx2

    with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError):  # the last for a name that is no host's
        http.head(address, timeout=CONNECT_SECONDS)
