"""What all providers share: the HTTP client, and one sentence with a remedy for each failure between this program and a
model's API.

No sentence contains a key, not even one that a server or a library echoes: their words go through `brief`.
"""

from __future__ import annotations

import atexit
import gc
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from repoagent.errors import ModelError
from repoagent.llm.model import Request, Retryable, Usage

if TYPE_CHECKING:
    import httpx2

    from repoagent.llm.providers.endpoints import Endpoint

MODEL_ADVICE = """\
The shortest ways to get one:
  export ANTHROPIC_API_KEY=...   with a key from console.anthropic.com
  --model openai/NAME            or ollama/NAME, local/FILE.gguf
  --model "command:claude -p"    any program that reads a prompt, prints a reply
  --model manual                 you carry prompt and reply to any chat yourself
To keep a choice: git config --global repoagent.model SPEC
More: repoagent help docs/models.md"""

CONNECT_SECONDS = 15.0
THINKING_TOKENS = 32_000  # thinking counts against the limit on a reply and must not use it up
BREAKPOINTS = 4  # of the prompt cache, in one request
_SHORTEST_KEY = 6  # characters; shorter ones are dummies for servers that want any key
_IMPORT_SECONDS = 10.0  # that the end of the program waits for an import
_ABOUT_MEDIA = (
    r"(?i)image|pdf|document|page|media|vision|multi-?modal|base64|data url|content.?type|\bfile\b|413"
)
_TRANSIENT = {429: "the rate limit of the account is reached", 529: "the server is overloaded"}
# By HTTP status: what happened, and what to do unless the provider knows better.
_REJECTIONS = {
    401: ("{host} rejected the key ({message})", "set a valid one"),
    402: ("the account cannot pay for this call ({message})", "check its limits and billing"),
    403: ("the key may not use {spec} ({message})", "use another key or another --model"),
    404: ("{host} has no {spec} ({message})", "check the name"),
    413: ("the prompt is too long for {spec} ({message})", "name fewer files, or a part of the file"),
}
# Errors in a stream have no HTTP status but a word.
STATUS_OF = {
    "invalid_request_error": 400,
    "exceed_context_size_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def rejection(
    status: int,
    message: str,
    *,
    host: str,
    spec: str,
    advice: Mapping[int, str],
    headers: Mapping[str, str],
    wait: float | None = None,
    usage: Usage,
) -> ModelError:
    """The error for an HTTP status of 400 and above: a Retryable where the same request may succeed later.

    `status` is 402 for an account that has run out and 413 for a prompt that is too long, whatever the server uses.
    `advice` is the provider's, by status. `wait` is in seconds, where the headers do not say.
    """
    hint = headers.get("x-should-retry")
    if hint == "true" or (hint != "false" and (status in {408, 409, 424, 429} or status >= 500)):
        sentence = _TRANSIENT.get(status, f"the server failed ({status}: {message})")
        by_header = retry_after(headers)
        return Retryable(sentence, retry_after=wait if by_header is None else by_header, usage=usage)
    status = 402 if status == 429 else status
    if status not in _REJECTIONS:
        return ModelError(f"{spec} does not accept the request ({status}: {message})")
    sentence, remedy = _REJECTIONS[status]
    sentence = sentence.format(host=host, spec=spec, message=message)
    return ModelError(f"{sentence}: {advice.get(status, remedy)}")


def with_attached(error: ModelError, request: Request) -> ModelError:
    """`error`, with the attachment and a remedy where that may be what the server rejects."""
    media = request.media
    if not media or isinstance(error, Retryable) or not re.search(_ABOUT_MEDIA, str(error)):
        return error
    more = f" and {len(media) - 1} more" if len(media) > 1 else ""
    return ModelError(
        f"{error}. The attachment was {media[0].name or 'a file'} ({media[0].described()}){more}: make it smaller, "
        "convert it, or leave it out"
    )


def unreachable(
    error: BaseException, host: str, read_seconds: float | None, secrets: Collection[str], settings: str
) -> ModelError:
    """The error for a request without a response. `settings` names what the user may have set wrong."""
    import ssl

    import httpx2

    chain = list(causes(error))
    message = brief(str(chain[-1]), secrets) or type(chain[-1]).__name__

    def has(*types: type[BaseException]) -> bool:
        return any(isinstance(cause, types) for cause in chain)

    if has(httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.InvalidURL):
        return ModelError(f"cannot build a request to {host} ({message}): check {settings}")
    if has(ssl.SSLCertVerificationError):
        return ModelError(
            f"the certificate of {host} is not trusted ({message}): set SSL_CERT_FILE to your own authority's"
        )
    if has(httpx2.ReadTimeout):
        return Retryable(f"no answer from {host} for {read_seconds:g} s")
    if has(httpx2.TimeoutException):
        return Retryable(f"connecting to {host} timed out")
    return Retryable(f"cannot reach {host} ({message})")


def broken_stream(error: Exception, read_seconds: float | None, usage: Usage) -> Retryable:
    """The error for a reply that broke off; `usage` is what it cost so far."""
    import httpx2

    late = isinstance(error, httpx2.TimeoutException)
    reason = f": no data for {read_seconds:g} s" if late else f" ({type(error).__name__})"
    return Retryable(f"the reply broke off{reason}", usage=usage)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date; else None."""
    from email.utils import parsedate_to_datetime

    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            if 0 <= (value := float(headers.get(name, ""))) < float("inf"):
                return value / unit
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, what it was raised from, what that was raised from, and so on."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def brief(text: str, secrets: Collection[str] = ()) -> str:
    """`text` on one line, without keys, at most 300 characters. Keys go first: half a key would not be found."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_KEY:
            text = text.replace(secret, "[key]")
    return " ".join(text.split())[:300]


def unusable_key(secret: str) -> bool:
    """Whether a key holds a line end, a blank or another character that no HTTP header can carry."""
    return not secret.isascii() or not secret.isprintable() or " " in secret


def in_background(work: Callable[[], object], name: str) -> None:
    """Start an import in a thread; its ModelError is dropped, since the first call raises it again.

    The program waits for it when it ends: an interpreter that is finalized while C modules load crashes.
    """

    def run() -> None:
        with suppress(ModelError):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    atexit.register(thread.join, _IMPORT_SECONDS)


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable the garbage collector for the block, and exclude what exists after it for good.

    The import of an SDK makes up to 150,000 objects that stay to the end. Scanning them takes a fifth of its time, and
    freeing them when the process ends another half a second.
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
    """A client with the proxies and certificates of the environment. Idle connections are kept for as long as a check
    between two calls may take, not for the usual five seconds.

    A local server, if `endpoint` is one, is reached without a proxy; without TLS, no certificates are loaded, which
    saves 30 ms. Raises ModelError for unusable settings.
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
            f"cannot connect ({error}): check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, SSL_CERT_DIR"
        ) from error


def open_early(http: httpx2.Client, address: str) -> None:
    """Open a connection to `address` in a thread, for the pool of `http`: without a key, and silent on failure."""

    def connect() -> None:
        import httpx2

        with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError):  # the last for an invalid host name
            http.head(address, timeout=CONNECT_SECONDS)

    threading.Thread(target=connect, name="open-early", daemon=True).start()
