"""removed-symbol: other code still imports or calls a name that was removed.

In Python and JavaScript, an import says which module defines the name. In Go and C, a name belongs to a package or to
the whole program, so it counts as removed only if nothing else defines it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from repoagent.display_text import list_some, plural
from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_kinds, module_names
from repoagent.review.checks.module_names import ANY, NameUse
from repoagent.review.checks.run import CheckContext
from repoagent.review.finding import Finding, Location
from repoagent.review.read_diff import read_blob

SEARCH_SECONDS = 2.0  # for one search through the repository
NAMES = 50  # of a file to search for
FILES = 100  # with one of the names, to read
LONGEST = 200  # characters of a quoted line
MOST_LISTED = 5
PYTHON = (".py", ".pyi")
SCRIPT = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
GO, C = (".go",), (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
# Matches a removed line that may have defined a name.
_DEFINES = re.compile(
    rb"\b(?:def|class|function|func|type|const|var|let|export|exports|define|import|from)\b"
    rb"|^[A-Za-z_][\w*& ]*[(=]|^[A-Za-z_]\w*\s*[:,]"
    rb"|^\s+[A-Za-z_][\w.]*(?: as \w+)?,?\s*$|^[ \t]+\w+[^=!<>]*=(?!=)"
)


class _RemovedSymbol(NamedTuple):
    """A name that the file defined on `line`, its first use in each file by path, the code of these uses, and how many
    uses import it."""

    name: str
    line: int
    uses: dict[str, NameUse]
    code: dict[str, str]
    imports: int


def find_removed_symbols(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file that removes names still in use; its location is that of the most used name."""
    errors = [finding for finding in context.findings if finding.rule in ("conflict-marker", "parse-error")]
    broken = {finding.location.path for finding in errors}
    for file in context.files:
        family = next((each for each in (PYTHON, SCRIPT, GO, C) if file.old_path.endswith(each)), None)
        if family is None or file.status not in ("modified", "renamed", "deleted") or file.path in broken:
            continue
        removed = [line for hunk in context.change.texts.lines(file) for line in hunk.removed]
        if file.status != "deleted" and not any(map(_DEFINES.search, removed)):
            continue
        if file_kinds.is_vendored_path(file.path):
            continue
        if context.remaining() < 0:
            context.unseen.append("whether some removed names are still used (the review took too long)")
            break
        if not (texts := context.texts(file)) or not (
            symbols := _removed_symbols(context, file, family, *texts)
        ):
            continue
        symbols.sort(key=lambda symbol: (-symbol.imports, -len(symbol.uses), symbol.line))
        worst = symbols[0]
        uses = sorted(worst.uses.items())
        uses.sort(key=lambda entry: (not entry[1].imported, file_kinds.is_test(entry[0])))
        path, use = uses[0]
        verb = "imports" if use.imported else "uses"
        title = f"{worst.name} was removed, but {path}:{use.line} still {verb} it"
        body = f"{file.old_path} defined it, and the change does not define it elsewhere. Still used in"
        body += "".join(f"\n  {path}:{use.line}: {worst.code[path]}" for path, use in uses[:MOST_LISTED])
        if (omitted := len(uses) - MOST_LISTED) > 0:
            body += f"\n  and {plural(omitted, 'more file')}"
        if others := [symbol.name for symbol in symbols[1:]]:
            names = list_some(others, MOST_LISTED, ", …")
            body += f"\n\nThe same applies to {plural(len(others), 'more name')} in this file: {names}."
        location, quote = Location(file.path, worst.line, worst.line, old=True), _line(texts[0], worst.line)
        yield context.finding("removed-symbol", title, location, body, worst.name, quote=quote)


def _removed_symbols(
    context: CheckContext, file: ChangedFile, family: tuple[str, ...], old: bytes, new: bytes
) -> list[_RemovedSymbol]:
    """The names of the old text that are missing in the new one and still used."""
    names_of = {PYTHON: module_names.python_names, SCRIPT: module_names.script_names}.get(family)
    before, after = (
        names_of(text) if names_of else _global_names(path, text)
        for path, text in ((file.old_path, old), (file.path, new))
    )
    if ANY in after:
        return []
    added = {  # a name among them was moved, or is now imported
        word.decode()
        for other in context.change.files
        for hunk in context.change.texts.lines(other)
        for line in hunk.added
        for word in module_names.IDENTIFIER.findall(line)
    }
    names = {name: line for name, line in before.items() if name not in after and name not in added}
    names.pop(ANY, None)
    if not names or len(names) > NAMES:
        return []
    module = file.old_path if file.status == "renamed" else file.path
    texts = _texts_with(context, names, family)
    if family in (PYTHON, SCRIPT):
        read = module_names.python_uses if family is PYTHON else module_names.script_uses
        uses = {path: read(path, text, module, names) for path, text in texts.items() if path != file.path}
        if family is PYTHON and new:
            uses[file.path] = module_names.python_own_uses(new, names)
    else:
        uses = _uses_of_globals(file, texts, names)
    symbols = []
    for name, line in names.items():
        by_path = {path: [use for use in file_uses if use.name == name] for path, file_uses in uses.items()}
        first = {path: file_uses[0] for path, file_uses in by_path.items() if file_uses}
        code = {path: _line(texts.get(path, new), use.line) for path, use in first.items()}
        if first:
            imports = sum(use.imported for file_uses in by_path.values() for use in file_uses)
            symbols.append(_RemovedSymbol(name, line, first, code, imports))
    return symbols


