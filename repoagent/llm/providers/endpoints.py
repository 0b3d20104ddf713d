"""An endpoint: where a provider's models are reached, and with which key.

From a provider's name to its endpoint and key: the ready ones of endpoints.toml, and the user's own.
"""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError
from repoagent.llm.provider import SERVERS, Backend, Diagnosis, ModelOptions, Status, not_installed

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.llm.media import MediaLimits
    from repoagent.llm.model import Model


@dataclass(frozen=True)
class Endpoint:
    """How `NAME/model` is reached through an OpenAI-compatible server.

    base_url: up to and with `/v1`. key_variables: environment variables, the first that is set has the key;
    () where none is needed. key_command: a program that prints it (a password manager), asked when no variable
    is set. local: a server on this machine, which needs no key. traits: what it has beyond the common protocol,
    see endpoints.toml.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    key_command: str = ""
    local: bool = False
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Key:
    """A key and where it came from ("environment OPENAI_API_KEY", "command pass show openai"). Never shown."""

    secret: str
    origin: str

    def __repr__(self) -> str:
        return f"Key(***, {self.origin!r})"


TRAITS = frozenset(
    {
        "breakpoints",
        "cost",
        "grammar",
        "key_optional",
        "lmstudio_api",
        "max_completion_tokens",
        "no_gif",
        "no_webp",
        "ollama_api",
        "pdf",
        "pdf_as_text",
        "props",
        "reasoning_object",
        "responses",
        "truncates",
        "usage_unasked",
    }
)
KEY_SECONDS = 30.0  # a password manager may ask for a finger or a PIN

_OWN = ("base_url", "api_key_env", "api_key_command", "traits")
_OLLAMA_PORT = 11434


def endpoint_names() -> tuple[str, ...]:
    """The ready names, in the order of endpoints.toml."""
    return tuple(_ready())


def endpoint(name: str, own: Mapping[str, Mapping[str, object]]) -> Endpoint | None:
    """The endpoint `name`, or None when neither endpoints.toml nor the user knows where it is.

    `own` is the `providers` table of the user's configuration: {"mine": {"base_url": …, "api_key_env": a
    name or a list of names, "api_key_command": …, "traits": […]}}; what it says comes before the ready row
    and the environment. Raises UsageError for a row or an address that can't be used.
    """
    row = _ready().get(name, {})
    mine = _checked(name, own.get(name, {}))
    variable = str(row.get("address_variable", ""))
    if "base_url" in mine:
        address, source = str(mine["base_url"]), f"providers.{name}.base_url of the configuration"
    elif os.environ.get(variable, "").strip():
        address, source = os.environ[variable].strip(), variable
        if variable == "OLLAMA_HOST":
            address = _of_ollama_host(address)
    elif "base_url" in row:
        address, source = str(row["base_url"]), "endpoints.toml"
    else:
        return None
    traits = frozenset(mine.get("traits", row.get("traits", ())))
    if "traits" not in mine and address != row.get("base_url"):
        traits -= {"responses"}  # a gateway seldom has more than Chat Completions
    address = _url(address, source)
    variables = mine.get("api_key_env", row.get("key_variables", ()))
    return Endpoint(
        name,
        address,
        (variables,) if isinstance(variables, str) else tuple(variables),
        str(mine.get("api_key_command", "")),
        _is_loopback(urlsplit(address).hostname or ""),
        traits,
    )


def needs_key(endpoint: Endpoint) -> bool:
    """Whether a call without a key is not worth trying."""
    asked_for = bool(endpoint.key_variables or endpoint.key_command)
    return asked_for and not endpoint.local and "key_optional" not in endpoint.traits


def find_key(endpoint: Endpoint) -> Key | None:
    """The key, from the first environment variable that is set, else from the command; None where there is
    none. Raises ModelError when the command gives none; neither it nor what it printed is in the message."""
    for variable in endpoint.key_variables:
        if os.environ.get(variable):
            return Key(os.environ[variable], f"environment {variable}")
    if endpoint.key_command:
        return Key(_printed_key(endpoint), f"command {endpoint.key_command}")
    return None


def endpoint_hint(name: str, kind: str) -> str:
    """`key_page`, `start` or `get` of a ready name, "" where there is none."""
    return str(_ready().get(name, {}).get(kind, ""))


def display_address(address: str) -> str:
    """A URL as it may be shown: without a password or a query in it."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_commands = threading.Lock()
_printed: dict[str, str] = {}


def _printed_key(endpoint: Endpoint) -> str:
    """What the command prints. A person is asked for a PIN once, not for every call."""
    with _commands:
        if endpoint.key_command not in _printed:
            _printed[endpoint.key_command] = _run(endpoint)
        return _printed[endpoint.key_command]


