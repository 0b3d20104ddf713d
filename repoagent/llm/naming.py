"""A model's name where others may read it: what stands in a command may be a key, where a file lies is private."""

from __future__ import annotations

import re

_REPORTED = re.compile(
    r" \(([\w.:/@-]+)\)$"
)  # the model that a program said it is, at the end of `Reply.model`


def shown(spec: str) -> str:
    """A spec as it may be shown to its user and written into conversations: without what looks like a key."""
    if not spec.startswith("command:"):
        return spec
    from repoagent.llm.providers.command.programs import named

    return f"command:{named(spec.removeprefix('command:'))}"


def public(spec: str) -> str:
    """A model as a commit may name it: of a command the program alone (and the model that it says it is), of a
    file its name without folders."""
    if spec.startswith("local/"):
        return f"local/{spec.rpartition('/')[2]}"
    kind, colon, rest = spec.partition(":")
    if kind not in {"command", "replay"} or not colon:
        return spec
    reported = _REPORTED.search(rest) if kind == "command" else None
    word = next((word for word in rest.split() if "=" not in word), "") if kind == "command" else rest
    return f"{kind}:{word.rpartition('/')[2]}{reported[0] if reported else ''}"
