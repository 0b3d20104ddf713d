"""Open the model from --model or the configuration, and report which models can be used.

The report covers keys, reachable servers, and support for images and PDFs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.options import DEFAULT_MODEL
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, RepoagentError, UsageError
from repoagent.llm import catalog
from repoagent.llm.complete import ignore
from repoagent.llm.model import (
    CountsTokens,
    Message,
    Model,
    OnText,
    Part,
    Reply,
    Request,
    Wishes,
    display_name,
)
from repoagent.llm.providers.errors import MODEL_ADVICE
from repoagent.llm.registry import (
    PROVIDERS,
    SERVERS,
    ModelOptions,
    Provider,
    Status,
    parse_spec,
    provider_names,
    provider_of,
)

if TYPE_CHECKING:
    from repoagent.llm.media import Media


class NoModel(ModelError):
    """No model is configured, and there is no key for the default."""


@dataclass(frozen=True)
class AbsentModel:
    """Stands in for a model if none is configured, for an agent that may not need one."""

    why: str
    spec: str = "none"
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """Raises NoModel."""
        raise NoModel(self.why)


@dataclass(frozen=True)
class ModelChoice:
    """A chosen model. `origin` is the source of the setting, `why` how the spec was derived from it ("alias fast")."""

    spec: str
    origin: str
    why: str = ""


def choose_model(settings: Settings, role: str = "edit") -> ModelChoice:
    """The model for edits, or for the role "summary". Raises NoModel if none is configured and there is no key for the
    default; UsageError for circular aliases."""
    key = "summary.model" if role == "summary" and settings.text_or_none("summary.model") else "model"
    origin = settings.origin(key)
    if origin == "default":
        if not _has_default():
            raise NoModel(f"no model is configured. {MODEL_ADVICE}")
        return ModelChoice(DEFAULT_MODEL, origin)
    name = settings.text(key)
    spec = resolve(settings, name)
    how = "alias" if name in _aliases(settings) else "newest"
    return ModelChoice(spec, origin, f"{how} {name}" if spec != name else "")


def _aliases(settings: Settings) -> dict[str, str]:
    return {**catalog.aliases(), **settings.names("alias")}


def resolve(settings: Settings, name: str) -> str:
    """The spec for `name`: a spec itself, an alias, or a family (its newest model). Raises UsageError for circular
    aliases."""
    table = _aliases(settings)
    seen: list[str] = []
    while name in table:
        if name in seen:
            raise UsageError(f"the alias {seen[0]} refers to itself: set alias.{name} to a model")
        seen.append(name)
        name = table[name]
    return catalog.named(name)


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
    """The model `spec`, or the one configured for `role`, with its fallbacks.

    `record` is the cassette to append to, `reply` the file with the reply to a `manual` prompt. `say` gets a sentence
    if the repository's configuration names the model, and one for each unsupported wish; `on_progress` gets what a
    local model is doing, and the fraction of it that is done, 0 to 1. Sends nothing and imports no heavy module.
    Raises ModelError for an unknown model or an unusable cassette, UsageError for a wrong setting.
    """
    if spec:
        first = resolve(settings, spec)
    else:
        choice = choose_model(settings, role)
        first = choice.spec
        if choice.origin == settings.theirs:
            say(f"using {first}, as set in {choice.origin.removeprefix('file:')} of this repository")
    wishes = wishes_of(settings)
    others = () if provider_of(first).answered_by != "model" else settings.texts("fallback")
    specs = dict.fromkeys([first, *(resolve(settings, name) for name in others)])
    options = ModelOptions(settings, wishes, reply, on_progress)
    models = [_open(item, options) for item in specs]
    default = Wishes()
    for name in ("effort", "temperature", "stop", "cache"):
        value = getattr(wishes, name)
        if value != getattr(default, name) and name not in models[0].takes:
            shown = ", ".join(map(repr, value)) if isinstance(value, tuple) else value
            say(f"{models[0].spec} does not support {name} = {shown}: ignored")
    model = models[0]
    if len(models) > 1:
        from repoagent.llm.complete import Fallback

        model = Fallback(models)
    if record is None:
        return model
    from repoagent.llm.cassettes import Recorder

    return Recorder(model, record)


def count_tokens(model: Model, request: Request) -> int | None:
    """The number of input tokens of `request`, counted by the provider, which gets the prompt for that; None if it does
    not count. Raises ModelError if it cannot be reached."""
    return model.count_tokens(request) if isinstance(model, CountsTokens) else None


def wishes_of(settings: Settings) -> Wishes:
    """The parameters of a model call from the settings."""
    effort, temperature = settings.text_or_none("effort"), settings.number_or_none("temperature")
    return Wishes(effort, temperature, settings.texts("stop"), settings.text("cache"))


def model_info(settings: Settings, spec: str) -> catalog.ModelInfo:
    """The properties of the model `spec`; the user's configuration has priority."""
    return catalog.model_info(spec, settings.family("models"))


