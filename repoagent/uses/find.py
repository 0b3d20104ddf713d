"""Find where symbols are defined and used, file by file.

`git grep` lists the files that contain a name; untracked files are read directly. Files are parsed up to a limit.
Whether an occurrence is a use depends on the kind of the symbol and on the file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple

from repoagent.errors import RepoagentError
from repoagent.git.files import read_source
from repoagent.git.process import OFFLINE, GitError, git_stream
from repoagent.git.worktree import WorkTree
from repoagent.history.cochange.score import stem
from repoagent.syntax.occurrences import Occurrence, Occurrences, Role, is_prose, occurrences
from repoagent.syntax.symbol import Symbol
from repoagent.uses.query import (
    CODE,
    FUNCTIONS,
    HOLDERS,
    Definition,
    SymbolQuery,
    Uses,
    UsesIn,
    WhyNot,
    is_test,
    outer,
)

LARGEST = 4 << 20  # bytes of paths that git prints
UNTRACKED = 1_000  # files that git does not know and that are read
_PLAIN = re.compile(r"\w+", re.ASCII)


class Holding(NamedTuple):
    """Paths in order; those in `untracked` may or may not contain a name. `cut`: there are more."""

    tracked: list[str]
    untracked: list[str]
    cut: bool = False


def files_with(top: Path, names: Collection[str]) -> Holding:
    """The files that have one of `names` as a word, as they are in the work tree; ignored files are left out."""
    options = ["grep", "-a", "-l", "-z", "--full-name", "--no-color", "--no-recurse-submodules"]
    if all(map(_PLAIN.fullmatch, names)):  # one pattern: five times as fast as one for each name
        arguments: list[str | bytes] = [*options, "-w", "-E", "-e", "|".join(sorted(names)), "--"]
    else:  # git's idea of a word is that of ASCII
        arguments = [
            *options,
            "-F",
            *(part for name in sorted(names) for part in ("-e", os.fsencode(name))),
            "--",
        ]
    with git_stream(top, "ls-files", "-z", "--others", "--exclude-standard") as stream:
        tracked, cut = _grepped(top, arguments)
        untracked, untracked_cut = _paths(stream)
    cut = cut or untracked_cut or len(untracked) > UNTRACKED
    return Holding(tracked, sorted(untracked)[:UNTRACKED], cut)


def _grepped(top: Path, args: list[str | bytes]) -> tuple[list[str], bool]:
    try:
        with git_stream(top, *args, env=OFFLINE) as stream:
            paths, cut = _paths(stream)
    except GitError as error:
        if error.returncode != 1:  # no file has it
            raise
        return [], False
    return paths, cut


def _paths(stream: IO[bytes]) -> tuple[list[str], bool]:
    data = stream.read(LARGEST)
    cut = len(data) == LARGEST
    return [os.fsdecode(path) for path in data.split(b"\0")[:-1]], cut


LARGEST_PARSED = 1 << 20  # bytes of a file that is looked into


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
    """The names in one file: their occurrences, the symbols with these names that other files can use, all symbols."""

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
    """Parse the files that contain one of the names, as many as the bounds allow. Files that seem to define a name come
    first; `order` makes the sort key for the others from the definitions. With `bounds.common` files of rare names come
    first. Counts skipped files in `left_out`."""
    remaining_bytes = bounds.read_bytes
    texts: dict[str, bytes] = {}
    for number, path in enumerate(paths):
        if number >= bounds.read or remaining_bytes < 0:
            left_out["many"] = len(paths) - number
            break
        data = data_of(worktree, path, left_out)
        if data is not None:
            texts[path] = data
            remaining_bytes -= len(data)
    rarity: Mapping[str, int] = {}
    if bounds.common:
        names, rarity = _rare(texts, names, bounds)
        texts = {path: texts[path] for path in texts if path in rarity}
    defines = _looks_defining(names)
    first = [path for path, data in texts.items() if defines(data)][: bounds.parsed // 2]
    scans: dict[str, Scan] = {}
    parsed, remaining_bytes = bounds.parsed, bounds.parsed_bytes
    for part in (0, 1):
        key: Any = order(scans)
        remainder = sorted(texts, key=lambda path: (rarity.get(path, 0), key(path)))
        for path in (first, remainder)[part]:
            data = texts.pop(path)
            has = occurrences(path, data, names, parse=parsed > 0 and len(data) <= remaining_bytes)
            if has.parsed:
                parsed, remaining_bytes = parsed - 1, remaining_bytes - len(data)
            if has.found:
                scans[path] = _scan(has, names)
    return scans


def _rare(texts: Mapping[str, bytes], names: set[str], bounds: Bounds) -> tuple[set[str], dict[str, int]]:
    """The names that no more than `bounds.common` files hold, or the rarest one; and for each file that has one of
    them how many have its rarest."""
    pattern = re.compile(
        rb"(?<!\w)(?:%s)(?!\w)" % b"|".join(re.escape(os.fsencode(name)) for name in sorted(names))
    )
    paths_of: dict[str, list[str]] = {name: [] for name in sorted(names)}
    for path, data in texts.items():
        for name in {os.fsdecode(match) for match in pattern.findall(data)}:
            paths_of[name].append(path)
    rare = {
        name for name, paths in paths_of.items() if len(paths) <= bounds.common or name in bounds.spared
    } or {min(paths_of, key=lambda name: len(paths_of[name]))}
    rarity: dict[str, int] = {}
    for name in sorted(rare, key=lambda name: -len(paths_of[name])):
        rarity.update(dict.fromkeys(paths_of[name], len(paths_of[name])))
    return rare, rarity


def _scan(has: Occurrences, names: set[str]) -> Scan:
    by_name: dict[str, list[Occurrence]] = {}
    for occurrence in has.found:
        by_name.setdefault(occurrence.name, []).append(occurrence)
    defined: dict[str, list[Symbol]] = {}
    for symbol in outer(has.symbols):
        if symbol.name in names:
            defined.setdefault(symbol.name, []).append(symbol)
    return Scan(by_name, defined, has.symbols, has.parsed)


def _looks_defining(names: set[str]) -> Callable[[bytes], bool]:
    """A function that returns whether a text may define one of the names."""
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
        if os.lstat(worktree.top / path).st_size > LARGEST_PARSED:
            left_out["large"] += 1
            return None
        return read_source(worktree, path).data
    except (RepoagentError, OSError):  # behind a link, deleted in the meantime, unreadable
        left_out["unread"] += 1
        return None


# Languages in which a class calls its own methods by name alone.
_WITHOUT_SELF = (".java", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".cs", ".kt", ".swift", ".scala", ".rb")


def wanted_roles(definitions: Sequence[Definition], scans: Mapping[str, Scan]) -> frozenset[Role]:
    """The roles that a use of this symbol may have: for a function of a module its name, alone or qualified, for a
    method a member; any name for symbols that are not functions, methods or types."""
    roles: set[Role] = {"text", "qualified"}
    if not definitions or any(definition.kind == "field" for definition in definitions):
        return frozenset({*roles, "name", "member", "attribute", "key", "local"})
    for definition in definitions:
        if _is_member(definition, scans[definition.path].symbols):
            roles |= {"member", "attribute"}
            if definition.path.endswith(_WITHOUT_SELF):
                roles.add("name")
        else:
            roles.add("name")
            if not scans[definition.path].parsed:
                roles |= {"member", "attribute", "key"}
    return frozenset(roles)


def _is_member(definition: Definition, symbols: Sequence[Symbol]) -> bool:
    if definition.kind == "method":
        return True
    if "." not in definition.name:
        return False
    holder = definition.name.rpartition(".")[0]
    holders = [symbol.kind for symbol in symbols if symbol.qualified_name == holder]
    return not holders or any(kind in HOLDERS for kind in holders)


def _is_another(path: str, found_there: Sequence[Occurrence], home: str) -> bool:
    """Whether the bare name means another symbol there: the file defines its own, or, in Go, is in another package."""
    if path.endswith(".go") and home.endswith(".go") and path.rpartition("/")[0] != home.rpartition("/")[0]:
        return True
    return any(occurrence.role == "definition" for occurrence in found_there)


_FAMILIES = {
    suffix: family
    for family, suffixes in {
        "python": ".py .pyi .pyx",
        "script": ".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte",
        "c": ".c .h .cc .cpp .cxx .hh .hpp .m .mm",
        "jvm": ".java .kt .scala .groovy",
        "go": ".go",
        "rust": ".rs",
        "ruby": ".rb",
        "php": ".php",
    }.items()
    for suffix in suffixes.split()
}


def family(path: str) -> str:
    """The languages that call each other's methods; "" for any other."""
    return _FAMILIES.get(PurePath(path).suffix, "")


