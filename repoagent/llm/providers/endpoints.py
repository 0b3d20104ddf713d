"""Servers with OpenAI's protocol: their addresses, keys, and models.

Known servers are in endpoints.toml; `[providers.NAME]` in the user's configuration changes or adds one.
"""

from __future__ import annotations

import ipaddress
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from repoagent.config.layers import parse_toml
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError
from repoagent.llm.registry import Backend, ModelOptions, ModelStatus

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.llm.model import Model

_NO_PDF = (
    "its server does not accept PDFs over this protocol. Send the PDF's text (pdftotext IN.pdf OUT.txt) or "
    "its pages as images (pdftoppm -png IN.pdf page)"
)


@dataclass(frozen=True)
class Endpoint:
    """The server for the models `NAME/model`.

    base_url: the URL including `/v1`.
    key_variables: environment variables for the key; the first one set is used.
    local: whether the server runs on this machine.
    traits: deviations from the common protocol; see endpoints.toml.
    socket: the Unix socket to connect to instead of the host.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    local: bool = False
    traits: frozenset[str] = frozenset()
    socket: str = ""

    @property
    def address(self) -> str:
        """The URL to show in messages, without a password."""
        return display_address(self.base_url)

    @property
    def address_setting(self) -> str:
        """The names of the settings that determine the address, for messages."""
        variable = self.hint("address_variable")
        setting = f"providers.{self.name}.base_url in your configuration"
        return f"{variable} or {setting}" if variable else setting

    @property
    def needs_key(self) -> bool:
        return bool(self.key_variables) and not self.local and "key_optional" not in self.traits

    @property
    def no_pdf(self) -> str:
        """Why the server accepts no PDFs, with a remedy; "" if it does."""
        return "" if "pdf" in self.traits else _NO_PDF

    def hint(self, kind: str) -> str:
        """The field `kind` of a known server (`key_page`, `start`, `get` or `address_variable`); "" if not defined."""
        return str(_known().get(self.name, {}).get(kind, ""))

    def no_response(self, error: Exception, seconds: float | None, secrets: list[str]) -> ModelError:
        """The error for a request that got no response.

        If a local server is not running, this is a plain ModelError, so that the request is not repeated.
        """
        from repoagent.llm.providers.errors import causes, unreachable

        if self.local and any(isinstance(cause, ConnectionRefusedError) for cause in causes(error)):
            start = self.hint("start")
            remedy = f"start it with `{start}`" if start else "start it"
            return ModelError(f"no server at {self.address}: {remedy}, or check {self.address_setting}")
        return unreachable(error, self.address, seconds, secrets, "its base URL and the key")


@cache
def _known() -> Mapping[str, Mapping[str, Any]]:
    return parse_toml(Path(__file__).with_name("endpoints.toml").read_bytes())


def endpoint_names() -> tuple[str, ...]:
    """The names of the servers in endpoints.toml, in the order of the file."""
    return tuple(_known())


def endpoint(name: str, configured: Mapping[str, Mapping[str, Any]]) -> Endpoint | None:
    """The endpoint `name`; None if its address is not defined.

    `configured` is the `providers` table of the user's configuration, which overrides the environment and
    endpoints.toml. Raises UsageError for an invalid entry or address.
    """
    known = _known().get(name, {})
    user = configured.get(name, {})
    variable = str(known.get("address_variable", ""))
    if "base_url" in user:
        address, source = str(user["base_url"]), f"providers.{name}.base_url in the configuration"
    elif address := os.environ.get(variable, "").strip():
        source = variable
        if variable == "OLLAMA_HOST":
            address = _of_ollama_host(address)
    elif "base_url" in known:
        address, source = str(known["base_url"]), "endpoints.toml"
    else:
        return None
    traits: frozenset[str] = frozenset(user.get("traits", known.get("traits", ())))
    all_traits = {trait for server in _known().values() for trait in server.get("traits", ())}
    if unknown := traits - all_traits:
        table = f"providers.{name} in the configuration"
        raise UsageError(
            f"{table} has an unknown trait {min(unknown)!r}: the known ones are {', '.join(sorted(all_traits))}"
        )
    if "traits" not in user and address != known.get("base_url"):
        traits -= {"responses"}  # most gateways support only Chat Completions
    address = address.strip()
    try:
        parts = urlsplit(address)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        valid = False
    if not valid or not address.isprintable() or " " in address:
        shown = re.sub(r"//[^/]*@", "//", address)
        raise UsageError(f"{source} is not a URL ({shown!r}): set it to one like https://host/v1")
    host = parts.hostname or ""
    local = host == "localhost" or host.endswith(".localhost")
    with suppress(ValueError):
        local = local or ipaddress.ip_address(host).is_loopback
    variables = (
        (str(user["api_key_env"]),) if "api_key_env" in user else tuple(known.get("key_variables", ()))
    )
    return Endpoint(name, address.rstrip("/"), variables, local, traits)


def _of_ollama_host(text: str) -> str:
    """The base URL for OLLAMA_HOST: scheme, host and port are optional. All interfaces become loopback."""
    scheme, _, rest = text.rpartition("://")
    match = re.fullmatch(r"(\[[^\]]*\]|[^:/]*)(?::(\d+))?(/.*)?", rest)
    if match is None:
        return text  # `endpoint` refuses it
    host = "127.0.0.1" if match[1] in {"", "0.0.0.0", "[::]"} else match[1]
    port = match[2] or {"http": "80", "https": "443"}.get(scheme, "11434")
    base = f"{scheme or 'http'}://{host}:{port}{match[3] or ''}".rstrip("/")
    return base if base.endswith("/v1") else f"{base}/v1"


def display_address(address: str) -> str:
    """A URL without its password and query."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def find_key(endpoint: Endpoint) -> tuple[str, str]:
    """The key in the first environment variable that is set, and the variable's name; both are "" if none is set."""
    for variable in endpoint.key_variables:
        if secret := os.environ.get(variable):
            return secret, variable
    return "", ""


