"""Whether a model can be shown what is attached, as far as its name tells: asked before anything is sent."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from repoagent.config import Settings
from repoagent.errors import UsageError
from repoagent.llm.select import is_claude, known

if TYPE_CHECKING:
    from repoagent.llm.media import Media

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


def _made_text(settings: Settings, spec: str) -> bool:
    """Whether the server reads PDFs for models that can't."""
    from repoagent.llm.providers.endpoints import endpoint

    provider = spec.partition("/")[0]
    found = None if is_claude(provider) else endpoint(provider, settings.family("providers"))
    return found is not None and "pdf_as_text" in found.traits


def _and(kinds: list[str]) -> str:
    return " and no ".join(_WORDS[kind] for kind in kinds)
