"""The model providers: the table PROVIDERS, and `Backend`, the interface that each of them implements.

A spec, as in `--model SPEC`, begins with the name of its provider: `anthropic/NAME`, `command:CMD`, `manual`. Any other
`NAME/MODEL` belongs to SERVERS: NAME is a server with OpenAI's protocol, defined in endpoints.toml or in
`[providers.NAME]` in the configuration. No other module names a provider; docs/internals/providers.md explains how to
add one.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import install_extra

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.llm.model import Model, Wishes


@dataclass(frozen=True)
class Provider:
    """What is known about a provider without importing its module.

    backend: its `Backend`, as `module:class` below repoagent/llm.
    usage, summary: the form of a spec and a short description, for help and completion.
    argument: the kind of text after the separator; a command line may contain a key.
    answered_by: who writes the replies.
    requires: the modules that the extra of the same name installs.
    sdk: the name under which models.toml lists its models.
    address_variables: the environment variables that redirect its requests.
    """

    name: str
    separator: Literal["/", ":", ""]
    backend: str
    usage: str
    summary: str = ""
    argument: Literal["name", "file", "command", ""] = "name"
    answered_by: Literal["model", "user", "recording"] = "model"
    requires: tuple[str, ...] = ()
    sdk: str = ""
    address_variables: tuple[str, ...] = ()

    @property
    def text_only(self) -> bool:
        """Whether the provider accepts neither images nor PDFs. If so, `Model.complete` raises UsageError for them."""
        return self.argument != "name"

    @property
    def model_file(self) -> bool:
        """Whether a model is a file on this machine."""
        return self.argument == "file" and self.answered_by == "model"

    @property
    def reports_model(self) -> bool:
        """Whether a reply names the model that wrote it."""
        return self.argument == "command" or self.answered_by == "recording"

    @property
    def free(self) -> bool:
        """Whether replies cost nothing: they come from a model file, the user, or a recording."""
        return self.model_file or self.answered_by != "model"


_CLAUDE = "providers.anthropic:AnthropicBackend"
_LOCAL = "providers.llamacpp:LocalBackend"
_TABLE = (
    Provider(
        "anthropic",
        "/",
        _CLAUDE,
        "anthropic/NAME",
        sdk="anthropic",
        address_variables=("ANTHROPIC_BASE_URL",),
    ),
    Provider("bedrock", "/", _CLAUDE, "bedrock/NAME", requires=("boto3",), sdk="anthropic"),
    Provider("vertex", "/", _CLAUDE, "vertex/NAME", requires=("google.auth", "requests"), sdk="anthropic"),
    Provider("local", "/", _LOCAL, "local/PATH.gguf", "a file", "file", requires=("xllamacpp",)),
    Provider("command", ":", "providers.command:CommandBackend", "command:CMD", "a program", "command"),
    Provider("manual", "", "providers.manual:ManualBackend", "manual", "any chat, by hand", "", "user"),
    Provider("replay", ":", "cassettes:ReplayBackend", "replay:FILE", "a recording", "file", "recording"),
)
PROVIDERS = {provider.name: provider for provider in _TABLE}
SERVERS = Provider("", "/", "providers.endpoints:ServerBackend", "openai/NAME, ollama/NAME")


class Spec(NamedTuple):
    """The parts of a spec. `name` is that of the provider or of one of SERVERS; `model` is the rest, possibly ""."""

    provider: Provider
    name: str
    model: str

    @property
    def backend(self) -> Backend:
        """The provider's backend. Imports the provider's module."""
        module, _, name = self.provider.backend.partition(":")
        implementation: type[Backend] = getattr(import_module(f"repoagent.llm.{module}"), name)
        return implementation(self.name)


def parse_spec(spec: str) -> Spec:
    """Split `spec` into its parts. A spec that does not begin with a provider's name belongs to the provider SERVERS,
    whether or not a server has that name."""
    for provider in PROVIDERS.values():
        prefix = f"{provider.name}{provider.separator}"
        if spec == prefix or (provider.separator and spec.startswith(prefix)):
            return Spec(provider, provider.name, spec[len(prefix) :])
    name, _, model = spec.partition("/")
    return Spec(SERVERS, name, model)


def provider_of(spec: str) -> Provider:
    return parse_spec(spec).provider


def provider_names(settings: Settings) -> list[str]:
    """The names allowed before the slash of `NAME/MODEL`; those from the user's configuration come last."""
    from repoagent.llm.providers.endpoints import endpoint_names

    known = (provider.name for provider in PROVIDERS.values() if provider.argument == "name")
    return list(dict.fromkeys([*known, *endpoint_names(), *settings.family("providers")]))


@dataclass(frozen=True)
class ModelOptions:
    """The options for opening a model. `reply` is the file that contains the user's reply."""

    settings: Settings
    wishes: Wishes
    reply: Path | None

    @property
    def seconds(self) -> float:
        """The time limit for a server or program, in seconds."""
        return self.settings.number("timeout")


@dataclass(frozen=True)
class ModelStatus:
    """Whether a model or a provider can be used.

    key: the source of its key, never the key itself; "" if there is none.
    problem: why it cannot be used, with the remedy after a colon; "" if no reason is known.
    tried: whether a server was queried or a file was read.
    runs: the command line, if it differs from the spec.
    context: the window in tokens, if the server or file reports it.
    """

    key: str = ""
    problem: str = ""
    tried: bool = True
    runs: str = ""
    context: int | None = None


class Backend:
    """Opens and checks the models of the provider `name`. `model` is the part of a spec after the provider's name.

    Methods raise ModelError, and UsageError for wrong settings.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def open_model(self, model: str, options: ModelOptions) -> Model | None:
        """The model; None if there is no such provider. Sends nothing and imports no SDK."""
        raise NotImplementedError

    def check(self, settings: Settings, model: str, *, online: bool = True) -> ModelStatus:
        """Whether the model, or the provider if `model` is empty, can be used. If `online`, queries the server for a
        few seconds at most, with free requests only."""
        raise NotImplementedError

    def preload(self, model: str) -> None:
        """Start slow preparations for the first request in a thread. Never fails."""

    def has_credentials(self) -> bool:
        """Whether a key can be found without loading an SDK."""
        return False

    def no_pdf(self, settings: Settings) -> str:
        """Why PDFs cannot be sent, with a remedy; "" if they can."""
        return ""

    def display_name(self, model: str) -> str:
        """`model` for display: a command without the keys in it, anything else unchanged."""
        return model


def missing_extra(name: str) -> str:
    """Return an error message if the libraries of the provider `name` are not installed, else "".

    Imports none of them.
    """
    try:
        if all(find_spec(module) for module in PROVIDERS[name].requires):
            return ""
    except (ModuleNotFoundError, ValueError):  # the parent package is missing or partly loaded
        pass
    return f"{name}/ models need additional packages: {install_extra(name)}"
