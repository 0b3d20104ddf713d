"""Whether a model can be shown what is attached, as far as its name tells: asked before anything is sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.config import Settings
from repoagent.errors import UsageError
from repoagent.llm.media.limits import refuse_over
from repoagent.llm.model import Message, Part, Request
from repoagent.llm.naming import shown
from repoagent.llm.select import is_claude, known

if TYPE_CHECKING:
    from repoagent.llm.media import Media, MediaLimits

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
    takes, name = _takes(settings, spec), shown(spec)
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
        from repoagent.llm.providers.anthropic import media as claude

        return claude.media_limits(provider, context)
    from repoagent.llm.providers.endpoints import endpoint
    from repoagent.llm.providers.openai import media as openai

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
