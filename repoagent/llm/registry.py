"""From what the user wrote after --model to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TypeGuard

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError
from repoagent.llm import catalog
from repoagent.llm.client import ignore
from repoagent.llm.model import Model, OnText, Reply, Request, Wishes
from repoagent.llm.providers.anthropic import Platform
from repoagent.llm.providers.errors import WAYS

DEFAULT_MODEL = "anthropic/claude-sonnet-5-5"
CLAUDES: tuple[Platform, ...] = ("anthropic", "bedrock", "vertex")
_KINDS = "anthropic/NAME, openai/NAME, ollama/NAME, local/PATH.gguf, command:CMD, manual, replay:FILE"


class NoModel(ModelError):
    """No model is configured, and there is no key for the default."""


@dataclass(frozen=True)
class Absent:
    """In the place of a model where none is configured, for an agent that needs none."""

    why: str
    spec: str = "none"
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """Raises NoModel."""
        raise NoModel(self.why)


@dataclass(frozen=True)
class Chosen:
    """A model as it was named, and what that name stands for. `origin` says where the choice is from, `why` what
    was followed to the spec ("alias fast")."""

    spec: str
    origin: str
    why: str = ""


def chosen(settings: Settings, role: str = "edit") -> Chosen:
    """The model for edits, or for the role "summary". Raises NoModel when none is configured and there is no key
    for the default; UsageError for aliases that lead nowhere."""
    if role == "summary" and settings.text_or_none("summary.model"):
        return _named(settings, settings.text("summary.model"), settings.origin("summary.model"))
    origin = settings.origin("model")
    if origin != "default":
        return _named(settings, settings.text("model"), origin)
    if _has_default():
        return Chosen(DEFAULT_MODEL, "default")
    raise NoModel(f"no model is configured. {WAYS}")


def resolve(settings: Settings, name: str) -> str:
    """The spec that `name` stands for: a spec itself, an alias, or a family (its newest model). Raises UsageError for
    aliases in a circle."""
    table = {**catalog.aliases(), **settings.names("alias")}
    seen: list[str] = []
    while name in table:
        if name in seen:
            raise UsageError(f"the alias {seen[0]} leads back to itself: set alias.{name} to a model")
        seen.append(name)
        name = table[name]
    return catalog.named(name)


def _named(settings: Settings, name: str, origin: str) -> Chosen:
    spec = resolve(settings, name)
    followed = name in settings.names("alias") or name in catalog.aliases()
    return Chosen(spec, origin, f"{'alias' if followed else 'newest'} {name}" if spec != name else "")


def open_model(
    settings: Settings,
    *,
    spec: str | None = None,
    role: str = "edit",
    record: Path | None = None,
    reply: Path | None = None,
    say: Callable[[str], None] = ignore,
    on_progress: Callable[[str, float], None] = ignore,
) -> Model:
    """The model that the settings choose for `role`, or the one that `spec` names, with its fall-backs.

    `record` names the cassette to append to, `reply` the file with the reply to a `manual` prompt. `say` gets a
    sentence where the repository has named the model, and for each wish that it has no use for; `on_progress` what a
    model on this machine is doing, and how much of that is done, 0 to 1. Nothing is sent and no heavy module imported
    yet. Raises ModelError for a model that is not known or a cassette that can't be used, UsageError for a wrong
    setting.
    """
    if spec:
        first = resolve(settings, spec)
    else:
        choice = chosen(settings, role)
        first = choice.spec
        if choice.origin == settings.theirs:
            say(
                f"{first} is asked: {choice.origin.removeprefix('file:')}, which comes with the repository, names it"
            )
    wishes = wishes_of(settings)
    others = () if first.startswith(("replay:", "manual")) else settings.texts("fallback")
    specs = dict.fromkeys([first, *(resolve(settings, name) for name in others)])
    models = [_open(settings, one, wishes, reply, on_progress) for one in specs]
    for unused in _unused(wishes, models[0]):
        say(f"{models[0].spec} has no use for {unused}: ignored")
    model = models[0]
    if len(models) > 1:
        from repoagent.llm.client import Fallback

        model = Fallback(models)
    if record is None:
        return model
    from repoagent.llm.cassettes import Recorder

    return Recorder(model, record)


def counted(model: Model, request: Request) -> int | None:
    """How many tokens the input of `request` is by the provider's own count; None where it has none. The prompt is sent
    to it for that. Raises ModelError when it can't be asked."""
    from repoagent.llm.providers.anthropic import AnthropicModel, count_tokens

    return count_tokens(model, request) if isinstance(model, AnthropicModel) else None


def wishes_of(settings: Settings) -> Wishes:
    """What the settings want of a model besides the text."""
    return Wishes(
        settings.text_or_none("effort"),
        settings.number_or_none("temperature"),
        settings.texts("stop"),
        settings.text("cache"),
    )


