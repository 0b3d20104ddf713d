"""Parse the formats other than unified diffs: envelopes, SEARCH/REPLACE blocks, whole files and here-documents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.model import ADD, CONTEXT, DELETE, FilePatch, Hunk, Line
from repoagent.patch.parse.markers import DIVIDER, REPLACE, SEARCH, directive
from repoagent.patch.parse.unified import parse_diff, read_hunk, sent_with_crlf
from repoagent.patch.paths import name_in_comment
from repoagent.patch.render import differing

if TYPE_CHECKING:
    from repoagent.patch.parse.blocks import Block

_ACTIONS = {"Add File": "create", "Update File": "edit", "Delete File": "delete"}


def parse_envelope(lines: Sequence[str], *, closed: bool) -> list[FilePatch]:
    """The patches of a `*** Begin Patch` / `*** End Patch` envelope of `apply_patch` tools. `closed`: its fence is
    closed, or more text follows.

    Raises PatchError for changes before the first file.
    """
    if sent_with_crlf(lines):
        lines = [line.removesuffix("\r") for line in lines]
    patches: list[FilePatch] = []
    hunks: list[Hunk] = []
    begun = ended = False
    at = 0
    while at < len(lines):
        line = lines[at]
        keyword, name = directive(line)
        if keyword == "Begin Patch":
            begun, ended = True, False
        elif keyword == "End Patch":
            ended = True
        elif keyword in _ACTIONS:
            _add_hunks(patches, hunks)
            patches.append(FilePatch(name, name, "envelope", _ACTIONS[keyword]))
        elif keyword == "Move to" and patches:
            patches[-1] = replace(patches[-1], new=name, action="rename")
        elif keyword == "End of File" and hunks:
            hunks[-1] = replace(hunks[-1], at_end=True)
        elif patches and not ended and (line.startswith(("@@", " ", "+", "-")) or (line.strip() and hunks)):
            hunk, at = read_hunk(lines, at, len(hunks) + 1, envelope=True)
            if hunk.lines:
                hunks.append(hunk)
            continue
        elif line.startswith(("+", "-", "@@")) and begun and not ended:
            raise PatchError(
                "malformed",
                "the patch has changes before its first `*** Update File:` line. Name the file that they change.",
            )
        at += 1
    _add_hunks(patches, hunks)
    if patches and begun and not ended:
        patches[-1] = replace(patches[-1], cut=not closed)
    return patches


def _add_hunks(patches: list[FilePatch], hunks: list[Hunk]) -> None:
    if patches and hunks:
        patches[-1] = replace(patches[-1], hunks=tuple(hunks))
        hunks.clear()


_CONFLICT = re.compile(r"<{7} (?!SEARCH|ORIGINAL)\S|<{7}$")
_CONFLICT_END = re.compile(r">{7} (?!REPLACE|UPDATED)\S|>{7}$")
_START_LINE = re.compile(r":start_line:[ \t]*(\d{1,9})[ \t]*$")
_END_LINE = re.compile(r":end_line:[ \t]*\d{1,9}[ \t]*$")
_MOST_DIVIDERS = 40


def parse_search_replace(block: Block, inherited: str | None, known: Collection[str] = ()) -> list[FilePatch]:
    """The SEARCH/REPLACE blocks in order, adjacent ones of a file as one patch. A block without a name is for the file
    of the previous block (`inherited` for the first).

    A text that contains a divider line is read in every possible way; the file decides (see `Hunk.alternatives`).
    Raises PatchError for markers out of order, and for a block without an end marker.
    """
    sections: list[tuple[str | None, list[Hunk]]] = []
    name = block.name or inherited
    body: list[str] | None = None
    opening = before = ""
    for line in (line.removesuffix("\r") for line in block.lines):
        if SEARCH.match(line):
            if body is not None:
                raise _broken(name)
            body, opening, name = [], line, name_in_comment(before, known) or name
        elif REPLACE.match(line):
            if body is None:
                raise _broken(name)
            if not sections or sections[-1][0] != name:
                sections.append((name, []))
            hunks = sections[-1][1]
            hunks.append(replace(_search_replace_hunk(body, opening, name), number=len(hunks) + 1))
            body = None
        elif body is not None:
            body.append(line)
        before = line if line.strip() else before
    if body is not None:
        raise PatchError(
            "cut-off",
            f"the SEARCH/REPLACE block for {name or 'a file'} has no end marker. Send it again in full.",
        )
    return [FilePatch(None, name, "search-replace", hunks=tuple(hunks)) for name, hunks in sections]


def _broken(name: str | None) -> PatchError:
    return PatchError(
        "malformed",
        f"the markers of a SEARCH/REPLACE block for {name or 'a file'} are out of order, "
        "or its text contains such a marker. Send that change as a unified diff instead.",
    )


def _search_replace_hunk(body: Sequence[str], opening: str, name: str | None) -> Hunk:
    """The text between the markers as a hunk, with all its readings."""
    at, start = 0, None
    while at < min(2, len(body)) and (_START_LINE.match(body[at]) or _END_LINE.match(body[at])):
        match = _START_LINE.match(body[at])
        start = int(match[1]) if match else start
        at += 1
    if at and at < len(body) and re.fullmatch(r"-{5,9}\s*", body[at]):
        at += 1
    body = body[at:]
    # Ignore dividers inside a conflict in the text; prefer dividers that are as long as the opening marker.
    dividers: list[int] = []
    depth = 0
    last = max((row for row, line in enumerate(body) if _CONFLICT_END.match(line)), default=-1)
    for row, line in enumerate(body):
        if row < last and _CONFLICT.match(line):
            depth += 1
        elif _CONFLICT_END.match(line) and depth:
            depth -= 1
        elif not depth and DIVIDER.match(line):
            dividers.append(row)
    length = len(opening) - len(opening.lstrip(opening[0]))
    dividers = [row for row in dividers if len(body[row].rstrip()) == length] or dividers
    if not dividers or len(dividers) > _MOST_DIVIDERS:
        raise _broken(name)
    # A repeated divider is more likely a mistake than intended.
    rows = dividers[len(dividers) // 2 :]
    hunks = [replace(_as_hunk(body[:row], body[row + 1 :]), start=start) for row in rows]
    return replace(hunks[0], alternatives=tuple(hunks)) if len(dividers) > 1 else hunks[0]


def _as_hunk(search: Sequence[str], replacement: Sequence[str]) -> Hunk:
    """SEARCH and REPLACE as a hunk: lines that are equal on both sides are context, so they keep the file's bytes."""
    lines: list[Line] = []
    at = 0
    for i1, i2, j1, j2 in differing(search, replacement):
        lines += [Line(CONTEXT, text) for text in search[at:i1]]
        lines += [Line(DELETE, text) for text in search[i1:i2]]
        lines += [Line(ADD, text) for text in replacement[j1:j2]]
        at = i2
    lines += [Line(CONTEXT, text) for text in search[at:]]
    return Hunk(tuple(lines))