def list_models(endpoint: Endpoint) -> list[str]:
    """The models that the server lists. Raises ModelError if it returns no list."""
    body = _get(endpoint, f"{endpoint.base_url}/models", 5.0)
    rows = body.get("data") if isinstance(body, dict) else body  # Together sends a bare list
    if not isinstance(rows, list):
        raise ModelError(f"{endpoint.address}/models did not return a list of models: check the base URL")
    names = [row.get("id") for row in rows if isinstance(row, dict)]
    return [name.removeprefix("models/") for name in names if isinstance(name, str)]


def context_of(endpoint: Endpoint, name: str) -> int | None:
    """The context window in tokens that a local server currently gives the model. Takes two seconds at most and never
    raises.

    Returns None if the server does not report a window or is not local.
    """
    if endpoint.local:
        # if the server does not run or is of another kind, the first call reports it
        with suppress(ModelError, AttributeError, TypeError):
            for tokens in _context_sizes(endpoint, name, time.monotonic() + 2.0):
                if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
                    return tokens
    return None


def _context_sizes(endpoint: Endpoint, name: str, until: float) -> Iterator[Any]:
    """The window as the server reports it, in one of several ways, by its traits."""

    def get(url: str, body: Mapping[str, str] | None = None) -> Any:
        return _get(endpoint, url, until - time.monotonic(), body)

    def row(body: Any, rows: str, *fields: str) -> Any:
        names = {name, f"{name}:latest"}
        return next((row for row in body[rows] if names & {row.get(field) for field in fields}), {})

    root = endpoint.base_url.removesuffix("/v1")
    if "ollama_api" in endpoint.traits:
        yield row(get(f"{root}/api/ps"), "models", "name", "model").get("context_length")
        # not its `context_length`, which is the limit of the model's training
        parameters = str(get(f"{root}/api/show", {"model": name}).get("parameters"))
        match = re.search(r"^num_ctx\s+(\d+)", parameters, re.MULTILINE)
        yield int(match[1]) if match else None
    elif "lmstudio_api" in endpoint.traits:
        yield row(get(f"{root}/api/v0/models"), "data", "id").get("loaded_context_length")
    else:
        if "props" not in endpoint.traits:
            yield row(get(f"{endpoint.base_url}/models"), "data", "id").get("max_model_len")  # vLLM
        yield get(f"{root}/props?model={quote(name)}")["default_generation_settings"].get("n_ctx")


def _get(endpoint: Endpoint, url: str, seconds: float, body: Mapping[str, str] | None = None) -> Any:
    """The JSON at `url`, requested by POST if there is a `body`. Raises ModelError after about `seconds` at most."""
    import httpx2

    from repoagent.llm.providers.errors import unusable_key
    from repoagent.llm.providers.http import new_http_client

    key, variable = find_key(endpoint)
    if unusable_key(key):
        raise ModelError(f"the key (environment {variable}) contains an invalid character: set it again")
    if seconds <= 0:
        raise ModelError("too slow")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with new_http_client(endpoint) as http:
            method = "POST" if body else "GET"
            response = http.request(method, url, json=body, headers=headers, timeout=seconds / 2)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise endpoint.no_response(error, seconds / 2, [key] if key else []) from error
    if response.status_code in {401, 403}:
        names = " or ".join(endpoint.key_variables) or f"providers.{endpoint.name}.api_key_env"
        if key:
            raise ModelError(
                f"the server rejected the key (environment {variable}): set a valid one as {names}"
            )
        raise ModelError(f"the server needs a key: set {names}")
    if response.status_code >= 400:
        raise ModelError(f"{display_address(url)} returned {response.status_code}: check the base URL")
    try:
        return response.json()
    except ValueError as error:
        address = endpoint.address
        raise ModelError(f"the server at {address} is not a model server: check the base URL") from error


class ServerBackend(Backend):
    """Opens and checks the models of a server in endpoints.toml or in the configuration."""

    def open_model(self, model: str, options: ModelOptions) -> Model | None:
        if (server := self._endpoint(options.settings)) is None:
            return None
        from repoagent.llm.providers.openai import OpenAIModel

        return OpenAIModel(server, model, options.wishes, options.seconds)

    def preload(self, model: str) -> None:
        if self.name in endpoint_names() and (server := endpoint(self.name, {})):
            from repoagent.llm.providers.http import in_background
            from repoagent.llm.providers.openai import connect

            in_background(lambda: connect(server), "openai-preload")

    def check(self, settings: Settings, model: str, *, online: bool = True) -> ModelStatus:
        if (server := self._endpoint(settings)) is None:
            return ModelStatus(problem=f"no provider {self.name}: `repoagent models` lists the known ones")
        _, variable = find_key(server)
        if not variable and server.needs_key:
            return ModelStatus(problem=f"no key: set {' or '.join(server.key_variables)}", tried=False)
        origin = f"environment {variable}" if variable else ""
        if not online:
            return ModelStatus(origin, tried=False)
        try:
            list_models(server)
        except ModelError as error:
            return ModelStatus(origin, str(error))
        return ModelStatus(origin, context=context_of(server, model) if model else None)

    def no_pdf(self, settings: Settings) -> str:
        server = self._endpoint(settings)
        return server.no_pdf if server else ""

    def _endpoint(self, settings: Settings) -> Endpoint | None:
        return endpoint(self.name, settings.family("providers"))
