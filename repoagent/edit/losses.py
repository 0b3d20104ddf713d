"""What a change takes away though nobody asked: definitions, and the end of a file that was written as a whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.edit.context import shown
from repoagent.patch import Applied, patch_spans
from repoagent.repo.change import FileChange

_SHORTER = re.compile(r"\b(remov|delet|drop|cut|trim|shorten|truncat|strip)", re.IGNORECASE)


def unasked_losses(applied: Applied, instruction: str, answer: str) -> str:
    """A sentence for the model when something vanishes that neither the request nor its own words name; or ""."""
    said = f"{instruction} {_prose(answer)}"
    if lost := _lost_definitions(applied.changes, set(re.findall(r"\w+", said))):
        return (
            f"Not applied: the change removes {', '.join(lost)}, which the request does not name. Keep what need not "
            "go; if it must go, say so by name in a sentence before the edit and send the edit again."
        )
    whole = {place.path for place in applied.placements if place.level == "whole-file"}
    for change in applied.changes:
        tail = _lost_end(change) if change.path in whole else 0
        if tail and not _SHORTER.search(said):
            return (
                f"Not applied: the last {tail} lines of {change.path} are missing. Send the whole file, to its last "
                "line; if they must go, say in a sentence before it that they are removed."
            )
    return ""


def _lost_definitions(changes: Sequence[FileChange], words: set[str]) -> list[str]:
    from repoagent.split import definitions, lost_definitions

    kept = {
        name
        for change in changes
        if change.path and change.after
        for name in definitions(change.path, change.after)
    }
    return [
        f"{name} ({change.path})"
        for change in changes
        if change.path and change.before is not None and change.after is not None
        for name in lost_definitions(change.path, change.before, change.after)
        if name not in kept and name.rsplit(".", 1)[-1] not in words
    ]


def _lost_end(change: FileChange) -> int:
    """How many lines at the end of the file are gone, where the new text just stops at one of the old lines: that is
    how an answer looks that was not written to its end."""
    if change.before is None or change.after is None:
        return 0
    before, after = shown(change.before).rstrip().split("\n"), shown(change.after).rstrip().split("\n")
    if after[-1] not in before:
        return 0
    last = len(before) - 1 - before[::-1].index(after[-1])
    tail = before[last + 1 :]
    remaining = set(after)
    gone = all(line not in remaining for line in tail if line.strip())
    return len(tail) if gone else 0


def _prose(answer: str) -> str:
    """The answer without its patches: what the model says in words."""
    words, at = [], 0
    for span in patch_spans(answer):
        words.append(answer[at : span.start])
        at = span.end
    return " ".join([*words, answer[at:]])
