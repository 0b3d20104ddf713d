"""api-changed: a public symbol was removed or has a new signature, but its usual callers are unchanged.

The outlines of the old and the new text show which symbols are removed or have another signature. Usual callers are the
files that changed together with the file in the past and contain the symbol at the base of the change.
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
from repoagent.review.checks.context import CheckContext, is_comment, is_text
from repoagent.review.finding import Finding, Location, listed

LARGEST = 1 << 20  # bytes of a text
MOST_FILES = 20  # of a change, to outline
SECONDS = 1.0  # for the outlines
SYMBOLS = 12  # of a file to search for: with more, the file was rewritten
COMMITS = 100  # of a file, to search for partners
COMMIT_FILES = 30  # of a commit that counts
TOGETHER = 2  # commits with a partner before it counts as a usual caller
PARTNERS = 60
SHOWN = 5
LONGEST = 200  # lines of comments and decorators above a definition
# Matches a line that may begin a definition: a cheap filter before parsing.
_HEAD = re.compile(
    rb"\b(?:def|class|func|function|fn|fun|struct|enum|trait|interface|type|module|macro|define|export|public|protected"
    rb"|pub|static|const|void|int|val|var|extern|abstract|async)\b|^[A-Za-z_][\w:*&<>, ]*\("
)
_IMPORT = re.compile(rb"\s*(?:pub(?:\([^)]*\))? )?(?:use|import|from|#\s*include|require|export \{)\b")
_SUFFIXES = (
    ".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".c", ".h", ".cc",
    ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".java", ".kt", ".cs", ".php", ".rb", ".swift", ".scala", ".lua",
)  # fmt: skip
# languages in which a method of the same name does not override the changed one
_NO_INHERITANCE = (".go", ".rs", ".c", ".h")
# languages in which a name without parentheses calls a method or refers to it
_BARE_CALLS = (".rb", ".kt", ".scala", ".cs", ".swift", ".py", ".pyi")
_CALLED = frozenset({"function", "method", "macro", "declaration"})
_KINDS = _CALLED | {"class", "struct", "union", "enum", "interface", "type"}
_CONSTRUCTORS = frozenset({"__init__", "__new__", "constructor"})  # their callers use the name of the class
# names too common to search for in other files
_COMMON = frozenset(
    {"main", "init", "new", "get", "set", "run", "test", "setup", "close", "open", "read", "write", "name"}
)


class ChangedSymbol(NamedTuple):
    """A symbol that other files may use: removed (`after` is ""), or with another signature. `line` is its line after
    the change, 0 if removed. A file that uses a method also contains the name of its `owner`."""

    name: str
    owner: str
    qualified: str
    before: str
    after: str
    line: int


def find_changed_api(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file, at its first changed symbol with callers."""
    if context.view is None:
        return
    until = time.monotonic() + min(context.remaining(), SECONDS)
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
            yield finding
            reported.update(symbol.qualified for symbol in symbols)  # a header declares what a source defines


def _may_matter(context: CheckContext, file: ChangedFile) -> bool:
    if file.status not in ("modified", "renamed", "deleted") or not is_text(file):
        return False
    if file.path not in context.file_ids or not file.old_path.endswith(_SUFFIXES):
        return False
    if file_origin.is_vendored_path(file.path) or file_origin.is_test(file.path):
        return False
    removed = (line for hunk in context.change.read_lines(file) for line in hunk.removed)
    return file.status == "deleted" or any(map(_HEAD.search, removed))


def _is_moved(context: CheckContext, file: ChangedFile, name: str) -> bool:
    """Whether the change adds a definition of that name to another file."""
    pattern = re.compile(rb"\b%s\b" % re.escape(os.fsencode(name)))
    others = [other for other in context.change.files if other is not file and is_text(other)]
    added = (line for other in others for hunk in context.change.read_lines(other) for line in hunk.added)
    return any(pattern.search(line) and _HEAD.search(line) for line in added)


