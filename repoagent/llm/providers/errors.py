"""What can go wrong between here and a model's API, as sentences; and what of it may pass by itself.

For every provider that is reached by HTTP. No key stands in any sentence, not even one that a server or a
library echoes: what they said goes through `brief` first.

What the clients of the SDKs share: an HTTP client that keeps its connections, opened early; a quick import.

Where a model thinks aloud before it answers.
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
from repoagent.llm.model import Request, Retryable, Usage, wire_text
from repoagent.llm.providers.endpoints import Endpoint

if TYPE_CHECKING:
    import httpx2

MODEL_ADVICE = """\
The shortest ways to get one:
  export ANTHROPIC_API_KEY=...   with a key of console.anthropic.com
  --model openai/NAME            or ollama/NAME, local/FILE.gguf
  --model "command:claude -p"    any program that reads a prompt, prints a reply
  --model manual                 you carry prompt and reply to any chat yourself
To keep a choice: git config --global repoagent.model SPEC
More: repoagent help docs/models.md"""

SHORTEST_KEY = (
    6  # characters; what is shorter is a stand-in for a server that wants any, and is in many words
)
_ABOUT_MEDIA = (
    r"(?i)image|pdf|document|page|media|vision|multi-?modal|base64|data url|content.?type|\bfile\b|413"
)
_PASSING = {429: "the rate limit of the account is reached", 529: "the server is overloaded"}


@dataclass(frozen=True)
class Rejection:
    """An HTTP status of 400 and above, or an error in a stream that stands for one.

    said: what the server said, `brief`. key_advice and name_advice say what to do about a wrong key and a
    model that is not there. too_long, spent: what the status alone does not tell. passes: whether the server
    says that it may pass, None where it does not say.
    """

    status: int
    said: str
    host: str
    spec: str
    key_advice: str
    name_advice: str
    too_long: bool = False
    spent: bool = False
    passes: bool | None = None
    wait: float | None = None
    usage: Usage = field(default_factory=Usage)


def rejection(failed: Rejection) -> ModelError:
    """Retryable for what may pass by itself, else a ModelError that says what to do."""
    status, said = failed.status, failed.said
    if is_transient(failed):
        words = _PASSING.get(status, f"the server failed ({status}: {said})")
        return Retryable(words, retry_after=failed.wait, usage=failed.usage)
    if status == 401:
        return ModelError(f"{failed.host} rejected the key ({said}): {failed.key_advice}")
    if status == 403:
        return ModelError(f"the key may not use {failed.spec} ({said}): use another key or another --model")
    if status == 404:
        return ModelError(f"{failed.host} has no {failed.spec} ({said}): {failed.name_advice}")
    if status == 413 or failed.too_long:
        return ModelError(
            f"the prompt is too long for {failed.spec} ({said}): name fewer files, or a part of the file"
        )
    if failed.spent or status in {402, 429}:
        return ModelError(f"the account cannot pay for this call ({said}): check its limits and billing")
    return ModelError(f"{failed.spec} does not accept the request ({status}: {said})")


def with_attached(error: ModelError, request: Request) -> ModelError:
    """`error` with what was attached and what to do about it, where that may be what the server did not take."""
    media = request.media
    if not media or isinstance(error, Retryable) or not re.search(_ABOUT_MEDIA, str(error)):
        return error
    first = media[0]
    more = f" and {len(media) - 1} more" if len(media) > 1 else ""
    return ModelError(
        f"{error}. The attachment was {first.name or 'a file'} ({first.described()}){more}: make it smaller, "
        "convert it, or leave it out"
    )


def is_transient(failed: Rejection) -> bool:
    if failed.passes is not None:
        return failed.passes
    if failed.too_long or failed.spent:
        return False
    return failed.status in {408, 409, 429} or failed.status >= 500


def unreachable(
    error: BaseException,
    host: str,
    read_seconds: float,
    secrets: Collection[str],
    *,
    timed_out: bool,
    settings: str,
) -> ModelError:
    """For a request that got no answer. `error` is the library's, `settings` names what a person may have set
    wrong, `timed_out` is whether the library says so."""
    import ssl

    import httpx2

    found = list(causes(error))
    said = brief(str(found[-1]), secrets) or type(found[-1]).__name__
    if any(isinstance(cause, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError) for cause in found):
        return ModelError(f"cannot build a request to {host} ({said}): check {settings}")
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in found):
        return ModelError(
            f"the certificate of {host} is not trusted ({said}): set SSL_CERT_FILE to your own authority's"
        )
    if any(isinstance(cause, httpx2.ReadTimeout) for cause in found):
        return Retryable(f"no answer from {host} for {read_seconds:g} s")
    if timed_out:
        return Retryable(f"connecting to {host} timed out")
    return Retryable(f"cannot reach {host} ({said})")


def broken_stream(error: Exception, read_seconds: float, usage: Usage) -> Retryable:
    """For a reply that broke off; `usage` is what it cost so far."""
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return Retryable(f"the reply broke off: no data for {read_seconds:g} s", usage=usage)
    return Retryable(f"the reply broke off ({type(error).__name__})", usage=usage)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the server asks to wait, by `retry-after-ms`, `retry-after` (seconds or a date), or the latest
    reset of an Anthropic rate limit that is used up; None when it does not say."""
    now = time.time() if now is None else now
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    if asked is not None:
        seconds = _number(asked)
        return seconds if seconds is not None else _until(asked, now)
    waits = [
        _until(headers.get(name.replace("-remaining", "-reset"), ""), now)
        for name, left in headers.items()
        if name.startswith("anthropic-ratelimit-") and name.endswith("-remaining") and left == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _until(text: str, now: float) -> float | None:
    """Seconds from `now` to a date, as in HTTP or as in ISO 8601; None when it is neither."""
    from email.utils import parsedate_to_datetime

    try:
        # Python 3.10 does not read a "Z"
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, moment.timestamp() - now)


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, what it was raised from, what that was raised from, and so on."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def brief(text: str, secrets: Collection[str] = ()) -> str:
    """`text` for a sentence: on one line, without a key, at most 300 characters. The keys go first: half a key
    is not found any more."""
    for secret in secrets:
        if len(secret) >= SHORTEST_KEY:
            text = text.replace(secret, "[key]")
    return " ".join(text.split())[:300]