def known(settings: Settings, spec: str) -> catalog.Known:
    """What is known of the model `spec`, the user's own configuration first."""
    return catalog.known(spec, settings.family("models"))


def preload(spec: str | None) -> None:
    """Start, in a thread, what takes long about `spec`; never fails, does nothing for what is quick."""
    if spec is None and not _has_default():
        return
    name = spec or DEFAULT_MODEL
    provider, _, rest = catalog.named(name).partition("/")
    if is_claude(provider):
        from repoagent.llm.providers.anthropic import preload as preload_anthropic

        preload_anthropic(provider, rest)
        return
    from repoagent.llm.providers.endpoints import endpoint, names

    if provider in names() and (found := endpoint(provider, {})):
        from repoagent.llm.providers.openai import preload as preload_openai

        preload_openai(found)


def is_claude(provider: str) -> TypeGuard[Platform]:
    """Whether a provider is one of those that Anthropic's own package speaks to."""
    return provider in CLAUDES


def _has_default() -> bool:
    from repoagent.llm.providers.anthropic import has_profile, key_origin

    return bool(key_origin("anthropic")) or has_profile()


def _unused(wishes: Wishes, model: Model) -> list[str]:
    default = Wishes()
    return [
        f"{name} = {_shown(getattr(wishes, name))}"
        for name in ("effort", "temperature", "stop", "cache")
        if getattr(wishes, name) != getattr(default, name) and name not in model.takes
    ]


def _shown(value: object) -> str:
    return ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)


def _open(
    settings: Settings,
    spec: str,
    wishes: Wishes,
    reply: Path | None,
    on_progress: Callable[[str, float], None],
) -> Model:
    provider, _, name = spec.partition("/")
    kind, _, rest = spec.partition(":")
    seconds = settings.number("timeout")
    if kind == "command" and rest.strip():
        from repoagent.llm.providers.command import CommandModel

        return CommandModel(rest, seconds)
    if kind == "replay" and rest:
        from repoagent.llm.cassettes import Replay

        return Replay(Path(rest).expanduser())
    if spec == "manual":
        from repoagent.llm.providers.manual import ManualModel

        return ManualModel(reply=reply)
    if is_claude(provider) and name:
        from repoagent.llm.providers.anthropic import AnthropicModel

        return AnthropicModel(name, wishes, seconds, provider)
    if provider == "local" and name:
        from repoagent.llm.providers.llamacpp import LocalModel

        loading, reading = (
            partial(on_progress, doing) for doing in ("loading the model", "the model is reading the prompt")
        )
        return LocalModel(name, wishes, known(settings, spec).context, loading, reading)
    if name and (model := _compatible(settings.family("providers"), provider, name, wishes, seconds)):
        return model
    raise ModelError(_unknown(settings, spec))


def _compatible(
    own: Mapping[str, Mapping[str, object]], provider: str, name: str, wishes: Wishes, seconds: float
) -> Model | None:
    from repoagent.llm.providers.endpoints import endpoint

    if (found := endpoint(provider, own)) is None:
        return None
    from repoagent.llm.providers.openai import OpenAIModel

    return OpenAIModel(found, name, wishes, seconds)


def _unknown(settings: Settings, spec: str) -> str:
    """A sentence about a spec that names no model, with what was probably meant."""
    from repoagent.llm.providers.endpoints import names

    provider, slash, name = spec.partition("/")
    aliases = {**catalog.aliases(), **catalog.families(), **settings.names("alias")}
    providers = [*CLAUDES, *names(), *settings.family("providers")]
    if not slash and ":" not in spec:
        if len(several := catalog.family(spec)) > 1:
            return f"{spec!r} may be {', '.join(several[:-1])} or {several[-1]}: name one of them"
        if maker := catalog.maker(spec):
            return f"there is no model or alias {spec!r}; if {maker} has it, use {maker}/{spec}"
        near = get_close_matches(spec, [*aliases, *providers, "manual"], n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}{'/NAME' if near and near[0] in providers else ''}?" if near else ""
        if spec == "local":
            hint = " yet: set it with `git config --global repoagent.alias.local local/PATH.gguf`"
        return f"there is no model or alias {spec!r}{hint or ': known are ' + _KINDS}"
    near = get_close_matches(provider, providers, n=1) if name else []
    if near:
        return f"there is no provider {provider!r}: did you mean {near[0]}/{name}?"
    return (
        f"there is no model {spec!r}: known are {_KINDS}. A server that speaks OpenAI's protocol is reached with "
        f"providers.{provider or 'NAME'}.base_url in your configuration, anything else with command:CMD"
    )
