"""What the name of a Claude model tells about it, in whatever form a platform writes it."""

from __future__ import annotations

import re
from typing import Literal

from repoagent.errors import UsageError

Effort = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")

# A word or a number of one or two digits; so neither a date nor a revision ("-v1:0", "@20260901") belongs to it.
_FAMILY = re.compile(r"claude(?:-(?!latest)(?:[a-z]+|\d{1,2})(?![a-z0-9]))+")
_VERSION = re.compile(r"claude-[a-z]+-(\d+)(?:-(\d+))?(?:-|$)|claude-(\d+)(?:-(\d+))?(?:-|$)")


def family_name(name: str) -> str:
    """The name without what platforms add to it: `us.anthropic.claude-sonnet-5-5-v1:0`, an ARN that ends so,
    `claude-sonnet-5-5@20260901` and `claude-sonnet-5-5-20260901` are all `claude-sonnet-5-5`. A name that tells no
    such thing comes back as it is."""
    found = _FAMILY.search(re.sub(r"(?<=\d)\.(?=\d)", "-", name.lower()))
    return found[0] if found else name


def context_tokens(name: str) -> int | None:
    """How much the model can take, None for one that is not known."""
    if _version(name) is None:
        return None
    return 1_000_000 if thinks(name) else 200_000


def thinks(name: str) -> bool:
    """Whether the model takes `thinking: adaptive`: Claude 4.6 and later. It takes no temperature then."""
    version = _version(name)
    return version is not None and version >= (4, 6)


def effort_of(name: str, wish: str | None) -> Effort | None:
    """The `output_config.effort` to send the model for a wish, None where it does not know that one. A name that
    tells nothing gets what is asked for."""
    version = _version(name)
    known: tuple[Effort, ...] = ()
    if version is None or version >= (4, 7):
        known = EFFORTS
    elif version == (4, 6):
        known = ("low", "medium", "high", "max")
    elif family_name(name) == "claude-opus-4-5":
        known = ("low", "medium", "high")
    return next((effort for effort in known if effort == wish), None)


def refuse_unknown_effort(effort: str | None) -> None:
    """Raises UsageError for what is no effort of any model."""
    if effort is not None and effort not in EFFORTS:
        raise UsageError(f"there is no effort {effort!r}: use one of {', '.join(EFFORTS)}")


def _version(name: str) -> tuple[int, int] | None:
    found = _VERSION.match(family_name(name))
    return (int(found[1] or found[3]), int(found[2] or found[4] or 0)) if found else None