def unusable_key(secret: str) -> bool:
    """Whether a key holds a line end, a blank or something else that no HTTP header can carry."""
    return not secret.isascii() or not secret.isprintable() or " " in secret


CONNECT_SECONDS = 15.0
_LAST_WAIT = 10.0  # seconds that the end of the program waits for an import


def in_background(work: Callable[[], object], name: str) -> None:
    """Start an import in a thread. A program that ends meanwhile waits for it: an interpreter that is taken down under
    modules of C that are just being loaded crashes."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    atexit.register(thread.join, _LAST_WAIT)


@contextmanager
def without_gc() -> Iterator[None]:
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
            f"cannot connect ({error}): check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, SSL_CERT_DIR"
        ) from error


def open_early(http: httpx2.Client, address: str) -> None:
    """Leave an open connection to `address` in the pool of `http`, in a thread; without a key, and in silence
    when it fails."""
    threading.Thread(target=_open, args=(http, address), daemon=True).start()


def _open(http: httpx2.Client, address: str) -> None:
    import httpx2

    with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError):  # the last for a name that is no host's
        http.head(address, timeout=CONNECT_SECONDS)


_OPEN, _CLOSE = "<think>", "</think>"


class ThoughtSplitter:
    """Tells a thought from the reply where a text may start with <think>…</think>, whatever its pieces are."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """The thought and the text that are sure by now."""
        self._held += piece
        thought = ""
        if self._state == "start":
            body = self._held.lstrip()
            if len(body) < len(_OPEN) and _OPEN.startswith(body):
                return "", ""
            self._state = "thought" if body.startswith(_OPEN) else "text"
            if self._state == "thought":
                self._held = body[len(_OPEN) :]
        if self._state == "thought":
            thought, found, rest = self._held.partition(_CLOSE)
            if not found:
                sure = max(0, len(self._held) - len(_CLOSE) + 1)
                thought, self._held = self._held[:sure], self._held[sure:]
                return thought, ""
            self._held, self._state = rest, "after"
        if self._state == "after":
            self._held = self._held.lstrip("\r\n")
            if not self._held:
                return thought, ""
            self._state = "text"
        # half a character of JSON's \ud83d\ude00 may come in one piece, half in the next
        sure = len(self._held) - ("\ud800" <= self._held[-1:] <= "\udbff")
        text, self._held = self._held[:sure], self._held[sure:]
        return thought, wire_text(text)

    def rest(self) -> tuple[str, str]:
        """What was held back, when nothing more comes."""
        held, self._held = wire_text(self._held), ""
        return (held, "") if self._state == "thought" else ("", held)
