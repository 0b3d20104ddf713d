"""Find where symbols are defined and used, file by file.

`git grep` lists the files that contain a name; a file is parsed only if the limits allow it. Whether an occurrence
counts as a use depends on the kind of symbol and on the file it is in.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePath
from typing import IO, NamedTuple

from repoagent.display_text import plural
from repoagent.errors import RepoagentError
from repoagent.git.files import read_source
from repoagent.git.process import OFFLINE, GitError, git_stream
from repoagent.git.worktree import WorkTree
from repoagent.syntax.occurrences import Occurrence, Role, find_occurrences, is_prose
from repoagent.syntax.symbol import Symbol
from repoagent.uses.symbols import (
    CODE,
    FUNCTIONS,
    HOLDERS,
    FileUses,
    SymbolDefinition,
    SymbolQuery,
    Uses,
    WhyNot,
    is_test,
    language_family,
    outer_definitions,
    word_pattern,
)

LARGEST = 4 << 20  # bytes of paths that git prints
LARGEST_PARSED = 1 << 20  # bytes of a file that is read
UNTRACKED = 1_000  # files that git does not know and that are read
Near = Callable[[str], Mapping[str, float]]
_PLAIN = re.compile(r"\w+", re.ASCII)
_KINDS: Mapping[Role, str] = {"definition": "variable", "declaration": "declaration", "field": "field"}
_ASSIGNED: Mapping[Role, str] = {"attribute": "field"}  # what makes an attribute, if nothing declares it
_LOOSE = frozenset({"declaration", "field"})  # kinds of definitions that make no file the symbol's home
_LEFT_OUT = {
    "withheld": "excluded by .repoagentignore or because the name suggests secrets",
    "large": f"larger than {LARGEST_PARSED >> 20} MiB",
    "unread": "unreadable",
    "many": "beyond the read limit",
    "unlisted": "or more beyond the listing limit",
}


class SearchBounds(NamedTuple):
    """Limits on the files that are parsed and read, and on their bytes. They are counts, not times, so that a busy
    machine gives the same answer."""

    parsed: int = 60
    parsed_bytes: int = 2 << 20
    read: int = 1_000
    read_bytes: int = 32 << 20


class Scan(NamedTuple):
    """The names in one file: where they occur, and the symbols that they may refer to."""

    occurrences: Mapping[str, Sequence[Occurrence]]  # by name
    defined: Mapping[str, Sequence[Symbol]]  # symbols with these names that others can use
    symbols: Sequence[Symbol]
    parsed: bool


def find_uses(
    worktree: WorkTree,
    queries: Sequence[SymbolQuery],
    why_not: WhyNot,
    *,
    near: Near | None = None,
    bounds: SearchBounds = SearchBounds(),  # noqa: B008
) -> tuple[tuple[Uses, ...], tuple[str, ...]]:
    """The uses of each symbol, from one search for all of them, and a phrase for each reason why files were not read.

    `why_not` says which files are withheld. `near` says how likely files are to change together with a given file, and
    serves to rank the answer.
    """
    names = {query.name for query in queries}
    listed, is_cut = _files_with(worktree.top, names)
    paths = [path for path in listed if why_not(path) is None]
    left_out = Counter({"unlisted": int(is_cut), "withheld": len(listed) - len(paths)})
    home = next((query.file for query in queries if query.file), "")
    paths.sort(key=lambda path: (path != home, is_prose(path), is_test(path), path))
    texts: dict[str, bytes] = {}
    room = bounds.read_bytes
    for number, path in enumerate(paths):
        if number >= bounds.read or room < 0:
            left_out["many"] = len(paths) - number
            break
        text = data_of(worktree, path, left_out)
        if text is not None:
            texts[path] = text
            room -= len(text)
    pattern = word_pattern(names) if len(names) == 1 else None
    alike = [name.lower() for name in names if len(name) > 2]

    def order(path: str) -> tuple[object, ...]:
        is_alike = any(part in path.lower() for part in alike)
        is_far = path != home and not (pattern and _looks_defining(pattern, texts[path]))
        return is_far, is_prose(path), is_test(path), not is_alike, path

    scans: dict[str, Scan] = {}
    parsed, room = bounds.parsed, bounds.parsed_bytes
    for path in sorted(texts, key=order):
        data = texts[path]
        has = find_occurrences(path, data, names, parse=parsed > 0 and len(data) <= room)
        if has.parsed:
            parsed, room = parsed - 1, room - len(data)
        if has.found:
            by_name: dict[str, list[Occurrence]] = {}
            for occurrence in has.found:
                by_name.setdefault(occurrence.name, []).append(occurrence)
            defined: dict[str, list[Symbol]] = {}
            for symbol in outer_definitions(has.symbols):
                if symbol.name in names:
                    defined.setdefault(symbol.name, []).append(symbol)
            scans[path] = Scan(by_name, defined, has.symbols, has.parsed)
    at = home or next(iter(_definers(queries[0], scans)), "")
    scores = near(at) if near and at and len(paths) > 1 else {}
    uses = tuple(_uses(worktree, query, scans, scores) for query in queries)
    return uses, tuple(f"{plural(n, 'file')} {_LEFT_OUT[why]}" for why, n in left_out.items() if n)


def _files_with(top: Path, names: Collection[str]) -> tuple[list[str], bool]:
    """The files that have one of `names` as a word, then all untracked ones, without ignored ones; whether there are
    more."""
    grep: list[str | bytes] = [
        *["grep", "-a", "-l", "-z", "--full-name", "--no-color", "--no-recurse-submodules"]
    ]
    if all(map(_PLAIN.fullmatch, names)):  # one pattern: five times as fast as one for each name
        grep += ["-w", "-E", "-e", "|".join(sorted(names)), "--"]
    else:  # git's idea of a word is that of ASCII
        grep += ["-F", *(part for name in sorted(names) for part in ("-e", os.fsencode(name))), "--"]
    tracked: list[str] = []
    is_cut = False
    with git_stream(top, "ls-files", "-z", "--others", "--exclude-standard") as others:
        try:
            with git_stream(top, *grep, env=OFFLINE) as stream:
                tracked, is_cut = _paths(stream)
        except GitError as error:
            if error.returncode != 1:  # 1: no file has it
                raise
        untracked, others_cut = _paths(others)
    return tracked + sorted(untracked)[:UNTRACKED], is_cut or others_cut or len(untracked) > UNTRACKED


def _paths(stream: IO[bytes]) -> tuple[list[str], bool]:
    data = stream.read(LARGEST)
    return [os.fsdecode(path) for path in data.split(b"\0")[:-1]], len(data) == LARGEST


def data_of(worktree: WorkTree, path: str, left_out: Counter[str]) -> bytes | None:
    """The bytes of a file; None, counted in `left_out`, if it is too large or unreadable."""
    try:
        if os.lstat(worktree.top / path).st_size > LARGEST_PARSED:
            left_out["large"] += 1
            return None
        return read_source(worktree, path).data
    except (RepoagentError, OSError):  # behind a link, deleted in the meantime, unreadable
        left_out["unread"] += 1
        return None


_LOOKS = 50
_KEYWORD = re.compile(
    rb"\b(?:def|class|func|function|fn|struct|union|enum|interface|trait|type|const|macro_rules!|define)[ \t]+"
    rb"(?:\([^()\n]*\)[ \t]*)?$"
)
_HEAD = re.compile(rb"\w[^;=(]*")
_BODY = re.compile(rb"\s{0,20}\([^;{]{0,500}\{")


def _looks_defining(name: re.Pattern[bytes], text: bytes) -> bool:
    """Whether a definition of the name may be in the text."""
    for match in islice(name.finditer(text), _LOOKS):
        start = max(text.rfind(b"\n", 0, match.start()) + 1, match.start() - 200)
        before = text[start : match.start()]
        if _KEYWORD.search(before) or (_HEAD.fullmatch(before) and _BODY.match(text, match.end())):
            return True
    return False


def _definers(query: SymbolQuery, scans: Mapping[str, Scan], kinds: Mapping[Role, str] = _KINDS) -> list[str]:
    """The files that define it: those with a body before those with a declaration, code before tests."""
    keys: dict[str, tuple[bool, bool, str]] = {}
    for path, scan in scans.items():
        for definition in _definitions(path, scan, query, kinds):
            key = (definition.kind in _LOOSE, is_test(path), path)
            keys[path] = min(keys.get(path, key), key)
    return sorted(keys, key=lambda path: keys[path])


def _definitions(
    path: str, scan: Scan, query: SymbolQuery, kinds: Mapping[Role, str]
) -> Iterator[SymbolDefinition]:
    """What is defined there under the name: the symbols of the outline, then what that does not list."""

    def is_meant(name: str) -> bool:
        return not query.qualified or f".{name}".endswith(f".{query.qualified}")

    symbols = scan.defined.get(query.name, ())
    for symbol in symbols:
        name = symbol.qualified_name
        if not name.endswith(f"{symbol.name}.{symbol.name}") and is_meant(name):  # not a constructor
            yield SymbolDefinition(path, name, symbol.kind, symbol.first_line, symbol.last_line)
    names: set[str] = set()
    for occurrence in scan.occurrences.get(query.name, ()):
        line, role = occurrence.line, occurrence.role
        if role not in kinds or any(each.first_line <= line <= each.last_line for each in symbols):
            continue
        around = [each for each in scan.symbols if each.first_line <= line <= each.last_line]
        holders = [each.qualified_name for each in around if each.kind in HOLDERS]
        is_held = kinds[role] == "field" and holders
        name = f"{holders[-1]}.{query.name}" if is_held else query.name
        if name not in names and is_meant(name):
            names.add(name)  # a variable that is set again is one variable
            yield SymbolDefinition(path, name, kinds[role], line, line)


def _uses(
    worktree: WorkTree, query: SymbolQuery, scans: Mapping[str, Scan], scores: Mapping[str, float]
) -> Uses:
    for kinds in (_KINDS, _ASSIGNED):
        definitions = [
            each for path, scan in scans.items() for each in _definitions(path, scan, query, kinds)
        ]
        if definitions:
            break
    if query.qualified and not definitions:  # inherited, or not in an outline
        return _uses(worktree, replace(query, text=query.name, qualified=""), scans, scores)
    definers = _definers(query, scans, kinds)
    solid = {definition.path for definition in definitions if definition.kind in CODE - _LOOSE}
    homes = solid or set(definers)
    home = query.file or (next(iter(homes)) if len(homes) == 1 else "")
    targets = [definition for definition in definitions if not home or definition.path == home]
    if query.file:  # a function before a method of the same name
        targets = [definition for definition in targets if definition.name == query.qualified] or targets
    targets.sort(key=lambda definition: (definers.index(definition.path), definition.first_line))
    roles = _roles_of_uses(targets, scans)
    modules: set[str] = set()  # the words by which it is imported
    if home:
        modules = {PurePath(part).stem for part in home.split("/")}
        modules = modules - {"src", "lib"} if len(modules) > 1 else modules
        if home.endswith(".go"):
            data = data_of(worktree, home, Counter()) or b""
            modules |= {name.decode() for name in _GO_PACKAGE.findall(data)}
    files = []
    for path, scan in scans.items():
        if not (lines := _lines_used(path, scan.occurrences.get(query.name, ()), roles, home, modules)):
            continue
        functions, last = list[Symbol](), 0  # the outermost ones
        for symbol in scan.symbols:
            if symbol.kind in FUNCTIONS and symbol.first_line > last:
                functions.append(symbol)
                last = symbol.last_line
        around = (each for line in lines for each in functions if each.first_line <= line <= each.last_line)
        within = tuple(dict.fromkeys(each.qualified_name for each in around))
        files.append(FileUses(path, tuple(lines), not scan.parsed, is_test(path), within))
    is_prose_last = not home or not is_prose(home)  # unless it is what was asked about
    files.sort(
        key=lambda row: (
            row.path != home, is_prose_last and is_prose(row.path), -scores.get(row.path, 0.0), row.test,
            -len(row.lines), row.path,
        )
    )  # fmt: skip
    elsewhere = [definition for definition in definitions if home and definition.path != home]
    return Uses(query.text, tuple(targets), tuple(elsewhere), tuple(files))


_GO_PACKAGE = re.compile(rb"^package[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
# Languages in which a method is called by its name alone in its own class.
_WITHOUT_SELF = (".java", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".cs", ".kt", ".swift", ".scala", ".rb")


def _roles_of_uses(definitions: Sequence[SymbolDefinition], scans: Mapping[str, Scan]) -> frozenset[Role]:
    """The roles in which a symbol may be used: a function of a module alone or through the module, a method after a
    value; a field, and what is defined nowhere, in any role."""
    roles: set[Role] = {"text", "qualified"}
    if not definitions or any(definition.kind == "field" for definition in definitions):
        return frozenset({*roles, "name", "member", "attribute", "key", "local"})
    for definition in definitions:
        scan = scans[definition.path]
        holder = definition.name.rpartition(".")[0]
        holders = [symbol.kind for symbol in scan.symbols if symbol.qualified_name == holder]
        is_held = holder and (not holders or any(kind in HOLDERS for kind in holders))
        if definition.kind == "method" or is_held:
            roles |= {"member", "attribute"}
            if definition.path.endswith(_WITHOUT_SELF):
                roles.add("name")
        else:
            roles.add("name")
            if not scan.parsed:
                roles |= {"member", "attribute", "key"}
    return frozenset(roles)


def _lines_used(
    path: str, own: Sequence[Occurrence], roles: frozenset[Role], home: str, modules: set[str]
) -> list[int]:
    """The lines on which occurrences of a name are uses of the symbol that `home` defines ("" for any)."""
    if path != home and home:
        folder, home_folder = path.rpartition("/")[0], home.rpartition("/")[0]
        is_other_package = path.endswith(".go") and home.endswith(".go") and folder != home_folder
        if is_other_package or any(occurrence.role == "definition" for occurrence in own):
            roles = roles - {"name"}  # alone it means something else there
        if language_family(path) and language_family(home) and language_family(path) != language_family(home):
            roles = roles - {"member", "attribute", "qualified"}
    is_member = "member" in roles
    candidates = (one for one in own if one.role in roles)
    return sorted(
        {one.line for one in candidates if not home or not one.through or is_member or one.through & modules}
    )
