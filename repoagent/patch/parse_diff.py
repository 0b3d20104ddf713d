"""Unified diffs as models write them. Counts and numbers are noted, never trusted to find a hunk's end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from repoagent.patch.hunk import ADD, CONTEXT, DELETE, FilePatch, Hunk, Line, settle
from repoagent.patch.paths import NO_FILE, unquote
from repoagent.patch.spans import is_file_header, is_signature

_GIT = re.compile(r'diff --git ("(?:[^"\\]|\\.)*"|\S.*?) ("(?:[^"\\]|\\.)*"|\S+)\s*$')
_SAME_NAME = re.compile(r"diff --git a/(.+) b/\1\s*$")
_NUMBERS = re.compile(r"@@+ *-(\d+)(?:,(\d+))? +\+(\d+)(?:,(\d+))? *(?:@@+)?(.*)$")
_MODE = re.compile(r"(new file mode|deleted file mode|new mode|old mode) (\d{6})\s*$")
_MOVE = re.compile(r"(rename|copy) (from|to) (.+)$")


def parse_diff(lines: Sequence[str]) -> list[FilePatch]:
    """The files of one diff. `lines` are those of one block, without its fence."""
    if _transport_crlf(lines):
        lines = [line.removesuffix("\r") for line in lines]
    patches: list[FilePatch] = []
    at = 0
    while at < len(lines):
        patch, at = _file(lines, at)
        if patch is not None:
            patches.append(patch)
    return patches


def _transport_crlf(lines: Sequence[str]) -> bool:
    """Did the answer as a whole come with CRLF? Then its first header has one too."""
    headers = (line for line in lines if line.startswith(("@@", "--- ", "+++ ", "diff --git ")))
    return next(headers, "").endswith("\r")


def _file(lines: Sequence[str], at: int) -> tuple[FilePatch | None, int]:
    """The file part that starts at line `at` (None where there is only prose), and the line after it."""
    patch, first = FilePatch(None, None), at
    hunks: list[Hunk] = []
    while at < len(lines):
        line = lines[at]
        if is_signature(lines, at):
            at += 2
            break
        if line.startswith("diff --git ") or is_file_header(lines, at):
            if hunks or (at > first and not _continues(patch, line)):
                break
            if line.startswith("diff --git "):
                patch, at = _git_names(patch, line), at + 1
            else:
                patch, at = _header_names(patch, lines[at], lines[at + 1]), at + 2
        elif not hunks and _lone_header(lines, at):
            patch, at = _with_name(patch, line.startswith("-"), line[4:]), at + 1
        elif line.startswith("@@") or line[:1] in {" ", "+", "-"}:
            hunk, at = _hunk(lines, at, len(hunks) + 1)
            if hunk.lines:
                hunks.append(hunk)
        else:
            patch, at = _extended(patch, line), at + 1
    if not hunks and patch == FilePatch(None, None):
        return None, at
    return replace(patch, hunks=tuple(hunks)), at


def _with_name(patch: FilePatch, old: bool, name: str) -> FilePatch:
    return replace(patch, old=unquote(name)) if old else replace(patch, new=unquote(name))


def _lone_header(lines: Sequence[str], at: int) -> bool:
    """A `--- name` or `+++ name` whose other half was forgotten stands right before a hunk's `@@`."""
    return lines[at].startswith(("--- ", "+++ ")) and at + 1 < len(lines) and lines[at + 1].startswith("@@")


def _continues(patch: FilePatch, line: str) -> bool:
    """`---`/`+++` after a `diff --git` line belong to it; prose before any name belongs to nothing."""
    return (patch.old is None and patch.new is None) or not line.startswith("diff --git ")


def _git_names(patch: FilePatch, line: str) -> FilePatch:
    same = _SAME_NAME.match(line)
    if same:
        return replace(patch, old=f"a/{same.group(1)}", new=f"b/{same.group(1)}")
    names = _GIT.match(line)
    return replace(patch, old=unquote(names.group(1)), new=unquote(names.group(2))) if names else patch


