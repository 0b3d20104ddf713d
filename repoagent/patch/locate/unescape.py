"""Undo what happened to all lines of an answer on its way: HTML escapes, typographic punctuation.

The lines that a hunk quotes from the file show the damage; then it is undone in the added lines too."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import HTML, PUNCTUATION
from repoagent.patch.model import ADD, CONTEXT, Hunk, Line

_QUOTES = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
}
_SPACES = dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " ")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SHORT = str.maketrans({**_QUOTES, **_SPACES, **dict.fromkeys(_DASHES, "-"), "\u2026": "..."})
_LONG = str.maketrans({**_QUOTES, **_SPACES, **dict.fromkeys(_DASHES, "--"), "\u2026": "..."})
_MIXED = str.maketrans({**_QUOTES, **_SPACES, **dict.fromkeys("\u2014\u2015", "--"), "\u2026": "..."})

_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#34|#x27|#x2F|#x60);", re.IGNORECASE)
_STRAIGHT = re.compile("[\"']")
_BARE = re.compile(r"[<>]|&(?!\w+;|#\w+;)")


def _unescaped(text: str) -> str:
    return _ENTITY.sub(lambda match: html.unescape(match.group()).replace("\u00a0", " "), text)


Undo = Callable[[str], str]
_WAYS: tuple[tuple[str, Undo], ...] = (
    (HTML, _unescaped),
    (PUNCTUATION, lambda text: text.translate(_SHORT)),
    (PUNCTUATION, lambda text: text.translate(_LONG)),
    (PUNCTUATION, lambda text: text.translate(_MIXED)),
)


def undone(hunks: Sequence[Hunk], lines: Sequence[str]) -> list[Hunk]:
    """The hunks as they were before what their old lines show to have happened to them.

    It must be so of some line that the file has then and has not as written, and against it of none. Raises
    PatchError where an added line may or may not have been escaped, and nothing shows it.
    """
    result = list(hunks)
    squeezed: frozenset[str] | None = None
    for name, undo in _WAYS:
        affected = [(line.text, undo(line.text)) for hunk in result for line in hunk.old]
        affected = [(written, plain) for written, plain in affected if written != plain]
        if not affected:
            continue
        squeezed = squeezed or frozenset(map(_squeezed, lines))
        kept = any(_squeezed(written) in squeezed for written, _ in affected)
        if not kept and any(_squeezed(plain) in squeezed for _, plain in affected):
            even = not any(_is_plain(line.text, name) for hunk in result for line in _changed(hunk))
            result = [_undone(hunk, name, undo, even) for hunk in result]
    for hunk in result:
        if _may_be_escaped(hunk, result, lines):
            raise PatchError(
                "escaped",
                "the added lines contain HTML escapes such as `&lt;`, which may or may not be literal. Send "
                "the hunk with an unchanged line of the file that contains <, > or &.",
                hunk.number,
            )
    return result


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _may_be_escaped(hunk: Hunk, hunks: Sequence[Hunk], lines: Sequence[str]) -> bool:
    """Are there escapes in added lines, none in the file, and no character in any hunk that would be escaped?"""
    if not any(_ENTITY.search(line.text) for line in hunk.added):
        return False
    if any(
        _BARE.search(line.text) or (line.kind != ADD and "&" in line.text)
        for one in hunks
        for line in one.lines
    ):
        return False
    return not any(_ENTITY.search(line) for line in lines)


def _changed(hunk: Hunk) -> list[Line]:
    return [line for line in hunk.lines if line.kind != CONTEXT or line.rewritten]


def _is_plain(text: str, name: str) -> bool:
    """Does a line hold what would have been changed on the way?"""
    return (_BARE if name == HTML else _STRAIGHT).search(text) is not None


def _undone(hunk: Hunk, name: str, undo: Undo, even: bool) -> Hunk:
    """The hunk unchanged. Unless it happened to all lines `even`ly, added lines are as it was meant."""
    lines = tuple(
        replace(line, text=undo(line.text)) if even or line.kind != ADD else line for line in hunk.lines
    )
    if lines == hunk.lines:
        return hunk
    return replace(hunk, lines=lines, section=undo(hunk.section), tolerances=hunk.tolerances | {name})