def _finding(context: CheckContext, file: ChangedFile, symbols: Sequence[ChangedSymbol]) -> Finding | None:
    """A finding on the first symbol that a usual caller contains; None if there is none."""
    partners = _partners(context, file)
    for symbol in symbols if partners else ():
        lines = _callers(context, file, symbol, partners)
        if not lines:
            continue
        caller, others = next(iter(lines)), len(symbols) - 1
        names = listed([f"{path}:{line}" for path, line in lines.items()], SHOWN)
        have, are = ("this file has", "is") if len(lines) == 1 else ("these files have", "are")
        body = f"Before: `{symbol.before}`." + (f" Now: `{symbol.after}`." if symbol.after else "")
        body += f" Named in {names}: {have} changed along with {file.path} before, and {are} not part of this change."
        if others:
            body += f" {others} more symbol{'s' * (others > 1)} of this file differ{'s' * (others == 1)} too."
        change = "has a new signature" if symbol.after else "was removed"
        title = f"{symbol.qualified} {change}, but {caller}, which names it, is unchanged"
        line = _definition_line(context, file, symbol)
        evidence = context.evidence(sorted(partners[caller], reverse=True))
        location, key = Location(file.path, line, line), f"{symbol.qualified} {caller}"
        return context.finding("api-changed", title, location, body, key, evidence=evidence)
    return None


def _partners(context: CheckContext, file: ChangedFile) -> dict[str, list[int]]:
    """The unchanged files that changed together with `file` in the past, with the numbers of those commits."""
    if context.view is None:
        return {}
    file_id = context.file_ids[file.path]
    numbers: dict[int, list[int]] = {}
    for commit in context.view.commits(file_id, COMMITS):
        for partner in commit.files if 0 < commit.size <= COMMIT_FILES else ():
            numbers.setdefault(partner, []).append(commit.number)
    numbers.pop(file_id, None)
    usual = [partner for partner, commits in numbers.items() if len(commits) >= TOGETHER]
    usual.sort(key=lambda partner: (-len(numbers[partner]), partner))
    touched = context.changed | context.change.earlier
    paths = {os.fsdecode(name): partner for partner, name in context.view.paths(usual[:PARTNERS]).items()}
    return {
        path: numbers[partner]
        for path, partner in paths.items()
        if path not in touched and path.endswith(_SUFFIXES)
    }