def modules_of(worktree: WorkTree, home: str) -> frozenset[str]:
    """The words by which a file is imported: its name, its folders, and the package of a Go file."""
    words = {PurePath(part).stem for part in home.split("/")}
    words = words - {"src", "lib"} if len(words) > 1 else words
    if home.endswith(".go"):
        data = data_of(worktree, home, Counter()) or b""
        words |= {
            package.decode() for package in re.findall(rb"^package[ \t]+([A-Za-z_]\w*)", data, re.MULTILINE)
        }
    return frozenset(words)


def lines_used(
    path: str, own: Sequence[Occurrence], wanted: frozenset[Role], home: str, modules: frozenset[str]
) -> list[int]:
    """The lines of a file on which occurrences of a name are uses of the symbol that `home` defines ("" for any)."""
    if path != home and home:
        if _is_another(path, own, home):
            wanted = wanted - {"name"}
        if (one := family(path)) and (other := family(home)) and one != other:
            wanted = wanted - {"member", "attribute", "qualified"}
    return sorted(
        {
            one.line
            for one in own
            if one.role in wanted
            and (not home or not one.through or "member" in wanted or one.through & modules)
        }
    )


Near = Callable[[str], Mapping[str, float]]

_KINDS: Mapping[Role, str] = {"definition": "variable", "declaration": "declaration", "field": "field"}
_ASSIGNED: Mapping[Role, str] = {"attribute": "field"}  # what makes an attribute, where nothing declares it
_LOOSE = frozenset({"declaration", "field"})  # kinds of definitions that make no file the symbol's home
_LEFT_OUT = {
    "withheld": "excluded by .repoagentignore or by a name that suggests secrets",
    "large": f"larger than {LARGEST_PARSED >> 20} MiB",
    "unread": "unreadable",
    "many": "beyond the limit of files to read",
    "unlisted": "or more beyond the limit of files to list",
}


