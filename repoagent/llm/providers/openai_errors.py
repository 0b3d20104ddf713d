"""What servers of Chat Completions say when something went wrong, for the sentences of failures.py."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.model import Usage
from repoagent.llm.providers.endpoints import Endpoint, display_address, endpoint_hint
from repoagent.llm.providers.errors import Rejection, brief, causes, rejection, retry_after, unreachable

if TYPE_CHECKING:
    import openai

_TOO_LONG = re.compile(
    r"maximum context|context length|context size|context window|prompt is too long|input is too long"
    r"|too many tokens|exceeds? the (maximum|limit|model)[^.]*tokens|input token count|context_length_exceeded"
)
_SPENT = re.compile(
    r"insufficient_quota|insufficient.{0,3}(balance|credit|quota)|billing_hard_limit|exceeded_current_quota"
    r"|credit balance|out of credits|more credits"
)
_BAD_KEY = re.compile(r"api.?key not valid|invalid.{0,3}api.?key|incorrect api key|api_key_invalid")
NO_MODEL = re.compile(
    r"\bmodels?\b.*(not found|not exist|no such|unknown|not a valid|not available|not supported for"
    r"|no longer|decommissioned|deprecated)|(no such|unknown|invalid|no|not a valid) model\b|no endpoints found"
)
_NO_MEMORY = "more system memory"  # Ollama, with a 500
_WAIT = re.compile(
    r"(?:(?:retry|try again) in |\"retrydelay\": ?\")(?:(\d+)m(?!s))?(\d+(?:\.\d+)?)(ms|s)\b", re.IGNORECASE
)

# An error in a stream may have a word for a status.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "exceed_context_size_error": 400,
    "context_length_exceeded": 400,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}


@dataclass(frozen=True)
class ApiError:
    """An error as a server words it. `status` is that of HTTP, or the one in the body of a 200; `all` is
    everything it said, in lower case, to look for marks in."""

    status: int
    message: str
    code: str = ""
    param: str = ""
    all: str = ""


def parse_error(status: int, body: object) -> ApiError:
    """Read the error `body` of any of these servers: {"error": {…}}, {"error": "text"}, what stands in there,
    {"detail": …}, {"message": {…}}, a list of one of these, a text, a page of HTML."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return ApiError(status if status >= 400 else 500, _page(body), all=body.lower())
    error: Any = body.get("error") or body if isinstance(body, Mapping) else {}
    if not isinstance(error, Mapping):
        error = {"message": error}
    message = error.get("message") or error.get("detail") or error
    upstream = error["metadata"].get("raw") if isinstance(error.get("metadata"), Mapping) else None
    if isinstance(upstream, str) and upstream:
        message = f"{message}: {upstream}"  # OpenRouter: what the provider behind it said
    code, kind = str(error.get("code") or ""), str(error.get("type") or "")
    if status < 400:
        number = int(code) if re.fullmatch(r"[45]\d\d", code) else 0
        status = number or _STATUS.get(code) or _STATUS.get(kind) or 500
    return ApiError(
        status,
        message if isinstance(message, str) else json.dumps(message),
        code or kind,
        str(error.get("param") or ""),
        json.dumps(body, ensure_ascii=False, default=str).lower(),
    )