def _callers(
    context: CheckContext, file: ChangedFile, symbol: ChangedSymbol, partners: dict[str, list[int]]
) -> dict[str, int]:
    """The partners that contain the symbol and its owner outside of comments at the base of the change, and the first
    such line. Runs one git process with a time limit."""
    from repoagent.git.process import GitError
    from repoagent.history.log import TimedGit

    tree = context.change.base or "HEAD"
    words = ["-e", symbol.name, *(("-e", symbol.owner) if symbol.owner else ())]
    try:
        data, late = TimedGit(
            context.top, "grep", "-n", "-z", "-I", "-w", "-F", "--full-name", "--no-color", "--no-recurse-submodules",
            "--all-match", *words, tree, "--", *partners,
            deadline=time.monotonic() + max(0.05, min(0.5, context.remaining())),
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
        path = os.fsdecode(path_bytes).removeprefix(f"{tree}:")
        if path not in partners or is_comment(path, line):
            continue
        if path.endswith(_NO_INHERITANCE) and definition.search(line):  # the file calls its own definition
            defining.add(path)
        elif path not in lines and use.search(line) and not (symbol.after and _IMPORT.match(line)):
            lines[path] = int(number)
    if defining and not symbol.owner:  # unknown which definition the others call
        return {}
    best = sorted(lines.keys() - defining, key=lambda path: (-len(partners[path]), path))
    return {path: lines[path] for path in best}


def _definition_line(context: CheckContext, file: ChangedFile, symbol: ChangedSymbol) -> int:
    """The line with the symbol's name: `symbol.line` may be a comment or decorator above it."""
    if not symbol.line:
        return 0
    pattern = re.compile(rb"\b%s\b" % re.escape(os.fsencode(symbol.qualified.rpartition(".")[2])))
    lines = (context.change.read_new(file) or b"").split(b"\n")
    for number, line in enumerate(lines[symbol.line - 1 : symbol.line - 1 + LONGEST], symbol.line):
        if pattern.search(line) and _HEAD.search(line) and not is_comment(file.path, line):
            return number
    return symbol.line


def changed_symbols(path: str, old: bytes | None, new: bytes | None) -> Iterator[ChangedSymbol]:
    """The public symbols of the old text that are missing in the new text or have another signature there."""
    if old is None or len(old) > LARGEST or len(new or b"") > LARGEST:
        return
    from repoagent.syntax.languages import language_of
    from repoagent.syntax.outline import read_outline

    language = language_of(path, old)
    before, after = read_outline(path, old, language), read_outline(path, new or b"", language)
    if before is None or after is None or after[1] > before[1]:  # new parse errors hide symbols
        return
    heads = {(symbol.qualified_name, symbol.signature.rstrip("; {")) for symbol in before[0]}
    signature_counts = Counter(name for name, _ in heads)
    present: dict[str, dict[str, int]] = {}  # the signatures of each name in the new text, with their lines
    for symbol in after[0]:
        present.setdefault(symbol.qualified_name, {})[symbol.signature] = symbol.first_line
    names = {symbol.name for symbol in after[0]}
    functions = {symbol.qualified_name for symbol in before[0] if symbol.kind in ("function", "method")}
    for symbol in before[0]:
        qualified, signature = symbol.qualified_name, symbol.signature
        owner = qualified.rpartition(".")[0]
        if signature_counts[qualified] > 1 or symbol.kind not in _KINDS or owner in functions:
            continue
        if not _is_public(symbol.name, signature, language or ""):
            continue
        if any(part.startswith(("_", "#")) and part not in _CONSTRUCTORS for part in qualified.split(".")):
            continue
        name, owner = symbol.name, owner.rpartition(".")[2]
        if name in _CONSTRUCTORS:
            name, owner = owner, ""
        signatures = present.get(qualified)
        if signatures is None:
            if symbol.name not in names and name:  # else it moved within the file
                yield ChangedSymbol(name, owner, qualified, signature, "", 0)
        elif symbol.kind in _CALLED and len(signatures) == 1 and signature not in signatures:
            ((new_signature, line),) = signatures.items()
            if not fits_old_callers(signature, new_signature, language or ""):
                yield ChangedSymbol(name, owner, qualified, signature, new_signature, line)


def _is_public(name: str, signature: str, language: str) -> bool:
    """Whether other files may use a symbol, judging by its signature, and its name is specific enough to search for."""
    if name in _CONSTRUCTORS:
        return True
    specific = len(name) > 5 or "_" in name.strip("_") or name[1:] != name[1:].lower()
    if not specific or len(name) <= 3 or not re.fullmatch(r"\w+", name) or name.lower() in _COMMON:
        return False
    words = set(re.findall(r"\w+", signature.partition("(")[0]))
    if language == "go":
        return name[:1].isupper()
    if language == "rust":
        return "pub" in words
    if language in ("c", "cpp"):
        return "static" not in words
    return not words.intersection({"private", "fileprivate", "internal"})


def _parameters(signature: str) -> list[str] | None:
    """The text between the outermost parentheses, split at the commas; None if they are missing or unbalanced."""
    begin = signature.find("(")
    parts, depth, last = [], 0, begin + 1
    for index in range(begin, len(signature)) if begin >= 0 else ():
        character = signature[index]
        closes = character in ")]}" or (character == ">" and signature[index - 1] not in "-=")
        depth += (character in "([{<") - closes
        if depth == 0 or (depth == 1 and character == ","):
            parts.append(signature[last:index])
            last = index + 1
        if depth == 0:
            return [part.strip() for part in parts if part.strip()]
    return None


def _contract(parameter: str, language: str) -> str:
    """The part of a parameter that callers depend on: in Python its name, otherwise its type, if known."""
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
    """Whether callers of the old signature still work: the same parameters (in Python of any type), and further ones
    only with defaults."""
    old, new = _parameters(before), _parameters(after)
    if old is None or new is None:
        return old is new or before.endswith("…") or after.endswith("…")
    if len(new) < len(old):
        return False
    for old_part, new_part in zip(old, new, strict=False):
        accepted = {_contract(new_part, language)}
        if language in ("c", "cpp"):  # an added `const` accepts the same arguments
            accepted.add(_contract(re.sub(r"\bconst\b", "", new_part), language))
        if _contract(old_part, language) not in accepted or ("=" in old_part and "=" not in new_part):
            return False
    return all("=" in part or "?" in part or part.startswith(("*", "/", "...")) for part in new[len(old) :])
