"""api-changed: a public symbol is gone or has another signature, and its usual callers are untouched.

The outlines of the file before and after say which symbols are gone or differ in their signature. Usual callers are the
files that have changed along with it before and name the symbol where the change starts.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from repoagent.review.change import ChangedFile
from repoagent.review.finding import Finding, Place
from repoagent.review.history import marks
from repoagent.review.history.comments import is_comment
from repoagent.review.history.past import Past, is_text
from repoagent.review.history.signatures import Gone, differing

RULE = "api-changed"
MOST_FILES = 20  # of a change whose outlines are made
SECONDS = 1.0  # for the outlines
COMMITS = 100  # of a file in which its partners are looked for
LARGEST = 30  # files of a commit that says who belongs together
TOGETHER = 2  # commits with a partner before it counts as a usual caller
PARTNERS = 60
SYMBOLS = 12  # of a file that are looked for: with more of them, the file was rewritten
SHOWN = 5
_IMPORT = re.compile(rb"\s*(?:pub(?:\([^)]*\))? )?(?:use|import|from|#\s*include|require|export \{)\b")
_NO_HEIRS = (
    ".go",
    ".rs",
    ".c",
    ".h",
)  # where a file with a method of that name does not override the one that changed
_BARE_CALLS = (".rb", ".kt", ".scala", ".cs", ".swift", ".py", ".pyi")  # a name alone calls, or hands over
LONGEST = 200  # lines of comments and decorators above a definition
# What a line may hold that begins a definition: others are not worth a grammar.
_HEAD = re.compile(
    rb"\b(?:def|class|func|function|fn|fun|struct|enum|trait|interface|type|module|macro|define|export|public|protected"
    rb"|pub|static|const|void|int|val|var|extern|abstract|async)\b|^[A-Za-z_][\w:*&<>, ]*\("
)
_SUFFIXES = (
    ".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".c", ".h", ".cc",
    ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".java", ".kt", ".cs", ".php", ".rb", ".swift", ".scala", ".lua",
)  # fmt: skip


def find(past: Past) -> list[Finding]:
    """One finding for each file, at its first such symbol with callers."""
    if past.view is None:
        return []
    until = min(past.deadline, time.monotonic() + SECONDS)
    files = [file for file in past.change.files if _may_matter(past, file)][:MOST_FILES]
    found: list[Finding] = []
    told: set[str] = set()
    for file in files:
        if time.monotonic() > until:
            past.unseen.append(
                "the interfaces of some files were not compared: that would have taken too long"
            )
            break
        symbols = [
            symbol
            for symbol in differing(file.old_path, past.change.read_old(file), past.change.read_new(file))
            if symbol.qualified not in told and (symbol.after or not _moved(past, file, symbol.name))
        ]
        if symbols and len(symbols) <= SYMBOLS and (one := _finding(past, file, symbols)) is not None:
            found.append(one)
            told.update(symbol.qualified for symbol in symbols)  # a header declares what a source defines
    return found


def _may_matter(past: Past, file: ChangedFile) -> bool:
    if (
        file.status not in ("modified", "renamed", "deleted")
        or not is_text(file)
        or file.path not in past.files
    ):
        return False
    if not file.old_path.endswith(_SUFFIXES) or marks.is_vendored_path(file.path) or marks.is_test(file.path):
        return False
    if file.status == "deleted":
        return True
    return any(_HEAD.search(line) for lines in past.change.read_lines(file) for line in lines.removed)


def _moved(past: Past, file: ChangedFile, name: str) -> bool:
    """Whether another changed file begins a definition of that name now."""
    word = re.compile(rb"\b%s\b" % re.escape(os.fsencode(name)))
    return any(
        word.search(line) and _HEAD.search(line)
        for other in past.change.files
        if other is not file and is_text(other)
        for lines in past.change.read_lines(other)
        for line in lines.added
    )


def _finding(past: Past, file: ChangedFile, symbols: Sequence[Gone]) -> Finding | None:
    partners = _partners(past, file)
    if not partners:
        return None
    for symbol in symbols:
        callers = _callers(past, file, symbol, partners)
        if callers:
            return _told(past, file, symbol, callers, len(symbols) - 1)
    return None


def _partners(past: Past, file: ChangedFile) -> dict[str, list[int]]:
    """The untouched files that have changed along with it before, with the numbers of these commits."""
    if past.view is None:
        return {}
    own = past.files[file.path]
    numbers: dict[int, list[int]] = {}
    for commit in past.view.commits(own, COMMITS):
        if 0 < commit.size <= LARGEST:
            for each in commit.files:
                numbers.setdefault(each, []).append(commit.number)
    usual = {each: some for each, some in numbers.items() if len(some) >= TOGETHER and each != own}
    best = sorted(usual, key=lambda each: (-len(usual[each]), each))[:PARTNERS]
    there = past.changed | past.change.earlier
    return {
        path: usual[each]
        for each, name in past.view.paths(best).items()
        if (path := os.fsdecode(name)) not in there and path.endswith(_SUFFIXES)
    }


def _callers(past: Past, file: ChangedFile, symbol: Gone, partners: dict[str, list[int]]) -> dict[str, int]:
    """Those of the partners that name the symbol outside of comments, and its owner, where the change starts, with the
    first such line; one git process, bounded in time."""
    from repoagent.history.timed import TimedGit
    from repoagent.repo.run import GitError

    tree = (past.change.base,) if past.change.base else ("HEAD",)
    left = max(0.05, min(0.5, past.deadline - time.monotonic()))
    words = ["-e", symbol.name, *(("-e", symbol.owner) if symbol.owner else ())]
    try:
        data, late = TimedGit(
            past.top, "grep", "-n", "-z", "-I", "-w", "-F", "--full-name", "--no-color", "--no-recurse-submodules",
            "--all-match", *words, *tree, "--", *partners, deadline=time.monotonic() + left,
        ).read()  # fmt: skip
    except GitError:  # none does; or a partial clone lacks one of them
        return {}
    word, defines = _use(symbol, file.old_path), _definition(symbol)
    found: dict[str, int] = {}
    own: set[str] = set()
    for row in data.split(b"\n")[: -1 if late else None]:
        name, _, rest = row.partition(b"\0")
        number, _, line = rest.partition(b"\0")
        path = os.fsdecode(name).removeprefix(f"{tree[0]}:")
        if path not in partners or is_comment(path, line):
            continue
        if path.endswith(_NO_HEIRS) and defines.search(line):  # what it calls by that name is its own
            own.add(path)
        elif path not in found and word.search(line) and not (symbol.after and _IMPORT.match(line)):
            found[path] = int(number)
    if own and not symbol.owner:  # which of the two the others mean is not known
        return {}
    best = sorted(found.keys() - own, key=lambda path: (-len(partners[path]), path))
    return {path: found[path] for path in best}


def _use(symbol: Gone, path: str) -> re.Pattern[bytes]:
    """How another file names it: a method behind what it belongs to."""
    name = re.escape(os.fsencode(symbol.name))
    if not symbol.owner:
        return re.compile(rb"(?<!self\.)(?<!this\.)(?<!this->)\b%s\b" % name)
    called = rb"\s*(?:\(|::<)" if "(" in symbol.before and not path.endswith(_BARE_CALLS) else b""
    return re.compile(rb"(?:\.|::|->)\s*%s\b%s" % (name, called))


def _definition(symbol: Gone) -> re.Pattern[bytes]:
    return re.compile(
        rb"\b(?:fn|func|struct|enum|trait|type|define)\s+(?:\([^)]*\)\s*)?%s\b"
        % re.escape(os.fsencode(symbol.name))
    )


def _told(past: Past, file: ChangedFile, symbol: Gone, where: dict[str, int], others: int) -> Finding:
    what = "is gone" if not symbol.after else "has another signature"
    callers = list(where)
    shown = ", ".join(f"{path}:{where[path]}" for path in callers[:SHOWN])
    shown += f" and {len(callers) - SHOWN} more" if len(callers) > SHOWN else ""
    body = f"It was `{symbol.before}`" + ("." if not symbol.after else f", and is `{symbol.after}`.")
    line = _head(past, file, symbol)
    body += (
        f" Named in {shown}: {'this file has' if len(callers) == 1 else 'these files have'} changed along with "
        f"{file.path} before, and {'is' if len(callers) == 1 else 'are'} not part of this change."
    )
    if others:
        body += f" {others} more symbol{'s' * (others > 1)} of this file differ{'s' * (others == 1)} too."
    numbers = sorted(_numbers(past, file, callers[0]), reverse=True)
    return Finding(
        RULE,
        past.levels[RULE],
        f"{symbol.qualified} {what}, and {callers[0]}, which names it, is untouched",
        Place(file.path, line, line) if line else Place(file.path),
        body,
        key=f"{symbol.qualified} {callers[0]}",
        evidence=past.evidence(numbers),
    )


def _head(past: Past, file: ChangedFile, symbol: Gone) -> int:
    """The line of its name: a definition begins with its comments and decorators."""
    word = re.compile(rb"\b%s\b" % re.escape(os.fsencode(symbol.qualified.rpartition(".")[2])))
    if not symbol.line:
        return 0
    lines = (past.change.read_new(file) or b"").split(b"\n")
    for number, line in enumerate(lines[symbol.line - 1 : symbol.line - 1 + LONGEST], symbol.line):
        if word.search(line) and _HEAD.search(line) and not is_comment(file.path, line):
            return number
    return symbol.line


def _numbers(past: Past, file: ChangedFile, caller: str) -> list[int]:
    return _partners(past, file).get(caller, [])