def _header_names(patch: FilePatch, old_line: str, new_line: str) -> FilePatch:
    old, new = unquote(old_line[4:]), unquote(new_line[4:])
    if patch.action in {"rename", "copy"}:
        return patch
    action = patch.action
    if old == NO_FILE:
        action, old = "create", new
    elif new == NO_FILE:
        action, new = "delete", old
    return replace(patch, old=old, new=new, action=action)


def _extended(patch: FilePatch, line: str) -> FilePatch:
    """One of git's extended header lines; any other line is passed over."""
    mode, move = _MODE.match(line), _MOVE.match(line)
    if mode and mode.group(1) == "new file mode":
        return replace(patch, action="create", mode=mode.group(2))
    if mode and mode.group(1) == "deleted file mode":
        return replace(patch, action="delete")
    if mode and mode.group(1) == "new mode":
        return replace(patch, mode=mode.group(2))
    if move:
        return _with_name(replace(patch, action=move.group(1)), move.group(2) == "from", move.group(3))
    if line.startswith(("Binary files ", "GIT binary patch")):
        return replace(patch, binary=True)
    return patch


def _hunk(lines: Sequence[str], at: int, number: int) -> tuple[Hunk, int]:
    """The hunk at line `at`, and the line after it. A hunk may lack its `@@` line."""
    hunk = Hunk((), number)
    if lines[at].startswith("@@"):
        hunk, at = _hunk_header(lines[at], number), at + 1
    body: list[Line] = []
    old_marker = new_marker = False
    while at < len(lines):
        line = lines[at]
        if (
            line.startswith(("@@", "diff --git "))
            or _is_header(lines, at, hunk, body)
            or is_signature(lines, at)
        ):
            break
        if line.startswith("\\"):
            kind = body[-1].kind if body else CONTEXT
            old_marker, new_marker = old_marker or kind != ADD, new_marker or kind != DELETE
        else:
            body.append(_line(line))
        at += 1
    if hunk.counts is not None and hunk.counts[0] == hunk.counts[1] == 0:
        hunk = replace(hunk, counts=None)
    body = _without_spare_blanks(body, hunk.counts)
    return replace(hunk, lines=settle(body), old_marker=old_marker, new_marker=new_marker), at


def _hunk_header(line: str, number: int) -> Hunk:
    found = _NUMBERS.match(line)
    if found is None:
        return Hunk((), number, section=line.strip("@ .\r\t"))
    start, old, _new_start, new, section = found.groups()
    counts = (int(old or 1), int(new or 1)) if len(start) < 10 else None
    return Hunk((), number, int(start), counts, section.strip(" .\t\r"))


def _line(line: str) -> Line:
    carriage = line.endswith("\r")
    text = line[:-1] if carriage else line
    if text[:1] in {CONTEXT, DELETE, ADD}:
        return Line(text[0], text[1:].removeprefix("\ufeff"), cr=carriage)
    return Line(CONTEXT, text.removeprefix("\ufeff"), bare=True, cr=carriage)


def _is_header(lines: Sequence[str], at: int, hunk: Hunk, body: Sequence[Line]) -> bool:
    """Is `--- x` / `+++ y` inside a hunk the next file's header? It can also delete `-- x` and add `++ y`."""
    if not is_file_header(lines, at):
        return False
    if hunk.counts is None:
        return True
    old, new = unquote(lines[at][4:]), unquote(lines[at + 1][4:])
    followed = at + 2 < len(lines) and lines[at + 2].startswith("@@")
    if followed and (NO_FILE in {old, new} or old.split("/")[-1] == new.split("/")[-1]):
        return True
    left = (
        hunk.counts[0] - sum(line.kind != ADD for line in body),
        hunk.counts[1] - sum(line.kind != DELETE for line in body),
    )
    return min(left) < 1


def _without_spare_blanks(body: list[Line], counts: tuple[int, int] | None) -> list[Line]:
    """Cut blank lines between this hunk and what follows it, as far as the header does not count them."""
    while body and body[-1].bare and not body[-1].text:
        if counts is not None and sum(line.kind != ADD for line in body) <= counts[0]:
            break
        if counts is None and len(body) > 1 and not body[-2].bare:
            break
        body.pop()
    return body
