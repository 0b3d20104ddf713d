"""What can go wrong between this program and a model's API, as sentences; and the HTTP client that all providers use.

No sentence contains a key, not even one that a server or a library echoes: what they say goes through `brief`.
"""

from __future__ import annotations

import atexit
import gc
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from repoagent.dataclass import dataclass
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
_SHORTEST_KEY = (
    6  # characters; shorter ones are dummies for servers that want any key, and parts of many words
)
_IMPORT_SECONDS = 10.0  # that the end of the program waits for an import
_ABOUT_MEDIA = (
    r"(?i)image|pdf|document|page|media|vision|multi-?modal|base64|data url|content.?type|\bfile\b|413"
)
_PASSING = {429: "the rate limit of the account is reached", 529: "the server is overloaded"}
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


@dataclass(frozen=True)
class Rejection:
    """An HTTP status of 400 and above, or an error in a stream that means one.

    message: the server's, `brief`. key_advice and name_advice: what to do about a wrong key and an unknown model.
    too_long, spent: what the status alone does not tell. headers: of the response. wait: seconds to wait, where the
    headers do not say.
    """

    status: int
    message: str
    host: str
    spec: str
    key_advice: str
    name_advice: str = ""
    too_long: bool = False
    spent: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: as the server says, else by the status."""
        hint = self.headers.get("x-should-retry", "")
        if hint in {"true", "false"}:
            return hint == "true"
        return not (self.too_long or self.spent) and (self.status in {408, 409, 429} or self.status >= 500)

    def error(self) -> ModelError:
        """A Retryable where it is transient, else a ModelError with the remedy."""
        status, message = self.status, self.message
        if self.is_transient:
            sentence = _PASSING.get(status, f"the server failed ({status}: {message})")
            wait = retry_after(self.headers)
            return Retryable(sentence, retry_after=self.wait if wait is None else wait, usage=self.usage)
        if status == 401:
            return ModelError(f"{self.host} rejected the key ({message}): {self.key_advice}")
        if status == 403:
            return ModelError(
                f"the key may not use {self.spec} ({message}): use another key or another --model"
            )
        if status == 404:
            return ModelError(f"{self.host} has no {self.spec} ({message}): {self.name_advice}")
        if status == 413 or self.too_long:
            return ModelError(
                f"the prompt is too long for {self.spec} ({message}): name fewer files, or a part of the file"
            )
        if self.spent or status in {402, 429}:
            return ModelError(
                f"the account cannot pay for this call ({message}): check its limits and billing"
            )
        return ModelError(f"{self.spec} does not accept the request ({status}: {message})")


def with_attached(error: ModelError, request: Request) -> ModelError:
    """`error`, with the attachment and a remedy where that may be what the server rejects."""
    media = request.media
    if not media or isinstance(error, Retryable) or not re.search(_ABOUT_MEDIA, str(error)):
        return error
    first = media[0]
    more = f" and {len(media) - 1} more" if len(media) > 1 else ""
    return ModelError(
        f"{error}. The attachment was {first.name or 'a file'} ({first.described()}){more}: make it smaller, "
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

    def is_any(*types: type[BaseException]) -> bool:
        return any(isinstance(cause, types) for cause in chain)

    if is_any(httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.InvalidURL):
        return ModelError(f"cannot build a request to {host} ({message}): check {settings}")
    if is_any(ssl.SSLCertVerificationError):
        return ModelError(
            f"the certificate of {host} is not trusted ({message}): set SSL_CERT_FILE to your own authority's"
        )
    if is_any(httpx2.ReadTimeout):
        return Retryable(f"no answer from {host} for {read_seconds:g} s")
    if is_any(httpx2.TimeoutException):
        return Retryable(f"connecting to {host} timed out")
    return Retryable(f"cannot reach {host} ({message})")


def broken_stream(error: Exception, read_seconds: float | None, usage: Usage) -> Retryable:
    """The error for a reply that broke off; `usage` is what it cost so far."""
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return Retryable(f"the reply broke off: no data for {read_seconds:g} s", usage=usage)
    return Retryable(f"the reply broke off ({type(error).__name__})", usage=usage)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that the server asks to wait, by `retry-after-ms`, `retry-after` (seconds or a date), or the latest
    reset of an exhausted Anthropic rate limit; None when it does not say."""
    now = time.time() if now is None else now
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    if (value := headers.get("retry-after")) is not None:
        seconds = _seconds(value)
        return seconds if seconds is not None else _until(value, now)
    waits = [
        _until(headers.get(name.replace("-remaining", "-reset"), ""), now)
        for name, remaining in headers.items()
        if name.startswith("anthropic-ratelimit-") and name.endswith("-remaining") and remaining == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _until(text: str, now: float) -> float | None:
    """Seconds from `now` to a date as in HTTP or ISO 8601; None for any other text."""
    from email.utils import parsedate_to_datetime

    try:
        date = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 does not read a "Z"
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, date.timestamp() - now)


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
