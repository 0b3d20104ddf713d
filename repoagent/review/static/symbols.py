"""removed-symbol: a name is gone that other code still imports or calls.

Python and JavaScript say which module a name comes from. In Go and C a name belongs to a package, or to the whole
program: there it counts only if nothing defines it any more.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.change import ChangedFile
from repoagent.review.finding import Finding, Place
from repoagent.review.history import marks
from repoagent.review.static.run import StaticContext

if TYPE_CHECKING:
    from repoagent.review.static.imports import Use  # it loads Python's parser, and few changes need that

RULE = "removed-symbol"
SEARCH_SECONDS = 2.0  # for one search through the repository
NAMES = 50  # of a file that are looked for
FILES = 100  # that hold one of them and are read
LONGEST = 200  # characters of a line that is quoted
_SHOWN = 5
PYTHON = (".py", ".pyi")
SCRIPT = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
GO, C = (".go",), (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
_FAMILIES = (PYTHON, SCRIPT, GO, C)
# What a removed line holds where a name may go with it.
_DEFINES = re.compile(
    rb"\b(?:def|class|function|func|type|const|var|let|export|exports|define|import|from)\b"
    rb"|^[A-Za-z_][\w*& ]*[(=]|^[A-Za-z_]\w*\s*[:,]"
    rb"|^\s+[A-Za-z_][\w.]*(?: as \w+)?,?\s*$|^[ \t]+\w+[^=!<>]*=(?!=)"
)
_WORD = re.compile(rb"[A-Za-z_$][\w$]*")


class _Gone(NamedTuple):
    """A name that the file defined on `line`, with its uses by the paths that have them, and the code of the first use
    in each."""

    name: str
    line: int
    uses: dict[str, list[Use]]
    code: dict[str, str]

    def weight(self) -> tuple[int, int, int]:
        every = [use for uses in self.uses.values() for use in uses]
        return -sum(use.imported for use in every), -len(self.uses), self.line


def removed_symbols(context: StaticContext) -> list[Finding]:
    """One finding for each file, at the name that is used most."""
    found = []
    broken = {one.place.path for one in context.findings if one.rule in ("conflict-marker", "parse-error")}
    for file in context.files:
        family = next((some for some in _FAMILIES if file.old_path.endswith(some)), None)
        if family is None or file.status not in ("modified", "renamed", "deleted") or file.path in broken:
            continue
        if marks.is_vendored_path(file.path) or not _may_remove(context, file):
            continue
        if context.late():
            context.unseen.append("whether all names that are gone are still used: the review took too long")
            break
        if (texts := context.texts(file)) and (gone := _gone(context, file, family, *texts)):
            found.append(_finding(context, file, texts[0], sorted(gone, key=_Gone.weight)))
    return found


def _may_remove(context: StaticContext, file: ChangedFile) -> bool:
    return file.status == "deleted" or any(
        _DEFINES.search(line) for hunk in context.change.read_lines(file) for line in hunk.removed
    )


def _gone(
    context: StaticContext, file: ChangedFile, family: tuple[str, ...], old: bytes, new: bytes
) -> list[_Gone]:
    from repoagent.review.static.imports import python_own_uses, python_uses, script_uses

    names = _names_gone(file, family, old, new)
    added = _added_words(context, file)
    names = {name: line for name, line in names.items() if name not in added}
    if not names or len(names) > NAMES:
        return []
    moved = file.old_path if file.status == "renamed" else file.path
    uses: dict[str, dict[str, list[Use]]] = {name: {} for name in names}

    def note(path: str, several: Sequence[Use]) -> None:
        for use in several:
            uses[use.name].setdefault(path, []).append(use)

    texts = _holding(context, names, family)
    if family in (PYTHON, SCRIPT):
        read: Callable[[str, bytes, str, Collection[str]], list[Use]] = (
            python_uses if family is PYTHON else script_uses
        )
        for path, text in texts.items():
            if path != file.path:
                note(path, read(path, text, moved, names))
        if family is PYTHON and new:
            note(file.path, python_own_uses(new, names))
    else:
        _note_uses(file, texts, names, note)
    return [
        _Gone(
            name,
            line,
            uses[name],
            {path: _line(texts.get(path, new), some[0].line) for path, some in uses[name].items()},
        )
        for name, line in names.items()
        if uses[name]
    ]


def _line(text: bytes, number: int) -> str:
    return text.split(b"\n")[number - 1].decode("utf-8", "replace").strip()[:LONGEST]


def _names_gone(file: ChangedFile, family: tuple[str, ...], old: bytes, new: bytes) -> dict[str, int]:
    """The names that the text before offers to others and the text after does not, with their lines before."""
    from repoagent.review.static.imports import ANY, python_names, python_tree, script_names

    if family is PYTHON:
        trees = python_tree(old), python_tree(new)
        if trees[0] is None or trees[1] is None:
            return {}
        before, after = python_names(trees[0]), python_names(trees[1])
    elif family is SCRIPT:
        before, after = script_names(old), script_names(new)
    else:
        before, after = _defined(file.old_path, old), _defined(file.path, new)
    if ANY in after:
        return {}
    return {name: line for name, line in before.items() if name not in after and name != ANY}


def _defined(path: str, text: bytes) -> dict[str, int]:
    """The functions and macros, in Go also types and constants, that a file of Go or C defines for others."""
    from repoagent.review.static.imports import ANY
    from repoagent.split import language_of
    from repoagent.split.symbols.outlines import read_outline

    if not text:
        return {}
    outline = read_outline(path, text, language_of(path, text))
    if outline is None:
        return {ANY: 1}
    kinds = (
        {"function", "macro"} if path.endswith(C) else {"function", "struct", "interface", "type", "constant"}
    )
    return {
        one.name: one.first_line
        for one in outline[0]
        if one.depth == 0
        and one.kind in kinds
        and len(one.name) > 3
        and "static" not in one.signature.split()
    }


def _added_words(context: StaticContext, own: ChangedFile) -> set[str]:
    """The words of all lines that are added: a name among them has moved, or is imported from elsewhere now."""
    return {
        word.decode()
        for file in context.change.files
        for hunk in context.change.read_lines(file)
        for line in hunk.added
        for word in _WORD.findall(line)
    }


def _holding(context: StaticContext, names: Collection[str], family: tuple[str, ...]) -> dict[str, bytes]:
    """The texts, as the change leaves them, of the files of the same language that hold one of the names."""
    from repoagent.history.timed import TimedGit
    from repoagent.repo.run import GitError

    change = context.change
    tree = {"staged": ["--cached"], "worktree": []}.get(change.kind, [change.head or "HEAD"])
    words = [part for name in sorted(names) for part in ("-e", name)]
    try:
        out, late = TimedGit(
            context.top, "--no-literal-pathspecs", "grep", "-l", "-z", "-I", "-w", "-F", "--full-name", "--no-color",
            "--no-recurse-submodules", *words, *tree, "--", *(f":/*{suffix}" for suffix in family),
            deadline=time.monotonic() + SEARCH_SECONDS,
        ).read()  # fmt: skip
    except GitError as error:
        if error.returncode != 1:  # a partial clone lacks a text
            context.unseen.append("whether names that are gone are still used: not all files are here")
        return {}
    prefix = f"{tree[0]}:" if tree and tree[0] != "--cached" else ""
    paths = [os.fsdecode(path).removeprefix(prefix) for path in out.split(b"\0")[:-1]]
    if late or len(paths) > FILES:
        context.unseen.append("whether names that are gone are still used: too many files hold them")
        return {}
    changed = {file.path: file for file in change.files}
    gone = {file.old_path for file in change.files} - changed.keys()
    gone |= {file.path for file in change.files if file.status == "deleted"}
    texts: dict[str, bytes] = {}
    others = [path for path in paths if path not in changed and path not in gone]
    for path in paths:
        if path in changed and path not in gone and (text := change.read_new(changed[path])) is not None:
            texts[path] = text
    return texts | _read(context, others, tree)


def _read(context: StaticContext, paths: Sequence[str], tree: Sequence[str]) -> dict[str, bytes]:
    """The texts of files that the change leaves alone."""
    from repoagent.repo.run import OFFLINE, git_output

    if not tree:
        found = {}
        for path in paths:
            try:
                found[path] = (context.top / path).read_bytes()
            except OSError:
                continue
        return found
    side = "" if tree[0] == "--cached" else tree[0]
    found = {}
    for path in paths:
        done = git_output(context.top, "cat-file", "blob", f"{side}:{path}", env=OFFLINE, ok=(0, 1, 128))
        if done.returncode == 0:
            found[path] = done.stdout
    return found


def _note_uses(
    file: ChangedFile,
    texts: dict[str, bytes],
    names: Collection[str],
    note: Callable[[str, Sequence[Use]], None],
) -> None:
    """Uses of names that nothing defines any more, in the package (Go) or in all files (C)."""
    from repoagent.review.static.imports import Use
    from repoagent.split.symbols.occurrences import occurrences

    folder = file.path.rpartition("/")[0]
    if file.path.endswith(GO):
        texts = {path: text for path, text in texts.items() if path.rpartition("/")[0] == folder}
    used: dict[str, dict[str, list[Use]]] = {}
    known: set[str] = set()
    for path, text in texts.items():
        there = occurrences(path, text, names)
        if not there.parsed:
            return
        for one in there.found:
            if one.role == "name":
                used.setdefault(one.name, {}).setdefault(path, []).append(
                    Use(one.name, one.line, imported=False)
                )
            elif one.role in ("definition", "field", "local", "text"):
                known.add(one.name)
    for name, by_path in used.items():
        if name not in known:
            for path, uses in by_path.items():
                note(path, uses)


def _finding(context: StaticContext, file: ChangedFile, old: bytes, gone: Sequence[_Gone]) -> Finding:
    worst = gone[0]
    places = [(path, use) for path, uses in sorted(worst.uses.items()) for use in uses[:1]]
    places.sort(key=lambda place: (not place[1].imported, marks.is_test(place[0])))
    path, use = places[0]
    how = "imports" if use.imported else "uses"
    title = f"{worst.name} is gone, and {path}:{use.line} still {how} it"
    body = f"{file.old_path} defined it, and nothing that the change adds does. Still used in"
    body += "".join(f"\n  {path}:{use.line}: {worst.code[path]}" for path, use in places[:_SHOWN])
    if len(places) > _SHOWN:
        more = len(places) - _SHOWN
        body += f"\n  and {more} more file{'s' * (more > 1)}"
    if len(gone) > 1:
        others = ", ".join(one.name for one in gone[1 : 1 + _SHOWN]) + (
            ", …" if len(gone) > 1 + _SHOWN else ""
        )
        body += f"\n\n{len(gone) - 1} more name{'s' * (len(gone) > 2)} of this file likewise: {others}."
    return Finding(
        RULE, context.levels[RULE], title, Place(file.path, worst.line, worst.line, old=True), body,
        key=worst.name, quote=_line(old, worst.line),
    )  # fmt: skip