def find(
    worktree: WorkTree,
    asked: Sequence[SymbolQuery],
    why_not: WhyNot,
    *,
    near: Near | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008
) -> tuple[tuple[Uses, ...], tuple[str, ...]]:
    """The uses of each symbol, by one search for all of them, and the files that were skipped. `why_not` returns why a
    file is withheld; `near` has the co-change score of files, for ranking.

    Ignored files, binary files and those larger than LARGEST bytes are not searched.
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
            part.lower()
            for part in (*names, stem(os.fsencode(at)).decode("utf-8", "replace"))
            if len(part) > 2
        ]

        def key(path: str) -> tuple[object, ...]:
            called_like = any(part in path.lower() for part in alike)
            return path != home, is_prose(path), -scores.get(path, 0.0), is_test(path), not called_like, path

        return key

    scans = scanned(worktree, paths, names, bounds=bounds, left_out=left_out, order=order)
    order(scans)  # what defines it may not have looked so
    found = tuple(_uses(worktree, one, scans, scores) for one in asked)
    return found, tuple(f"{n} file{'s' * (n != 1)} {_LEFT_OUT[why]}" for why, n in left_out.items() if n)


def _definers(asked: SymbolQuery, scans: Mapping[str, Scan], kinds: Mapping[Role, str] = _KINDS) -> list[str]:
    """The files that define it, those with a body before those with a declaration, code before tests."""
    keys: dict[str, tuple[bool, bool, str]] = {}
    for path, scan in scans.items():
        for definition in _definitions(path, scan, asked, kinds):
            key = (definition.kind in _LOOSE, is_test(path), path)
            keys[path] = min(keys.get(path, key), key)
    return sorted(keys, key=lambda path: keys[path])


def _definitions(
    path: str, scan: Scan, asked: SymbolQuery, kinds: Mapping[Role, str] = _KINDS
) -> Iterator[Definition]:
    """The definitions of the name in the file: the symbols of the outline, then others."""
    symbols = scan.defined.get(asked.name, ())
    for symbol in symbols:
        constructor = symbol.qualified_name.endswith(f"{symbol.name}.{symbol.name}")
        if not constructor and _is_called(symbol.qualified_name, asked):
            yield Definition(path, symbol.qualified_name, symbol.kind, symbol.first_line, symbol.last_line)
    names: set[str] = set()
    for occurrence in scan.found.get(asked.name, ()):
        line, role = occurrence.line, occurrence.role
        if role not in kinds or any(s.first_line <= line <= s.last_line for s in symbols):
            continue
        holder = _holder(scan.symbols, line) if kinds[role] == "field" else ""
        name = f"{holder}.{asked.name}" if holder else asked.name
        if name not in names and _is_called(name, asked):
            names.add(name)  # a variable that is set again is one variable
            yield Definition(path, name, kinds[role], line, line)


def _is_called(name: str, asked: SymbolQuery) -> bool:
    return not asked.qualified or name == asked.qualified or name.endswith(f".{asked.qualified}")


def _holder(symbols: Sequence[Symbol], line: int) -> str:
    holding = [s for s in symbols if s.first_line <= line <= s.last_line and s.kind in HOLDERS]
    return holding[-1].qualified_name if holding else ""


def _uses(
    worktree: WorkTree, asked: SymbolQuery, scans: Mapping[str, Scan], scores: Mapping[str, float]
) -> Uses:
    for kinds in (_KINDS, _ASSIGNED):
        definitions = [
            definition
            for path, scan in scans.items()
            for definition in _definitions(path, scan, asked, kinds)
        ]
        if definitions:
            break
    if asked.qualified and not definitions:  # inherited, or not in an outline
        return _uses(worktree, replace(asked, text=asked.name, qualified=""), scans, scores)
    definers = _definers(asked, scans, kinds)
    solid = (
        list(dict.fromkeys(definition.path for definition in definitions if definition.kind in CODE - _LOOSE))
        or definers
    )
    home = asked.file or (solid[0] if len(solid) == 1 else "")
    targets = [definition for definition in definitions if not home or definition.path == home]
    if asked.file:  # a function before a method of the same name
        targets = [definition for definition in targets if definition.name == asked.qualified] or targets
    targets.sort(key=lambda definition: (definers.index(definition.path), definition.first_line))
    roles = wanted_roles(targets, scans)
    modules = modules_of(worktree, home) if home else frozenset()
    files = []
    for path, scan in scans.items():
        if lines := lines_used(path, scan.found.get(asked.name, ()), roles, home, modules):
            within = _within(scan.symbols, lines)
            files.append(UsesIn(path, tuple(lines), not scan.parsed, is_test(path), within))
    apart = not home or not is_prose(home)  # prose comes last, unless it defines the symbol
    files.sort(
        key=lambda row: (
            row.path != home, apart and is_prose(row.path), -scores.get(row.path, 0.0), row.test,
            -len(row.lines), row.path,
        )
    )  # fmt: skip
    elsewhere = [definition for definition in definitions if home and definition.path != home]
    return Uses(asked.text, tuple(targets), tuple(elsewhere), tuple(files))


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
