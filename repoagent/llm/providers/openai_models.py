"""What a server says of itself: the models it has, how much of a prompt it reads, whether it is there at all."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.providers.endpoints import (
    Endpoint,
    Key,
    display_address,
    endpoint_hint,
    find_key,
    needs_key,
)
from repoagent.llm.providers.errors import brief, causes, new_http_client, unusable_key
from repoagent.llm.usage import Price

_LARGEST = 32_000_000  # bytes of an answer; OpenRouter's list has about one million
_CONTEXTS = ("max_model_len", "context_length", "context_window", "max_context_length")


@dataclass(frozen=True)
class ServedModel:
    """A model that a server has. `context` is in tokens; both are None where the server does not say."""

    id: str
    context: int | None = None
    price: Price | None = None


def list_models(endpoint: Endpoint, key: Key | None = None, *, seconds: float = 5.0) -> list[ServedModel]:
    """The models that the server lists. `key` is looked up when it is None.

    Raises ModelError, with a short sentence, when the server can't be asked or gives no list.
    """
    answer = _get(endpoint, "/models", key or find_key(endpoint), seconds)
    rows = answer.get("data") if isinstance(answer, dict) else answer  # a bare list: Together
    if not isinstance(rows, list):
        raise ModelError(
            f"{display_address(endpoint.base_url)}/models is not a list of models: check the base URL"
        )
    return [_served(row) for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


def why_unreachable(endpoint: Endpoint) -> str:
    """Why the endpoint can't be used, in a few words; "" when it can. At most 5 seconds."""
    try:
        key = find_key(endpoint)
        if key is None and needs_key(endpoint):
            return f"no key: set {endpoint.key_variables[0]}" if endpoint.key_variables else "no key"
        list_models(endpoint, key)
    except ModelError as error:
        return str(error)
    return ""


def context_of(endpoint: Endpoint, name: str, *, seconds: float = 2.0) -> int | None:
    """How many tokens of context a server of THIS machine gives the model, as it runs now; None where it does
    not say, and for any other server. Never raises."""
    if not endpoint.local:
        return None
    until = time.monotonic() + seconds
    try:
        key = find_key(endpoint)
        for ask in _context_queries(endpoint):
            left = until - time.monotonic()
            found = ask(endpoint, name, key, left) if left > 0 else None
            if found:
                return found
    except ModelError:
        pass  # not there, or not what it is said to be: the first call will say so
    return None


ContextQuery = Callable[[Endpoint, str, Key | None, float], int | None]


def _context_queries(endpoint: Endpoint) -> list[ContextQuery]:
    """What to ask, the likeliest first."""
    if "ollama_api" in endpoint.traits:
        return [_ollama_loaded, _ollama_model]
    if "lmstudio_api" in endpoint.traits:
        return [_lmstudio]
    if "props" in endpoint.traits:
        return [_llamacpp]
    return [_vllm, _llamacpp]


def _ollama_loaded(endpoint: Endpoint, name: str, key: Key | None, seconds: float) -> int | None:
    answer = _get(endpoint, "/api/ps", key, seconds, root=True)
    names = {name, f"{name}:latest"}
    for row in _rows(answer, "models"):
        if names & {row.get("name"), row.get("model")}:
            return _tokens(row.get("context_length"))
    return None


def _ollama_model(endpoint: Endpoint, name: str, key: Key | None, seconds: float) -> int | None:
    """`num_ctx` of the model's own file. Its `context_length` is what it was trained with, not what it gets."""
    answer = _get(endpoint, "/api/show", key, seconds, root=True, body={"model": name})
    text = answer.get("parameters") if isinstance(answer, dict) else None
    found = re.search(r"^num_ctx\s+(\d+)", text, re.MULTILINE) if isinstance(text, str) else None
    return _tokens(int(found[1])) if found else None


def _lmstudio(endpoint: Endpoint, name: str, key: Key | None, seconds: float) -> int | None:
    for row in _rows(_get(endpoint, "/api/v0/models", key, seconds, root=True), "data"):
        if row.get("id") == name:
            return _tokens(row.get("loaded_context_length"))
    return None


