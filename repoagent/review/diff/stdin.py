"""Read a unified diff: its hunks without context, and the change that a diff on standard input describes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from fnmatch import fnmatchcase

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.process import OFFLINE, git_output
from repoagent.git.worktree import WorkTree
from repoagent.patch.files import unquote
from repoagent.review.change import Change, ChangedFile, Lines, Status, split_lines
from repoagent.review.diff.select import ChangeSelector, author_ident

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = b"\\"


def hunk_header(line: bytes) -> tuple[int, int, int, int] | None:
    """The old start and length and the new start and length of a hunk header; None for any other line."""
    found = _HUNK.match(line)
    if found is None:
        return None
    old, old_count, new, new_count = (1 if part is None else int(part) for part in found.groups())
    return old, old_count, new, new_count


def read_hunk(lines: Sequence[bytes], at: int) -> tuple[list[Lines], int]:
    """The changed parts of the hunk whose header is line `at`, and the index of the line after it. A truncated hunk
    ends early."""
    header = hunk_header(lines[at])
    if header is None:
        return [], at + 1
    old, old_left, new, new_left = header
    # for an empty side git gives the number of the line before
    old, new = old + (old_left == 0), new + (new_left == 0)
    found: list[Lines] = []
    removed: list[bytes] = []
    added: list[bytes] = []
    at += 1

    def close() -> None:
        if removed or added:
            old_at = old - len(removed) - (not removed)
            new_at = new - len(added) - (not added)
            found.append(Lines(old_at, tuple(removed), new_at, tuple(added)))
            removed.clear()
            added.clear()

    while at < len(lines):
        line = lines[at]
        kind = line[:1]
        if kind == _NO_NEWLINE:
            _cut_newline(lines[at - 1][:1], removed, added)
        elif kind == b"-" and old_left:
            removed.append(line[1:])
            old, old_left = old + 1, old_left - 1
        elif kind == b"+" and new_left:
            added.append(line[1:])
            new, new_left = new + 1, new_left - 1
        elif kind in (b" ", b"\n", b"") and old_left and new_left:
            close()
            old, old_left, new, new_left = old + 1, old_left - 1, new + 1, new_left - 1
        else:
            break
        at += 1
    close()
    return found, at


def _cut_newline(kind: bytes, removed: list[bytes], added: list[bytes]) -> None:
    side = {b"-": removed, b"+": added}.get(kind)
    if side:
        side[-1] = side[-1].removesuffix(b"\n")


def sections(patch: bytes) -> Iterator[tuple[bytes, tuple[Lines, ...]]]:
    """The sections of the output of `git diff`, in order: the first line (`diff --git ...`) and the hunks."""
    lines = split_lines(patch)
    head: bytes | None = None
    found: list[Lines] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(b"diff --git "):
            if head is not None:
                yield head, tuple(found)
            head, found = lines[at], []
        elif head is not None and lines[at].startswith(b"@@ "):
            hunk, at = read_hunk(lines, at)
            found += hunk
            continue
        at += 1
    if head is not None:
        yield head, tuple(found)


def apply_hunks(old: bytes, hunks: Iterable[Lines]) -> bytes | None:
    """The text after the change; None if the hunks do not apply."""
    lines = split_lines(old)
    new: list[bytes] = []
    at = 0
    for hunk in hunks:
        start = hunk.old - 1 if hunk.removed else hunk.old
        if start < at or tuple(lines[start : start + len(hunk.removed)]) != hunk.removed:
            return None
        new += lines[at:start]
        new += hunk.added
        at = start + len(hunk.removed)
    return b"".join(new + lines[at:])


_INDEX = re.compile(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d{6}))?\s*")
_MODE = re.compile(rb"(old|new|deleted file|new file) mode (\d{6})\s*")
_MOVE = re.compile(rb"(rename|copy) (from|to) (.*)", re.DOTALL)
_NOTHING = "/dev/null"


@dataclass
class _FileSection:
    """The section of one file."""

    old: str = ""
    new: str = ""
    status: Status = "modified"
    blobs: tuple[str, str] = ("", "")
    modes: dict[str, str] = field(default_factory=dict)
    lines: list[Lines] = field(default_factory=list)


def read_stdin_change(
    worktree: WorkTree, head: str | None, selector: ChangeSelector, *, bare: bool
) -> tuple[Change, tuple[str, ...]]:
    """The change that `selector.diff` describes; its texts are read from the blobs of its index lines where they exist.

    Raises UsageError for a text that is not a diff, and for a hunk that does not match its header.
    """
    parts = [part for part in _parts(selector.diff) if _fits(part, selector.pathspecs)]
    if not parts and selector.diff.strip() and not selector.pathspecs:
        raise UsageError("standard input is not a unified diff; use the output of `git diff`")
    known = _blobs(worktree, {blob for part in parts for blob in part.blobs if blob})
    files: dict[ChangedFile, tuple[Lines, ...]] = {}
    for part in parts:
        old, new = (known.get(blob, "") for blob in part.blobs)
        path = part.old if part.status == "deleted" else part.new
        old_path = part.old if part.status in ("renamed", "copied") else path
        modes = (part.modes.get("old", ""), part.modes.get("new", ""))
        files[ChangedFile(path, part.status, old_path, old, new, *modes)] = tuple(part.lines)

    def read(blob: str) -> bytes | None:
        if not blob:
            return None
        done = git_output(worktree.top, "cat-file", "blob", blob, env=OFFLINE, ok=(0, 1, 128))
        return done.stdout if done.returncode == 0 else None

    def read_new(file: ChangedFile) -> bytes | None:
        if file.status == "deleted":
            return None
        found = read(file.new_blob)
        if found is not None:
            return found
        old = b"" if file.status == "added" else read(file.old_blob)
        return None if old is None else apply_hunks(old, files[file])

    author = b"" if bare or head is None else author_ident(worktree)
    return Change(
        "diff", "the diff on standard input", tuple(files), "", "", "", frozenset(), author,
        lambda file: read(file.old_blob), read_new, lambda file: files[file],
    ), ()  # fmt: skip


def _fits(part: _FileSection, pathspecs: tuple[str, ...]) -> bool:
    """Whether a path equals a pathspec, is below it, or matches it as a pattern; git cannot match names in a text."""
    if not pathspecs:
        return True
    return any(
        path == spec.rstrip("/") or path.startswith(f"{spec.rstrip('/')}/") or fnmatchcase(path, spec)
        for path in (part.old, part.new)
        for spec in pathspecs
    )


def _parts(diff: bytes) -> Iterator[_FileSection]:
    lines = split_lines(diff.replace(b"\r\n", b"\n") if b"\r\n@@ " in diff else diff)
    part: _FileSection | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(b"diff --git "):
            if part is not None:
                yield part
            part = _new_section(line)
        elif line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            if part is None or part.lines:
                if part is not None:
                    yield part
                part = _FileSection()
            _set_names(part, line, lines[at + 1])
            at += 2
            continue
        elif part is not None and hunk_header(line) is not None:
            hunks, end = read_hunk(lines, at)
            _check(lines, at, end, part)
            part.lines += hunks
            at = end
            continue
        elif part is not None and not part.lines:
            _read_extended(part, line)
        at += 1
    if part is not None:
        yield part


def _check(lines: list[bytes], at: int, end: int, part: _FileSection) -> None:
    _, old, _, new = hunk_header(lines[at]) or (0, 0, 0, 0)
    body = lines[at + 1 : end]
    removed = sum(line[:1] == b"-" for line in body)
    added = sum(line[:1] == b"+" for line in body)
    same = sum(line[:1] in (b" ", b"\n", b"") for line in body)
    if (removed + same, added + same) != (old, new):
        raise UsageError(
            f"the diff of {part.new or part.old} is truncated or was edited: the number of lines in a hunk does not "
            "match its header"
        )


def _new_section(line: bytes) -> _FileSection:
    """`diff --git a/X b/X`: the names, where they are the same; others follow in lines of their own."""
    text = os.fsdecode(line[len(b"diff --git ") :].rstrip(b"\r\n"))
    if text.startswith('"') and '" "' in text:
        old, _, new = text.partition('" "')
        return _FileSection(_plain(f'{old}"'), _plain(f'"{new}'))
    half = len(text) // 2
    return (
        _FileSection(_plain(text[:half]), _plain(text[half + 1 :]))
        if text[half : half + 1] == " "
        else _FileSection()
    )


def _set_names(part: _FileSection, old: bytes, new: bytes) -> None:
    before, after = (_plain(os.fsdecode(line[4:].rstrip(b"\r\n").split(b"\t")[0])) for line in (old, new))
    if before == _NOTHING:
        part.old, part.new, part.status = after, after, "added"
    elif after == _NOTHING:
        part.old, part.new, part.status = before, before, "deleted"
    else:
        part.old, part.new = before, after


def _read_extended(part: _FileSection, line: bytes) -> None:
    if found := _INDEX.fullmatch(line):
        part.blobs = (_some(found[1]), _some(found[2]))
        if found[3]:
            part.modes.update(old=found[3].decode(), new=found[3].decode())
    elif found := _MODE.fullmatch(line):
        kind, mode = found[1].decode(), found[2].decode()
        part.modes["old" if kind in ("old", "deleted file") else "new"] = mode
        if kind in ("new file", "deleted file"):
            part.status = "added" if kind == "new file" else "deleted"
    elif found := _MOVE.fullmatch(line.rstrip(b"\r\n")):
        name = unquote(os.fsdecode(found[3]))
        part.status = "renamed" if found[1] == b"rename" else "copied"
        if found[2] == b"from":
            part.old = name
        else:
            part.new = name


def _plain(name: str) -> str:
    """A file name of a diff without quotes and without `a/` or `b/`."""
    found = unquote(name)
    if found == _NOTHING:
        return found
    return found[2:] if found[:2] in ("a/", "b/", "i/", "w/", "c/", "o/") else found


def _some(blob: bytes) -> str:
    return blob.decode() if blob.strip(b"0") else ""


def _blobs(worktree: WorkTree, names: set[str]) -> dict[str, str]:
    """The full ids of the abbreviated `names` that are blobs of the repository."""
    if not names:
        return {}
    abbreviated = sorted(names)
    stdin = "".join(f"{name}^{{blob}}\n" for name in abbreviated).encode()
    done = git_output(
        worktree.top, "cat-file", "--batch-check=%(objectname)", stdin=stdin, env=OFFLINE, ok=(0, 128)
    )
    found = done.stdout.decode("utf-8", "replace").splitlines()
    return {
        name: line
        for name, line in zip(abbreviated, found, strict=False)
        if len(line) in (40, 64) and " " not in line
    }
