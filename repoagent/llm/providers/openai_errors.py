"""Errors of servers with OpenAI's protocol: parse their many formats, and build the sentences for the user."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.model import Usage
from repoagent.llm.providers import errors
from repoagent.llm.providers.endpoints import Endpoint, list_models

_TOO_LONG = re.compile(
    r"maximum context|context length|context size|context window|prompt is too long|input is too long"
    r"|too many tokens|exceeds? the (maximum|limit|model)[^.]*tokens|input token count|context_length_exceeded"
    r"|exceed_context_size_error"
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
_WAIT = re.compile(
    r"(?:(?:retry|try again) in |\"retrydelay\": ?\")(?:(\d+)m(?!s))?(\d+(?:\.\d+)?)(ms|s)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class ApiError:
    """An error of a server. `status` is the HTTP status, or the one in the body of a 200; `all` is the whole body in
    lower case, for searching."""

    status: int
    message: str
    param: str = ""
    all: str = ""


def parse_error(status: int, body: object) -> ApiError:
    """Parse the error `body` of any of these servers: {"error": {…}}, {"error": "text"}, their inner value,
    {"detail": …}, {"message": {…}}, a list of one of these, plain text, or HTML."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return ApiError(status if status >= 400 else 500, _page_title(body), all=body.lower())
    error: Any = body.get("error") or body if isinstance(body, Mapping) else {}
    if not isinstance(error, Mapping):
        error = {"message": error}
    message = error.get("message") or error.get("detail") or error
    upstream = error["metadata"].get("raw") if isinstance(error.get("metadata"), Mapping) else None
    if isinstance(upstream, str) and upstream:
        message = f"{message}: {upstream}"  # OpenRouter: the error of the provider behind it
    if status < 400:
        code = str(error.get("code") or "")
        number = int(code) if re.fullmatch(r"[45]\d\d", code) else 0
        status = number or errors.STATUS_OF.get(code) or errors.STATUS_OF.get(str(error.get("type"))) or 500
    return ApiError(
        status,
        message if isinstance(message, str) else json.dumps(message),
        str(error.get("param") or ""),
        json.dumps(body, ensure_ascii=False, default=str).lower(),
    )


def rejected(
    error: ApiError,
    endpoint: Endpoint,
    name: str,
    *,
    headers: Mapping[str, str],
    usage: Usage,
    secrets: Collection[str],
) -> ModelError:
    """The error for a status of 400 and above, or for an error in a stream."""
    status, spec, text = error.status, f"{endpoint.name}/{name}", error.all
    message = errors.brief(error.message, secrets) or "no reason given"
    if status < 500 and status != 429 and _TOO_LONG.search(text):
        status = 413
    elif status in {400, 404, 410, 422} and NO_MODEL.search(text):
        return _no_model(endpoint, name, message)
    elif status in {404, 405}:
        return ModelError(
            f"{endpoint.address} has no Chat Completions ({status}: {message}): {_check_address(endpoint)}"
        )
    elif "more system memory" in text:  # Ollama, with a 500
        return ModelError(f"the server cannot load {spec} ({message}): use a smaller model")
    elif status in {400, 402, 403, 429} and _SPENT.search(text):
        status = 402
    elif status in {400, 403} and _BAD_KEY.search(text):
        status = 401
    variables = " or ".join(endpoint.key_variables)
    setting = (
        f"set api_key_env in [providers.{endpoint.name}] of your configuration to the name of its variable"
    )
    wait = None
    if match := _WAIT.search(text):  # "try again in 1m2.5s", "retry in 300ms"
        wait = int(match[1] or 0) * 60 + float(match[2]) / (1000 if match[3] == "ms" else 1)
    return errors.rejection(
        status,
        message,
        host=endpoint.address,
        spec=spec,
        advice={401: f"set a valid one as {variables}" if variables else setting},
        headers=headers,
        wait=wait,
        usage=usage,
    )


def _no_model(endpoint: Endpoint, name: str, message: str) -> ModelError:
    """The error for a missing model, with the command that gets it, or up to five similar models."""
    command = endpoint.hint("get").format(name=name)
    advice = f"`{command}` gets it" if command else "check the name"
    try:
        available = list_models(endpoint, seconds=3.0)
    except ModelError:
        available = []
    near = available
    if len(available) > 6:
        short = name.lower().removeprefix("models/")
        parts = [
            model
            for model in available
            if short in model.lower() or model.lower().rpartition("/")[2] in short
        ]
        near = [*sorted(parts, key=len), *get_close_matches(name, available, 5, 0.6)]
        near = list(dict.fromkeys(near))[:5]
    if near:
        specs = ", ".join(f"{endpoint.name}/{model}" for model in near)
        advice += f"{', or use' if command else ': there is'} {specs}"
    return ModelError(f"{endpoint.address} has no model {name} ({message}): {advice}")


def no_response(
    error: Exception, endpoint: Endpoint, read_seconds: float | None, secrets: Collection[str]
) -> ModelError:
    """The error for a request without a response. If a local server does not run, there is no point in retrying."""
    if endpoint.local and any(isinstance(cause, ConnectionRefusedError) for cause in errors.causes(error)):
        start = endpoint.hint("start")
        advice = f"start it with `{start}`, or check" if start else "start it, or check"
        return ModelError(f"no server at {endpoint.address}: {advice} {_address_setting(endpoint)}")
    return errors.unreachable(error, endpoint.address, read_seconds, secrets, "its base URL and the key")


def not_chat_completions(endpoint: Endpoint, body: str, secrets: Collection[str]) -> ModelError:
    """The error for a response in another format."""
    text = errors.brief(_page_title(body), secrets)[:100] or "an empty answer"
    return ModelError(
        f"the server at {endpoint.address} does not speak Chat Completions ({text}): {_check_address(endpoint)}"
    )


def cut_prompt(endpoint: Endpoint, name: str, sent: int, *, read: int = 0, context: int = 0) -> ModelError:
    """The error for a prompt of about `sent` tokens that the server truncates: an edit based on the rest would be
    wrong. The server has read only `read` tokens, or has a window of `context`."""
    size = 8192
    while size < sent * 1.5:  # the prompt and a reply
        size *= 2
    if "ollama_api" in endpoint.traits:
        remedy = f"restart it with OLLAMA_CONTEXT_LENGTH={size} ollama serve"
    else:
        remedy = f"load the model with a context of {size} tokens or more"
    what = (
        f"read only {read:,} of about {sent:,} tokens of the prompt for {name}, so the reply was discarded"
        if read
        else f"gives {name} a context of {context:,} tokens, and the prompt has about {sent:,}"
    )
    return ModelError(f"{endpoint.name} {what}: {remedy}, or name fewer files")


def _check_address(endpoint: Endpoint) -> str:
    path = endpoint.base_url.rpartition("/")[2]
    ending = ", which usually ends in /v1" if not re.fullmatch(r"v\d\w*|openai", path) else ""
    return f"check {_address_setting(endpoint)}{ending}"


def _address_setting(endpoint: Endpoint) -> str:
    variable = endpoint.hint("address_variable")
    setting = f"providers.{endpoint.name}.base_url of your configuration"
    return f"{variable} or {setting}" if variable else setting


def _page_title(text: str) -> str:
    """The title of an HTML page; any other text unchanged."""
    if not re.match(r"\s*<(!doctype|html|head|body|\?xml)", text, re.IGNORECASE):
        return text
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    return f"a web page: {title[1].strip()}" if title else "a web page"
