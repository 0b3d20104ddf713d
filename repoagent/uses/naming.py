"""The symbols that a request names, and a few lines of a prompt that say where else they are used, and in which tests.

No index, no history and no clock: the same request of the same files has the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from repoagent.history.block import plain
from repoagent.repo.worktree import WorkTree
from repoagent.split.symbols.occurrences import is_prose, occurrences
from repoagent.split.symbols.outlines import outline
from repoagent.uses.asking import Asked, outer
from repoagent.uses.finding import find
from repoagent.uses.scanning import Bounds
from repoagent.uses.values import Uses, UsesIn, WhyNot
from repoagent.uses.wording import count

SYMBOLS, CANDIDATES = 4, 12
FILES = 5
TESTS = 6
LINES = 3  # of a file that are named
WIDTH = 320  # characters of a line
_BOUNDS = Bounds(parsed=30, parsed_bytes=1 << 20, read=200, read_bytes=8 << 20)

_NAME = re.compile(r"(?<![\w$/.-])[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?")
# A word that is surely meant as a name: my_name, myName, MY, a.b, name()
_SURE = re.compile(
    r"\w*[a-z0-9]_\w+|_\w+|[a-z]+\w*[a-z0-9][A-Z]\w*|[A-Z][A-Z0-9_]{2,}|[A-Z]\w*[a-z0-9][A-Z]\w*"
)
_BEFORE = re.compile(
    r"\b(?:function|method|class|struct|type|enum|interface|trait|macro|constant|variable|attribute|field|property|"
    r"parameter|argument|option|flag|helper|fixture)s?\s+$",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\s+(?:function|method|class|struct|type|enum|interface|trait|macro|constant|variable|attribute|field|property|"
    r"parameter|argument|option|flag|helper|fixture)s?\b",
    re.IGNORECASE,
)


def uses_block(
    worktree: WorkTree,
    instruction: str,
    files: Mapping[str, bytes],
    targets: Sequence[tuple[str, str]],
    why_not: WhyNot,
) -> str:
    """A line for each symbol that the request names and that stands in one of `files` (those to edit), with the other
    files that use it, and one with the tests that do; "" where there is none. `targets` are pairs of file and symbol
    that the user pointed at."""
    asked = named_symbols(instruction, files, targets)
    if not asked:
        return ""
    found, _ = find(worktree, asked, why_not, bounds=_BOUNDS)
    lines = [line for uses in found if (line := _elsewhere(uses, files))]
    tests = list(_tests(found, files))
    if tests:
        lines.append(_cut(f"Tests that use {'it' if len(asked) == 1 else 'them'}: {'; '.join(tests)}"))
    return "".join(f"{line}\n" for line in lines)


def named_symbols(
    instruction: str, files: Mapping[str, bytes], targets: Sequence[tuple[str, str]]
) -> list[Asked]:
    """The symbols that the request is about, at most SYMBOLS: those that were pointed at, then what it names and one of
    the files has. A word of plain English counts where it is quoted, called, or said to be a function or the like."""
    found: dict[str, Asked] = {}
    for file, symbol in targets:
        if parts := [part for part in re.split(r"::|#|->|\.", re.sub(r":\d+$|\(.*\)$", "", symbol)) if part]:
            found.setdefault(parts[-1], Asked(parts[-1], parts[-1], ".".join(parts), file))
    defined: dict[str, str] = {}
    for file, data in files.items():
        if not is_prose(file):
            for symbol_ in outer(outline(file, data)):
                defined.setdefault(symbol_.name, file)
    for match in _NAME.finditer(instruction[:20_000]):
        parts = re.split(r"::|#|\.", match[0].removesuffix("()"))
        name = parts[-1]
        if name not in found and len(name) > 1 and _is_meant(instruction, match, defined):
            found[name] = Asked(name, name, ".".join(parts[:-1] and parts), defined.get(name, ""))
        if len(found) >= CANDIDATES:
            break
    known = {one.name for one in found.values() if one.file} | _known(files, [*found])
    return [one for name, one in found.items() if name in known][:SYMBOLS]


def _known(files: Mapping[str, bytes], names: Sequence[str]) -> set[str]:
    """The names that one of the files has, other than as a variable of a function alone."""
    return {
        one.name
        for file, data in files.items()
        if names and not is_prose(file)
        for one in occurrences(file, data, names).found
        if one.role != "local"
    }


def _is_meant(text: str, match: re.Match[str], defined: Mapping[str, str]) -> bool:
    word = match[0]
    before, after = text[max(0, match.start() - 20) : match.start()], text[match.end() : match.end() + 20]
    if word.endswith("()") or after.startswith("(") or _SURE.fullmatch(word) or re.search(r"[.#:]", word):
        return True
    if before[-1:] in ("`", "'", '"') and after[:1] == before[-1:]:
        return True
    if word not in defined:
        return False
    return word[:1].isupper() or bool(_BEFORE.search(before) or _AFTER.match(after))


def _elsewhere(uses: Uses, files: Mapping[str, bytes]) -> str:
    """Where else it is used, files near the edited ones first; tests are told apart where their functions are known."""
    rows = [
        row
        for row in uses.files
        if row.path not in files and not is_prose(row.path) and not (row.test and row.within)
    ]
    rows.sort(key=lambda row: (row.test, -_shared(row.path, files), -len(row.lines), row.path))
    if not rows:
        return ""
    shown = ", ".join(map(_file, rows[:FILES]))
    more = f", {count(len(rows) - FILES, 'more file')}" if len(rows) > FILES else ""
    return _cut(f"`{plain(uses.symbol, 80)}` elsewhere: {shown}{more}")


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
    """The test functions by their files, those that are called like the symbol first."""
    by_path: dict[str, dict[str, bool]] = {}
    for uses in found:
        like = uses.symbol.rpartition(".")[2].lower().strip("_")
        for row in uses.files:
            if row.test and row.path not in files:
                for name in row.within:
                    bare = name.rpartition(".")[2]
                    if bare.lower().startswith(
                        ("test", "it_", "should", "spec", "bench")
                    ) or row.path.endswith(".java"):
                        known = by_path.setdefault(row.path, {})
                        known[bare] = known.get(bare, False) or like in bare.lower()
    ranked = [(not alike, path, name) for path, names in by_path.items() for name, alike in names.items()]
    ranked.sort(key=lambda one: (one[0], one[1]))
    chosen: dict[str, list[str]] = {}
    for _, path, name in ranked[:TESTS]:
        chosen.setdefault(path, []).append(plain(name, 80))
    for path, names in chosen.items():
        yield f"{plain(path, 100)}: {', '.join(names)}"
    if len(ranked) > TESTS:
        yield f"{len(ranked) - TESTS} more"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