def rejected(
    failed: ApiError,
    endpoint: Endpoint,
    name: str,
    *,
    headers: Mapping[str, str],
    usage: Usage,
    secrets: list[str],
) -> ModelError:
    """For a status of 400 and above, or an error in a stream; `usage` is what the attempt has cost."""
    status, spec, address = failed.status, f"{endpoint.name}/{name}", display_address(endpoint.base_url)
    said = brief(failed.message, secrets) or "no reason given"
    if status in {400, 404, 410, 422} and NO_MODEL.search(failed.all) and not _TOO_LONG.search(failed.all):
        return no_model(endpoint, name, said)
    if status in {404, 405}:
        return ModelError(f"{address} has no Chat Completions ({status}: {said}): {_check(endpoint)}")
    if _NO_MEMORY in failed.all:
        return ModelError(f"the server cannot load {spec} ({said}): use a smaller model")
    if status in {400, 403} and _BAD_KEY.search(failed.all):
        status = 401
    variables = " or ".join(endpoint.key_variables)
    wait = retry_after(headers)
    return rejection(
        Rejection(
            status,
            said,
            address,
            spec,
            key_advice=f"set a valid one as {variables}" if variables else _key_setting(endpoint),
            name_advice="",
            too_long=(status < 500 and status != 429 and bool(_TOO_LONG.search(failed.all)))
            or failed.code == "exceed_context_size_error",
            spent=status in {400, 402, 403, 429} and bool(_SPENT.search(failed.all)),
            passes={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
            wait=_wait(failed.all) if wait is None else wait,
            usage=usage,
        )
    )


def no_model(endpoint: Endpoint, name: str, said: str) -> ModelError:
    """For a model that the server has not: how to get it, and what it has with a like name."""
    from repoagent.llm.providers.openai_models import list_models

    get = endpoint_hint(endpoint.name, "get").format(name=name)
    advice = f"`{get}` gets it" if get else "check the name"
    try:
        there = [model.id for model in list_models(endpoint, seconds=3.0)]
    except ModelError:
        there = []
    near = there if len(there) <= 6 else similar_models(name, there)
    if near:
        advice += (
            f"{', or use' if get else ': there is'} {', '.join(f'{endpoint.name}/{model}' for model in near)}"
        )
    return ModelError(f"{display_address(endpoint.base_url)} has no model {name} ({said}): {advice}")


def similar_models(name: str, there: Collection[str]) -> list[str]:
    """Up to five names that a person may have meant by `name`."""
    wanted = name.lower().removeprefix("models/")
    parts = [
        model for model in there if wanted in model.lower() or model.lower().rpartition("/")[2] in wanted
    ]
    return list(dict.fromkeys([*sorted(parts, key=len), *get_close_matches(name, there, 5, 0.6)]))[:5]


def no_connection(
    error: openai.APIConnectionError, endpoint: Endpoint, read_seconds: float, secrets: list[str]
) -> ModelError:
    """For a request that got no answer. A server of this machine that is not there will not come by itself."""
    import openai

    if endpoint.local and any(isinstance(cause, ConnectionRefusedError) for cause in causes(error)):
        return not_running(endpoint)
    return unreachable(
        error,
        display_address(endpoint.base_url),
        read_seconds,
        secrets,
        timed_out=isinstance(error, openai.APITimeoutError),
        settings="its base URL and the key",
    )


def not_running(endpoint: Endpoint) -> ModelError:
    start = endpoint_hint(endpoint.name, "start")
    advice = f"start it with `{start}`, or check" if start else "start it, or check"
    return ModelError(
        f"no server at {display_address(endpoint.base_url)}: {advice} {_address_setting(endpoint)}"
    )


def not_chat_completions(endpoint: Endpoint, said: str, secrets: list[str]) -> ModelError:
    """For an answer that is none of Chat Completions."""
    text = brief(_page(said), secrets)[:100] or "an empty answer"
    address = display_address(endpoint.base_url)
    return ModelError(f"the server at {address} does not speak Chat Completions ({text}): {_check(endpoint)}")


def truncated_prompt(endpoint: Endpoint, name: str, read: int, sent: int) -> ModelError:
    """For a prompt of which a part was dropped: an edit made on what is left is worse than none."""
    return ModelError(
        f"{endpoint.name} read only {read:,} of about {sent:,} tokens of the prompt for {name}, so the reply was "
        f"discarded: {_longer_context(endpoint, sent)}, or name fewer files"
    )


def small_context(endpoint: Endpoint, name: str, context: int, sent: int) -> ModelError:
    """For a server that would drop a part of the prompt."""
    return ModelError(
        f"{endpoint.name} gives {name} a context of {context:,} tokens, and the prompt has about {sent:,}: "
        f"{_longer_context(endpoint, sent)}, or name fewer files"
    )


def _longer_context(endpoint: Endpoint, sent: int) -> str:
    if "ollama_api" in endpoint.traits:
        return f"restart it with OLLAMA_CONTEXT_LENGTH={_round_up(sent)} {endpoint_hint('ollama', 'start')}"
    return f"load the model with a context of {_round_up(sent)} tokens or more"


def _round_up(tokens: int) -> int:
    """A context that holds a prompt of `tokens` and a reply."""
    size = 8192
    while size < tokens * 1.5:
        size *= 2
    return size


def _check(endpoint: Endpoint) -> str:
    path = endpoint.base_url.rpartition("/")[2]
    ending = ", which usually ends in /v1" if not re.fullmatch(r"v\d\w*|openai", path) else ""
    return f"check {_address_setting(endpoint)}{ending}"


def _address_setting(endpoint: Endpoint) -> str:
    variable = endpoint_hint(endpoint.name, "address_variable")
    setting = f"providers.{endpoint.name}.base_url of your configuration"
    return f"{variable} or {setting}" if variable else setting


def _key_setting(endpoint: Endpoint) -> str:
    return f"set api_key_env in [providers.{endpoint.name}] of your configuration to the name of its variable"


def _page(text: str) -> str:
    """The title of a page of HTML; another text as it is."""
    if not re.match(r"\s*<(!doctype|html|head|body|\?xml)", text, re.IGNORECASE):
        return text
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    return f"a web page: {title[1].strip()}" if title else "a web page"


def _wait(text: str) -> float | None:
    """Seconds that the words of an error ask to wait: "try again in 1m2.5s", "retry in 300ms"."""
    found = _WAIT.search(text)
    if not found:
        return None
    return int(found[1] or 0) * 60 + float(found[2]) / (1000 if found[3] == "ms" else 1)
