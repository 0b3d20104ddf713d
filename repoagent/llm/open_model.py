"""Open the model from --model or the configuration, and report which models can be used.

The report covers keys, reachable servers, and support for images and PDFs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.options import DEFAULT_MODEL
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, RepoagentError, UsageError
from repoagent.llm import catalog, registry
from repoagent.llm.complete import Fallback, do_nothing
from repoagent.llm.model import Message, Model, OnText, Part, Reply, Request, Wishes, display_name
from repoagent.llm.providers.errors import MODEL_ADVICE
from repoagent.llm.registry import PROVIDERS, SERVERS, ModelOptions, ModelStatus, parse_spec, provider_of

if TYPE_CHECKING:
    from repoagent.llm.media import Media

THREADS = 16
MOST_ATTACHED = 600  # the limit of Claude's API
_MEDIA_WORDS = {"image": "images", "pdf": "PDFs"}


class NoModel(ModelError):
    """No model is configured, and there is no key for the default."""


@dataclass(frozen=True)
class AbsentModel:
    """A placeholder for an agent that may not need a model, used if none is configured."""

    why: str
    spec: str = "none"
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        raise NoModel(self.why)


@dataclass(frozen=True)
class ModelChoice:
    """A chosen model.

    `origin` is the source of the setting; `why` says how the spec was derived from it ("alias fast").
    """

    spec: str
    origin: str
    why: str = ""


def choose_model(settings: Settings, role: str = "edit") -> ModelChoice:
    """The model for edits, or for the role "summary".

    Raises NoModel if none is configured and there is no key for the default; UsageError for circular aliases.
    """
    key = "summary.model" if role == "summary" and settings.text_or_none("summary.model") else "model"
    origin = settings.origin(key)
    if origin == "default":
        if not _has_default():
            raise NoModel(f"no model is configured. {MODEL_ADVICE}")
        return ModelChoice(DEFAULT_MODEL, origin)
    name = settings.text(key)
    spec = resolve_spec(settings, name)
    how = "alias" if name in _aliases(settings) else "newest"
    return ModelChoice(spec, origin, f"{how} {name}" if spec != name else "")


def _aliases(settings: Settings) -> dict[str, str]:
    return {**catalog.aliases(), **settings.names("alias")}


def resolve_spec(settings: Settings, name: str) -> str:
    """The spec for `name`, which may be a spec, an alias, or a family (for its newest model).

    Raises UsageError for circular aliases.
    """
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
    record: Path | None = None,
    reply: Path | None = None,
    say: Callable[[str], None] = do_nothing,
) -> Model:
    """Open the model `spec`, or the one configured for edits, with its fallbacks.

    `record` is the cassette to append to, `reply` the file with the reply to a `manual` prompt. `say` is called with a
    sentence if the repository's configuration names the model, and for each setting that the model does not support.
    Sends nothing and imports no heavy module. Raises ModelError for an unknown model or an unusable cassette, and
    UsageError for an invalid setting.
    """
    if spec:
        first = resolve_spec(settings, spec)
    else:
        choice = choose_model(settings)
        first = choice.spec
        if choice.origin == settings.theirs:
            say(f"using {first}, as set in this repository's {choice.origin.removeprefix('file:')}")
    if reply is not None and provider_of(first).answered_by != "user":
        say(f"ignoring --reply: it works only with --model manual, not with {display_name(first)}")
    fallbacks = settings.texts("fallback") if provider_of(first).answered_by == "model" else ()
    effort, temperature = settings.text_or_none("effort"), settings.number_or_none("temperature")
    wishes = Wishes(effort, temperature, settings.text("cache"))
    options = ModelOptions(settings, wishes, reply)
    models: list[Model] = []
    for item in dict.fromkeys([first, *(resolve_spec(settings, name) for name in fallbacks)]):
        parsed = parse_spec(item)
        is_complete = parsed.model.strip() or not parsed.provider.separator
        opened = parsed.backend.open_model(parsed.model, options) if is_complete else None
        if opened is None:
            raise ModelError(_unknown(settings, item))
        models.append(opened)
    model = models[0]
    for name in ("effort", "temperature", "cache"):
        value = getattr(wishes, name)
        if value != getattr(Wishes(), name) and name not in model.takes:
            say(f"ignoring {name} = {value}: {model.spec} does not support it")
    if len(models) > 1:
        model = Fallback(models)
    if record is not None:
        from repoagent.llm.cassettes import Recorder

        model = Recorder(model, record)
    return model


def model_info(settings: Settings, spec: str) -> catalog.ModelInfo:
    """The properties of the model `spec`; the user's configuration takes precedence."""
    return catalog.model_info(spec, settings.family("models"))


def preload_model(spec: str | None) -> None:
    """Start slow preparations for `spec` in a thread, if there are any. Never fails."""
    if spec or _has_default():
        parsed = parse_spec(catalog.named(spec or DEFAULT_MODEL))
        parsed.backend.preload(parsed.model)


def _has_default() -> bool:
    return parse_spec(DEFAULT_MODEL).backend.has_credentials()


def _unknown(settings: Settings, spec: str) -> str:
    """The error for a spec that names no model, with a suggestion."""
    name, slash, model = spec.partition("/")
    known = {provider: f"{provider}/{model or 'NAME'}" for provider in registry.provider_names(settings)}
    if not slash:
        known |= {provider: entry.usage for provider, entry in PROVIDERS.items()}
        known |= {short: short for short in (*_aliases(settings), *catalog.short_names())}
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    if near and near[0] != name.strip(": "):
        return f"no model or alias {spec!r}: did you mean {known[near[0]]}?"
    usage = ", ".join(entry.usage for entry in (*PROVIDERS.values(), SERVERS))
    return (
        f"no model or alias {spec!r}: use {usage}. To use a server that speaks OpenAI's protocol, set "
        "providers.NAME.base_url"
    )