def preload(spec: str | None) -> None:
    """Start slow preparations for `spec` in a thread, if there are any. Never fails."""
    if spec or _has_default():
        parsed = parse_spec(catalog.named(spec or DEFAULT_MODEL))
        parsed.backend.preload(parsed.model)


def _has_default() -> bool:
    return parse_spec(DEFAULT_MODEL).backend.has_credentials()


def _open(spec: str, options: ModelOptions) -> Model:
    parsed = parse_spec(spec)
    model = None
    if parsed.model.strip() or not parsed.provider.separator:
        model = parsed.backend.open_model(parsed.model, options)
    if model is None:
        raise ModelError(_unknown(options.settings, spec))
    return model


def _unknown(settings: Settings, spec: str) -> str:
    """The error for a spec that names no model, with a suggestion."""
    provider, slash, model = spec.partition("/")
    providers = provider_names(settings)
    usage = f"use {', '.join(entry.usage for entry in (*PROVIDERS.values(), SERVERS))}"
    if not slash and ":" not in spec:
        start = f"no model or alias {spec!r}"
        if len(several := catalog.family(spec)) > 1:
            return f"{spec!r} is ambiguous: use {', '.join(several[:-1])} or {several[-1]}"
        if maker := catalog.maker(spec):
            return f"{start}; if {maker} has it, use {maker}/{spec}"
        if spec in PROVIDERS and PROVIDERS[spec].model_file:
            return f"{start} yet: {file_alias(PROVIDERS[spec])}"
        known = [*_aliases(settings), *catalog.families(), *providers, *PROVIDERS]
        if near := get_close_matches(spec, known, n=1, cutoff=0.7):
            return f"{start}; did you mean {near[0]}{'/NAME' if near[0] in providers else ''}?"
        return f"{start}: {usage}"
    if model and (near := get_close_matches(provider, providers, n=1)):
        return f"no provider {provider!r}: did you mean {near[0]}/{model}?"
    return (
        f"no model {spec!r}: {usage}. To use a server that speaks OpenAI's protocol, set "
        f"providers.{provider or 'NAME'}.base_url in your configuration"
    )


def file_alias(provider: Provider) -> str:
    """How to define the name of `provider` as an alias for a model file."""
    return f"set it with `git config --global repoagent.alias.{provider.name} {provider.usage}`"


THREADS = 16
_MEDIA_WORDS = {"image": "images", "pdf": "PDFs"}


@dataclass(frozen=True)
class StatusRow:
    """A role (edit, summary, fallback) or an alias, and its model; `spec` is "" if none is set."""

    name: str
    spec: str
    origin: str
    status: Status = field(default_factory=Status)
    known: catalog.ModelInfo = field(default_factory=catalog.ModelInfo)

    @property
    def context(self) -> int | None:
        """The window in tokens; None if unknown."""
        return self.known.context or self.status.context


def configured_models(settings: Settings) -> list[StatusRow]:
    """All roles and aliases; the models are checked in parallel. Raises UsageError as `resolve` does."""
    rows = list(_named_models(settings))
    statuses = _statuses(settings, [row.spec for row in rows if row.spec])
    return [
        replace(row, status=statuses[row.spec], known=model_info(settings, row.spec)) if row.spec else row
        for row in rows
    ]


def provider_rows(settings: Settings) -> list[StatusRow]:
    """Every provider, checked if there is a key or a local server."""
    names = provider_names(settings)
    statuses = _statuses(settings, [f"{name}/" for name in names])
    return [StatusRow(name, f"{name}/NAME", "", statuses[f"{name}/"]) for name in names]


