"""What a request says shall stay as it is, or does not mean to change, though an answer changes it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from repoagent.patch import differing
from repoagent.repo.change import FileChange

_CLAUSES = re.compile(r"[.;,:\n]\s|\b(?:but|while|and|so that)\b")
_STAYS = re.compile(
    r"\b(?:stays?|remains?|keeps?|is kept|leave|left)\b.*"
    r"\b(?:as (?:it|they) (?:is|are)|unchanged|untouched|alone|the same)\b"
    r"|\b(?:do not|don't|never|must not|without) (?:chang|touch|edit|modify|alter)\w*",
    re.IGNORECASE,
)
RENAMES = re.compile(r"\brenam", re.IGNORECASE)
_ADDS = re.compile(r"\s*(?:please\s+)?(?:add|give|document|support|introduce|include)\b", re.IGNORECASE)
_TAKES = re.compile(
    r"\b(?:instead|remov|delet|drop|replac|renam|mov|chang|rewrit|turn|only|no longer|rather)", re.IGNORECASE
)
_FEW, _LIKE = 12, 0.5  # lines; how alike two lines are of which one has come of the other
_PUT_BACK = 2  # definitions; who leaves out more has not written everything
_LITERAL = re.compile(r"""(["'])(?:[^"'\\\n{}]|\\.)*\1""")  # one with braces may hold code


def with_unasked_put_back(
    path: str, old: Sequence[str], new: Sequence[str], request: str, source: Sequence[str]
) -> list[str]:
    """`new` with what nobody asked to change as it was.

    Definitions that the request says shall stay; those of `source`, the file as it was read, that are gone though the
    request does not name them (a small model that adds a method writes it over its neighbour); where something is to
    be added, lines in whose place come others that are nothing like them; and, where it asks for a new name, the
    texts in quotes: a name is no word of what a program says.
    """
    lines = _with_definitions(path, old, new, frozen_words(request))
    lines = _with_lost(path, old, lines, set(re.findall(r"\w+", request)), _outlined(path, source))
    if _ADDS.match(request) and not _TAKES.search(request):
        lines = _with_written_over(old, lines)
    return _with_literals(old, lines, request) if RENAMES.search(request) else lines


def changes_to_frozen(changes: Sequence[FileChange], instruction: str) -> list[str]:
    """The names of definitions that changed, though a clause of the instruction says that they shall not."""
    words = frozen_words(instruction)
    found: list[str] = []
    for change in changes if words else ():
        if not change.path or not change.before or change.after is None:
            continue
        old, new = (
            {name: data.split(b"\n")[first:last] for name, (first, last) in _rows(change.path, data).items()}
            for data in (change.before, change.after)
        )
        found += [name for name, text in old.items() if _is_named(name, words) and new.get(name) != text]
    return found


def frozen_words(instruction: str) -> set[str]:
    """The words of the clauses of a request that say what shall stay as it is."""
    clauses = [clause for clause in _CLAUSES.split(f"{instruction} ") if _STAYS.search(clause)]
    return set(re.findall(r"[\w.]+", " ".join(clauses)))


def _is_named(name: str, words: set[str]) -> bool:
    return name in words or (name.rpartition(".")[2] in words and len(name) > 3)


def _rows(path: str, data: bytes) -> dict[str, tuple[int, int]]:
    """The definitions of a text and their lines, from 0, the second not included."""
    from repoagent.split import outline

    return {
        symbol.qualified_name: (symbol.first_line - 1, symbol.last_line)
        for symbol in outline(path, data)
        if symbol.kind != "heading"
    }


def _with_definitions(path: str, old: Sequence[str], new: Sequence[str], words: set[str]) -> list[str]:
    lines = list(new)
    if not words:
        return lines
    before, now = _outlined(path, old), _outlined(path, lines)
    frozen = [name for name in before if name in now and _is_named(name, words)]
    for name in sorted(frozen, key=lambda name: now[name], reverse=True):
        lines[slice(*now[name])] = old[slice(*before[name])]
    return lines


def _with_lost(
    path: str, old: Sequence[str], new: Sequence[str], words: Collection[str], source: Collection[str]
) -> list[str]:
    lines = list(new)
    before, now = _outlined(path, old), _outlined(path, lines)
    read = {name.rpartition(".")[2] for name in source}
    short = {name: name.rpartition(".")[2] for name in before}
    lost = [name for name in before if name not in now and short[name] in read and short[name] not in words]
    if not 0 < len(lost) <= _PUT_BACK or 2 * len(lost) > len(before):
        return lines  # nothing, or so much that the answer is no more than a part
    for name in lost:
        first, last = before[name]
        ahead = [other for other in before if other in now and before[other][1] <= first]
        if not ahead or any(
            first < row < last for row, _ in (before[other] for other in now if other in before)
        ):
            return list(new)
        neighbour = max(ahead, key=lambda other: before[other])
        gap, at = before[neighbour][1], now[neighbour][1]
        lines[at:at] = old[gap:last]
        now = _outlined(path, lines)
    return lines


def _outlined(path: str, lines: Sequence[str]) -> dict[str, tuple[int, int]]:
    return _rows(path, "\n".join(lines).encode("utf-8", "replace") + b"\n")


def _with_written_over(old: Sequence[str], new: Sequence[str]) -> list[str]:
    lines: list[str] = []
    at = 0
    for i1, i2, j1, j2 in differing(old, new):
        lines += new[at:j1]
        gone, come = [[line.strip() for line in text if line.strip()] for text in (old[i1:i2], new[j1:j2])]
        if gone and come and len(gone) <= _FEW and not any(_alike(was, now) for was in gone for now in come):
            lines += old[i1:i2]
        lines += new[j1:j2]
        at = j2
    return [*lines, *new[at:]]


def _alike(was: str, now: str) -> bool:
    return was in now or SequenceMatcher(None, was, now, autojunk=False).ratio() > _LIKE


def _with_literals(old: Sequence[str], new: Sequence[str], request: str) -> list[str]:
    lines = list(new)
    for i1, i2, j1, j2 in differing(old, new):
        if i2 - i1 != j2 - j1:
            continue
        for was, at in zip(old[i1:i2], range(j1, j2), strict=True):
            before = [match[0] for match in _LITERAL.finditer(was)]
            now = [match[0] for match in _LITERAL.finditer(lines[at])]
            if len(before) == len(now) and not any(literal in request for literal in before):
                lines[at] = _with_texts(lines[at], before)
    return lines


def _with_texts(line: str, texts: Sequence[str]) -> str:
    """`line` with these quoted texts in place of its own."""
    result, at = "", 0
    for match, text in zip(_LITERAL.finditer(line), texts, strict=True):
        result += line[at : match.start()] + text
        at = match.end()
    return result + line[at:]
