"""removed-symbol: other Python or JavaScript code still imports or calls a name that was removed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from repoagent.display_text import list_some, plural
from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_kinds
from repoagent.review.checks.module_names import (
    ANY,
    IDENTIFIER,
    Use,
    python_names,
    python_own_uses,
    python_uses,
    script_names,
    script_uses,
)
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
    uses: dict[str, Use]
    code: dict[str, str]
    imports: int


def find_removed_symbols(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file that removes names still in use; its location is that of the most used name."""
    errors = [finding for finding in context.findings if finding.rule in ("conflict-marker", "parse-error")]
    broken = {finding.location.path for finding in errors}
    for file in context.files:
        family = next((each for each in (PYTHON, SCRIPT) if file.old_path.endswith(each)), None)
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
        if (texts := context.texts(file)) and (symbols := _removed_symbols(context, file, family, *texts)):
            symbols.sort(key=lambda symbol: (-symbol.imports, -len(symbol.uses), symbol.line))
            yield _finding(context, file, texts[0], symbols)


def _removed_symbols(
    context: CheckContext, file: ChangedFile, family: tuple[str, ...], old: bytes, new: bytes
) -> list[_RemovedSymbol]:
    """The names of the old text that are missing in the new one and still used."""
    names_of, uses_of = (python_names, python_uses) if family is PYTHON else (script_names, script_uses)
    before, after = names_of(old), names_of(new)
    if ANY in after:
        return []
    added = {  # a name among them was moved, or is now imported
        word.decode()
        for other in context.change.files
        for hunk in context.change.texts.lines(other)
        for line in hunk.added
        for word in IDENTIFIER.findall(line)
    }
    names = {name: line for name, line in before.items() if name not in after and name not in added}
    names.pop(ANY, None)
    if not names or len(names) > NAMES:
        return []
    module = file.old_path if file.status == "renamed" else file.path
    texts = _texts_with(context, names, family)
    uses = {path: uses_of(path, text, module, names) for path, text in texts.items() if path != file.path}
    if family is PYTHON and new:
        uses[file.path] = python_own_uses(new, names)
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


def _texts_with(context: CheckContext, names: Collection[str], family: tuple[str, ...]) -> dict[str, bytes]:
    """The new texts of the files of the same language that contain one of the names."""
    from repoagent.git.process import GitError
    from repoagent.history.log import TimedGit

    change = context.change
    tree = {"staged": ["--cached"], "worktree": []}.get(change.kind, [change.head or "HEAD"])
    words = [part for name in sorted(names) for part in ("-e", name)]
    try:
        out, late = TimedGit(
            context.worktree.top, "--no-literal-pathspecs", "grep", "-l", "-z", "-I", "-w", "-F", "--full-name",
            "--no-color", "--no-recurse-submodules", *words, *tree, "--", *(f":/*{suffix}" for suffix in family),
            deadline=time.monotonic() + SEARCH_SECONDS,
        ).read()  # fmt: skip
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


def _finding(context: CheckContext, file: ChangedFile, old: bytes, symbols: list[_RemovedSymbol]) -> Finding:
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
    location = Location(file.path, worst.line, worst.line, old=True)
    return context.finding("removed-symbol", title, location, body, worst.name, quote=_line(old, worst.line))