def _statuses(settings: Settings, specs: Sequence[str]) -> dict[str, Status]:
    """The status of each model or provider (`openai/`) by spec. Takes some seconds at most."""

    def check(spec: str) -> Status:
        parsed = parse_spec(spec)
        try:
            return parsed.backend.check(settings, parsed.model)
        except RepoagentError as error:
            return Status(problem=_first_sentence(error))

    from concurrent.futures import ThreadPoolExecutor

    specs = list(dict.fromkeys(specs))
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(specs, pool.map(check, specs), strict=True))


def smallest_request(spec: str) -> Request:
    """The smallest request that shows whether a model answers."""
    return Request((), (Message("user", (Part("Reply with the single word: ok"),)),), 64, f"test {spec}")


def _named_models(settings: Settings) -> Iterator[StatusRow]:
    for role in ("edit", "summary") if settings.text_or_none("summary.model") else ("edit",):
        try:
            choice = choose_model(settings, role)
            yield StatusRow(role, choice.spec, ", ".join(filter(None, [choice.origin, choice.why])))
        except ModelError as error:
            yield StatusRow(role, "", "", Status(problem=_first_sentence(error)))
    for name in settings.texts("fallback"):
        yield StatusRow("fallback", resolve(settings, name), settings.origin("fallback"))
    user_aliases = settings.names("alias")
    for name in _aliases(settings):
        origin = settings.origin(f"alias.{name}") if name in user_aliases else "built in"
        yield StatusRow(name, resolve(settings, name), origin)
    for provider in PROVIDERS.values():
        if provider.model_file and provider.name not in user_aliases:
            status = Status(problem=f"no model file yet: {file_alias(provider)}")
            yield StatusRow(provider.name, "", "", status)


def _first_sentence(error: RepoagentError) -> str:
    return str(error).splitlines()[0].partition(". ")[0]


def _unsupported(settings: Settings, spec: str, media: Collection[Media]) -> tuple[list[str], bool]:
    """The kinds of media that `spec` does not take, and whether that is known; all kinds if unknown."""
    kinds = [kind for kind in _MEDIA_WORDS if any((kind == "image") == item.is_image for item in media)]
    takes, parsed = model_info(settings, spec).media, parse_spec(spec)
    if parsed.provider.text_only:
        takes = frozenset()
    elif takes is not None and parsed.backend.extracts_pdf_text(settings):
        takes |= {"pdf"}
    return [kind for kind in kinds if kind not in (takes or ())], takes is not None


def check_attachments(settings: Settings, spec: str, media: Collection[Media]) -> str:
    """A warning if it is unknown whether `spec` takes the attachments, else "". They are sent in either case.

    Raises UsageError for a model that is known not to take images or PDFs.
    """
    if not media or parse_spec(spec).provider.text_only:
        return ""
    missing, is_known = _unsupported(settings, spec, media)
    words = [_MEDIA_WORDS[kind] for kind in missing]
    if not is_known:
        return (
            f"it is unknown whether {spec} takes {' and '.join(words)}: sending anyway. "
            f'Set media of [models."{spec}"] to what it takes'
        )
    if missing:
        takes = {*(model_info(settings, spec).media or ()), *missing}
        setting = ", ".join(f'"{kind}"' for kind in _MEDIA_WORDS if kind in takes)
        raise UsageError(
            f"{spec} is not known to take {' or '.join(words)}: use another --model; or, if it does take them, set "
            f'media = [{setting}] in [models."{spec}"] of your configuration'
        )
    return ""


def attachment_refusal(
    settings: Settings, spec: str, media: Sequence[Media], context: int | None = None
) -> str:
    """Why `media` cannot be sent together to `spec`, whose window is `context` tokens; "" if they can.

    If it is unknown, they are not sent: the user has not attached them, and a rejected request ends the run.
    """
    name = display_name(spec)
    missing, is_known = _unsupported(settings, spec, media)
    for words in (_MEDIA_WORDS[kind] for kind in missing):
        if not is_known:
            return f'it is unknown whether {name} takes {words}; set media of [models."{name}"]'
        return f"{name} does not take {words}"
    limits = parse_spec(spec).backend.media_limits(settings, context)
    if limits is None:
        return ""
    from repoagent.llm.media import refuse_over

    # leave a quarter of the request for the text
    size = None if limits.request_bytes is None else limits.request_bytes * 3 // 4
    request = Request((), (Message("user", tuple(Part("", media=item) for item in media)),))
    try:
        refuse_over(request, replace(limits, request_bytes=size), spec)
    except UsageError as error:
        return str(error)
    return ""
