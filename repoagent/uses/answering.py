"""The whole question: what a text asks for, and its uses, ranked by what changes with the file that defines it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from repoagent.errors import Refused, UsageError
from repoagent.history.neighbors import neighborhood
from repoagent.repo.missing import no_such_file
from repoagent.repo.paths import check_path
from repoagent.repo.source import read_source
from repoagent.repo.worktree import WorkTree
from repoagent.split.languages import language_of
from repoagent.split.symbols.occurrences import is_prose
from repoagent.uses.asking import asked_symbol, symbols_of_file
from repoagent.uses.finding import find
from repoagent.uses.roles import family
from repoagent.uses.values import Answer, Uses, WhyNot

NEAR = 200  # files that change with the one that defines a symbol
COMMON = 3  # other definitions of a name that make its uses doubtful
MANY = 30  # files that use a method's name: more will mean other methods too


def answer(
    worktree: WorkTree,
    text: str,
    why_not: WhyNot,
    *,
    limit: int = 20,
    path_of: Callable[[str], str] = lambda text: text,
) -> Answer:
    """The uses of what `text` means: `NAME`, `Class.method`, `FILE:NAME`, or a FILE, which asks for all that it defines
    and other files use. At most `limit` files of a symbol, and symbols of a file.

    `path_of` gives the path from the top of a file as it was written. Raises UsageError for what is no symbol and no
    file, Refused for a file that may not be read.
    """
    file, name = _split(worktree, text, path_of)
    if file:
        check_path(file)
        if reason := why_not(file):
            raise Refused(reason)
    if file and not name:
        return _of_file(worktree, file, why_not, limit)
    head = text.partition(":")[0]
    if not file and ("/" in head or language_of(head, b"")):
        error = no_such_file(path_of(head), worktree.top)
        if "/" in head or error.near:
            raise error
    data = read_source(worktree, file).data if file else None
    asked = asked_symbol(name, file, data)
    (found,), left_out = find(worktree, [asked], why_not, near=lambda path: _near(worktree, path))
    return Answer(text, None, (_cut(found, limit),), left_out=left_out)


def _split(worktree: WorkTree, text: str, path_of: Callable[[str], str]) -> tuple[str, str]:
    """The file (from the top, "" for none) and the symbol ("" for none) that a text names."""
    for end in [len(text), *(place for place, sign in enumerate(text) if sign == ":")]:
        head, name = text[:end], text[end:].lstrip(":")
        if head and (end == len(text) or name) and _is_file(worktree, head, path_of):
            return path_of(head), name
    return "", text


def _is_file(worktree: WorkTree, text: str, path_of: Callable[[str], str]) -> bool:
    try:
        path = worktree.top / path_of(text)
        if path.is_dir() and "." not in text.strip("./"):
            raise UsageError(f"{text} is a folder: name a file, or a symbol")
        return path.is_file()
    except (ValueError, OSError):  # no name of a file
        return False


def _of_file(worktree: WorkTree, file: str, why_not: WhyNot, limit: int) -> Answer:
    asked = symbols_of_file(worktree, file)
    found, left_out = find(worktree, asked, why_not, near=lambda path: _near(worktree, path))
    elsewhere = [_elsewhere(one, file) for one in found]
    used = [one for one in elsewhere if one.files]
    used.sort(key=_doubt)
    unused = tuple(one.symbol for one in elsewhere if not one.files)
    shown = tuple(used[:limit])
    return Answer(file, file, shown, unused, len(used) - len(shown), left_out)


def _elsewhere(uses: Uses, file: str) -> Uses:
    """Without the file itself, and what is only a word in a file of another language."""
    definitions = tuple(one for one in uses.definitions if one.path == file)
    rows = [
        row for row in uses.files if row.path != file and (not row.text or family(row.path) == family(file))
    ]
    if not is_prose(file):
        rows = [row for row in rows if not is_prose(row.path)]
    return replace(uses, definitions=definitions, files=tuple(rows))


def _doubt(uses: Uses) -> tuple[bool, int]:
    """Sorts what surely belongs to the file before names that many things have, then by how many files use it."""
    member = any(one.kind == "method" for one in uses.definitions)
    return len(uses.elsewhere) > COMMON or (member and len(uses.files) > MANY), -len(uses.files)


def _cut(uses: Uses, limit: int) -> Uses:
    return replace(uses, files=uses.files[:limit], more=max(0, len(uses.files) - limit))


def _near(worktree: WorkTree, path: str) -> Mapping[str, float]:
    found = neighborhood(worktree, [path], limit=NEAR)
    return {os.fsdecode(row.path): row.score for row in found.rows}
