"""What can go wrong with the Anthropic API, as sentences; and what of it may pass by itself.

No key stands in any of them, not even one that a server or a library echoes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from repoagent.errors import ModelError
from repoagent.llm.model import Retryable, Usage

if TYPE_CHECKING:
    import anthropic

WAYS = """\
The three shortest ways to get one:
  export ANTHROPIC_API_KEY=...   with a key of console.anthropic.com
  --model "command:claude -p"    any program that reads a prompt, prints a reply
  --model manual                 you carry prompt and reply to any chat yourself
To keep a choice: git config --global repoagent.model SPEC"""

# An error that comes inside a stream has no status of its own.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TOO_LONG = ("prompt is too long", "context limit", "context window", "maximum context")
_SPENT = ("contract_spend_limit_reached", "enforced_spend_limit_reached")  # a 429 that waiting does not end


def no_key(detail: str = "") -> ModelError:
    why = f" ({detail})" if detail else ""
    return ModelError(f"there is no key for Anthropic's models{why}. {WAYS}")


def rejected(error: anthropic.APIStatusError, spec: str, usage: Usage, secrets: list[str]) -> ModelError:
    """For a status of 400 and above, or an error event in a stream; `usage` is what the attempt has cost."""
    in_stream = error.status_code < 400
    status = _STATUS.get(error.type or "", 500) if in_stream else error.status_code
    said = _redacted(" ".join((error.api_message or error.message).split())[:300], secrets)
    headers = error.response.headers
    if _may_pass(status, error.error_code, "" if in_stream else headers.get("x-should-retry", "")):
        wait = None if in_stream else retry_after(headers)
        return Retryable(
            _PASSING.get(status, f"the server failed ({status}: {said})"), retry_after=wait, usage=usage
        )
    if status == 401:
        return ModelError(
            f"{error.request.url.host} rejected the key ({said}): set a valid one as ANTHROPIC_API_KEY "
            "or ANTHROPIC_AUTH_TOKEN"
        )
    if status == 403:
        return ModelError(f"the key may not use {spec} ({said}): use another key or another --model")
    if status == 404:
        return ModelError(
            f"{error.request.url.host} knows no {spec} ({said}): check the name, for example "
            "anthropic/claude-sonnet-5-5, and ANTHROPIC_BASE_URL if you set it"
        )
    if status == 413 or (status == 400 and any(mark in said.lower() for mark in _TOO_LONG)):
        return ModelError(
            f"the prompt is too long for {spec} ({said}): name fewer files, or a part of the file"
        )
    if status in {402, 429}:
        return ModelError(f"the account can't pay for this call ({said}): see its limits and billing")
    return ModelError(f"{spec} does not accept the request ({status}: {said})")


_PASSING = {429: "the rate limit of the account is reached", 529: "the server is overloaded"}


def _may_pass(status: int, code: str | None, server_says: str) -> bool:
    if server_says in {"true", "false"}:
        return server_says == "true"
    return (status in {408, 409, 429} and code not in _SPENT) or status >= 500


def no_connection(error: anthropic.APIConnectionError, read_seconds: float, secrets: list[str]) -> ModelError:
    """For a request that got no answer."""
    import ssl

    import anthropic
    import httpx2

    host = error.request.url.host or str(error.request.url)
    causes = list(_causes(error))
    said = _redacted(str(causes[-1]), secrets)
    if any(isinstance(cause, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError) for cause in causes):
        return ModelError(f"no request can be made to {host} ({said}): check ANTHROPIC_BASE_URL and the key")
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return ModelError(
            f"the certificate of {host} is not trusted ({said}): set SSL_CERT_FILE to your own authority's"
        )
    if any(isinstance(cause, httpx2.ReadTimeout) for cause in causes):
        return Retryable(f"{host} gave no answer for {read_seconds:g} s")
    if isinstance(error, anthropic.APITimeoutError):
        return Retryable(f"{host} could not be reached in time")
    return Retryable(f"{host} can't be reached ({said})")


def unusable(error: anthropic.AnthropicError, spec: str, secrets: list[str]) -> ModelError:
    """For an answer that is none of the Messages API."""
    return ModelError(
        f"what answers for {spec} does not speak the Messages API ({_redacted(str(error), secrets)})"
    )


def broken_stream(error: Exception, read_seconds: float, usage: Usage) -> Retryable:
    """For a reply that broke off; `usage` is what it cost so far."""
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return Retryable(f"the reply broke off: nothing came for {read_seconds:g} s", usage=usage)
    return Retryable(f"the reply broke off ({type(error).__name__})", usage=usage)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the server asks to wait, by `retry-after-ms`, `retry-after` (seconds or a date), or the latest
    reset of a rate limit that is used up; None when it does not say."""
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


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _redacted(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return text
