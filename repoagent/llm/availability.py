"""Which models can be used: where keys come from, what can be reached, which models take images and PDFs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, RepoagentError, UsageError
from repoagent.llm.catalog import ModelInfo, aliases
from repoagent.llm.media import refuse_over
from repoagent.llm.model import Message, Part, Request, display_name
from repoagent.llm.provider import PROVIDERS, Status, parse_spec, provider_names, provider_of
from repoagent.llm.registry import choose_model, file_alias, model_info, resolve

if TYPE_CHECKING:
    from repoagent.llm.media import Media

T = TypeVar("T")
AT_ONCE = 16


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
        """The window in tokens, where anybody says."""
        return self.known.context or self.status.context


def configured_models(settings: Settings) -> list[StatusRow]:
    """All names that stand for a model, each model tried, at the same time. Raises UsageError as `resolve` does."""
    rows = list(_named(settings))
    specs = list(dict.fromkeys(row.spec for row in rows if row.spec))
    found = dict(zip(specs, _at_once(lambda spec: status_of(settings, spec), specs), strict=True))
    return [
        replace(row, status=found[row.spec], known=model_info(settings, row.spec)) if row.spec else row
        for row in rows
    ]


def provider_rows(settings: Settings) -> list[StatusRow]:
    """Every provider that can be named, each tried where there is a key or a local server."""
    names = provider_names(settings)
    statuses = _at_once(lambda name: status_of(settings, f"{name}/"), names)
    return [StatusRow(name, f"{name}/NAME", "", status) for name, status in zip(names, statuses, strict=True)]


def status_of(settings: Settings, spec: str) -> Status:
    """The status of the model `spec`, or of a provider (`openai/`). Takes some seconds at most."""
    parsed = parse_spec(spec)
    try:
        return parsed.backend.check(settings, parsed.model)
    except RepoagentError as error:
        return Status(problem=_first_sentence(error))


def smallest_request(spec: str) -> Request:
    """The smallest request that shows whether a model answers."""
    return Request((), (Message("user", (Part("Reply with the single word: ok"),)),), 64, f"test {spec}")


def _named(settings: Settings) -> Iterator[StatusRow]:
    try:
        edit = choose_model(settings)
        yield StatusRow("edit", edit.spec, f"{edit.origin}{', ' + edit.why if edit.why else ''}")
    except ModelError as error:
        yield StatusRow("edit", "", "", Status(problem=_first_sentence(error)))
    if settings.text_or_none("summary.model"):
        summary = choose_model(settings, "summary")
        yield StatusRow(
            "summary", summary.spec, f"{summary.origin}{', ' + summary.why if summary.why else ''}"
        )
    for name in settings.texts("fallback"):
        yield StatusRow("fallback", resolve(settings, name), settings.origin("fallback"))
    own = settings.names("alias")
    for name in {**aliases(), **own}:
        yield StatusRow(
            name, resolve(settings, name), settings.origin(f"alias.{name}") if name in own else "built in"
        )
    for provider in PROVIDERS.values():
        if provider.model_file and provider.name not in own:
            yield StatusRow(
                provider.name, "", "", Status(problem=f"no model file yet: {file_alias(provider)}")
            )


def _first_sentence(error: RepoagentError) -> str:
    return str(error).splitlines()[0].partition(". ")[0]


def _at_once(look: Callable[[str], T], names: Iterable[str]) -> list[T]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(look, names))


_WORDS = {"image": "images", "pdf": "PDFs"}


def check_attachments(settings: Settings, spec: str, media: Collection[Media]) -> str:
    """A sentence for the person where nobody knows whether `spec` takes what is attached, else "". It is sent then, and
    a server that does not take it says so.

    Raises UsageError where it is known that the model takes no images, or no PDFs.
    """
    if not media or provider_of(spec).text_only:
        return ""
    wanted = [kind for kind in _WORDS if any((kind == "image") == one.is_image for one in media)]
    takes = model_info(settings, spec).media
    if takes is None:
        what = " and ".join(_WORDS[kind] for kind in wanted)
        return (
            f"it is not known whether {spec} takes {what}: sending anyway. "
            f'To say what it takes, set media of [models."{spec}"]'
        )
    missing = [kind for kind in wanted if kind not in takes]
    if missing == ["pdf"] and parse_spec(spec).backend.extracts_pdf_text(settings):
        return ""
    if missing:
        setting = ", ".join(f'"{kind}"' for kind in _WORDS if kind in {*takes, *missing})
        raise UsageError(
            f"{spec} is not known to take {_or(missing)}: use another --model; or, if it does take them, set "
            f'media = [{setting}] in [models."{spec}"] of your configuration'
        )
    return ""


def attachment_refusal(
    settings: Settings, spec: str, media: Sequence[Media], context: int | None = None
) -> str:
    """Why `spec`, which takes in `context` tokens, can't be sent `media` together; "" where it can. What nobody knows
    counts as no: nobody has asked for just this to be sent, and a request that the server refuses ends the run."""
    takes, name = _takes(settings, spec), display_name(spec)
    for kind, word in _WORDS.items():
        if any((kind == "image") == one.is_image for one in media):
            if takes is None:
                return (
                    f'it is not known whether {name} takes {word}; set media of [models."{name}"] to say so'
                )
            if kind not in takes:
                return f"{name} does not take {word}"
    limits = parse_spec(spec).backend.media_limits(settings, context)
    if limits is None:
        return ""
    room = None if limits.request_bytes is None else limits.request_bytes * 3 // 4  # beside the text
    parts = tuple(Part("", media=one) for one in media)
    try:
        refuse_over(Request((), (Message("user", parts),)), replace(limits, request_bytes=room), spec)
    except UsageError as error:
        return str(error)
    return ""


def _takes(settings: Settings, spec: str) -> frozenset[str] | None:
    """What it takes beside text; None where nobody knows."""
    if provider_of(spec).text_only:
        return frozenset()
    takes = model_info(settings, spec).media
    return takes | {"pdf"} if takes and parse_spec(spec).backend.extracts_pdf_text(settings) else takes


def _or(kinds: list[str]) -> str:
    return " or ".join(_WORDS[kind] for kind in kinds)