def parse_whole(block: Block) -> FilePatch:
    """The patch for a fence that contains a complete file."""
    whole = "".join(line.removesuffix("\r") + "\n" for line in block.lines)
    return FilePatch(None, block.name, "whole-file", whole=whole, cut=not block.closed)


_REDIRECT = r"<<(?P<dash>-?)[ \t]*(?P<quote>[\\'\"]?)(?P<word>\w{1,40})['\"]?"
_CAT = re.compile(
    r"[ \t]*\$?[ \t]*(?:sudo )?(?:cat[ \t]*>[ \t]*(?P<to>[^\s<>|;&]+)[ \t]*|cat[ \t]*"
    r"|tee[ \t]+(?P<tee>[^\s<>|;&-][^\s<>|;&]*)[ \t]*(?:>[ \t]*/dev/null[ \t]*)?)"
    rf"{_REDIRECT}[ \t]*(?:>[ \t]*(?P<after>[^\s<>|;&]+))?[ \t]*\r?$"
)
_COMMAND = r"(?P<tool>git[ \t]+apply|patch)(?P<options>(?:[ \t]+-[^\s<>|;&'\"]*)*)"
_PIPED = re.compile(rf"cat[ \t]*{_REDIRECT}[ \t]*\|[ \t]*{_COMMAND}[ \t]*$")
_FED = re.compile(rf"{_COMMAND}[ \t]*(?:<[ \t]*<\([ \t]*cat[ \t]*)?{_REDIRECT}[ \t]*$")
_LINE = re.compile(
    r"[ \t]*(?:\$[ \t]+)?(?:cd[ \t]+(?P<folder>[^\s<>|;&]+)[ \t]*(?:&&|;)[ \t]*)?(?P<rest>.*?)\r?$"
)
_CD = re.compile(r"[ \t]*(?:\$[ \t]+)?cd[ \t]+([^\s<>|;&]+)[ \t]*\r?$")
_APPLIED = re.compile(
    rf"{_COMMAND}[ \t]*(?:<[ \t]*|[ \t]-i[ \t]*)?[\"']?(?P<file>[^\s<>|;&\"']+)[\"']?[ \t]*$"
)
# Options that do not change the meaning of the diff. Others reverse it, only test it, or use files in another folder.
_PLAIN_OPTIONS = re.compile(
    r"-|-p[01]|-v|-s|-N|-u|-3|-l|--verbose|--quiet|--index|--3way|--recount|--unidiff-zero|--forward|--unified"
    r"|--strip=[01]|--ignore-whitespace|--ignore-space-change|--inaccurate-eof|--whitespace=\w+|--no-backup-if-mismatch"
)
_EXPANDED = re.compile(r"`|\$[\w{(\[*@#?$!-]|\\[$`\\\n]")