def _line(text: bytes, number: int) -> str:
    return text.split(b"\n")[number - 1].decode("utf-8", "replace").strip()[:LONGEST]


def _global_names(path: str, text: bytes) -> dict[str, int]:
    """The functions and macros (in Go also types and constants) that a Go or C file defines for other files."""
    from repoagent.syntax.languages import language_of
    from repoagent.syntax.outline import read_outline

    if not text:
        return {}
    outline = read_outline(path, text, language_of(path, text))
    if outline is None:
        return {ANY: 1}
    kinds = (
        {"function", "macro"} if path.endswith(C) else {"function", "struct", "interface", "type", "constant"}
    )
    symbols = [symbol for symbol in outline[0] if symbol.depth == 0 and symbol.kind in kinds]
    return {
        symbol.name: symbol.first_line
        for symbol in symbols
        if len(symbol.name) > 3 and "static" not in symbol.signature.split()
    }


def _texts_with(context: CheckContext, names: Collection[str], family: tuple[str, ...]) -> dict[str, bytes]:
    """The new texts of the files of the same language that contain one of the names."""
    from repoagent.git.process import GitError
    from repoagent.history.log import timed_git

    change = context.change
    tree = {"staged": ["--cached"], "worktree": []}.get(change.kind, [change.head or "HEAD"])
    words = [part for name in sorted(names) for part in ("-e", name)]
    try:
        out, late = timed_git(
            context.worktree.top, "--no-literal-pathspecs", "grep", "-l", "-z", "-I", "-w", "-F", "--full-name",
            "--no-color", "--no-recurse-submodules", *words, *tree, "--", *(f":/*{suffix}" for suffix in family),
            deadline=time.monotonic() + SEARCH_SECONDS,
        )  # fmt: skip
    except GitError as error:
        if error.returncode != 1:  # a partial clone lacks a text
            context.unseen.append(
                "whether removed names are still used (this partial clone lacks some files)"
            )
        return {}
    revision = "" if tree == ["--cached"] else "".join(tree)
    prefix = f"{revision}:" if revision else ""
    paths = [os.fsdecode(path).removeprefix(prefix) for path in out.split(b"\0")[:-1]]
    if late or len(paths) > FILES:
        context.unseen.append("whether removed names are still used (too many files contain them)")
        return {}
    changed = {file.path: file for file in change.files}
    absent = {file.old_path for file in change.files} - changed.keys()
    absent |= {file.path for file in change.files if file.status == "deleted"}
    texts: dict[str, bytes | None] = {}
    for path in sorted(paths, key=lambda path: path not in changed):  # uses in changed files come first
        if path in absent:
            continue
        if path in changed:
            texts[path] = change.texts.new(changed[path])
        elif tree:
            texts[path] = read_blob(context.worktree.top, f"{revision}:{path}")
        else:
            with suppress(OSError):
                texts[path] = (context.worktree.top / path).read_bytes()
    return {path: text for path, text in texts.items() if text is not None}


def _uses_of_globals(
    file: ChangedFile, texts: dict[str, bytes], names: Collection[str]
) -> dict[str, list[NameUse]]:
    """The uses of names that are no longer defined in the package (Go) or in any file (C), by path."""
    from repoagent.syntax.occurrences import find_occurrences

    folder = file.path.rpartition("/")[0]
    uses: dict[str, list[NameUse]] = {}
    defined: set[str] = set()
    for path, text in texts.items():
        if file.path.endswith(GO) and path.rpartition("/")[0] != folder:
            continue
        result = find_occurrences(path, text, names)
        if not result.parsed:
            return {}
        for occurrence in result.found:
            if occurrence.role == "name":
                uses.setdefault(path, []).append(NameUse(occurrence.name, occurrence.line, imported=False))
            elif occurrence.role in ("definition", "field", "local", "text"):
                defined.add(occurrence.name)
    return {path: [use for use in file_uses if use.name not in defined] for path, file_uses in uses.items()}
