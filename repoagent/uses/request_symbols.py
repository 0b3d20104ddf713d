"""A few lines for a prompt that say where the symbols that a request names are defined, used and tested.

Names are recognized by their spelling; the same request on the same files gives the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath

from repoagent.display_text import list_some, truncate
from repoagent.git.worktree import WorkTree
from repoagent.history.render import plain_line
from repoagent.syntax.occurrences import is_prose
from repoagent.syntax.outline import outline
from repoagent.uses.find import SearchBounds, find_uses
from repoagent.uses.symbols import SymbolQuery, Uses, WhyNot, is_test, outer_definitions

NAME = re.compile(r"(?<![\w$/.-])[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?")
# my_name, myName, MY_NAME, MyName
_SURE = re.compile(r"\w*[a-zA-Z0-9]_\w+|_\w+|[a-z]\w*[a-z0-9][A-Z]\w*|[A-Z]\w*[a-z0-9][A-Z]\w*")


SYMBOLS, CANDIDATES = 4, 12
FILES = 5
TESTS = 6
LINES = 3  # of a file that are named
WIDTH = 320  # characters of a line
INDEX = 1 << 20  # bytes of git's index (some 8,000 files) of the largest repository that a run searches
_BOUNDS = SearchBounds(parsed=30, parsed_bytes=1 << 20, read=200, read_bytes=8 << 20)
_SORT = (
    r"(?:function|method|class|struct|type|enum|interface|trait|macro|constant|variable|attribute|field|property|"
    r"parameter|argument|option|flag|helper|fixture)s?\b"
)
_BEFORE = re.compile(rf"\b{_SORT}\s+$", re.IGNORECASE)
_AFTER = re.compile(rf"\s+{_SORT}", re.IGNORECASE)


def start_search(
    worktree: WorkTree, text: str, why_not: WhyNot, known: Collection[str] = ()
) -> Callable[[], str]:
    """Start a run's search for the symbols in `text` that are not `known`. A large repository is not searched.

    Calling the result waits for the search, and returns a notice for the model, "" if there is nothing to report. That
    call may raise GitError.
    """
    try:
        is_large = (worktree.git_dir / "index").stat().st_size > INDEX
    except FileNotFoundError:  # no file is tracked
        is_large = True
    if is_large:
        return lambda: ""
    executor = ThreadPoolExecutor(1)
    search = executor.submit(uses_block, worktree, text, {}, [], why_not, known=known)
    executor.shutdown(wait=False)

    def ready() -> str:
        lines = search.result()
        return f"Names in the request, by text search:\n{lines}".rstrip() if lines else ""

    return ready


def uses_block(
    worktree: WorkTree,
    instruction: str,
    files: Mapping[str, bytes],
    targets: Sequence[tuple[str, str]],
    why_not: WhyNot,
    *,
    known: Collection[str] = (),
) -> str:
    """For each symbol that the request names, except the `known` ones, a line with the files that use it and a line
    with its tests; "" if there are none.

    `files` are those to edit, which are not listed as uses. For `targets` see `named_symbols`.
    """
    symbols = named_symbols(worktree, instruction, files, targets, why_not)
    symbols = [uses for uses in symbols if uses.symbol not in known]
    most = max(2, TESTS // max(1, len(symbols)))
    lines = [*(_elsewhere(uses, files) for uses in symbols), *(_tests(uses, files, most) for uses in symbols)]
    return "".join(f"{line}\n" for line in lines if line)


def named_symbols(
    worktree: WorkTree,
    instruction: str,
    files: Mapping[str, bytes],
    targets: Sequence[tuple[str, str]],
    why_not: WhyNot,
) -> list[Uses]:
    """At most SYMBOLS symbols that the request is about and that the repository defines, with their uses.

    Those in `targets`, pairs of file and symbol that the user pointed at, come first. Then come those that the
    instruction names: symbols of `files` before others, and rare ones before common ones.
    """
    # by name, with a rank: 0 was pointed at, 1 looks like a name, 2 is a plain word that a file defines at its top
    candidates: dict[str, tuple[int, SymbolQuery]] = {}
    for file, symbol in targets:
        if parts := [part for part in re.split(r"::|#|->|\.", re.sub(r":\d+$|\(.*\)$", "", symbol)) if part]:
            name = parts[-1]
            candidates.setdefault(name, (0, SymbolQuery(name, name, ".".join(parts), file)))
    defined: dict[str, str] = {}
    top: set[str] = set()
    for file, data in files.items():
        for each in () if is_prose(file) else outer_definitions(outline(file, data)):
            defined.setdefault(each.name, file)
            if each.depth == 0 and each.kind in ("function", "class"):
                top.add(each.name)
    for match in NAME.finditer(instruction[:20_000]):
        parts = re.split(r"::|#|\.", match[0].removesuffix("()"))
        is_surely_name = _is_symbol_name(instruction, match, defined)
        name = parts[-1]
        if (is_surely_name or match[0] in top) and len(name) > 1:
            qualified = ".".join(parts) if len(parts) > 1 else ""
            query = SymbolQuery(name, name, qualified, defined.get(name, ""))
            candidates.setdefault(name, (1 if is_surely_name else 2, query))
        if len(candidates) >= CANDIDATES:
            break
    if not candidates:
        return []
    queries = [query for _, query in candidates.values()]
    all_uses, _ = find_uses(worktree, queries, why_not, bounds=_BOUNDS)
    ranked = [
        ((rank, not query.file, len(uses.files)), uses)
        for (rank, query), uses in zip(candidates.values(), all_uses, strict=True)
        if uses.definitions or uses.elsewhere
    ]
    return [uses for _, uses in sorted(ranked, key=lambda pair: pair[0])[:SYMBOLS]]


def _is_symbol_name(text: str, match: re.Match[str], defined: Mapping[str, str]) -> bool:
    """Whether a match of NAME is meant as a name: by its letters, because it is qualified, called or quoted, or because
    a word such as "function" is next to it."""
    word = match[0]
    if "." in word and not is_prose(word):  # the name of a file
        return False
    before, after = text[max(0, match.start() - 20) : match.start()], text[match.end() : match.end() + 20]
    if word.endswith("()") or after[:1] == "(" or _SURE.fullmatch(word) or re.search(r"[.#:]", word):
        return True
    if before and before[-1] in "`'\"" and after[:1] == before[-1]:
        return True
    return word in defined and (word[:1].isupper() or bool(_BEFORE.search(before) or _AFTER.match(after)))


def _elsewhere(uses: Uses, files: Mapping[str, bytes]) -> str:
    """Where else it is used; tests are left out if their functions are known."""
    rows = [row for row in uses.files if row.path not in files and not is_prose(row.path)]
    rows = [row for row in rows if not (row.test and row.within)]
    rows.sort(key=lambda row: (row.test, -len(row.lines), row.path))
    definitions = [*uses.definitions, *uses.elsewhere]
    first = next((definition for definition in definitions if not is_test(definition.path)), None)
    where = ""
    if first and all(definition.path not in files for definition in definitions):
        where = f", defined in {plain_line(first.path, 100)}:{first.first_line}"
    symbol = f"`{plain_line(uses.symbol, 80)}`{where}"
    if not rows:
        return symbol if where else ""
    listed = []
    for row in rows:
        numbers = list_some([*map(str, row.lines)], LINES, ", ...")
        lines = f"line {numbers}" if len(row.lines) == 1 else f"{len(row.lines)} lines: {numbers}"
        listed.append(f"{plain_line(row.path, 100)} ({lines})")
    return truncate(f"{symbol}{',' * bool(where)} elsewhere: {list_some(listed, FILES, ', {} more')}", WIDTH)


def _tests(uses: Uses, files: Mapping[str, bytes], most: int) -> str:
    """The test functions that use a symbol: first those named like it, then those in files named like an edited one; ""
    if there are none."""
    stems = [PurePath(file).stem.lower().strip("_") for file in files]
    symbol = uses.symbol.rpartition(".")[2].lower().strip("_")
    ranked: dict[str, tuple[bool, bool, str]] = {}
    for row in uses.files:
        for name in row.within if row.test and row.path not in files else ():
            function = name.rpartition(".")[2]
            lower = function.lower()
            if lower.startswith(("test", "it_", "should", "spec", "bench")) or row.path.endswith(".java"):
                is_alike = symbol in lower.split("_") or (len(symbol) > 3 and symbol in lower)
                is_near = any(stem in PurePath(row.path).stem.lower() for stem in stems)
                text = f"{plain_line(row.path, 100)}: {plain_line(function, 80)}"
                ranked.setdefault(text, (not is_alike, not is_near, row.path))
    if not ranked:
        return ""
    tests = sorted(ranked, key=lambda test: ranked[test])
    more = [f"{len(tests) - most} more"] if len(tests) > most else []
    return truncate(f"Tests of `{plain_line(uses.symbol, 80)}`: {'; '.join([*tests[:most], *more])}", WIDTH)