@dataclass(frozen=True)
class _Opening:
    """The line that opens a here-document: its `end` word, and whether it is a `diff` or the text of the file
    `path`."""

    path: str
    diff: bool
    dash: bool
    quoted: bool
    end: str
    folder: str = ""


def is_heredoc(lines: Sequence[str]) -> bool:
    """Whether a shell script writes a file with `cat` or `tee`, or passes a diff to `git apply` or `patch`."""
    return any("<<" in line[:300] and _opening(line) for line in lines)


def _opening(line: str) -> _Opening | None:
    """The here-document that a line opens, or None. Paths outside the project do not count."""
    if len(line) >= 600:
        return None
    match = _CAT.match(line)
    if match is not None:
        path = (match["to"] or match["tee"] or match["after"] or "").strip("\"'")
        if not path or path[0] in "/~$-" or "$" in path:
            return None
        return _Opening(path, False, bool(match["dash"]), bool(match["quote"]), match["word"])
    command = _LINE.match(line)
    fed = (_PIPED.match(command["rest"]) or _FED.match(command["rest"])) if command else None
    if command is None or fed is None or not _has_plain_options(fed):
        return None
    return _Opening("", True, bool(fed["dash"]), bool(fed["quote"]), fed["word"], command["folder"] or "")


def _has_plain_options(command: re.Match[str]) -> bool:
    return all(_PLAIN_OPTIONS.fullmatch(option) for option in command["options"].split())


def parse_heredocs(lines: Sequence[str], known: Collection[str] = ()) -> list[FilePatch]:
    """The files that a script writes, and the patches that it applies. Raises PatchError for text that the shell
    would expand, and for a diff that the script applies with options that change its meaning."""
    documents = list(_documents(lines))
    applied: dict[str, bool] = {}  # files that contain a diff to apply; False if with unusual options
    for opening, body, _ in documents:
        command = _LINE.match(body[0]) if opening is None and len(body[0]) < 600 else None
        match = _APPLIED.match(command["rest"]) if command else None
        if match is not None:
            applied[match["file"].removeprefix("./")] = _has_plain_options(match)
    patches: list[FilePatch] = []
    folder = ""
    for opening, body, ended in documents:
        if opening is None:
            if len(body[0]) < 600 and (match := _CD.match(body[0])):
                folder = match[1].strip("\"'")
            continue
        whole = "".join(f"{line}\n" for line in body)
        if not opening.quoted and _EXPANDED.search(whole):
            raise PatchError(
                "malformed",
                f"the shell would expand parts of the text for {opening.path or 'a diff'}. Send the file in a "
                "fence that names it, or a unified diff.",
            )
        if not applied.get(opening.path, True):
            raise PatchError(
                "malformed",
                f"the script applies {opening.path} with options that change what the diff means. Send the "
                "diff by itself.",
            )
        if opening.diff or opening.path in applied:
            diff = [_in_folder(patch, opening.folder or folder, known) for patch in parse_diff(body)]
            if diff and not ended:
                diff[-1] = replace(diff[-1], cut=True)
            patches += diff
        else:
            patches.append(FilePatch(None, opening.path, "whole-file", whole=whole, cut=not ended))
    return patches


def _documents(lines: Sequence[str]) -> Iterator[tuple[_Opening | None, list[str], bool]]:
    """The here-documents of a script with their lines, and whether they end; every other line separately, with None."""
    at = 0
    while at < len(lines):
        opening = _opening(lines[at])
        at += 1
        if opening is None:
            yield None, [lines[at - 1]], True
            continue
        body: list[str] = []
        ended = False
        while at < len(lines) and not ended:
            line = lines[at].removesuffix("\r")
            line = line.lstrip("\t") if opening.dash else line
            ended = line == opening.end
            if not ended:
                body.append(line)
            at += 1
        yield opening, body, ended


def _in_folder(patch: FilePatch, folder: str, known: Collection[str]) -> FilePatch:
    """The patch with names below the folder of the script, if such a file is known."""
    base = folder.strip("/").removeprefix("./")
    names = [re.sub(r"^[ab]/", "", name) for name in (patch.old, patch.new) if name]
    if base and names and all(f"{base}/{name}" in known for name in names):
        return replace(patch, old=f"a/{base}/{names[0]}", new=f"b/{base}/{names[-1]}")
    return patch
