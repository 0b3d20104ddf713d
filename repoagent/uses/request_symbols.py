"""The symbols that a request names, with where they are used and tested, in a few lines of a prompt.

Names are recognized by how they are written, definitions and tests by one `git grep`; nothing is parsed, and no index,
history or clock is read, so the same request on the same files gives the same lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath
from threading import Thread
from typing import NamedTuple

from repoagent.git.process import OFFLINE, GitError, git_stream
from repoagent.git.worktree import WorkTree
from repoagent.history.render import plain
from repoagent.storage.secrets import mask
from repoagent.syntax.occurrences import is_prose
from repoagent.syntax.outline import outline
from repoagent.uses.find import Bounds, find
from repoagent.uses.query import SymbolQuery, Uses, UsesIn, WhyNot, is_test, outer
from repoagent.uses.report import count

NAME = re.compile(r"(?<![\w$/.-])[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?")
# my_name, myName, MY_NAME, MyName
_SURE = re.compile(r"\w*[a-zA-Z0-9]_\w+|_\w+|[a-z]+\w*[a-z0-9][A-Z]\w*|[A-Z]\w*[a-z0-9][A-Z]\w*")


def is_name(text: str, match: re.Match[str]) -> bool:
    """Whether a match of NAME is surely meant as a name: by its letters, looked up in something, called or quoted."""
    word, before, after = (
        match[0],
        text[match.start() - 1 : match.start()],
        text[match.end() : match.end() + 1],
    )
    if word.endswith("()") or after == "(" or _SURE.fullmatch(word) or re.search(r"[.#:]", word):
        return True
    return before != "" and before in "`'\"" and after == before


def parts_of(word: str) -> list[str]:
    """`a.b()` as ["a", "b"]."""
    return re.split(r"::|#|\.", word.removesuffix("()"))


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
    """For each symbol that the request names, a line with the files that use it, other than `files` (those to edit),
    and a line with its tests; "" if there are none. `targets` are pairs of file and symbol that the user named
    explicitly."""
    symbols = named_symbols(worktree, instruction, files, targets, why_not)
    lines = [line for uses in symbols if (line := _elsewhere(uses, files))]
    return "".join(f"{line}\n" for line in (*lines, *_tests(symbols, files)))


def named_symbols(
    worktree: WorkTree,
    instruction: str,
    files: Mapping[str, bytes],
    targets: Sequence[tuple[str, str]],
    why_not: WhyNot,
) -> list[Uses]:
    """The symbols in the request that the repository defines, at most SYMBOLS, with their uses: explicit targets first,
    then names; those that `files` define before others, rarely used ones before common ones."""
    queries = _candidates(instruction, files, targets)
    if not queries:
        return []
    spared = frozenset(query.name for rank, query in queries if rank == 0)
    bounds = _BOUNDS._replace(spared=spared)
    found, _ = find(worktree, [query for _, query in queries], why_not, bounds=bounds)
    ranked = [
        (rank, not query.file, len(uses.files), number)
        for number, ((rank, query), uses) in enumerate(zip(queries, found, strict=True))
        if uses.definitions or uses.elsewhere
    ]
    return [found[number] for *_, number in sorted(ranked)[:SYMBOLS]]


def _candidates(
    instruction: str, files: Mapping[str, bytes], targets: Sequence[tuple[str, str]]
) -> list[tuple[int, SymbolQuery]]:
    """Possible symbols with their rank: 0 for a target, 1 for a word that looks like a name, 2 for a plain word that
    is a top-level symbol of a file, or for a getter or setter of a named symbol."""
    candidates: dict[str, tuple[int, SymbolQuery]] = {}
    for file, symbol in targets:
        if parts := [part for part in re.split(r"::|#|->|\.", re.sub(r":\d+$|\(.*\)$", "", symbol)) if part]:
            candidates.setdefault(parts[-1], (0, SymbolQuery(parts[-1], parts[-1], ".".join(parts), file)))
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
        is_surely_name = _is_symbol_name(instruction, match, defined)
        if (is_surely_name or match[0] in top) and len(name) > 1 and name not in candidates:
            qualified = ".".join(parts[:-1] and parts)
            candidates[name] = (
                1 if is_surely_name else 2,
                SymbolQuery(name, name, qualified, defined.get(name, "")),
            )
        if len(candidates) >= CANDIDATES:
            break
    for name in [*candidates]:
        for access in (f"get_{name}", f"set_{name}"):
            if access in defined:
                candidates.setdefault(access, (2, SymbolQuery(access, access, "", defined[access])))
    return [*candidates.values()]


def _is_symbol_name(text: str, match: re.Match[str], defined: Mapping[str, str]) -> bool:
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
    """Where else it is used, files near the edited ones first, without tests that are listed separately."""
    rows = [
        row
        for row in uses.files
        if row.path not in files and not is_prose(row.path) and not (row.test and row.within)
    ]
    rows.sort(key=lambda row: (row.test, -_shared(row.path, files), -len(row.lines), row.path))
    places = [*uses.definitions, *uses.elsewhere]
    first = next((definition for definition in places if not is_test(definition.path)), None)
    apart = all(definition.path not in files for definition in places)
    where = f", defined in {plain(first.path, 100)}:{first.first_line}," if first and apart else ""
    if not rows:
        return f"`{plain(uses.symbol, 80)}`{where[:-1]}" if where else ""
    listed = ", ".join(map(_file, rows[:FILES]))
    omitted = f", {count(len(rows) - FILES, 'more file')}" if len(rows) > FILES else ""
    return _cut(f"`{plain(uses.symbol, 80)}`{where} elsewhere: {listed}{omitted}")


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
                last_name = name.rpartition(".")[2]
                low = last_name.lower()
                if low.startswith(("test", "it_", "should", "spec", "bench")) or row.path.endswith(".java"):
                    alike = like in low.split("_") or (len(like) > 3 and like in low)
                    near = any(stem in PurePath(row.path).stem.lower() for stem in stems)
                    ranked.setdefault((row.path, last_name), (not alike, not near, row.path))
    return sorted(ranked, key=lambda test: ranked[test])


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


NAMES, MOST_DEFINITIONS = 4, 12
COMMON = 20  # files: a name that more have comes after the others
LARGEST = 1 << 20  # bytes of matching lines that are read
INDEX = (
    1 << 20
)  # bytes of git's index (some 8,000 files): a larger repository is not searched before a request
LONGEST = 700  # characters of the notice
DEFINITION_WIDTH = 80  # characters of a line of code
DEFINITION_TESTS, DEFINITION_LINES = 2, 3  # test files that are named, and lines of each

_CODE = (
    "py pyi pyx js jsx mjs cjs ts tsx mts cts vue svelte c h cc cpp cxx hh hpp m mm cs java kt scala groovy go rs rb "
    "php swift lua dart ex exs zig jl sh"
)
_SUFFIXES = _CODE.split()
_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm")
_GREP_LINE = re.compile(rb"([^\0\n]+)\0(\d+)[:\0](.*)")
_WORDS = (
    r"(?:(?:export|default|pub(?:\([^()]*\))?|public|private|protected|internal|abstract|static|final|async|const|"
    r"typedef|extern|inline|declare|readonly|let|var|val)\s+)*"
)
_STATEMENT = re.compile(
    r"\s*(?:return|else|case|goto|await|yield|raise|throw|new|delete|import|from|assert|not)\b"
)


class _Definition(NamedTuple):
    """A line that looks as if it defined a name; the smaller sorts first."""

    test: bool
    stub: bool
    far: bool  # from what the name is looked up in
    doubt: int
    inside: bool  # of a class or a function
    path: str
    line: int
    text: str


def locate(worktree: WorkTree, text: str, why_not: WhyNot, known: Collection[str] = ()) -> Callable[[], str]:
    """Start to search for the code names in `text` that are not `known`. The returned function waits for the result:
    where they are defined and which tests contain them, "" if the repository defines none; it raises GitError.
    `why_not` returns why a file is withheld."""
    names = _names(text, known)
    if not names or _is_large(worktree):
        return lambda: ""
    results: list[bytes | GitError] = []
    search = Thread(target=lambda: results.append(_grepped(worktree, list(names))))
    search.start()

    def ready() -> str:
        search.join()
        if isinstance(results[0], GitError):
            raise results[0]
        return _notice(names, results[0], why_not)

    return ready


def _names(text: str, known: Collection[str]) -> dict[str, set[str]]:
    """The names in the text, each with the parts to search for."""
    names: dict[str, set[str]] = {}
    for match in NAME.finditer(text[:20_000]):
        *holders, name = parts_of(match[0])
        if holders and not match[0].endswith("()") and name in _SUFFIXES:
            continue  # the name of a file
        if len(name) > 1 and name.isascii() and name not in known and is_name(text, match):
            names.setdefault(name, set()).update(holders)
        if len(names) == MOST_DEFINITIONS:
            break
    return names


def _is_large(worktree: WorkTree) -> bool:
    try:
        return (worktree.git_dir / "index").stat().st_size > INDEX
    except FileNotFoundError:  # no file is tracked
        return True


def _grepped(worktree: WorkTree, names: Sequence[str]) -> bytes | GitError:
    """The lines that have one of the names; the first LARGEST bytes of them."""
    pattern = "|".join(name.replace("$", "[$]") for name in names)
    paths = [*(f"*.{suffix}" for suffix in _SUFFIXES), ":(exclude)*.min.*"]
    try:
        with git_stream(
            worktree.top, "--no-literal-pathspecs", "grep", "-I", "-n", "-z", "-w", "--full-name", "--no-color",
            "--no-column", "--no-recurse-submodules", "-E", "-e", pattern, "--", *paths, env=OFFLINE,
        ) as stream:  # fmt: skip
            return stream.read(LARGEST)
    except GitError as error:
        return b"" if error.returncode == 1 else error  # 1: no file has it


def _notice(names: Mapping[str, set[str]], grep_output: bytes, why_not: WhyNot) -> str:
    from repoagent.uses.query import is_test

    cut = len(grep_output) == LARGEST
    words = re.compile(rf"(?<![\w$])(?:{'|'.join(map(re.escape, names))})(?![\w$])")
    looks = {name: [re.compile(form.replace("NAME", re.escape(name))) for form in _FORMS] for name in names}
    defined: dict[str, list[_Definition]] = {}
    lines: dict[str, dict[str, list[int]]] = {}
    is_shown: dict[str, bool] = {}
    for row in _GREP_LINE.finditer(grep_output):
        path = os.fsdecode(row[1])
        if path not in is_shown:
            is_shown[path] = why_not(path) is None
        text = row[3][:1_000].decode("utf-8", "replace").rstrip()
        for name in dict.fromkeys(words.findall(text)) if is_shown[path] else ():
            lines.setdefault(name, {}).setdefault(path, []).append(int(row[2]))
            if (doubt := _doubt(looks[name], path, text)) is not None:
                far = not any(holder in re.split(r"[/.]", path) for holder in names[name])
                stub, inside = path.endswith((".pyi", ".d.ts")), text[:1].isspace()
                definition = _Definition(
                    is_test(path), stub, far, doubt, inside, path, int(row[2]), text.strip()
                )
                if not (far and names[name] and name[:1].isupper()):  # a class of another module
                    defined.setdefault(name, []).append(definition)
    chosen = sorted((name for name in names if name in defined), key=lambda name: len(lines[name]) > COMMON)
    notice: list[str] = []
    for name in chosen[:NAMES]:
        notice.append(f"`{name}`: {_definitions(sorted(defined[name]))}")
        if not cut and (tests := [path for path in lines[name] if is_test(path)]):
            notice.append(f"  tests: {_test_lines(tests, lines[name], min(defined[name]).path)}")
    while sum(map(len, notice)) > LONGEST:
        del notice[-1]
    return "\n".join(["Names of the request, by text search:", *notice]) if notice else ""


_KIND = (
    r"(?:def|class|func|function\*?|fn|interface|trait|type|module|object|protocol|macro_rules!|#\s*define)"
)
# Patterns of a line that defines NAME, the most reliable first.
_FORMS = (
    rf"\s*{_WORDS}(?:{_KIND}\s+(?:\([^()]*\)\s*)?NAME\b|(?:struct|union|enum)\s+NAME\s*(?:[{{:(<;]|$))",
    rf"{_WORDS}NAME\s*(?::[^=]+)?=(?!=)",
    r"(?:[A-Za-z_][\w \t*&:<>,]*[\s*&]|)NAME\s*\([^;]*$|\}\s*NAME;",  # C: a function, or a type
    rf"\s+(?:{_WORDS}NAME\s*:\s*[A-Za-z\"'](?:[^,]*[^,.])?$|(?:self|this)\.NAME\s*(?::[^=]+)?=(?!=)"
    r"|(?:async\s+|static\s+|get\s+|set\s+)*NAME\([^;]*\)\s*\{$|(?:public|private|protected|static)\s[^=;]*\sNAME\()",
    r"\s+[A-Za-z_][\w \t]*[\s*]+NAME(?:\[[^\]]*\])?;",  # C: a member
)
_OF_C = (2, 4)


def _doubt(forms: Sequence[re.Pattern[str]], path: str, text: str) -> int | None:
    """How far down in the forms the line is; None: it defines nothing."""
    if _STATEMENT.match(text):
        return None
    return next(
        (at for at, form in enumerate(forms) if (at not in _OF_C or path.endswith(_C)) and form.match(text)),
        None,
    )


def _definitions(definitions: Sequence[_Definition]) -> str:
    first, *others = [
        definition
        for definition in definitions
        if (definition.doubt, definition.test) == (definitions[0].doubt, definitions[0].test)
    ]
    also = [
        f"{_plain(definition.path, 100) * (definition.path != first.path)}:{definition.line}"
        for definition in others[:2]
    ]
    also += [f"{len(others) - 2} more"] if len(others) > 2 else []
    text = f"{_plain(first.path, 100)}:{first.line} {_plain(mask(first.text), DEFINITION_WIDTH)}"
    return text + (f" (also {', '.join(also)})" if also else "")


def _test_lines(tests: list[str], lines: Mapping[str, Sequence[int]], home: str) -> str:
    """The test files that have the name, those that are called like the file that defines it first."""
    stem = home.rpartition("/")[2].partition(".")[0].strip("_")
    tests.sort(key=lambda path: (stem not in path.rpartition("/")[2], -len(lines[path]), path))
    listed = [f"{_plain(path, 100)} ({_numbers(lines[path])})" for path in tests[:DEFINITION_TESTS]]
    listed += [f"{len(tests) - DEFINITION_TESTS} more"] if len(tests) > DEFINITION_TESTS else []
    return ", ".join(listed)


def _numbers(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    ellipsis = ", ..." * (len(lines) > DEFINITION_LINES)
    return f"{len(lines)} lines: {', '.join(map(str, lines[:DEFINITION_LINES]))}{ellipsis}"


def _plain(text: str, width: int) -> str:
    """`text` on one line, without anything that a terminal obeys."""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return line if len(line) <= width else line[: width - 1] + "…"
