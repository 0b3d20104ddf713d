"""Which models can be used: where keys come from, what can be reached, which models take images and PDFs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, RepoagentError, UsageError
from repoagent.llm.catalog import ModelInfo, aliases
from repoagent.llm.media import refuse_over
from repoagent.llm.model import Message, Part, Request, display_name
from repoagent.llm.open_model import choose_model, file_alias, model_info, resolve
from repoagent.llm.registry import PROVIDERS, Status, parse_spec, provider_names

if TYPE_CHECKING:
    from repoagent.llm.media import Media

THREADS = 16
_MEDIA_WORDS = {"image": "images", "pdf": "PDFs"}


@dataclass(frozen=True)
class StatusRow:
    """A name for a model (a role: edit, summary, fallback; or an alias) and the model, "" where none is set."""

    name: str
    spec: str
    origin: str
    status: Status = field(default_factory=Status)
    known: ModelInfo = field(default_factory=ModelInfo)

    @property
    def context(self) -> int | None:
        """The window in tokens, where it is known."""
        return self.known.context or self.status.context


def configured_models(settings: Settings) -> list[StatusRow]:
    """All names of models; the models are tried in parallel. Raises UsageError as `resolve` does."""
    rows = list(_named_models(settings))
    statuses = _statuses(settings, [row.spec for row in rows if row.spec])
    return [
        replace(row, status=statuses[row.spec], known=model_info(settings, row.spec)) if row.spec else row
        for row in rows
    ]


def provider_rows(settings: Settings) -> list[StatusRow]:
    """Every provider, each tried where there is a key or a local server."""
    names = provider_names(settings)
    statuses = _statuses(settings, [f"{name}/" for name in names])
    return [StatusRow(name, f"{name}/NAME", "", statuses[f"{name}/"]) for name in names]


def _statuses(settings: Settings, specs: Sequence[str]) -> dict[str, Status]:
    """The status of each model, or of a provider (`openai/`). Takes some seconds at most."""

    def check(spec: str) -> Status:
        parsed = parse_spec(spec)
        try:
            return parsed.backend.check(settings, parsed.model)
        except RepoagentError as error:
            return Status(problem=_first_sentence(error))

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
    for name in {**aliases(), **user_aliases}:
        origin = settings.origin(f"alias.{name}") if name in user_aliases else "built in"
        yield StatusRow(name, resolve(settings, name), origin)
    for provider in PROVIDERS.values():
        if provider.model_file and provider.name not in user_aliases:
            status = Status(problem=f"no model file yet: {file_alias(provider)}")
            yield StatusRow(provider.name, "", "", status)


def _first_sentence(error: RepoagentError) -> str:
    return str(error).splitlines()[0].partition(". ")[0]


def _unsupported(settings: Settings, spec: str, media: Collection[Media]) -> tuple[list[str], bool]:
    """The kinds of media that `spec` does not take, and whether that is known: else it is all of them."""
    kinds = [kind for kind in _MEDIA_WORDS if any((kind == "image") == item.is_image for item in media)]
    takes, parsed = model_info(settings, spec).media, parse_spec(spec)
    if parsed.provider.text_only:
        takes = frozenset()
    elif takes is not None and parsed.backend.extracts_pdf_text(settings):
        takes |= {"pdf"}
    return [kind for kind in kinds if kind not in (takes or ())], takes is not None


def check_attachments(settings: Settings, spec: str, media: Collection[Media]) -> str:
    """A warning where it is unknown whether `spec` takes the attachments, else "". They are sent then, and a
    server that does not take them says so.

    Raises UsageError for a model that is known to take no images, or no PDFs.
    """
    if not media or parse_spec(spec).provider.text_only:
        return ""
    missing, is_known = _unsupported(settings, spec, media)
    words = [_MEDIA_WORDS[kind] for kind in missing]
    if not is_known:
        return (
            f"it is not known whether {spec} takes {' and '.join(words)}: sending anyway. "
            f'To say what it takes, set media of [models."{spec}"]'
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
    """Why `media` cannot be sent together to `spec`, which takes `context` tokens; "" where they can.

    Unknown counts as no: the user has not asked for them, and a request that the server refuses ends the run.
    """
    name = display_name(spec)
    missing, is_known = _unsupported(settings, spec, media)
    for words in (_MEDIA_WORDS[kind] for kind in missing):
        if not is_known:
            return f'it is not known whether {name} takes {words}; set media of [models."{name}"] to say so'
        return f"{name} does not take {words}"
    limits = parse_spec(spec).backend.media_limits(settings, context)
    if limits is None:
        return ""
    size = None if limits.request_bytes is None else limits.request_bytes * 3 // 4  # the rest is for the text
    request = Request((), (Message("user", tuple(Part("", media=item) for item in media)),))
    try:
        refuse_over(request, replace(limits, request_bytes=size), spec)
    except UsageError as error:
        return str(error)
    return ""
