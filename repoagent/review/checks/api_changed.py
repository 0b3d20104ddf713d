"""api-changed: a public symbol was removed or has a new signature, but its usual callers are unchanged.

The outlines of the file before and after show which symbols are removed or differ in their signature. Usual callers
are the files that have changed along with it before and name the symbol where the change starts.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_origin
from repoagent.review.checks.context import HistoryContext, is_text
from repoagent.review.checks.missing_partner import is_comment
from repoagent.review.finding import Finding, Location

MOST_BYTES = 1 << 20
_SYMBOL_KINDS = frozenset(
    {"function", "method", "class", "struct", "union", "enum", "interface", "type", "macro", "declaration"}
)
_CALLED = frozenset({"function", "method", "macro", "declaration"})
_MAKERS = frozenset({"__init__", "__new__", "constructor"})  # their callers name the class
_IDENTIFIER = re.compile(r"\w+\Z")
# Names too common to search for in other files.
_COMMON = frozenset(
    {"main", "init", "new", "get", "set", "run", "test", "setup", "close", "open", "read", "write", "name"}
)


class ChangedSymbol(NamedTuple):
    """A symbol that others may call: removed (`after` is ""), or with another signature; `line` is its line after the
    change, 0 for none. A file that uses a method names its `owner` too."""

    name: str
    owner: str
    qualified: str
    before: str
    after: str
    line: int


def changed_symbols(path: str, old: bytes | None, new: bytes | None) -> Iterator[ChangedSymbol]:
    """The public symbols of the text before that the text after lacks, or has with another signature."""
    if old is None or len(old) > MOST_BYTES or len(new or b"") > MOST_BYTES:
        return
    from repoagent.syntax.languages import language_of
    from repoagent.syntax.outline import read_outline

    language = language_of(path, old)
    before = read_outline(path, old, language)
    after = read_outline(path, new or b"", language)
    if before is None or after is None or after[1] > before[1]:  # new parse errors hide symbols
        return
    heads = {(symbol.qualified_name, symbol.signature.rstrip("; {")) for symbol in before[0]}
    overloaded = {name for name, count in Counter(name for name, _ in heads).items() if count > 1}
    present: dict[str, dict[str, int]] = {}  # the signatures of each name after, with their lines
    for symbol in after[0]:
        present.setdefault(symbol.qualified_name, {})[symbol.signature] = symbol.first_line
    names = {symbol.name for symbol in after[0]}
    functions = {symbol.qualified_name for symbol in before[0] if symbol.kind in ("function", "method")}
    for symbol in before[0]:
        qualified, signature = symbol.qualified_name, symbol.signature
        owner = qualified.rpartition(".")[0]
        if (
            qualified in overloaded
            or symbol.kind not in _SYMBOL_KINDS
            or owner in functions
            or not is_public(symbol.name, signature, language or "")
            or not all(map(_is_public_name, qualified.split(".")))
        ):
            continue
        name, owner = symbol.name, owner.rpartition(".")[2]
        if name in _MAKERS:  # callers name the class
            name, owner = owner, ""
        signatures = present.get(qualified)
        if signatures is None:
            if symbol.name not in names and name:  # else it moved within the file
                yield ChangedSymbol(name, owner, qualified, signature, "", 0)
        elif symbol.kind in _CALLED and len(signatures) == 1 and signature not in signatures:
            ((new_signature, line),) = signatures.items()
            if not fits_old_callers(signature, new_signature, language or ""):
                yield ChangedSymbol(name, owner, qualified, signature, new_signature, line)


def is_public(name: str, signature: str, language: str) -> bool:
    """Whether other files may use it, judging by its signature, and its name is specific enough to search for."""
    if name in _MAKERS:
        return True
    specific = len(name) > 5 or "_" in name.strip("_") or name[1:] != name[1:].lower()
    searchable = len(name) > 3 and _IDENTIFIER.match(name) and name.lower() not in _COMMON
    if not (specific and searchable and _is_public_name(name)):
        return False
    words = set(re.findall(r"\w+", signature.partition("(")[0]))
    if language == "go":
        return name[:1].isupper()
    if language == "rust":
        return "pub" in words
    if language in ("c", "cpp"):
        return "static" not in words
    return not words.intersection({"private", "fileprivate", "internal"})


def _is_public_name(name: str) -> bool:
    return name in _MAKERS or not name.startswith(("_", "#"))


def parameters(signature: str) -> list[str] | None:
    """The text between the outermost parentheses, split at the commas; None where they are missing or unbalanced."""
    begin = signature.find("(")
    if begin < 0:
        return None
    parts, depth, last = [], 0, begin + 1
    for index in range(begin, len(signature)):
        character = signature[index]
        depth += (character in "([{<") - (
            character in ")]}" or (character == ">" and signature[index - 1] not in "-=")
        )
        if depth == 0 or (depth == 1 and character == ","):
            parts.append(signature[last:index])
            last = index + 1
        if depth == 0:
            return [part.strip() for part in parts if part.strip()]
    return None


def _contract(parameter: str, language: str) -> str:
    """The part of a parameter that binds callers: in Python its name, elsewhere its type, as far as it is known."""
    before = parameter.partition("=")[0].strip()
    name, colon, kind = before.partition(":")
    if language == "python":
        return name.strip()
    if colon and language in ("rust", "typescript", "tsx", "kotlin", "swift", "scala"):
        return "".join(kind.split())
    if language in ("c", "cpp", "java", "csharp"):
        before = re.sub(r"(?<=[\s*&>\]])\w+((?:\[\w*\])*)\Z", r"\1", before)
    return "".join(before.split())


def fits_old_callers(before: str, after: str, language: str) -> bool:
    """Whether callers of the signature before need no change: the same parameters (in Python of any type), followed at
    most by some that have a default."""
    before_parts, after_parts = parameters(before), parameters(after)
    if before_parts is None or after_parts is None:
        return before_parts is after_parts or before.endswith("…") or after.endswith("…")
    old, new = (
        [_contract(part, language) for part in before_parts],
        [_contract(part, language) for part in after_parts],
    )
    if any(
        "=" in old_part and "=" not in new_part
        for old_part, new_part in zip(before_parts, after_parts, strict=False)
    ):
        return False
    added = after_parts[len(before_parts) :]
    if language in ("c", "cpp"):  # an added `const` accepts the same arguments
        unqualified = [_contract(re.sub(r"\bconst\b", "", part), language) for part in after_parts]
        new = [
            unqualified_part if unqualified_part == old_part else new_part
            for unqualified_part, old_part, new_part in zip(unqualified, old, new, strict=False)
        ] + new[len(old) :]
    return new[: len(old)] == old and all(
        "=" in part or "?" in part or part.startswith(("*", "/", "...")) for part in added
    )


RULE = "api-changed"
MOST_FILES = 20  # of a change, to outline
SECONDS = 1.0  # for the outlines
COMMITS = 100  # of a file, to search for partners
LARGEST = 30  # files of a commit that counts
TOGETHER = 2  # commits with a partner before it counts as a usual caller
PARTNERS = 60
SYMBOLS = 12  # of a file to search for: with more, the file was rewritten
SHOWN = 5
_IMPORT = re.compile(rb"\s*(?:pub(?:\([^)]*\))? )?(?:use|import|from|#\s*include|require|export \{)\b")
# languages in which a method of the same name does not override the changed one
_NO_HEIRS = (".go", ".rs", ".c", ".h")
# languages in which a name without parentheses calls a method or refers to it
_BARE_CALLS = (".rb", ".kt", ".scala", ".cs", ".swift", ".py", ".pyi")
LONGEST = 200  # lines of comments and decorators above a definition
# Matches a line that may begin a definition; a cheap filter before parsing.
_HEAD = re.compile(
    rb"\b(?:def|class|func|function|fn|fun|struct|enum|trait|interface|type|module|macro|define|export|public|protected"
    rb"|pub|static|const|void|int|val|var|extern|abstract|async)\b|^[A-Za-z_][\w:*&<>, ]*\("
)
_SUFFIXES = (
    ".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".c", ".h", ".cc",
    ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".java", ".kt", ".cs", ".php", ".rb", ".swift", ".scala", ".lua",
)  # fmt: skip


def find_changed_api(context: HistoryContext) -> list[Finding]:
    """One finding for each file, at its first changed symbol with callers."""
    if context.view is None:
        return []
    until = min(context.deadline, time.monotonic() + SECONDS)
    findings: list[Finding] = []
    reported: set[str] = set()
    for file in [file for file in context.change.files if _may_matter(context, file)][:MOST_FILES]:
        if time.monotonic() > until:
            context.unseen.append(
                "the public symbols of some files were not compared: the review took too long"
            )
            break
        old, new = context.change.read_old(file), context.change.read_new(file)
        symbols = [
            symbol
            for symbol in changed_symbols(file.old_path, old, new)
            if symbol.qualified not in reported
            and (symbol.after or not _is_moved(context, file, symbol.name))
        ]
        if symbols and len(symbols) <= SYMBOLS and (finding := _finding(context, file, symbols)) is not None:
            findings.append(finding)
            reported.update(symbol.qualified for symbol in symbols)  # a header declares what a source defines
    return findings


def _may_matter(context: HistoryContext, file: ChangedFile) -> bool:
    if file.status not in ("modified", "renamed", "deleted") or not is_text(file):
        return False
    if file.path not in context.files or not file.old_path.endswith(_SUFFIXES):
        return False
    if file_origin.is_vendored_path(file.path) or file_origin.is_test(file.path):
        return False
    return file.status == "deleted" or any(
        _HEAD.search(line) for lines in context.change.read_lines(file) for line in lines.removed
    )


def _is_moved(context: HistoryContext, file: ChangedFile, name: str) -> bool:
    """Whether the change adds a definition of that name to another file."""
    pattern = re.compile(rb"\b%s\b" % re.escape(os.fsencode(name)))
    return any(
        pattern.search(line) and _HEAD.search(line)
        for other_file in context.change.files
        if other_file is not file and is_text(other_file)
        for lines in context.change.read_lines(other_file)
        for line in lines.added
    )


def _finding(context: HistoryContext, file: ChangedFile, symbols: Sequence[ChangedSymbol]) -> Finding | None:
    """A finding on the first of the symbols that a usual caller names."""
    partners = _partners(context, file)
    if not partners:
        return None
    for symbol in symbols:
        lines = _callers(context, file, symbol, partners)
        if not lines:
            continue
        callers = list(lines)
        single, other_symbols = len(callers) == 1, len(symbols) - 1
        listed = ", ".join(f"{path}:{lines[path]}" for path in callers[:SHOWN])
        listed += f" and {len(callers) - SHOWN} more" if len(callers) > SHOWN else ""
        body = f"Before: `{symbol.before}`." + (f" Now: `{symbol.after}`." if symbol.after else "")
        body += (
            f" Named in {listed}: {'this file has' if single else 'these files have'} changed along with {file.path} "
            f"before, and {'is' if single else 'are'} not part of this change."
        )
        if other_symbols:
            plural = other_symbols > 1
            body += f" {other_symbols} more symbol{'s' * plural} of this file differ{'s' * (not plural)} too."
        change = "has a new signature" if symbol.after else "was removed"
        title = f"{symbol.qualified} {change}, but {callers[0]}, which names it, is unchanged"
        line = _definition_line(context, file, symbol)
        evidence = context.evidence(sorted(partners[callers[0]], reverse=True))
        location = Location(file.path, line, line)
        return context.finding(
            RULE, title, location, body, f"{symbol.qualified} {callers[0]}", evidence=evidence
        )
    return None


def _partners(context: HistoryContext, file: ChangedFile) -> dict[str, list[int]]:
    """The untouched files that have changed along with `file` before, with the numbers of those commits."""
    if context.view is None:
        return {}
    file_id = context.files[file.path]
    numbers: dict[int, list[int]] = {}
    for commit in context.view.commits(file_id, COMMITS):
        if 0 < commit.size <= LARGEST:
            for partner in commit.files:
                numbers.setdefault(partner, []).append(commit.number)
    usual = {
        partner: commits
        for partner, commits in numbers.items()
        if len(commits) >= TOGETHER and partner != file_id
    }
    best = sorted(usual, key=lambda partner: (-len(usual[partner]), partner))[:PARTNERS]
    touched = context.changed | context.change.earlier
    return {
        path: usual[partner]
        for partner, name in context.view.paths(best).items()
        if (path := os.fsdecode(name)) not in touched and path.endswith(_SUFFIXES)
    }


def _callers(
    context: HistoryContext, file: ChangedFile, symbol: ChangedSymbol, partners: dict[str, list[int]]
) -> dict[str, int]:
    """The partners that name the symbol and its owner outside of comments at the base of the change, with the first
    line that does. Runs one git process, bounded in time."""
    from repoagent.git.process import GitError
    from repoagent.history.log import TimedGit

    tree = (context.change.base,) if context.change.base else ("HEAD",)
    seconds = max(0.05, min(0.5, context.deadline - time.monotonic()))
    words = ["-e", symbol.name, *(("-e", symbol.owner) if symbol.owner else ())]
    try:
        data, late = TimedGit(
            context.top, "grep", "-n", "-z", "-I", "-w", "-F", "--full-name", "--no-color", "--no-recurse-submodules",
            "--all-match", *words, *tree, "--", *partners, deadline=time.monotonic() + seconds,
        ).read()  # fmt: skip
    except GitError:  # no match, or a partial clone lacks a file
        return {}
    name = re.escape(os.fsencode(symbol.name))
    definition = re.compile(rb"\b(?:fn|func|struct|enum|trait|type|define)\s+(?:\([^)]*\)\s*)?%s\b" % name)
    if symbol.owner:  # a method name follows its receiver
        called = "(" in symbol.before and not file.old_path.endswith(_BARE_CALLS)
        use = re.compile(rb"(?:\.|::|->)\s*%s\b%s" % (name, rb"\s*(?:\(|::<)" if called else b""))
    else:
        use = re.compile(rb"(?<!self\.)(?<!this\.)(?<!this->)\b%s\b" % name)
    lines: dict[str, int] = {}
    defining: set[str] = set()
    for row in data.split(b"\n")[: -1 if late else None]:
        path_bytes, _, remainder = row.partition(b"\0")
        number, _, line = remainder.partition(b"\0")
        path = os.fsdecode(path_bytes).removeprefix(f"{tree[0]}:")
        if path not in partners or is_comment(path, line):
            continue
        if path.endswith(_NO_HEIRS) and definition.search(line):  # the file calls its own definition
            defining.add(path)
        elif path not in lines and use.search(line) and not (symbol.after and _IMPORT.match(line)):
            lines[path] = int(number)
    if defining and not symbol.owner:  # unknown which definition the others call
        return {}
    best = sorted(lines.keys() - defining, key=lambda path: (-len(partners[path]), path))
    return {path: lines[path] for path in best}


def _definition_line(context: HistoryContext, file: ChangedFile, symbol: ChangedSymbol) -> int:
    """The line with the symbol's name: `line` may be that of a comment or decorator above it."""
    pattern = re.compile(rb"\b%s\b" % re.escape(os.fsencode(symbol.qualified.rpartition(".")[2])))
    if not symbol.line:
        return 0
    lines = (context.change.read_new(file) or b"").split(b"\n")
    for number, line in enumerate(lines[symbol.line - 1 : symbol.line - 1 + LONGEST], symbol.line):
        if pattern.search(line) and _HEAD.search(line) and not is_comment(file.path, line):
            return number
    return symbol.line
