"""The symbols that a request names, and a few lines of a prompt that say where else they are used, and in which tests.

No index, no history and no clock: the same request of the same files has the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath

from repoagent.history.block import plain
from repoagent.repo.worktree import WorkTree
from repoagent.split.symbols.occurrences import is_prose
from repoagent.split.symbols.outlines import outline
from repoagent.uses.asking import Asked, outer
from repoagent.uses.finding import find
from repoagent.uses.scanning import Bounds
from repoagent.uses.values import Uses, UsesIn, WhyNot, is_test
from repoagent.uses.wording import count
from repoagent.uses.words import NAME, is_name, parts_of

SYMBOLS, CANDIDATES = 4, 12
FILES = 5
TESTS = 6
LINES = 3  # of a file that are named
WIDTH = 320  # characters of a line
_BOUNDS = Bounds(parsed=30, parsed_bytes=1 << 20, read=200, read_bytes=8 << 20, common=20)

_SORT = (
    r"(?:function|method|class|struct|type|enum|interface|trait|macro|constant|variable|attribute|field|property|"
    r"parameter|argument|option|flag|helper|fixture)s?\b"
)
_BEFORE = re.compile(rf"\b{_SORT}\s+$", re.IGNORECASE)
_AFTER = re.compile(rf"\s+{_SORT}", re.IGNORECASE)


def uses_block(
    worktree: WorkTree,
    instruction: str,
    files: Mapping[str, bytes],
    targets: Sequence[tuple[str, str]],
    why_not: WhyNot,
) -> str:
    """For each symbol that the request names a line with the files that use it other than `files` (those to edit), and
    one with its tests; "" where there is none. `targets` are pairs of file and symbol that the user pointed at."""
    found = named_symbols(worktree, instruction, files, targets, why_not)
    lines = [line for uses in found if (line := _elsewhere(uses, files))]
    return "".join(f"{line}\n" for line in (*lines, *_tests(found, files)))


def named_symbols(
    worktree: WorkTree,
    instruction: str,
    files: Mapping[str, bytes],
    targets: Sequence[tuple[str, str]],
    why_not: WhyNot,
) -> list[Uses]:
    """The symbols that the request is about and the repository defines, at most SYMBOLS, with their uses: those that
    were pointed at, then what it names; what `files` define before others, what few files use before what many do."""
    asked = _candidates(instruction, files, targets)
    if not asked:
        return []
    spared = frozenset(one.name for rank, one in asked if rank == 0)
    bounds = _BOUNDS._replace(spared=spared)
    found, _ = find(worktree, [one for _, one in asked], why_not, bounds=bounds)
    ranked = [
        (rank, not one.file, len(uses.files), number)
        for number, ((rank, one), uses) in enumerate(zip(asked, found, strict=True))
        if uses.definitions or uses.elsewhere
    ]
    return [found[number] for *_, number in sorted(ranked)[:SYMBOLS]]


def _candidates(
    instruction: str, files: Mapping[str, bytes], targets: Sequence[tuple[str, str]]
) -> list[tuple[int, Asked]]:
    """What may be a symbol, with its rank: 0 was pointed at, 1 looks like a name, 2 is a plain word that a file has at
    its top, or a getter or setter of what is named."""
    found: dict[str, tuple[int, Asked]] = {}
    for file, symbol in targets:
        if parts := [part for part in re.split(r"::|#|->|\.", re.sub(r":\d+$|\(.*\)$", "", symbol)) if part]:
            found.setdefault(parts[-1], (0, Asked(parts[-1], parts[-1], ".".join(parts), file)))
    defined: dict[str, str] = {}
    top: set[str] = set()
    for file, data in files.items():
        if not is_prose(file):
            for symbol_ in outer(outline(file, data)):
                defined.setdefault(symbol_.name, file)
                if symbol_.depth == 0 and symbol_.kind in ("function", "class"):
                    top.add(symbol_.name)
    for match in NAME.finditer(instruction[:20_000]):
        parts = parts_of(match[0])
        name = parts[-1]
        meant = _is_meant(instruction, match, defined)
        if (meant or match[0] in top) and len(name) > 1 and name not in found:
            qualified = ".".join(parts[:-1] and parts)
            found[name] = (1 if meant else 2, Asked(name, name, qualified, defined.get(name, "")))
        if len(found) >= CANDIDATES:
            break
    for name in [*found]:
        for access in (f"get_{name}", f"set_{name}"):
            if access in defined:
                found.setdefault(access, (2, Asked(access, access, "", defined[access])))
    return [*found.values()]


def _is_meant(text: str, match: re.Match[str], defined: Mapping[str, str]) -> bool:
    word = match[0]
    if "." in word and not is_prose(word):  # the name of a file
        return False
    if is_name(text, match):
        return True
    if word not in defined:
        return False
    before, after = text[max(0, match.start() - 20) : match.start()], text[match.end() : match.end() + 20]
    return word[:1].isupper() or bool(_BEFORE.search(before) or _AFTER.match(after))


def _elsewhere(uses: Uses, files: Mapping[str, bytes]) -> str:
    """Where else it is used, files near the edited ones first; tests are told apart where their functions are known."""
    rows = [
        row
        for row in uses.files
        if row.path not in files and not is_prose(row.path) and not (row.test and row.within)
    ]
    rows.sort(key=lambda row: (row.test, -_shared(row.path, files), -len(row.lines), row.path))
    places = [*uses.definitions, *uses.elsewhere]
    first = next((one for one in places if not is_test(one.path)), None)
    apart = all(one.path not in files for one in places)
    where = f", defined in {plain(first.path, 100)}:{first.first_line}," if first and apart else ""
    if not rows:
        return f"`{plain(uses.symbol, 80)}`{where[:-1]}" if where else ""
    shown = ", ".join(map(_file, rows[:FILES]))
    more = f", {count(len(rows) - FILES, 'more file')}" if len(rows) > FILES else ""
    return _cut(f"`{plain(uses.symbol, 80)}`{where} elsewhere: {shown}{more}")


def _shared(path: str, files: Mapping[str, bytes]) -> int:
    """How many folders a path shares with the nearest of the files."""
    folders = path.split("/")[:-1]
    return max(
        (
            sum(
                1
                for _ in takewhile(
                    lambda pair: pair[0] == pair[1], zip(folders, file.split("/")[:-1], strict=False)
                )
            )
        )
        for file in files
    )


def _file(row: UsesIn) -> str:
    numbers = ", ".join(map(str, row.lines[:LINES]))
    path = plain(row.path, 100)
    if len(row.lines) == 1:
        return f"{path} (line {numbers})"
    return f"{path} ({count(len(row.lines), 'line')}: {numbers}{', ...' * (len(row.lines) > LINES)})"


def _tests(found: Sequence[Uses], files: Mapping[str, bytes]) -> Iterator[str]:
    """The test functions of each symbol, or of several that have the same ones."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for uses in found:
        if tests := tuple(_tests_of(uses, files)):
            groups.setdefault(tests, []).append(f"`{plain(uses.symbol, 80)}`")
    most = max(2, TESTS // max(1, len(groups)))
    for tests, symbols in groups.items():
        by_path: dict[str, list[str]] = {}
        for path, name in tests[:most]:
            by_path.setdefault(path, []).append(plain(name, 80))
        shown = [f"{plain(path, 100)}: {', '.join(names)}" for path, names in by_path.items()]
        more = [f"{len(tests) - most} more"] if len(tests) > most else []
        yield _cut(f"Tests of {', '.join(symbols)}: {'; '.join([*shown, *more])}")


def _tests_of(uses: Uses, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Files and test functions: first those that are called like the symbol, then files called like an edited one."""
    like = uses.symbol.rpartition(".")[2].lower().strip("_")
    stems = [PurePath(file).stem.lower().strip("_") for file in files]
    ranked: dict[tuple[str, str], tuple[bool, bool, str]] = {}
    for row in uses.files:
        if row.test and row.path not in files:
            for name in row.within:
                bare = name.rpartition(".")[2]
                low = bare.lower()
                if low.startswith(("test", "it_", "should", "spec", "bench")) or row.path.endswith(".java"):
                    alike = like in low.split("_") or (len(like) > 3 and like in low)
                    beside = any(stem in PurePath(row.path).stem.lower() for stem in stems)
                    ranked.setdefault((row.path, bare), (not alike, not beside, row.path))
    return sorted(ranked, key=lambda one: ranked[one])


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
