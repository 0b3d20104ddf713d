"""What the files that hold a name have of it: read, and parsed as far as the bounds allow."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from repoagent.errors import RepoagentError
from repoagent.repo.source import read_source
from repoagent.repo.worktree import WorkTree
from repoagent.split.symbols.occurrences import Occurrence, Occurrences, occurrences
from repoagent.split.symbols.symbol import Symbol
from repoagent.uses.asking import outer

LARGEST = 1 << 20  # bytes of a file that is looked into


class Bounds(NamedTuple):
    """How many files are parsed and read, and how many bytes of them. Counts and no time: the answer is the same on a
    machine that is busy."""

    parsed: int = 60
    parsed_bytes: int = 2 << 20
    read: int = 1_000
    read_bytes: int = 32 << 20
    common: int = 0  # files that hold a name which is dropped where there is a rarer one; 0: none is
    spared: frozenset[str] = frozenset()  # names that are not dropped


class Scan(NamedTuple):
    """What one file has of the names: where they stand, the symbols of these names that others can use, all symbols."""

    found: Mapping[str, Sequence[Occurrence]]
    defined: Mapping[str, Sequence[Symbol]]
    symbols: Sequence[Symbol]
    parsed: bool


def scanned(
    worktree: WorkTree,
    paths: Sequence[str],
    names: set[str],
    *,
    bounds: Bounds,
    left_out: Counter[str],
    order: Callable[[Mapping[str, Scan]], Callable[[str], object]],
) -> dict[str, Scan]:
    """Each file that has one of the names; the first ones parsed, as far as the bounds allow. What looks as if it
    defined a name comes before all else; `order` is given what is known of that, and makes the key that sorts the rest.
    With `bounds.common` the files of rare names come first. Counts in `left_out` what was not looked into."""
    room = bounds.read_bytes
    texts: dict[str, bytes] = {}
    for number, path in enumerate(paths):
        if number >= bounds.read or room < 0:
            left_out["many"] = len(paths) - number
            break
        data = data_of(worktree, path, left_out)
        if data is not None:
            texts[path] = data
            room -= len(data)
    rarity: Mapping[str, int] = {}
    if bounds.common:
        names, rarity = _rare(texts, names, bounds)
        texts = {path: texts[path] for path in texts if path in rarity}
    defines = _looks_defining(names)
    first = [path for path, data in texts.items() if defines(data)][: bounds.parsed // 2]
    found: dict[str, Scan] = {}
    parsed, room = bounds.parsed, bounds.parsed_bytes
    for part in (0, 1):
        key: Any = order(found)
        rest = sorted(texts, key=lambda path: (rarity.get(path, 0), key(path)))
        for path in (first, rest)[part]:
            data = texts.pop(path)
            has = occurrences(path, data, names, parse=parsed > 0 and len(data) <= room)
            if has.parsed:
                parsed, room = parsed - 1, room - len(data)
            if has.found:
                found[path] = _scan(has, names)
    return found


def _rare(texts: Mapping[str, bytes], names: set[str], bounds: Bounds) -> tuple[set[str], dict[str, int]]:
    """The names that no more than `bounds.common` files hold, or the rarest one; and for each file that has one of
    them how many have its rarest."""
    word = re.compile(
        rb"(?<!\w)(?:%s)(?!\w)" % b"|".join(re.escape(os.fsencode(name)) for name in sorted(names))
    )
    held: dict[str, list[str]] = {name: [] for name in sorted(names)}
    for path, data in texts.items():
        for name in {os.fsdecode(found) for found in word.findall(data)}:
            held[name].append(path)
    rare = {name for name, paths in held.items() if len(paths) <= bounds.common or name in bounds.spared} or {
        min(held, key=lambda name: len(held[name]))
    }
    rarity: dict[str, int] = {}
    for name in sorted(rare, key=lambda name: -len(held[name])):
        rarity.update(dict.fromkeys(held[name], len(held[name])))
    return rare, rarity


def _scan(has: Occurrences, names: set[str]) -> Scan:
    found: dict[str, list[Occurrence]] = {}
    for one in has.found:
        found.setdefault(one.name, []).append(one)
    defined: dict[str, list[Symbol]] = {}
    for symbol in outer(has.symbols):
        if symbol.name in names:
            defined.setdefault(symbol.name, []).append(symbol)
    return Scan(found, defined, has.symbols, has.parsed)


def _looks_defining(names: set[str]) -> Callable[[bytes], bool]:
    """Tells the texts that may define the name, where one is looked for."""
    if len(names) > 1:
        return lambda text: False
    name = re.compile(rb"\b" + re.escape(next(iter(names)).encode("utf-8", "surrogateescape")) + rb"\b")

    def looks(text: bytes) -> bool:
        for match in islice(name.finditer(text), _LOOKS):
            start = max(text.rfind(b"\n", 0, match.start()) + 1, match.start() - 200)
            before = text[start : match.start()]
            if _KEYWORD.search(before) or (_HEAD.fullmatch(before) and _BODY.match(text, match.end())):
                return True
        return False

    return looks


_LOOKS = 50
_KEYWORD = re.compile(
    rb"\b(?:def|class|func|function|fn|struct|union|enum|interface|trait|type|const|macro_rules!|define)[ \t]+"
    rb"(?:\([^()\n]*\)[ \t]*)?$"
)
_HEAD = re.compile(rb"\w[^;=(]*")
_BODY = re.compile(rb"\s{0,20}\([^;{]{0,500}\{")


def data_of(worktree: WorkTree, path: str, left_out: Counter[str]) -> bytes | None:
    try:
        if os.lstat(worktree.top / path).st_size > LARGEST:
            left_out["large"] += 1
            return None
        return read_source(worktree, path).data
    except (RepoagentError, OSError):  # behind a link, gone meanwhile, not readable
        left_out["unread"] += 1
        return None
