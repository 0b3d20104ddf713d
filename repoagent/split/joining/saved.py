"""What a person, or a program, has saved as a segment, taken over: only what was meant, in the form of the source."""

from __future__ import annotations

import re

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.split.joining.encodings import encoding_of, with_own_encoding
from repoagent.split.joining.endings import endings, with_own_end, with_own_endings
from repoagent.split.marks import UTF8_MARK

BINARY = "binary"
_CONFLICT = re.compile(rb"^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|) .*", re.MULTILINE)


@dataclass(frozen=True)
class SourceFacts:
    """The encoding of a source ("utf-8", "latin-1" for others of one byte a character, "binary"), and its line
    endings."""

    encoding: str
    endings: frozenset[bytes]


@dataclass(frozen=True)
class Saved:
    """The bytes that count for a segment file, and in sentences what was put right to get them."""

    data: bytes
    notes: tuple[str, ...] = ()


def source_facts(base: bytes, encoding: str) -> SourceFacts:
    """What is to be known of the source as it was split, which the index says is in `encoding`."""
    if encoding == BINARY:
        return SourceFacts(BINARY, frozenset())
    return SourceFacts(encoding_of(base), frozenset(endings(base)))


def taken_over(file: str, before: bytes, after: bytes, facts: SourceFacts, *, last: bool = False) -> Saved:
    """The segment `file`, which was the bytes `before` and holds `after` by now, in the form of the source.

    Byte-order mark, line endings and the end are those of `before`, the end of the `last` one less strictly; what was
    put right is said. Raises Refused where that can't be told, for another encoding, and for a merge that nobody has
    finished.
    """
    if after == before or facts.encoding == BINARY:
        return Saved(after)
    if not after:  # what says how the rest is encoded stays
        return Saved(UTF8_MARK if before.startswith(UTF8_MARK) else b"")
    new, notes = with_own_encoding(file, before, after, facts.encoding)
    _refuse_conflict(file, before, new)
    new, more = with_own_endings(file, before, new, set(facts.endings))
    notes += more
    new, more = with_own_end(file, before, new, last=last)
    return Saved(new, notes + more)


def _refuse_conflict(file: str, before: bytes, after: bytes) -> None:
    known = {match[0] for match in _CONFLICT.finditer(before)}
    for match in _CONFLICT.finditer(after):
        if match[0].rstrip(b"\r") not in known and match[0] not in known:
            line = after.count(b"\n", 0, match.start()) + 1
            raise Refused(
                f"{file} has conflict markers (line {line}): finish that merge in it, and join again"
            )
