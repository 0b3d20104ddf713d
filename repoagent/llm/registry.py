"""The providers of models: PROVIDERS has one entry for each, and `Backend` is what the module of an entry implements.

A spec, as in `--model SPEC`, begins with the name of its provider: `anthropic/NAME`, `command:CMD`, `manual`. Any other
`NAME/MODEL` is a server that speaks OpenAI's protocol, known from endpoints.toml or from `[providers.NAME]` of the
configuration: SERVERS. No other module names a provider; docs/internals/providers.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import install_extra

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.llm.media import MediaLimits
    from repoagent.llm.model import Model, Wishes


@dataclass(frozen=True)
class Provider:
    """What is known of a provider without importing its module.

    separator: what follows its name in a spec. backend: its `Backend`, as `module:class` below repoagent/llm.
    usage, summary: how to name a model, and what answers then, for help and completion. argument: what the rest of a
    spec is: a name, a path, or a command line, which may hold a key. answered_by: who writes the replies.
    requires: the modules that come with the extra of its name. sdk: the package that it is reached through, where
    repoagent depends on it; models.toml lists its models under that name. address_variables: environment variables that
    send its requests elsewhere.
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
    def is_installed(self) -> bool:
        """Whether the modules of its extra can be imported; none of them is."""
        try:
            return all(find_spec(module) for module in self.requires)
        except (ModuleNotFoundError, ValueError):  # the package above is missing, or half loaded
            return False

    @property
    def text_only(self) -> bool:
        """Whether it takes no images and no PDFs; `Model.complete` says so."""
        return self.argument != "name"

    @property
    def model_file(self) -> bool:
        """Whether a model is a file on this machine."""
        return self.argument == "file" and self.answered_by == "model"

    @property
    def reports_model(self) -> bool:
        """Whether a reply says which model wrote it."""
        return self.argument == "command" or self.answered_by == "recording"

    @property
    def free(self) -> bool:
        """Whether a reply costs nothing."""
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
SDKS = tuple(dict.fromkeys(provider.sdk for provider in PROVIDERS.values() if provider.sdk))


class Spec(NamedTuple):
    """A spec in its parts: `name` is the provider's, also that of one of SERVERS; `model` the rest, which may be ""."""

    provider: Provider
    name: str
    model: str

    @property
    def backend(self) -> Backend:
        """The backend of the provider; imports its module."""
        module, _, name = self.provider.backend.partition(":")
        implementation: type[Backend] = getattr(import_module(f"repoagent.llm.{module}"), name)
        return implementation(self.name)


def parse_spec(spec: str) -> Spec:
    """The parts of `spec`. What begins with no known name belongs to SERVERS, whether there is such a server or not."""
    for provider in PROVIDERS.values():
        begin = f"{provider.name}{provider.separator}"
        if spec == begin or (provider.separator and spec.startswith(begin)):
            return Spec(provider, provider.name, spec[len(begin) :])
    name, _, model = spec.partition("/")
    return Spec(SERVERS, name, model)


def provider_of(spec: str) -> Provider:
    """The provider that `spec` names."""
    return parse_spec(spec).provider


def provider_names(settings: Settings) -> list[str]:
    """The names that may stand before the slash of `NAME/MODEL`, those of the user's configuration last."""
    from repoagent.llm.providers.endpoints import endpoint_names

    known = (provider.name for provider in PROVIDERS.values() if provider.argument == "name")
    return list(dict.fromkeys([*known, *endpoint_names(), *settings.family("providers")]))


@dataclass(frozen=True)
class ModelOptions:
    """What a model is opened with. `reply` is the file with the reply, for a provider that the user answers for;
    `on_progress` gets what a model on this machine is doing, and how much of that is done, 0 to 1."""

    settings: Settings
    wishes: Wishes
    reply: Path | None
    on_progress: Callable[[str, float], None]

    @property
    def seconds(self) -> float:
        """How long a server or a program may take."""
        return self.settings.number("timeout")


@dataclass(frozen=True)
class Status:
    """Whether a model or a provider can be used.

    key: where its key comes from, "" where it has or needs none; never the key. problem: why it cannot be used, with
    the remedy after a colon, "" where no reason is known. tried: whether a server was asked or a file read. runs: the
    command that is run in the end, where the spec says less. context: the window in tokens, where the server or the
    file tells.
    """

    key: str = ""
    problem: str = ""
    tried: bool = True
    runs: str = ""
    context: int | None = None


class Backend:
    """How the models of the provider `name` are opened and looked at; a subclass overrides what its provider has.

    `model` is what follows the name in a spec. Methods raise ModelError, and UsageError for settings that are wrong.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def open_model(self, model: str, options: ModelOptions) -> Model | None:
        """The model; None where there is no such provider. Sends nothing, imports no SDK."""
        raise NotImplementedError

    def check(self, settings: Settings, model: str, *, online: bool = True) -> Status:
        """Whether the model can be used. Without a `model` it is the provider that is checked. If `online`, a server
        is asked for some seconds, for nothing that is paid for, and a command that prints a key is run."""
        raise NotImplementedError

    def preload(self, model: str) -> None:
        """Start, in a thread, what takes long before the first request. Never fails."""

    def has_credentials(self) -> bool:
        """Whether there is a key, as far as that can be told without an SDK."""
        return False

    def media_limits(self, settings: Settings, context: int | None) -> MediaLimits | None:
        """How much media a request may hold, for a model with a window of `context` tokens; None for no limit."""
        return None

    def extracts_pdf_text(self, settings: Settings) -> bool:
        """Whether the server makes text of a PDF for a model that takes none."""
        return False

    def parameters(self, model: str) -> float | None:
        """Billions of parameters, where `Provider.model_file` and the file tells."""
        return None

    def display_name(self, model: str) -> str:
        """`model` without keys, where `Provider.argument` is a command."""
        return model


def missing_extra(name: str) -> str:
    """The problem of a provider whose libraries are not installed, "" where they are."""
    if PROVIDERS[name].is_installed:
        return ""
    return f"models of {name}/ need more packages: {install_extra(name)}"
