"""The texts and the lines of changed files, read when they are asked for, and once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from repoagent.repo.run import OFFLINE, GitError, git, git_output
from repoagent.review.change import ChangedFile, Lines
from repoagent.review.read.hunks import sections, spliced
from repoagent.review.read.raw import SUBMODULE

_PATCH = ("-p", "-U0", "--no-color", "--diff-algorithm=default", "--no-indent-heuristic", "--full-index")
_KEPT = 256 << 20  # bytes of texts that are kept


class Texts:
    """The readers of a `Change` whose files `git diff ARGUMENTS` compares; `all_files` are all that it names, in its
    order, `cwd` is where it is run, `pathspecs` narrow it. With `shown` a text has lines whatever attributes say."""

    def __init__(
        self,
        top: Path,
        arguments: Sequence[str],
        all_files: Sequence[ChangedFile],
        *,
        cwd: Path,
        pathspecs: Sequence[str] = (),
        shown: bool = False,
    ) -> None:
        self._top, self._arguments, self._all = top, tuple(arguments), tuple(all_files)
        self._cwd, self._pathspecs, self._shown = cwd, tuple(pathspecs), shown
        self._lines: Mapping[str, tuple[Lines, ...]] | None = None
        self._blobs: dict[str, bytes | None] = {}
        self._size = 0

    def old(self, file: ChangedFile) -> bytes | None:
        """The text before; None for none, for a submodule, and where a partial clone lacks it."""
        return None if file.old_mode == SUBMODULE else self._blob(file.old_blob)

    def new(self, file: ChangedFile) -> bytes | None:
        """The text after, as git would store it."""
        if file.new_mode == SUBMODULE or file.status == "deleted":
            return None
        if file.new_blob:
            return self._blob(file.new_blob)
        lines = self.lines(file)
        if file.status == "added" or not file.old_blob:
            return spliced(b"", lines)
        old = self.old(file)
        return None if old is None else spliced(old, lines)

    def lines(self, file: ChangedFile) -> tuple[Lines, ...]:
        """The lines that differ."""
        if SUBMODULE in (file.old_mode, file.new_mode):
            return ()
        if self._lines is None:
            self._lines = self._read_lines()
        lines = self._lines.get(file.path, ())
        if not lines and self._shown and file.old_blob != file.new_blob and self._is_text(file):
            lines = self._read_one(file, "--text")
            self._lines = {**self._lines, file.path: lines}
        return lines

    def _is_text(self, file: ChangedFile) -> bool:
        return not any(
            b"\0" in (data or b"")[:8000] for data in (self._blob(file.old_blob), self._blob(file.new_blob))
        )

    def _read_lines(self) -> dict[str, tuple[Lines, ...]]:
        try:
            found = list(sections(self._diff(self._cwd, "--no-literal-pathspecs", self._pathspecs)))
        except GitError:  # a partial clone lacks a blob
            return {file.path: self._read_one(file) for file in self._all}
        # a file that becomes a link is told as one that goes and one that comes
        wanted = [file for file in self._all for _ in range(1 + (file.status == "type changed"))]
        if len(wanted) != len(found):
            return {file.path: self._read_one(file) for file in self._all}
        lines: dict[str, tuple[Lines, ...]] = {}
        for file, (_, hunks) in zip(wanted, found, strict=True):
            lines[file.path] = lines.get(file.path, ()) + hunks
        return lines

    def _read_one(self, file: ChangedFile, *how: str) -> tuple[Lines, ...]:
        paths = dict.fromkeys((file.old_path, file.path))
        try:
            found = list(sections(self._diff(self._top, "--literal-pathspecs", list(paths), *how)))
        except GitError:
            return ()
        return tuple(hunk for _, hunks in found for hunk in hunks)

    def _diff(self, cwd: Path, how: str, paths: Sequence[str], *options: str) -> bytes:
        return git(cwd, how, "diff", *_PATCH, *options, *self._arguments, "--", *paths, env=OFFLINE)

    def _blob(self, blob: str) -> bytes | None:
        if not blob:
            return None
        if blob not in self._blobs:
            done = git_output(self._top, "cat-file", "blob", blob, env=OFFLINE, ok=(0, 1, 128))
            data = done.stdout if done.returncode == 0 else None
            self._size += len(data or b"")
            if self._size > _KEPT:
                self._blobs.clear()
                self._size = len(data or b"")
            self._blobs[blob] = data
        return self._blobs[blob]


def decoded(path: bytes) -> str:
    """A path of git as we name it."""
    return os.fsdecode(path)
