"""The `*** Begin Patch` / `*** End Patch` format of `apply_patch` tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.patch.errors import PatchError
from repoagent.patch.model import FilePatch, Hunk
from repoagent.patch.parse.hunks import read_hunk, sent_with_crlf
from repoagent.patch.parse.markers import DIRECTIVE
from repoagent.patch.parse.unfenced import bare_diff_end

_ACTIONS = {"Add File": "create", "Update File": "edit", "Delete File": "delete"}


def _directive(line: str) -> tuple[str, str]:
    """The directive on a line and its argument; both "" for another line."""
    found = DIRECTIVE.match(line)
    if found is None:
        return "", ""
    return (found[1], "") if found[1] else (found[2], found[3].rstrip("\r \t").strip("`\"'"))


def envelope_end(lines: Sequence[str], at: int) -> tuple[int, bool]:
    """The line after an unfenced envelope that begins at line `at`, and whether it is complete.

    With a beginning it is complete only with its end marker; without one it continues as a diff does.
    """
    begun = _directive(lines[at])[0] == "Begin Patch"
    number = at + 1
    if begun:
        while number < len(lines):
            what = _directive(lines[number])[0]
            if what == "End Patch":
                return number + 1, True
            if what == "Begin Patch":
                break
            number += 1
        else:
            return len(lines), False
        return number, False
    while number < len(lines):
        what = _directive(lines[number])[0]
        if what == "End Patch":
            return number + 1, True
        if what == "Begin Patch":
            break
        if what:
            number += 1
            continue
        after = bare_diff_end(lines, number) if _goes_on(lines[number]) else number
        if after == number:
            if lines[number].strip() or not _directive_ahead(lines, number):
                break
            after = number + 1
        number = after
    while number > at + 1 and not lines[number - 1].strip():
        number -= 1
    return number, number < len(lines)


def _goes_on(line: str) -> bool:
    return line.startswith(("@@", " ", "+", "-"))


def _directive_ahead(lines: Sequence[str], at: int) -> bool:
    for line in lines[at : at + 4]:
        if line.strip():
            return bool(_directive(line)[0]) or _goes_on(line)
    return False


def parse_envelope(lines: Sequence[str], *, closed: bool) -> list[FilePatch]:
    """The patches of an envelope. `closed`: its fence was closed, or more text follows.

    Raises PatchError for lines that belong to no file.
    """
    if sent_with_crlf(lines):
        lines = [line.removesuffix("\r") for line in lines]
    patches: list[FilePatch] = []
    hunks: list[Hunk] = []
    begun = ended = False
    at = 0
    while at < len(lines):
        what, name = _directive(lines[at])
        if what == "Begin Patch":
            begun, ended = True, False
        elif what == "End Patch":
            ended = True
        elif what in _ACTIONS:
            _close(patches, hunks)
            patches.append(FilePatch(name, name, "envelope", _ACTIONS[what]))
        elif what == "Move to" and patches:
            patches[-1] = replace(patches[-1], new=name, action="rename")
        elif what == "End of File" and hunks:
            hunks[-1] = replace(hunks[-1], at_end=True)
        elif patches and not ended and (_goes_on(lines[at]) or (lines[at].strip() and hunks)):
            hunk, at = read_hunk(lines, at, len(hunks) + 1, envelope=True)
            if hunk.lines:
                hunks.append(hunk)
            continue
        elif lines[at].startswith(("+", "-", "@@")) and begun and not ended:
            raise PatchError(
                "malformed",
                "the patch has changes before its first `*** Update File:` line. Name the file that they change.",
            )
        at += 1
    _close(patches, hunks)
    if patches and begun and not ended:
        patches[-1] = replace(patches[-1], cut=not closed)
    return patches


def _close(patches: list[FilePatch], hunks: list[Hunk]) -> None:
    if patches and hunks:
        patches[-1] = replace(patches[-1], hunks=tuple(hunks))
        hunks.clear()
