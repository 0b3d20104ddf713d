"""Where symbols are defined and used, file by file: the files that hold their names, read and told apart."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from repoagent.history.cochange.names import stem
from repoagent.repo.worktree import WorkTree
from repoagent.split.symbols.occurrences import is_prose
from repoagent.split.symbols.roles import Role
from repoagent.split.symbols.symbol import Symbol
from repoagent.uses.asking import Asked
from repoagent.uses.roles import lines_used, modules_of, wanted_roles
from repoagent.uses.scanning import LARGEST, Bounds, Scan, scanned
from repoagent.uses.search import files_with
from repoagent.uses.values import CODE, FUNCTIONS, HOLDERS, Definition, Uses, UsesIn, WhyNot, is_test

Near = Callable[[str], Mapping[str, float]]

_KINDS: Mapping[Role, str] = {"definition": "variable", "declaration": "declaration", "field": "field"}
_ASSIGNED: Mapping[Role, str] = {"attribute": "field"}  # what makes an attribute, where nothing declares it
_LOOSE = frozenset({"declaration", "field"})  # kinds of definitions that make no file the symbol's home
_LEFT_OUT = {
    "withheld": "withheld by .repoagentignore or for a name that usually holds secrets",
    "large": f"of more than {LARGEST >> 20} MiB not looked into",
    "unread": "could not be read",
    "many": "beyond the limit not looked into",
    "unlisted": "or more beyond the limit not listed",
}


def find(
    worktree: WorkTree,
    asked: Sequence[Asked],
    why_not: WhyNot,
    *,
    near: Near | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008
) -> tuple[tuple[Uses, ...], tuple[str, ...]]:
    """The uses of each symbol, by one search for all of them, and which files were not looked into. `why_not` says
    which files are withheld; `near` how surely others change with a file, which ranks them.

    Files that git ignores are not looked at, nor binary ones and those of more than LARGEST bytes.
    """
    names = {one.name for one in asked}
    holding = files_with(worktree.top, names)
    left_out = Counter({"unlisted": 1} if holding.cut else {})
    paths = [path for path in (*holding.tracked, *holding.untracked) if why_not(path) is None]
    left_out["withheld"] = len(holding.tracked) + len(holding.untracked) - len(paths)
    home = next((one.file for one in asked if one.file), "")
    paths.sort(key=lambda path: (path != home, is_prose(path), is_test(path), path))
    scores: Mapping[str, float] = {}

    def order(scans: Mapping[str, Scan]) -> Callable[[str], object]:
        nonlocal scores
        at = home or next(iter(_definers(asked[0], scans)), "")
        if near and not scores and len(paths) > 1 and at:
            scores = near(at)
        alike = [
            word.lower()
            for word in (*names, stem(os.fsencode(at)).decode("utf-8", "replace"))
            if len(word) > 2
        ]

        def key(path: str) -> tuple[object, ...]:
            called_like = any(word in path.lower() for word in alike)
            return path != home, is_prose(path), -scores.get(path, 0.0), is_test(path), not called_like, path

        return key

    scans = scanned(worktree, paths, names, bounds=bounds, left_out=left_out, order=order)
    order(scans)  # what defines it may not have looked so
    found = tuple(_uses(worktree, one, scans, scores) for one in asked)
    return found, tuple(f"{n} file{'s' * (n != 1)} {_LEFT_OUT[why]}" for why, n in left_out.items() if n)


def _definers(asked: Asked, scans: Mapping[str, Scan], kinds: Mapping[Role, str] = _KINDS) -> list[str]:
    """The files that define it, those with a body before those with a declaration, code before tests."""
    found: dict[str, tuple[bool, bool, str]] = {}
    for path, scan in scans.items():
        for one in _definitions(path, scan, asked, kinds):
            key = (one.kind in _LOOSE, is_test(path), path)
            found[path] = min(found.get(path, key), key)
    return sorted(found, key=lambda path: found[path])


def _definitions(
    path: str, scan: Scan, asked: Asked, kinds: Mapping[Role, str] = _KINDS
) -> Iterator[Definition]:
    """What is defined there under the name: the symbols of the outline, then what it does not list."""
    own = scan.defined.get(asked.name, ())
    for one in own:
        constructor = one.qualified_name.endswith(f"{one.name}.{one.name}")
        if not constructor and _is_called(one.qualified_name, asked):
            yield Definition(path, one.qualified_name, one.kind, one.first_line, one.last_line)
    seen: set[str] = set()
    for occurrence in scan.found.get(asked.name, ()):
        line, role = occurrence.line, occurrence.role
        if role not in kinds or any(s.first_line <= line <= s.last_line for s in own):
            continue
        holder = _holder(scan.symbols, line) if kinds[role] == "field" else ""
        name = f"{holder}.{asked.name}" if holder else asked.name
        if name not in seen and _is_called(name, asked):
            seen.add(name)  # a variable that is set again is one variable
            yield Definition(path, name, kinds[role], line, line)


def _is_called(name: str, asked: Asked) -> bool:
    return not asked.qualified or name == asked.qualified or name.endswith(f".{asked.qualified}")


def _holder(symbols: Sequence[Symbol], line: int) -> str:
    holding = [s for s in symbols if s.first_line <= line <= s.last_line and s.kind in HOLDERS]
    return holding[-1].qualified_name if holding else ""


def _uses(worktree: WorkTree, asked: Asked, scans: Mapping[str, Scan], scores: Mapping[str, float]) -> Uses:
    for kinds in (_KINDS, _ASSIGNED):
        every = [one for path, scan in scans.items() for one in _definitions(path, scan, asked, kinds)]
        if every:
            break
    if asked.qualified and not every:  # inherited, or not in an outline
        return _uses(worktree, replace(asked, text=asked.name, qualified=""), scans, scores)
    definers = _definers(asked, scans, kinds)
    solid = list(dict.fromkeys(one.path for one in every if one.kind in CODE - _LOOSE)) or definers
    home = asked.file or (solid[0] if len(solid) == 1 else "")
    meant = [one for one in every if not home or one.path == home]
    if asked.file:  # a function before a method of the same name
        meant = [one for one in meant if one.name == asked.qualified] or meant
    meant.sort(key=lambda one: (definers.index(one.path), one.first_line))
    wanted = wanted_roles(meant, scans)
    modules = modules_of(worktree, home) if home else frozenset()
    files = []
    for path, scan in scans.items():
        if lines := lines_used(path, scan.found.get(asked.name, ()), wanted, home, modules):
            within = _within(scan.symbols, lines)
            files.append(UsesIn(path, tuple(lines), not scan.parsed, is_test(path), within))
    apart = not home or not is_prose(home)  # prose comes last, unless it is what was asked about
    files.sort(
        key=lambda row: (
            row.path != home, apart and is_prose(row.path), -scores.get(row.path, 0.0), row.test,
            -len(row.lines), row.path,
        )
    )  # fmt: skip
    others = [one for one in every if home and one.path != home]
    return Uses(asked.text, tuple(meant), tuple(others), tuple(files))


def _within(symbols: Sequence[Symbol], lines: Sequence[int]) -> tuple[str, ...]:
    """The outermost functions that hold the lines, each once, in order."""
    functions = []
    last = 0
    for symbol in symbols:
        if symbol.kind in FUNCTIONS and symbol.first_line > last:
            functions.append(symbol)
            last = symbol.last_line
    return tuple(
        dict.fromkeys(
            symbol.qualified_name
            for line in lines
            for symbol in functions
            if symbol.first_line <= line <= symbol.last_line
        )
    )