def _llamacpp(endpoint: Endpoint, name: str, key: Key | None, seconds: float) -> int | None:
    answer = _get(endpoint, f"/props?model={quote(name)}", key, seconds, root=True)
    settings = answer.get("default_generation_settings") if isinstance(answer, dict) else None
    return _tokens(settings.get("n_ctx")) if isinstance(settings, dict) else None


def _vllm(endpoint: Endpoint, name: str, key: Key | None, seconds: float) -> int | None:
    for row in _rows(_get(endpoint, "/models", key, seconds), "data"):
        if row.get("id") == name:
            return _tokens(row.get("max_model_len"))
    return None


def _get(
    endpoint: Endpoint,
    path: str,
    key: Key | None,
    seconds: float,
    *,
    root: bool = False,
    body: Mapping[str, str] | None = None,
) -> Any:
    """The JSON at `path` of the base URL, or of what stands before its /v1; POSTed with a `body`.

    Raises ModelError, in a few words. Gives up after about `seconds`, whatever the server does meanwhile.
    """
    import httpx2

    base = endpoint.base_url.removesuffix("/v1") if root else endpoint.base_url
    secrets = [key.secret] if key else []
    if key is not None and unusable_key(key.secret):
        raise ModelError(f"the key ({key.origin}) contains an invalid character")
    headers = {"Authorization": f"Bearer {key.secret}"} if key else {}
    until = time.monotonic() + seconds
    data = b""
    try:
        with (
            new_http_client(endpoint) as http,
            http.stream(
                "POST" if body else "GET", base + path, json=body, headers=headers, timeout=seconds / 2
            ) as response,
        ):
            for piece in response.iter_bytes():
                data += piece
                if time.monotonic() > until or len(data) > _LARGEST:
                    raise ModelError(f"too slow: no answer in {seconds:g} s")
            status = response.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise ModelError(_why_not(endpoint, error, seconds, secrets)) from error
    if status in {401, 403}:
        raise ModelError(f"the server rejected the key ({key.origin})" if key else "the server needs a key")
    if status >= 400:
        raise ModelError(
            f"{display_address(base)}{path.partition('?')[0]} answers {status}: check the base URL"
        )
    try:
        return json.loads(data)
    except ValueError as error:
        raise ModelError(
            f"the server at {display_address(endpoint.base_url)} is not a model server: check the base URL"
        ) from error


def _why_not(endpoint: Endpoint, error: Exception, seconds: float, secrets: list[str]) -> str:
    import ssl

    import httpx2

    found = list(causes(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in found):
        start = endpoint_hint(endpoint.name, "start")
        return f"not running: start it with `{start}`" if start and endpoint.local else "no server there"
    if any(isinstance(cause, httpx2.TimeoutException) for cause in found):
        return f"too slow: no answer in {seconds:g} s"
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in found):
        return "its certificate is not trusted: set SSL_CERT_FILE"
    return f"cannot be reached ({brief(str(found[-1]), secrets) or type(found[-1]).__name__})"


def _served(row: Mapping[str, Any]) -> ServedModel:
    top = row.get("top_provider")
    contexts = [top.get("context_length") if isinstance(top, dict) else None, *map(row.get, _CONTEXTS)]
    context = next((tokens for value in contexts if (tokens := _tokens(value))), None)
    return ServedModel(row["id"].removeprefix("models/"), context, _price(row.get("pricing")))


def _price(pricing: object) -> Price | None:
    """Dollars for a million tokens: so Together, as numbers; OpenRouter says them for one token, as texts."""
    if not isinstance(pricing, dict):
        return None
    if "prompt" in pricing:
        names = ("prompt", "completion", "input_cache_read", "input_cache_write")
        factor = 1_000_000
    else:
        names, factor = ("input", "output", "cached_input", ""), 1
    given = [_dollars(pricing.get(name)) for name in names]
    if given[0] is None or given[1] is None:
        return None
    paid, wrote, read, write = (round((given[0] if value is None else value) * factor, 6) for value in given)
    return Price(paid, wrote, read, write)


def _dollars(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        return None
    return number if 0 <= number < 1e6 else None  # OpenRouter's -1: it depends


def _rows(answer: object, name: str) -> list[dict[str, Any]]:
    rows = answer.get(name) if isinstance(answer, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