def _run(endpoint: Endpoint) -> str:
    setting = f"providers.{endpoint.name}.api_key_command of the configuration"
    try:
        done = subprocess.run(
            endpoint.key_command,
            shell=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=KEY_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        why = f"printed no key in {KEY_SECONDS:g} s"
    except (OSError, ValueError) as error:  # no shell, or a NUL in the command
        why = f"cannot be run ({type(error).__name__})"
    else:
        key = done.stdout.decode("utf-8", "replace").strip()
        if done.returncode == 0 and key:
            return key
        why = f"failed with exit code {done.returncode}" if done.returncode else "printed no key"
    raise ModelError(f"{setting} {why}: run it yourself to see why") from None


@cache
def _ready() -> Mapping[str, Mapping[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(Path(__file__).with_name("endpoints.toml").read_text("utf-8"))


def _checked(name: str, row: object) -> Mapping[str, Any]:
    """A row of the user's, if it is one. Values are not repeated in errors: one could be a key."""
    where = f"providers.{name} of the configuration"
    if not isinstance(row, Mapping):
        raise UsageError(f'{where} is not a table: write [providers.{name}] and base_url = "https://host/v1"')
    for key, value in row.items():
        if key not in _OWN:
            raise UsageError(f"{where} has an unknown key {key!r}: use {', '.join(_OWN)}")
        many = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        if not (isinstance(value, str) if key in {"base_url", "api_key_command"} else many):
            if key == "api_key_env" and isinstance(value, str):
                continue
            raise UsageError(f"{key} in {where} is not a {'string' if key != 'traits' else 'list of names'}")
    unknown = set(row.get("traits", ())) - TRAITS
    if unknown:
        known = ", ".join(sorted(TRAITS))
        raise UsageError(f"{where} has an unknown trait {min(unknown)!r}: use {known}")
    return row


def _url(text: str, source: str) -> str:
    """`text` without a slash at its end, if it is an http(s) URL."""
    try:
        parts = urlsplit(text.strip())
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, an IPv6 address that does not end
        good = False
    if not good or not text.strip().isprintable() or " " in text.strip():
        said = re.sub(r"//[^/]*@", "//", text)
        raise UsageError(f"{source} is not a URL ({said!r}): set it to one like https://host/v1")
    return text.strip().rstrip("/")


def _of_ollama_host(text: str) -> str:
    """The base URL for what OLLAMA_HOST says, read as Ollama reads it: scheme, host, port may each be missing.

    A server told to listen on every address is asked on this machine's own.
    """
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "http", text
    where, slash, path = rest.partition("/")
    if where.count(":") > 1 and "[" not in where:
        where = f"[{where}]"
    colon = where.rfind(":")
    host, port = (where[:colon], where[colon + 1 :]) if colon > where.rfind("]") else (where, "")
    port = port or ({"http": "80", "https": "443"}.get(scheme, "") if found else str(_OLLAMA_PORT))
    host = host if host not in {"", "0.0.0.0", "[::]"} else "127.0.0.1"
    base = f"{scheme}://{host}:{port}{slash}{path}".rstrip("/")
    return base if base.endswith("/v1") else f"{base}/v1"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServerBackend(Backend):
    """Servers that speak OpenAI's protocol: those of endpoints.toml, and the user's."""

    def open_model(self, model: str, options: ModelOptions) -> Model | None:
        if (found := self._endpoint(options.settings)) is None:
            return None
        from repoagent.llm.providers.openai import OpenAIModel

        return OpenAIModel(found, model, options.wishes, options.seconds)

    def preload(self, model: str) -> None:
        if self.name in endpoint_names() and (found := endpoint(self.name, {})):
            from repoagent.llm.providers.openai import preload

            preload(found)

    def check(self, settings: Settings, model: str) -> Status:
        from repoagent.llm.providers.openai_models import context_of, why_unreachable

        if (found := self._endpoint(settings)) is None:
            return Status(problem=f"no provider {self.name}")
        key = find_key(found)
        if key is None and needs_key(found):
            return Status(problem=f"no key: set {self._key_settings(found)}", tried=False)
        problem = why_unreachable(found)
        context = context_of(found, model) if model and found.local and not problem else None
        return Status(key.origin if key else "", problem, context=context)

    def diagnose(self, settings: Settings, model: str) -> Diagnosis:
        found = self._endpoint(settings)
        if found is None or not model:
            return Diagnosis("there is no such provider", "run `repoagent models` to list the providers")
        if not SERVERS.is_installed:
            return not_installed(SERVERS)
        if variable := next((name for name in found.key_variables if os.environ.get(name)), ""):
            return Diagnosis(f"key in the environment variable {variable}")
        if found.key_command:
            return Diagnosis("key by a command (not run)")
        if needs_key(found):
            return Diagnosis("no key", f"set {self._key_settings(found)}")
        return Diagnosis("needs no key")

    def media_limits(self, settings: Settings, context: int | None) -> MediaLimits | None:
        from repoagent.llm.providers.openai_parameters import media_limits

        found = self._endpoint(settings)
        return media_limits(found) if found else None

    def extracts_pdf_text(self, settings: Settings) -> bool:
        found = self._endpoint(settings)
        return found is not None and "pdf_as_text" in found.traits

    def _endpoint(self, settings: Settings) -> Endpoint | None:
        return endpoint(self.name, settings.family("providers"))

    def _key_settings(self, found: Endpoint) -> str:
        return " or ".join(found.key_variables) or f"providers.{self.name}.api_key_env"
