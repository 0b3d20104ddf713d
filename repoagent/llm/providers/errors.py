"""The HTTP client of all providers, and one error sentence with a remedy for each failure of a model's API.

No sentence contains a key, not even one echoed by a server or a library: their messages go through `brief`.
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
THINKING_TOKENS = 32_000  # added to the limit on a reply, since thinking counts against it
BREAKPOINTS = 4  # of the prompt cache, in one request
_SHORTEST_KEY = 6  # characters; shorter keys are dummies for servers that require any key
_IMPORT_SECONDS = 10.0  # to wait for an import at exit
_ABOUT_MEDIA = (
    r"(?i)image|pdf|document|page|media|vision|multi-?modal|base64|data url|content.?type|\bfile\b|413"
)
_TRANSIENT = {429: "the rate limit of the account is reached", 529: "the server is overloaded"}
# By HTTP status: the failure, and the remedy unless the provider has a better one.
_REJECTIONS = {
    401: ("{host} rejected the key ({message})", "set a valid one"),
    402: ("the account cannot pay for this call ({message})", "check its limits and billing"),
    403: ("the key may not use {spec} ({message})", "use another key or another --model"),
    404: ("{host} has no {spec} ({message})", "check the name"),
    413: ("the prompt is too long for {spec} ({message})", "name fewer files, or a part of the file"),
}
# Errors in a stream have a name instead of an HTTP status.
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
    """The error for an HTTP status of 400 and above: a Retryable if the same request may succeed later.

    `status` must be 402 for an account without credit and 413 for a prompt that is too long, even if the server uses
    another one. `advice` has the provider's remedies by status. `wait` in seconds is used if the headers have none.
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
    """`error`, extended by the attachment and a remedy if the server may have rejected that."""
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
    """The error for a request without a response. `settings` names the settings to check."""
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
    """The error for an incomplete reply; `usage` is its usage so far."""
    import httpx2

    late = isinstance(error, httpx2.TimeoutException)
    reason = f": no data for {read_seconds:g} s" if late else f" ({type(error).__name__})"
    return Retryable(f"the reply broke off{reason}", usage=usage)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait from `retry-after-ms`, or from `retry-after` in seconds or as a date; None if neither is set."""
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
    """`error` and the chain of its causes."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def brief(text: str, secrets: Collection[str] = ()) -> str:
    """`text` on one line, without keys, at most 300 characters. Removes keys first: a cut key would not be found."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_KEY:
            text = text.replace(secret, "[key]")
    return " ".join(text.split())[:300]


def unusable_key(secret: str) -> bool:
    """Whether a key contains a line end, a space or another character that is invalid in an HTTP header."""
    return not secret.isascii() or not secret.isprintable() or " " in secret


def in_background(work: Callable[[], object], name: str) -> None:
    """Start an import in a thread; a ModelError is ignored, since the first call raises it again.

    The program waits for it at exit: the interpreter crashes if it is finalized while C modules load.
    """

    def run() -> None:
        with suppress(ModelError):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    atexit.register(thread.join, _IMPORT_SECONDS)


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable the garbage collector for the block, and exclude all objects that exist after it permanently.

    The import of an SDK creates up to 150,000 permanent objects. Scanning them takes a fifth of its time, and freeing
    them at exit another half a second.
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
    """A client with the proxies and certificates of the environment. Idle connections stay open for the duration of a
    check between two calls, not for the usual five seconds.

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
            f"cannot connect ({error}): check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, SSL_CERT_DIR"
        ) from error


def open_early(http: httpx2.Client, address: str) -> None:
    """Open a connection to `address` in a thread, for the pool of `http`. Sends no key and ignores failures."""

    def connect() -> None:
        import httpx2

        with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError):  # ValueError: an invalid host name
            http.head(address, timeout=CONNECT_SECONDS)

    threading.Thread(target=connect, name="open-early", daemon=True).start()
