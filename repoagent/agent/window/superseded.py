"""Results that a later one has made worthless, as one line. Only where a checkpoint is made: what was sent once and is
changed later costs the provider's cache of all that follows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from repoagent.agent.window.cutting import Quoted, pieces
from repoagent.agent.window.spill import spilled_to, unquoted
from repoagent.agent.window.units import borders, without_attached
from repoagent.dataclass import dataclass
from repoagent.llm import Turn
from repoagent.llm.conversation import ATTACHED

_READ = re.compile(r'file path=("(?:[^"\\]|\\.)*")(?: [\w-]+="[^"]*")*? lines="(\d+)-(\d+)"')
_EDITED = re.compile(r"^\+\+\+ (?:b/)?([^\t\r\n]+)", re.MULTILINE)
_WORTH = 400  # characters: less is not worth a line of its own


@dataclass(frozen=True)
class _Read:
    path: str
    first: int
    last: int


def without_superseded(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """`turns` with one line in the place of a `read` whose lines were read again or whose file was edited since, and
    of what was shortened and is in a file, and of images and PDFs. What the newest unit holds stays."""
    newest = borders(turns)[-1] if turns else 0
    made = list(turns)
    later: list[_Read] = []
    edited: set[str] = set()
    for number in range(len(turns) - 1, -1, -1):
        turn = turns[number]
        if turn.role == "assistant":
            edited |= set(_edits(turns, number))
        if turn.role != "observation":
            continue
        if number < newest and ATTACHED in turn.meta:
            made[number] = without_attached(turn)
            continue
        reads = list(_reads(turn))
        if number < newest and len(turn.text) > _WORTH:
            said = _why(reads, later, edited) or _spilled(turn)
            made[number] = replace(turn, text=said) if said else turn
        later += reads
    return tuple(made)


def _why(reads: Sequence[_Read], later: Sequence[_Read], edited: set[str]) -> str:
    if not reads:
        return ""
    if all(any(_covers(new, old) for new in later) for old in reads):
        return f"({_named(reads)}: left out, it was read again later.)"
    if all(read.path in edited for read in reads):
        return f"({_named(reads)}: left out, the file was edited since. Read it again where it matters.)"
    return ""


def _spilled(turn: Turn) -> str:
    files = spilled_to(turn.text)
    return f"(Left out, it is in {', '.join(files)}.)" if files else ""


def _named(reads: Sequence[_Read]) -> str:
    return "; ".join(f"{read.path}, lines {read.first}-{read.last}" for read in reads)


def _covers(new: _Read, old: _Read) -> bool:
    return new.path == old.path and new.first <= old.first and old.last <= new.last


def _reads(turn: Turn) -> Iterator[_Read]:
    if turn.meta.get("kind") != "read" or turn.meta.get("ok") == "no":
        return
    for piece in pieces(turn.text):
        found = _READ.match(piece.label) if isinstance(piece, Quoted) else None
        if found:
            yield _Read(unquoted(found[1]), int(found[2]), int(found[3]))


def _edits(turns: Sequence[Turn], number: int) -> list[str]:
    """The paths that the reply at `number` has edited, when that went well."""
    for turn in turns[number + 1 :]:
        if turn.role != "observation":
            return []
        if turn.meta.get("kind") == "edit":
            return _EDITED.findall(turns[number].text) if turn.meta.get("ok") != "no" else []
    return []
