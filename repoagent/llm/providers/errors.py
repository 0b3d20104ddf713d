"""A sentence with a remedy for each failure of a model server, for all providers.

No sentence contains a key, not even one echoed by a server or a library: their messages go through `brief`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.model import Request, Retryable, Usage

MODEL_ADVICE = """\
Quick ways to set up a model:
  export ANTHROPIC_API_KEY=...   with a key from console.anthropic.com
  --model openai/NAME            or ollama/NAME, local/FILE.gguf
  --model "command:claude -p"    any program that turns a prompt into a reply
  --model manual                 copy the prompt to a chat, and the reply back
To make a choice permanent: git config --global repoagent.model SPEC
More: repoagent help docs/models.md"""

THINKING_TOKENS = 32_000  # added to the limit on a reply, since thinking counts against it
BREAKPOINTS = 4  # of the prompt cache, in one request
_SHORTEST_KEY = 6  # characters; shorter keys are dummies for servers that require any key

CLOSED_EARLY = "the reply was cut off: the server closed the stream early"
BAD_CALL = "the reply has a tool call whose arguments are not valid JSON"

_TRANSIENT = {429: "the account has hit its rate limit", 529: "the server is overloaded"}
# By HTTP status: the failure, and the remedy unless the provider has a better one.
_REJECTIONS = {
    401: ("{host} rejected the key ({message})", "set a valid one"),
    402: ("the account cannot pay for this call ({message})", "check its limits and billing"),
    403: ("the key is not allowed to use {spec} ({message})", "use another key or another model"),
    404: ("{host} has no {spec} ({message})", "check the name"),
    413: ("the prompt is too long for {spec} ({message})", "name fewer files, or only a part of one"),
}
# Errors in a stream have a name instead of an HTTP status; the last four are of AWS.
_STATUS_OF = {
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
    "throttlingException": 429,
    "validationException": 400,
    "modelTimeoutException": 504,
    "serviceUnavailableException": 529,
}
# What servers mean by a general status: the statuses, what the body contains in lower case, and the meaning.
_MEANINGS = (
    ({405}, "", 404),  # a wrong base URL
    (
        {*range(400, 429), *range(430, 500)},
        r"maximum context|context length|context size|context window|context limit|prompt is too long"
        r"|input is too long|too many tokens(?! per)|exceeds? the (maximum|limit|model)[^.]*tokens|input token count"
        r"|context_length_exceeded|exceed_context_size_error",
        413,
    ),
    (
        {400, 404, 410, 422},
        r"\bmodels?\b.*(not found|not exist|no such|unknown|not a valid|not available|not supported for"
        r"|no longer|decommissioned|deprecated)|(no such|unknown|invalid|no|not a valid) model\b|no endpoints found"
        r"|model identifier is invalid|on-demand throughput|inference profile|not servable in region",
        404,
    ),
    (
        {400, 402, 403, 429},
        r"insufficient_quota|insufficient.{0,3}(balance|credit|quota)|billing_hard_limit|exceeded_current_quota"
        r"|credit balance|out of credits|more credits|spend_limit_reached|too many tokens per day",
        402,
    ),
    (
        {400, 403},
        r"api.?key not valid|invalid.{0,3}api.?key|incorrect api key|api_key_invalid|expiredtoken|requestexpired"
        r"|unrecognizedclient|invalidclienttokenid|signatureexception|signaturedoesnot|missingauthenticationtoken",
        401,
    ),
)
_WAIT = re.compile(r"(?:(?:retry|try again) in |\"retrydelay\": ?\")(?:(\d+)m(?!s))?(\d+(?:\.\d+)?)(ms|s)\b")


@dataclass(frozen=True)
class ServerError:
    """An error from a server.

    `status` is the HTTP status or, if that is 200, the status in the body. `text` is the whole body in lower case.
    """

    status: int
    message: str
    code: str = ""
    param: str = ""
    text: str = ""

    @property
    def meaning(self) -> int:
        """The status that describes the error best, judging by the body."""
        meanings = (
            to for of, pattern, to in _MEANINGS if self.status in of and re.search(pattern, self.text)
        )
        return next(meanings, self.status)


def parse_error(status: int, body: object, code: str = "") -> ServerError:
    """Parse the error `body` of any server. `code` is the error code from a header.

    The body may be {"error": {…}}, {"error": "text"}, the value of "error" itself, {"detail": …}, {"message": {…}}, a
    list of one of these, plain text, or HTML.
    """
    if isinstance(body, str):
        with suppress(ValueError):
            body = json.loads(body)
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return ServerError(status if status >= 400 else 500, without_page(body), code, text=body.lower())
    error: Any = body.get("error") or body if isinstance(body, Mapping) else {}
    if not isinstance(error, Mapping):
        error = {"message": error}
    message = error.get("message") or error.get("Message") or error.get("detail") or error
    upstream = error["metadata"].get("raw") if isinstance(error.get("metadata"), Mapping) else None
    if isinstance(upstream, str) and upstream:
        message = f"{message}: {upstream}"  # OpenRouter: the error of the provider behind it
    values = [code, *(error.get(name) for name in ("status", "__type", "code", "type"))]
    codes = [str(value).partition(":")[0].rpartition("#")[2] for value in values if value]
    if status < 400:
        numbers = [int(item) for item in codes if re.fullmatch(r"[45]\d\d", item)]
        status = next(iter([*numbers, *(_STATUS_OF[item] for item in codes if item in _STATUS_OF)]), 500)
    text = json.dumps(body, ensure_ascii=False, default=str)
    return ServerError(
        status,
        message if isinstance(message, str) else json.dumps(message, default=str),
        codes[0] if codes else "",
        str(error.get("param") or ""),
        f"{code} {text}".lower(),
    )


def rejection(
    error: ServerError,
    *,
    host: str,
    spec: str,
    advice: Mapping[int, str],
    headers: Mapping[str, str],
    usage: Usage,
    request: Request,
    secrets: Collection[str] = (),
) -> ModelError:
    """The exception for a server's error: a Retryable if the same request may succeed later, else a ModelError.

    `advice` maps HTTP statuses to remedies.
    """
    status, hint, wait = error.meaning, headers.get("x-should-retry"), None
    message = brief(error.message, secrets) or "no reason given"
    is_transient = status in {408, 409, 424, 429} or status >= 500
    if hint == "true" or (hint != "false" and is_transient):
        sentence = _TRANSIENT.get(status, f"the server failed ({status}: {message})")
        with suppress(ValueError):  # a date, or no header
            seconds = float(headers.get("retry-after", ""))
            wait = seconds if 0 <= seconds < float("inf") else None
        if wait is None and (match := _WAIT.search(error.text)):  # "try again in 1m2.5s", "retry in 300ms"
            wait = int(match[1] or 0) * 60 + float(match[2]) / (1000 if match[3] == "ms" else 1)
        return Retryable(sentence, retry_after=wait, usage=usage)
    status = 402 if status == 429 else status
    if status in _REJECTIONS:
        sentence, remedy = _REJECTIONS[status]
        sentence = sentence.format(host=host, spec=spec, message=message)
        sentence = f"{sentence}: {advice.get(status, remedy)}"
    else:
        sentence = f"{spec} does not accept the request ({status}: {message})"
    if (media := request.media) and status in {400, 413, 422}:
        more = f" and {len(media) - 1} more" if len(media) > 1 else ""
        sentence += (
            f". The attachment was {media[0].name or 'a file'} ({media[0].described()}){more}: make it smaller, "
            "convert it, or leave it out"
        )
    return ModelError(sentence)


# By a class of an exception or of its causes: the sentence, and whether the request may succeed later. Names instead of
# classes, so that no library is imported.
_EXCEPTIONS = (
    (
        {"UnsupportedProtocol", "LocalProtocolError", "InvalidURL"},
        "cannot build a request to {host} ({message}): check {settings}",
        False,
    ),
    (
        {"SSLCertVerificationError"},
        "the certificate of {host} is not trusted ({message}): set SSL_CERT_FILE to your CA's certificate",
        False,
    ),
    ({"ReadTimeout"}, "no answer from {host} for {seconds:g} s", True),
    ({"TimeoutException"}, "connecting to {host} timed out", True),
    ({"object"}, "cannot reach {host} ({message})", True),
)


def unreachable(
    error: BaseException,
    host: str,
    seconds: float | None,
    secrets: Collection[str] = (),
    settings: str = "its base URL",
) -> ModelError:
    """The error for a request that got no response. `settings` names the settings to check."""
    chain = list(causes(error))
    names = {base.__name__ for cause in chain for base in type(cause).__mro__}
    message = brief(str(chain[-1]), secrets) or type(chain[-1]).__name__
    sentence, is_transient = next(row[1:] for row in _EXCEPTIONS if names & row[0])
    sentence = sentence.format(host=host, message=message, settings=settings, seconds=seconds or 0)
    return Retryable(sentence) if is_transient else ModelError(sentence)


def broken_stream(error: Exception, read_seconds: float | None, usage: Usage) -> Retryable:
    """The error for a reply that was cut off; `usage` is what the attempt has used so far."""
    import httpx2

    late = isinstance(error, httpx2.TimeoutException)
    reason = f": no data for {read_seconds:g} s" if late else f" ({type(error).__name__})"
    return Retryable(f"the reply was cut off{reason}", usage=usage)


def causes(error: BaseException) -> Iterator[BaseException]:
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


def without_page(text: str) -> str:
    """Return `text`, or "a web page" if it is HTML."""
    return "a web page" if re.match(r"\s*<(!doctype|html|head|body|\?xml)", text, re.IGNORECASE) else text


def unusable_key(secret: str) -> bool:
    """Whether a key contains a line end, a space or another character that is invalid in an HTTP header."""
    return not secret.isascii() or not secret.isprintable() or " " in secret
