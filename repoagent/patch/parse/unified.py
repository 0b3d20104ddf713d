"""Parse unified diffs: file headers and hunks."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace

from repoagent.patch.files import NO_FILE, is_no_file, plain_name, unquote
from repoagent.patch.model import FilePatch, Hunk
from repoagent.patch.parse.cleanup import number_before
from repoagent.patch.parse.hunks import combined, read_hunk, sent_with_crlf
from repoagent.patch.parse.markers import (
    COMBINED,
    COMMAND,
    HALF_HEADER,
    LONGEST,
    is_file_header,
    is_index,
    is_lone_header,
    is_mail,
    is_signature,
)

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_GIT = re.compile(rf"({_QUOTED}|\S+) +({_QUOTED}|\S+)[ \t\r]*$")
_MODE = re.compile(r"(new file mode|deleted file mode|new mode|old mode) (\d{6})\s*$")
_MOVE = re.compile(r"(rename|copy) (from|to) (.+)$")
_MAIL_HEAD = re.compile(r"(?:From|Date|Subject|Author|AuthorDate|Commit|Merge|X-[\w-]+|Message-I[dD]): ")


def parse_diff(lines: Sequence[str]) -> list[FilePatch]:
    """The patches of one diff. `lines` are those of one block, unwrapped.

    Raises PatchError for a combined diff.
    """
    if sent_with_crlf(lines):
        lines = [line.removesuffix("\r") for line in lines]
    patches: list[FilePatch] = []
    at = 0
    while at < len(lines):
        patch, at = _file(lines, at)
        if patch is not None:
            patches.append(patch)
    return patches


def _file(lines: Sequence[str], at: int) -> tuple[FilePatch | None, int]:
    """The file part that starts at line `at` (None where there is only prose), and the line after it."""
    at = _after_mail_head(lines, at)
    patch, first = FilePatch(None, None), at
    hunks: list[Hunk] = []
    sides: set[str] = set()  # which of `---` and `+++` were there
    moved = unread = False
    while at < len(lines):
        line = lines[at]
        if is_signature(lines, at):
            at += 2
            break
        if COMBINED.match(line):
            raise combined()
        begins = COMMAND.match(line) is not None or is_index(lines, at)
        if begins or is_file_header(lines, at):
            if hunks or (at > first and not _continues(patch, begins=begins and not _plain_command(line))):
                break
            if not begins and _of_another(patch, lines[at], lines[at + 1]):
                break
            if begins:
                patch, at = _command_names(patch, line), at + 1
            else:
                patch, at = _header_names(patch, lines[at], lines[at + 1]), at + 2
                sides = {"old", "new"} if line.startswith("-") else {"new"}
        elif is_lone_header(lines, at) or HALF_HEADER.match(line):
            if hunks:
                break
            patch, at = _with_name(patch, line.startswith("-"), plain_name(line[4:])), at + 1
        elif is_mail(line):
            if hunks or patch != FilePatch(None, None):
                break
            at = max(at + 1, _after_mail_head(lines, at))
        elif line.startswith("@@") or line[:1] in {" ", "+", "-"}:
            hunk, at = read_hunk(lines, at, len(hunks) + 1)
            if hunk.lines:
                hunks.append(hunk)
        elif sides and not hunks and not unread and (numbered := _numbered(lines, at)):
            hunks, at = [numbered[0]], numbered[1]
        else:
            unread = unread or (bool(sides) and line.strip() != "")
            moved = moved or line.startswith("similarity index ")
            patch, at = _extended(patch, line), at + 1
    if not hunks and patch == FilePatch(None, None):
        return None, at
    if moved and patch.action == "edit" and patch.old and patch.new and _differ(patch.old, patch.new):
        patch = replace(patch, action="rename")
    if hunks and len(sides) < 2:
        patch = replace(patch, tolerances=patch.tolerances | {"header"})
    return replace(patch, hunks=tuple(hunks), cut=not hunks and _is_cut(patch, sides, unread=unread)), at


def _numbered(lines: Sequence[str], at: int) -> tuple[Hunk, int] | None:
    """The hunk without an `@@` line at line `at` that has a number before each line, and the line after it."""
    hunk, after = read_hunk(lines, at, 1) if number_before(lines[at]) else (Hunk(()), at)
    return (hunk, after) if hunk.changes else None


def _is_cut(patch: FilePatch, sides: Set[str], *, unread: bool) -> bool:
    """Does a file without hunks ask for nothing, so that the rest of it must be missing? Or (`unread`) is there
    something below its names that was not understood?"""
    if patch.action in {"rename", "copy"}:
        return unread and not patch.binary
    if patch.action == "edit":
        return patch.mode is None and not patch.binary
    return patch.action == "create" and bool(sides)


def _after_mail_head(lines: Sequence[str], at: int) -> int:
    """The first line of the diff in a mail or a commit that begins at line `at`; `at` itself for none."""
    number = at
    while number < len(lines) and not lines[number].strip():
        number += 1
    if number == len(lines) or not (is_mail(lines[number]) or _MAIL_HEAD.match(lines[number])):
        return at
    for later in range(number + 1, len(lines)):
        if COMMAND.match(lines[later]) or is_file_header(lines, later) or lines[later].startswith("@@"):
            return later
    return len(lines)


def _with_name(patch: FilePatch, old: bool, name: str) -> FilePatch:
    return replace(patch, old=name) if old else replace(patch, new=name)


def _plain_command(line: str) -> bool:
    """`diff -u a b` under an `Index:` line belongs to it."""
    return COMMAND.match(line) is not None and not line.startswith("diff --")


def _continues(patch: FilePatch, *, begins: bool) -> bool:
    """`---`/`+++` after a `diff --git` line belong to it; prose before any name belongs to nothing."""
    return (patch.old is None and patch.new is None) or not begins


def _of_another(patch: FilePatch, old_line: str, new_line: str) -> bool:
    """Are the names after `---` and `+++` of another file than those of the lines above them?"""
    if patch.old is None and patch.new is None:
        return False
    above = [name for name in (patch.old, patch.new) if name]
    below = [plain_name(line[4:]) for line in (old_line, new_line) if not is_no_file(line[4:])]
    return bool(below) and not any(_alike(one, other) for one in above for other in below)


def _alike(one: str, other: str) -> bool:
    """Can two names be of one file: but for their first folder, or one the end of the other?"""
    one, other = one.strip('"').replace("\\", "/"), other.strip('"').replace("\\", "/")
    ones, others = {one, one.partition("/")[2]} - {""}, {other, other.partition("/")[2]} - {""}
    return bool(ones & others) or f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def _differ(old: str, new: str) -> bool:
    return re.sub(r"^a/", "", old) != re.sub(r"^b/", "", new)


def _command_names(patch: FilePatch, line: str) -> FilePatch:
    """The names of a `diff --git a/x b/x`, `diff -u x y` or `Index: x` line."""
    line = line.rstrip("\r")
    if len(line) > LONGEST:
        return patch
    if line.startswith("Index: "):
        name = plain_name(line[len("Index: ") :])
        return replace(patch, old=name, new=name)
    rest = line[len("diff ") :]
    while rest.startswith("-"):
        rest = rest.partition(" ")[2].lstrip()
    for names in (rest, rest.rstrip()):  # a name may end in a space, and a line in spaces that belong to none
        half = (len(names) - 5) // 2
        if (
            names[:2] == "a/"
            and names[half + 2 : half + 5] == " b/"
            and names[2 : half + 2] == names[half + 5 :]
        ):
            return replace(patch, old=names[: half + 2], new=names[half + 3 :])
        half = len(names) // 2
        if names[:half] == names[half + 1 :] and names[half : half + 1] == " ":
            return replace(patch, old=names[:half], new=names[:half])
    both = _GIT.match(rest)
    return replace(patch, old=unquote(both.group(1)), new=unquote(both.group(2))) if both else patch


def _header_names(patch: FilePatch, old_line: str, new_line: str) -> FilePatch:
    old, new = old_line[4:], new_line[4:]
    if patch.action in {"rename", "copy"}:
        return patch
    # A diff of a file `dev/null` names it on both sides, with a prefix; /dev/null has none.
    both = is_no_file(old) and is_no_file(new)
    if is_no_file(old) and not (both and plain_name(old) != NO_FILE):
        return replace(patch, old=plain_name(new), new=plain_name(new), action="create")
    if is_no_file(new) and not (both and plain_name(new) != NO_FILE):
        return replace(patch, old=plain_name(old), new=plain_name(old), action="delete")
    return replace(patch, old=plain_name(old), new=plain_name(new))


def _extended(patch: FilePatch, line: str) -> FilePatch:
    """One of git's extended header lines; any other line is passed over."""
    if len(line) > LONGEST:
        return patch
    mode, move = _MODE.match(line), _MOVE.match(line)
    if mode and mode.group(1) == "new file mode":
        return replace(patch, action="create", mode=mode.group(2))
    if mode and mode.group(1) == "deleted file mode":
        return replace(patch, action="delete")
    if mode and mode.group(1) == "new mode":
        return replace(patch, mode=mode.group(2))
    if move:
        return _with_name(
            replace(patch, action=move.group(1)), move.group(2) == "from", unquote(move.group(3))
        )
    if line.startswith(("Binary files ", "GIT binary patch")):
        return replace(patch, binary=True)
    return patch
