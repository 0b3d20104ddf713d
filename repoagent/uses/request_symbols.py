"""The symbols that a request names, with where they are used and tested, in a few lines of a prompt.

Names are recognized by how they are written, definitions and tests by one `git grep`; nothing is parsed, and no index,
history or clock is read, so the same request on the same files gives the same lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from repoagent.uses.query import SymbolQuery, Uses, WhyNot, is_test, outer
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
    """For each symbol that the request names a line with the files that use it other than `files` (those to edit), and
    one with its tests; "" if there is none. `targets` are pairs of file and symbol that the user pointed at."""
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
    """The symbols that the request is about and the repository defines, at most SYMBOLS, with their uses: those that
    were pointed at, then what it names; what `files` define before others, what few files use before what many do."""
    candidates = _candidates(instruction, files, targets)
    if not candidates:
        return []
    bounds = _BOUNDS._replace(spared=frozenset(query.name for rank, query in candidates if rank == 0))
    found, _ = find(worktree, [query for _, query in candidates], why_not, bounds=bounds)
    ranked = [
        ((rank, not query.file, len(uses.files)), uses)
        for (rank, query), uses in zip(candidates, found, strict=True)
        if uses.definitions or uses.elsewhere
    ]
    return [uses for _, uses in sorted(ranked, key=lambda pair: pair[0])[:SYMBOLS]]


def _candidates(
    instruction: str, files: Mapping[str, bytes], targets: Sequence[tuple[str, str]]
) -> list[tuple[int, SymbolQuery]]:
    """What may be a symbol, with its rank: 0 was pointed at, 1 looks like a name, 2 is a plain word that a file has at
    its top, or a getter or setter of what is named."""
    candidates: dict[str, tuple[int, SymbolQuery]] = {}

    def add(rank: int, name: str, qualified: str, file: str) -> None:
        candidates.setdefault(name, (rank, SymbolQuery(name, name, qualified, file)))

    for file, symbol in targets:
        if parts := [part for part in re.split(r"::|#|->|\.", re.sub(r":\d+$|\(.*\)$", "", symbol)) if part]:
            add(0, parts[-1], ".".join(parts), file)
    defined: dict[str, str] = {}
    top: set[str] = set()
    for file, data in files.items():
        for each in () if is_prose(file) else outer(outline(file, data)):
            defined.setdefault(each.name, file)
            if each.depth == 0 and each.kind in ("function", "class"):
                top.add(each.name)
    for match in NAME.finditer(instruction[:20_000]):
        parts = parts_of(match[0])
        is_surely_name = _is_symbol_name(instruction, match, defined)
        if (is_surely_name or match[0] in top) and len(parts[-1]) > 1:
            qualified = ".".join(parts) if len(parts) > 1 else ""
            add(1 if is_surely_name else 2, parts[-1], qualified, defined.get(parts[-1], ""))
        if len(candidates) >= CANDIDATES:
            break
    for name in [*candidates]:
        for access in (f"get_{name}", f"set_{name}"):
            if access in defined:
                add(2, access, "", defined[access])
    return [*candidates.values()]


def _is_symbol_name(text: str, match: re.Match[str], defined: Mapping[str, str]) -> bool:
    word = match[0]
    if "." in word and not is_prose(word):  # the name of a file
        return False
    if is_name(text, match):
        return True
    before, after = text[max(0, match.start() - 20) : match.start()], text[match.end() : match.end() + 20]
    return word in defined and (word[:1].isupper() or bool(_BEFORE.search(before) or _AFTER.match(after)))


def _elsewhere(uses: Uses, files: Mapping[str, bytes]) -> str:
    """Where else it is used, files near the edited ones first; tests are left out if their functions are known."""

    def shared_folders(path: str) -> int:
        folders = set(PurePath(path).parents)
        return max(len(folders.intersection(PurePath(file).parents)) for file in files)

    rows = [row for row in uses.files if row.path not in files and not is_prose(row.path)]
    rows = [row for row in rows if not (row.test and row.within)]
    rows.sort(key=lambda row: (row.test, -shared_folders(row.path), -len(row.lines), row.path))
    definitions = [*uses.definitions, *uses.elsewhere]
    first = next((definition for definition in definitions if not is_test(definition.path)), None)
    where = ""
    if first and all(definition.path not in files for definition in definitions):
        where = f", defined in {plain(first.path, 100)}:{first.first_line}"
    symbol = f"`{plain(uses.symbol, 80)}`"
    if not rows:
        return f"{symbol}{where}" if where else ""
    omitted = f", {count(len(rows) - FILES, 'more file')}" if len(rows) > FILES else ""
    files_used = ", ".join(f"{plain(row.path, 100)} ({_numbers(row.lines)})" for row in rows[:FILES])
    return _cut(f"{symbol}{where}{',' if where else ''} elsewhere: {files_used}{omitted}")


def _numbers(lines: Sequence[int]) -> str:
    """The numbers of lines, as many as are named."""
    if len(lines) == 1:
        return f"line {lines[0]}"
    ellipsis = ", ..." if len(lines) > LINES else ""
    return f"{len(lines)} lines: {', '.join(map(str, lines[:LINES]))}{ellipsis}"


def _tests(symbols: Sequence[Uses], files: Mapping[str, bytes]) -> Iterator[str]:
    """The test functions of each symbol, or of several that have the same ones."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for uses in symbols:
        if tests := tuple(_tests_of(uses, files)):
            groups.setdefault(tests, []).append(f"`{plain(uses.symbol, 80)}`")
    most = max(2, TESTS // max(1, len(groups)))
    for tests, names in groups.items():
        by_path: dict[str, list[str]] = {}
        for path, name in tests[:most]:
            by_path.setdefault(path, []).append(plain(name, 80))
        shown = [f"{plain(path, 100)}: {', '.join(functions)}" for path, functions in by_path.items()]
        more = [f"{len(tests) - most} more"] if len(tests) > most else []
        yield _cut(f"Tests of {', '.join(names)}: {'; '.join([*shown, *more])}")


def _tests_of(uses: Uses, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Files and test functions: first those named like the symbol, then files named like an edited one."""
    symbol = uses.symbol.rpartition(".")[2].lower().strip("_")
    stems = [PurePath(file).stem.lower().strip("_") for file in files]
    ranked: dict[tuple[str, str], tuple[bool, bool, str]] = {}
    for row in uses.files:
        for name in row.within if row.test and row.path not in files else ():
            function = name.rpartition(".")[2]
            lower = function.lower()
            if lower.startswith(("test", "it_", "should", "spec", "bench")) or row.path.endswith(".java"):
                is_alike = symbol in lower.split("_") or (len(symbol) > 3 and symbol in lower)
                is_near = any(stem in PurePath(row.path).stem.lower() for stem in stems)
                ranked.setdefault((row.path, function), (not is_alike, not is_near, row.path))
    return sorted(ranked, key=lambda test: ranked[test])


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


NAMES, MOST_NAMES = 4, 12
COMMON = 20  # files: a name that more have comes after the others
LARGEST = 1 << 20  # bytes of matching lines that are read
INDEX = (
    1 << 20
)  # bytes of git's index (some 8,000 files): a larger repository is not searched before a request
LONGEST = 700  # characters of the notice
DEFINITION_WIDTH = 80  # characters of a line of code
DEFINITION_TESTS = 2  # test files that are named
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
_KIND = (
    r"(?:def|class|func|function\*?|fn|interface|trait|type|module|object|protocol|macro_rules!|#\s*define)"
)
_STATEMENT = re.compile(
    r"\s*(?:return|else|case|goto|await|yield|raise|throw|new|delete|import|from|assert|not)\b"
)
# What a line that defines NAME looks like, from what is sure to what may be something else.
_FORMS = (
    rf"\s*{_WORDS}(?:{_KIND}\s+(?:\([^()]*\)\s*)?NAME\b|(?:struct|union|enum)\s+NAME\s*(?:[{{:(<;]|$))",
    rf"{_WORDS}NAME\s*(?::[^=]+)?=(?!=)",
    r"(?:[A-Za-z_][\w \t*&:<>,]*[\s*&]|)NAME\s*\([^;]*$|\}\s*NAME;",  # C: a function, or a type
    rf"\s+(?:{_WORDS}NAME\s*:\s*[A-Za-z\"'](?:[^,]*[^,.])?$|(?:self|this)\.NAME\s*(?::[^=]+)?=(?!=)"
    r"|(?:async\s+|static\s+|get\s+|set\s+)*NAME\([^;]*\)\s*\{$|(?:public|private|protected|static)\s[^=;]*\sNAME\()",
    r"\s+[A-Za-z_][\w \t]*[\s*]+NAME(?:\[[^\]]*\])?;",  # C: a member
)
_OF_C = (2, 4)


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
    """Starts to look for the code names of `text` that are not `known`; the result waits for the end, and says where
    they are defined and which tests have them, "" if the repository defines none. `why_not` says which files are
    withheld. Raises GitError then."""
    names = _names(text, known)
    try:
        is_large = (worktree.git_dir / "index").stat().st_size > INDEX
    except FileNotFoundError:  # no file is tracked
        is_large = True
    if not names or is_large:
        return lambda: ""
    results: list[bytes | GitError] = []
    search = Thread(target=lambda: results.append(_grep(worktree, list(names))))
    search.start()

    def ready() -> str:
        search.join()
        if isinstance(results[0], GitError):
            raise results[0]
        return _notice(names, results[0], why_not)

    return ready


def _names(text: str, known: Collection[str]) -> dict[str, set[str]]:
    """The names, each with what it is looked up in."""
    names: dict[str, set[str]] = {}
    for match in NAME.finditer(text[:20_000]):
        *holders, name = parts_of(match[0])
        if holders and not match[0].endswith("()") and name in _SUFFIXES:
            continue  # the name of a file
        if len(name) > 1 and name.isascii() and name not in known and is_name(text, match):
            names.setdefault(name, set()).update(holders)
        if len(names) == MOST_NAMES:
            break
    return names


def _grep(worktree: WorkTree, names: Sequence[str]) -> bytes | GitError:
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
    words = re.compile(rf"(?<![\w$])(?:{'|'.join(map(re.escape, names))})(?![\w$])")
    forms = {name: [re.compile(form.replace("NAME", re.escape(name))) for form in _FORMS] for name in names}
    defined: dict[str, list[_Definition]] = {}
    lines: dict[str, dict[str, list[int]]] = {}
    is_shown: dict[str, bool] = {}
    for row in _GREP_LINE.finditer(grep_output):
        path, number = os.fsdecode(row[1]), int(row[2])
        if path not in is_shown:
            is_shown[path] = why_not(path) is None
        text = row[3][:1_000].decode("utf-8", "replace").rstrip()
        for name in dict.fromkeys(words.findall(text)) if is_shown[path] else ():
            lines.setdefault(name, {}).setdefault(path, []).append(number)
            is_far = not any(holder in re.split(r"[/.]", path) for holder in names[name])
            of_other_module = is_far and names[name] and name[:1].isupper()
            doubt = None if of_other_module else _doubt(forms[name], path, text)
            if doubt is not None:
                is_stub = path.endswith((".pyi", ".d.ts"))
                where = (text[:1].isspace(), path, number, text.strip())
                defined.setdefault(name, []).append(
                    _Definition(is_test(path), is_stub, is_far, doubt, *where)
                )
    chosen = sorted((name for name in names if name in defined), key=lambda name: len(lines[name]) > COMMON)
    notice: list[str] = []
    for name in chosen[:NAMES]:
        notice.append(f"`{name}`: {_definitions(sorted(defined[name]))}")
        tests = [path for path in lines[name] if is_test(path)]
        if tests and len(grep_output) < LARGEST:
            home = min(defined[name]).path.rpartition("/")[2].partition(".")[0].strip("_")
            counts = {path: len(lines[name][path]) for path in tests}
            tests.sort(key=lambda path: (home not in path.rpartition("/")[2], -counts[path], path))
            listed = [
                f"{plain(path, 100)} ({_numbers(lines[name][path])})" for path in tests[:DEFINITION_TESTS]
            ]
            listed += [f"{len(tests) - DEFINITION_TESTS} more"] if len(tests) > DEFINITION_TESTS else []
            notice.append(f"  tests: {', '.join(listed)}")
    while sum(map(len, notice)) > LONGEST:
        del notice[-1]
    return "\n".join(["Names of the request, by text search:", *notice]) if notice else ""


def _doubt(forms: Sequence[re.Pattern[str]], path: str, text: str) -> int | None:
    """The number of the first form that the line has; None: it defines nothing."""
    if _STATEMENT.match(text):
        return None
    for number, form in enumerate(forms):
        if (number not in _OF_C or path.endswith(_C)) and form.match(text):
            return number
    return None


def _definitions(definitions: Sequence[_Definition]) -> str:
    first = definitions[0]
    same = [each for each in definitions if (each.doubt, each.test) == (first.doubt, first.test)]
    also = [f"{plain(each.path, 100) if each.path != first.path else ''}:{each.line}" for each in same[1:3]]
    also += [f"{len(same) - 3} more"] if len(same) > 3 else []
    text = f"{plain(first.path, 100)}:{first.line} {plain(mask(first.text), DEFINITION_WIDTH)}"
    return text + (f" (also {', '.join(also)})" if also else "")
