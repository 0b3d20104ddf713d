"""Where the names of a request are defined, and which tests have them, read off one `git grep`. Nothing is parsed, so
that it costs next to nothing before the first request of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from repoagent.repo.run import OFFLINE, GitError, git_stream
from repoagent.repo.worktree import WorkTree
from repoagent.store.masking import mask
from repoagent.uses.words import NAME, is_name, parts_of

if TYPE_CHECKING:
    from repoagent.uses.values import WhyNot

NAMES, CANDIDATES = 4, 12
COMMON = 20  # files: a name that more have comes after the others
LARGEST = 1 << 20  # bytes of matching lines that are read
INDEX = (
    1 << 20
)  # bytes of git's index (some 8,000 files): a larger repository is not searched before a request
LONGEST = 700  # characters of the notice
WIDTH = 80  # characters of a line of code
TESTS, LINES = 2, 3  # test files that are named, and lines of each

_CODE = (
    "py pyi pyx js jsx mjs cjs ts tsx mts cts vue svelte c h cc cpp cxx hh hpp m mm cs java kt scala groovy go rs rb "
    "php swift lua dart ex exs zig jl sh"
)
_SUFFIXES = _CODE.split()
_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm")
_FOUND = re.compile(rb"([^\0\n]+)\0(\d+)[:\0](.*)")
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
    """Begins to look for the code names of `text` that are not `known`; the result waits for the end, and says where
    they are defined and which tests have them, "" where the repository defines none. `why_not` says which files are
    withheld. Raises GitError then."""
    names = _names(text, known)
    if not names or _is_large(worktree):
        return lambda: ""
    found: list[bytes | GitError] = []
    search = Thread(target=lambda: found.append(_grepped(worktree, list(names))))
    search.start()

    def ready() -> str:
        search.join()
        if isinstance(found[0], GitError):
            raise found[0]
        return _notice(names, found[0], why_not)

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
        if len(names) == CANDIDATES:
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


def _notice(names: Mapping[str, set[str]], found: bytes, why_not: WhyNot) -> str:
    from repoagent.uses.values import is_test

    cut = len(found) == LARGEST
    words = re.compile(rf"(?<![\w$])(?:{'|'.join(map(re.escape, names))})(?![\w$])")
    looks = {name: [re.compile(form.replace("NAME", re.escape(name))) for form in _FORMS] for name in names}
    defined: dict[str, list[_Definition]] = {}
    lines: dict[str, dict[str, list[int]]] = {}
    shown: dict[str, bool] = {}
    for row in _FOUND.finditer(found):
        path = os.fsdecode(row[1])
        if path not in shown:
            shown[path] = why_not(path) is None
        text = row[3][:1_000].decode("utf-8", "replace").rstrip()
        for name in dict.fromkeys(words.findall(text)) if shown[path] else ():
            lines.setdefault(name, {}).setdefault(path, []).append(int(row[2]))
            if (doubt := _doubt(looks[name], path, text)) is not None:
                far = not any(holder in re.split(r"[/.]", path) for holder in names[name])
                stub, inside = path.endswith((".pyi", ".d.ts")), text[:1].isspace()
                one = _Definition(is_test(path), stub, far, doubt, inside, path, int(row[2]), text.strip())
                if not (far and names[name] and name[:1].isupper()):  # a class of another module
                    defined.setdefault(name, []).append(one)
    chosen = sorted((name for name in names if name in defined), key=lambda name: len(lines[name]) > COMMON)
    told: list[str] = []
    for name in chosen[:NAMES]:
        told.append(f"`{name}`: {_definitions(sorted(defined[name]))}")
        if not cut and (tests := [path for path in lines[name] if is_test(path)]):
            told.append(f"  tests: {_tests(tests, lines[name], min(defined[name]).path)}")
    while sum(map(len, told)) > LONGEST:
        del told[-1]
    return "\n".join(["Names of the request, by text search:", *told]) if told else ""


_KIND = (
    r"(?:def|class|func|function\*?|fn|interface|trait|type|module|object|protocol|macro_rules!|#\s*define)"
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


def _doubt(forms: Sequence[re.Pattern[str]], path: str, text: str) -> int | None:
    """How far down in the forms the line is; None: it defines nothing."""
    if _STATEMENT.match(text):
        return None
    return next(
        (at for at, form in enumerate(forms) if (at not in _OF_C or path.endswith(_C)) and form.match(text)),
        None,
    )


def _definitions(found: Sequence[_Definition]) -> str:
    first, *others = [one for one in found if (one.doubt, one.test) == (found[0].doubt, found[0].test)]
    also = [f"{_plain(one.path, 100) * (one.path != first.path)}:{one.line}" for one in others[:2]]
    also += [f"{len(others) - 2} more"] if len(others) > 2 else []
    shown = f"{_plain(first.path, 100)}:{first.line} {_plain(mask(first.text), WIDTH)}"
    return shown + (f" (also {', '.join(also)})" if also else "")


def _tests(tests: list[str], lines: Mapping[str, Sequence[int]], home: str) -> str:
    """The test files that have the name, those that are called like the file that defines it first."""
    stem = home.rpartition("/")[2].partition(".")[0].strip("_")
    tests.sort(key=lambda path: (stem not in path.rpartition("/")[2], -len(lines[path]), path))
    shown = [f"{_plain(path, 100)} ({_numbers(lines[path])})" for path in tests[:TESTS]]
    shown += [f"{len(tests) - TESTS} more"] if len(tests) > TESTS else []
    return ", ".join(shown)


def _numbers(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"{len(lines)} lines: {', '.join(map(str, lines[:LINES]))}{', ...' * (len(lines) > LINES)}"


def _plain(text: str, width: int) -> str:
    """`text` on one line, without anything that a terminal obeys."""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return line if len(line) <= width else line[: width - 1] + "…"
