"""Which models are at hand: what is configured, where each key comes from, what can be reached, and why not.

Whether a model can be shown what is attached, as far as its name tells: asked before anything is sent.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, RepoagentError, UsageError
from repoagent.llm.catalog import Known, aliases
from repoagent.llm.media import refuse_over
from repoagent.llm.model import Message, Part, Request, display_name
from repoagent.llm.registry import CLAUDES, chosen, is_claude, known, resolve

if TYPE_CHECKING:
    from repoagent.llm.media import Media, MediaLimits

T = TypeVar("T")
AT_ONCE = 16


@dataclass(frozen=True)
class Standing:
    """How things stand with a model or a provider.

    key: where its key comes from, "" where it has or needs none; never the key. problem: why it can't be used, ""
    where nothing is known against it. tried: whether somebody was asked over the network or a file was read.
    """

    key: str = ""
    problem: str = ""
    tried: bool = True
    runs: str = ""
    context: int | None = None


@dataclass(frozen=True)
class Row:
    """A name for a model (a role: edit, summary, fallback; or an alias) and the model, "" where none is set."""

    name: str
    spec: str
    origin: str
    standing: Standing = field(default_factory=Standing)
    known: Known = field(default_factory=Known)

    @property
    def context(self) -> int | None:
        """The window in tokens, where anybody says."""
        return self.known.context or self.standing.context


def configured(settings: Settings) -> list[Row]:
    """All names that stand for a model, each model tried, at the same time. Raises UsageError as `resolve` does."""
    rows = list(_named(settings))
    specs = list(dict.fromkeys(row.spec for row in rows if row.spec))
    found = dict(zip(specs, _at_once(lambda spec: standing(settings, spec), specs), strict=True))
    return [
        replace(row, standing=found[row.spec], known=known(settings, row.spec)) if row.spec else row
        for row in rows
    ]


def providers(settings: Settings) -> list[Row]:
    """Every provider that could be named, tried where there is a key or a local server: those have no problem."""
    from repoagent.llm.providers.endpoints import names

    every = dict.fromkeys([*CLAUDES, *names(), *settings.family("providers")])
    found = _at_once(lambda name: standing(settings, f"{name}/"), every)
    return [Row(name, f"{name}/NAME", "", how) for name, how in zip(every, found, strict=True)]


def standing(settings: Settings, spec: str) -> Standing:
    """How things stand with the model `spec`, or with a provider (`openai/`). Takes some seconds at most."""
    provider, _, name = spec.partition("/")
    kind, _, rest = spec.partition(":")
    try:
        if spec == "manual":
            return Standing(tried=False)
        if kind == "command":
            return _of_command(rest)
        if kind == "replay":
            there = Path(rest).expanduser().is_file()
            return Standing(problem="" if there else "there is no such file")
        if provider == "local":
            return _of_file(name, known(settings, spec).context)
        return _of_provider(settings, provider, name)
    except RepoagentError as error:
        return Standing(problem=_first_sentence(error))


def smallest(spec: str) -> Request:
    """The smallest request that shows whether a model answers."""
    return Request((), (Message("user", (Part("Reply with the single word: ok"),)),), 64, f"test {spec}")


def _named(settings: Settings) -> Iterator[Row]:
    try:
        edit = chosen(settings)
        yield Row("edit", edit.spec, f"{edit.origin}{', ' + edit.why if edit.why else ''}")
    except ModelError as error:
        yield Row("edit", "", "", Standing(problem=_first_sentence(error)))
    if settings.text_or_none("summary.model"):
        summary = chosen(settings, "summary")
        yield Row("summary", summary.spec, f"{summary.origin}{', ' + summary.why if summary.why else ''}")
    for name in settings.texts("fallback"):
        yield Row("fallback", resolve(settings, name), settings.origin("fallback"))
    own = settings.names("alias")
    for name in {**aliases(), **own}:
        yield Row(
            name, resolve(settings, name), settings.origin(f"alias.{name}") if name in own else "built in"
        )
    if "local" not in own:
        yield Row(
            "local", "", "", Standing(problem="not set: git config --global repoagent.alias.local SPEC")
        )


def _first_sentence(error: RepoagentError) -> str:
    return str(error).splitlines()[0].partition(". ")[0]


def _of_command(command: str) -> Standing:
    from repoagent.llm.providers.command_agents import apart, completed, named, simple_words

    words = simple_words(command)
    if words and shutil.which(words[0]) is None:
        return Standing(problem=f"there is no program {words[0]} on PATH")
    where = ", in an empty folder" if apart(command) else ""
    return Standing(runs=named(completed(command)) + where if completed(command) != command else "")


def _of_file(path: str, context: int | None) -> Standing:
    from repoagent.llm.providers.llamacpp import window_of

    return Standing(context=window_of(path, context))


def _of_provider(settings: Settings, provider: str, name: str) -> Standing:
    if is_claude(provider):
        from repoagent.llm.providers.anthropic import key_origin, reach

        problem, tried = reach(provider)
        return Standing(key_origin(provider), problem, tried)
    from repoagent.llm.providers.endpoints import endpoint, find_key, needs_key
    from repoagent.llm.providers.openai_models import context_of
    from repoagent.llm.providers.openai_models import reach as reach_endpoint

    found = endpoint(provider, settings.family("providers"))
    if found is None:
        return Standing(problem=f"there is no provider {provider}")
    key = find_key(found)
    if key is None and needs_key(found):
        where = " or ".join(found.key_variables) or f"providers.{provider}.api_key_env"
        return Standing(problem=f"no key: set {where}", tried=False)
    problem = reach_endpoint(found)
    context = context_of(found, name) if name and found.local and not problem else None
    return Standing(key.origin if key else "", problem, context=context)


def _at_once(look: Callable[[str], T], names: Iterable[str]) -> list[T]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(look, names))


_WORDS = {"image": "images", "pdf": "PDFs"}
_SAY_THEMSELVES = ("command:", "replay:", "local/")  # what they take is in their own `complete`


def look(settings: Settings, spec: str, media: Collection[Media]) -> str:
    """A sentence for the person where nobody knows whether `spec` takes what is attached, else "". It is sent then, and
    a server that does not take it says so.

    Raises UsageError where it is known that the model takes no images, or no PDFs.
    """
    if not media or spec == "manual" or spec.startswith(_SAY_THEMSELVES):
        return ""
    wanted = [kind for kind in _WORDS if any((kind == "image") == one.is_image for one in media)]
    takes = known(settings, spec).media
    if takes is None:
        what = " and ".join(_WORDS[kind] for kind in wanted)
        return (
            f"nothing is known of whether {spec} takes {what}: sent all the same. "
            f'If it does, or does not, set media of [models."{spec}"] to what it takes'
        )
    missing = [kind for kind in wanted if kind not in takes]
    if missing == ["pdf"] and _made_text(settings, spec):
        return ""
    if missing:
        setting = ", ".join(f'"{kind}"' for kind in _WORDS if kind in {*takes, *missing})
        raise UsageError(
            f"{spec} takes no {_and(missing)}, as far as is known: use another --model; or, if it does take them, set "
            f'media = [{setting}] in [models."{spec}"] of your configuration'
        )
    return ""


def why_not(settings: Settings, spec: str, media: Sequence[Media], context: int | None = None) -> str:
    """Why `spec`, which takes in `context` tokens, can't be sent `media` together; "" where it can. What nobody knows
    counts as no: nobody has asked for just this to be sent, and a request that the server refuses ends the run."""
    takes, name = _takes(settings, spec), display_name(spec)
    for kind, word in _WORDS.items():
        if any((kind == "image") == one.is_image for one in media):
            if takes is None:
                return f'it is not known whether {name} takes {word} (media of [models."{name}"] says it)'
            if kind not in takes:
                return f"{name} takes no {word}"
    limits = _limits(settings, spec, context)
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
    if spec == "manual" or spec.startswith(_SAY_THEMSELVES):  # text alone
        return frozenset()
    takes = known(settings, spec).media
    return takes | {"pdf"} if takes and _made_text(settings, spec) else takes


def _limits(settings: Settings, spec: str, context: int | None) -> MediaLimits | None:
    provider = spec.partition("/")[0]
    if is_claude(provider):
        from repoagent.llm.providers import anthropic as claude

        return claude.media_limits(provider, context)
    from repoagent.llm.providers import openai_parameters as openai
    from repoagent.llm.providers.endpoints import endpoint

    found = endpoint(provider, settings.family("providers"))
    return openai.media_limits(found) if found else None


def _made_text(settings: Settings, spec: str) -> bool:
    """Whether the server reads PDFs for models that can't."""
    from repoagent.llm.providers.endpoints import endpoint

    provider = spec.partition("/")[0]
    found = None if is_claude(provider) else endpoint(provider, settings.family("providers"))
    return found is not None and "pdf_as_text" in found.traits


def _and(kinds: list[str]) -> str:
    return " and no ".join(_WORDS[kind] for kind in kinds)
