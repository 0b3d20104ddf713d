"""Read the change in a unified diff on standard input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.process import OFFLINE, git_output
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.patch.paths import unquote_name
from repoagent.review import change
from repoagent.review.change import Change, ChangedFile, ChangedLines, ChangedTexts, Status
from repoagent.review.read_diff import ChangeSelector, author_ident, read_blob

_INDEX = re.compile(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d{6}))?\s*")
_MODE = re.compile(rb"(old|new|deleted file|new file) mode (\d{6})\s*")
_MOVE = re.compile(rb"(rename|copy) (from|to) (.*)", re.DOTALL)
_NOTHING = "/dev/null"


@dataclass
class _FileSection:
    """The section of one file in a diff; `blobs` are abbreviated names."""

    old: str = ""
    new: str = ""
    status: Status = "modified"
    blobs: tuple[str, str] = ("", "")
    modes: dict[str, str] = field(default_factory=dict)
    lines: list[ChangedLines] = field(default_factory=list)

    def read_header(self, line: bytes) -> None:
        """Parse a line between `diff --git` and the first hunk."""
        if match := _INDEX.fullmatch(line):
            self.blobs = (_blob_name(match[1]), _blob_name(match[2]))
            if match[3]:
                self.modes.update(old=match[3].decode(), new=match[3].decode())
        elif match := _MODE.fullmatch(line):
            side = match[1].decode()
            self.modes["old" if side in ("old", "deleted file") else "new"] = match[2].decode()
            if side in ("new file", "deleted file"):
                self.status = "added" if side == "new file" else "deleted"
        elif match := _MOVE.fullmatch(line.rstrip(b"\r\n")):
            self.status = "renamed" if match[1] == b"rename" else "copied"
            setattr(self, "old" if match[2] == b"from" else "new", unquote_name(os.fsdecode(match[3])))

    def matches(self, pathspecs: tuple[str, ...]) -> bool:
        """Whether the old or new path equals a pathspec, is below it, or matches it as a pattern. git itself cannot
        match paths that are only in a diff."""
        return not pathspecs or any(
            f"{path}/".startswith(f"{spec.rstrip('/')}/") or fnmatchcase(path, spec)
            for path in (self.old, self.new)
            for spec in pathspecs
        )


@dataclass(eq=False)
class _DiffTexts(ChangedTexts):
    """The hunks of a diff, and the texts that the repository in `top` has."""

    top: Path
    hunks: Mapping[ChangedFile, tuple[ChangedLines, ...]]

    def old(self, file: ChangedFile) -> bytes | None:
        return read_blob(self.top, file.old_blob) if file.old_blob else None

    def new(self, file: ChangedFile) -> bytes | None:
        has_blob = file.new_blob and file.status != "deleted"
        text = read_blob(self.top, file.new_blob) if has_blob else None
        return super().new(file) if text is None else text

    def lines(self, file: ChangedFile) -> tuple[ChangedLines, ...]:
        return self.hunks[file]


def read_stdin_change(worktree: WorkTree, head: str | None, selector: ChangeSelector) -> Change:
    """The change in `selector.diff`. Its texts are read from the blobs that the `index` lines name, if they exist.
    Raises UsageError for a text that is not a diff, and for a hunk that does not match its header."""
    sections = [section for section in _sections(selector.diff) if section.matches(selector.pathspecs)]
    if not sections and selector.diff.strip() and not selector.pathspecs:
        raise UsageError("standard input is not a unified diff; use the output of `git diff`")
    names = sorted({blob for section in sections for blob in section.blobs if blob})
    blobs: dict[str, str] = {}
    if names:
        stdin = "".join(f"{name}^{{blob}}\n" for name in names).encode()
        batch = ("cat-file", "--batch-check=%(objectname)")
        result = git_output(worktree.top, *batch, stdin=stdin, env=OFFLINE, ok=(0, 128))
        ids = result.stdout.decode("utf-8", "replace").splitlines()
        blobs = {name: oid for name, oid in zip(names, ids, strict=False) if is_full_id(oid)}
    files: dict[ChangedFile, tuple[ChangedLines, ...]] = {}
    for section in sections:
        old, new = (blobs.get(blob, "") for blob in section.blobs)
        path = section.old if section.status == "deleted" else section.new
        old_path = section.old if section.status in ("renamed", "copied") else path
        modes = (section.modes.get("old", ""), section.modes.get("new", ""))
        files[ChangedFile(path, section.status, old_path, old, new, *modes)] = tuple(section.lines)
    author = b"" if head is None else author_ident(worktree)
    texts = _DiffTexts(worktree.top, files)
    return Change("diff", "the diff on standard input", author=author, files=tuple(files), texts=texts)


def _sections(diff: bytes) -> Iterator[_FileSection]:
    lines = change.split_lines(diff.replace(b"\r\n", b"\n") if b"\r\n@@ " in diff else diff)
    section: _FileSection | None = None
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        is_names = line.startswith(b"--- ") and b"".join(lines[end : end + 1]).startswith(b"+++ ")
        if line.startswith(b"diff --git ") or (is_names and (section is None or section.lines)):
            if section is not None:
                yield section
            section = _FileSection()
            if not is_names:
                # if both names in `diff --git a/X b/X` are the same; other names follow on separate lines
                text = os.fsdecode(line[len(b"diff --git ") :].rstrip(b"\r\n"))
                half = len(text) // 2
                if text.startswith('"') and '" "' in text:
                    half = text.index('" "') + 1
                if text[half : half + 1] == " ":
                    section.old, section.new = _file_name(text[:half]), _file_name(text[half + 1 :])
        if section is not None and is_names:
            names = (each[4:].rstrip(b"\r\n").split(b"\t")[0] for each in (line, lines[end]))
            section.old, section.new = (_file_name(os.fsdecode(name)) for name in names)
            if section.old == _NOTHING:
                section.status, section.old = "added", section.new
            elif section.new == _NOTHING:
                section.status, section.new = "deleted", section.old
            end += 1
        elif section is not None and (header := change.hunk_header(line)):
            hunks, end = change.read_hunk(lines, at)
            signs = [hunk_line[:1] for hunk_line in lines[at + 1 : end]]
            context = len(signs) - signs.count(b"-") - signs.count(b"+") - signs.count(b"\\")
            if (signs.count(b"-") + context, signs.count(b"+") + context) != header[1::2]:
                raise UsageError(
                    f"the diff of {section.new or section.old} was truncated or edited: the number of lines "
                    "in a hunk does not match its header"
                )
            section.lines += hunks
        elif section is not None and not section.lines:
            section.read_header(line)
        at = end
    if section is not None:
        yield section


def _blob_name(name: bytes) -> str:
    return name.decode() if name.strip(b"0") else ""


def _file_name(text: str) -> str:
    """A file name of a diff without quotes and without `a/` or `b/`."""
    name = unquote_name(text)
    return name[2:] if name[:2] in ("a/", "b/", "i/", "w/", "c/", "o/") else name