@dataclass(frozen=True)
class StatusRow:
    """A role (edit, summary, fallback) or an alias, and its model; `spec` is "" if none is set."""

    name: str
    spec: str
    origin: str
    status: ModelStatus = field(default_factory=ModelStatus)
    known: catalog.ModelInfo = field(default_factory=catalog.ModelInfo)

    @property
    def context(self) -> int | None:
        """The window in tokens; None if unknown."""
        return self.known.context or self.status.context


def configured_models(settings: Settings) -> list[StatusRow]:
    """All roles and aliases; the models are checked in parallel. Raises what `resolve_spec` raises."""
    rows = []
    for role in ("edit", "summary") if settings.text_or_none("summary.model") else ("edit",):
        try:
            choice = choose_model(settings, role)
            rows.append(StatusRow(role, choice.spec, ", ".join(filter(None, [choice.origin, choice.why]))))
        except ModelError as error:
            rows.append(StatusRow(role, "", "", ModelStatus(problem=_first_sentence(error))))
    for name in settings.texts("fallback"):
        rows.append(StatusRow("fallback", resolve_spec(settings, name), settings.origin("fallback")))
    for name in _aliases(settings):
        is_own = name in settings.names("alias")
        origin = settings.origin(f"alias.{name}") if is_own else "built in"
        rows.append(StatusRow(name, resolve_spec(settings, name), origin))
    statuses = _statuses(settings, [row.spec for row in rows if row.spec])
    return [
        replace(row, status=statuses[row.spec], known=model_info(settings, row.spec)) if row.spec else row
        for row in rows
    ]


def provider_rows(settings: Settings) -> list[StatusRow]:
    """Every provider with its status; a server that needs a key is queried only if its key is set."""
    names = registry.provider_names(settings)
    statuses = _statuses(settings, [f"{name}/" for name in names])
    return [StatusRow(name, f"{name}/NAME", "", statuses[f"{name}/"]) for name in names]


def _statuses(settings: Settings, specs: Collection[str]) -> dict[str, ModelStatus]:
    """The status of each model or provider (`openai/`) by spec. Takes some seconds at most."""
    from concurrent.futures import ThreadPoolExecutor

    def check(spec: str) -> ModelStatus:
        parsed = parse_spec(spec)
        try:
            return parsed.backend.check(settings, parsed.model)
        except RepoagentError as error:
            return ModelStatus(problem=_first_sentence(error))

    specs = list(dict.fromkeys(specs))
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(specs, pool.map(check, specs), strict=True))


def _first_sentence(error: RepoagentError) -> str:
    return str(error).splitlines()[0].partition(". ")[0]


def smallest_request(spec: str) -> Request:
    """The smallest request that shows whether a model answers."""
    return Request((), (Message("user", (Part("Reply with the single word: ok"),)),), 64, f"test {spec}")


def _media_problem(settings: Settings, spec: str, media: Collection[Media]) -> tuple[str, bool]:
    """Why `spec` may not take the attachments, "" if it takes them; and whether that is certain."""
    takes = frozenset() if provider_of(spec).text_only else model_info(settings, spec).media
    kinds = {"image" if item.is_image else "pdf" for item in media} - (takes or frozenset())
    if not kinds:
        return "", True
    name, words = display_name(spec), " and ".join(_MEDIA_WORDS[kind] for kind in sorted(kinds))
    setting = f'set `media` under [models."{name}"] in your configuration to what it accepts'
    if takes is None:
        return f"cannot tell whether {name} accepts {words}; {setting}", False
    return f"{name} is not known to accept {words}; if it does, {setting}", True


def check_attachments(settings: Settings, spec: str, media: Collection[Media]) -> str:
    """Return a warning if it is unknown whether `spec` accepts the attachments, else "".

    They are sent in either case. Raises UsageError if the model is known not to accept them.
    """
    if provider_of(spec).text_only:  # the model raises the error itself
        return ""
    problem, is_certain = _media_problem(settings, spec, media)
    if problem and is_certain:
        raise UsageError(f"{problem}; otherwise choose another model with --model")
    return problem


def attachment_refusal(settings: Settings, spec: str, media: Sequence[Media]) -> str:
    """The reason why `media` cannot be sent together to `spec`; "" if they can.

    If it is unknown whether the model accepts them, that is a reason too: the user did not attach them, and a rejected
    request would end the run.
    """
    problem, _ = _media_problem(settings, spec, media)
    if problem:
        return problem
    from repoagent.llm.media import IMAGE_BYTES, refuse_over

    if sum(item.pages or 1 for item in media) > MOST_ATTACHED:
        return f"one request may have at most {MOST_ATTACHED} images and pages of PDFs"
    is_cloud = provider_of(spec).sdk and provider_of(spec).requires  # they accept half of what Anthropic does
    image_bytes = IMAGE_BYTES // 2 if is_cloud else IMAGE_BYTES
    request = Request((), (Message("user", tuple(Part("", media=item) for item in media)),))
    try:
        refuse_over(request, spec, no_pdf=parse_spec(spec).backend.no_pdf(settings), image_bytes=image_bytes)
    except UsageError as error:
        return str(error)
    return ""
