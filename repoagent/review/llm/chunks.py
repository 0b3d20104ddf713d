"""Cut a change into blocks for a model, and combine them into calls. A block has changed lines with their context.

A `FileView` has the lines of both sides of a file as prompts show and quote them. `Versions` reads any file in the
reviewed version, whatever the work tree contains.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.display_text import list_some
from repoagent.edit.guards.off_limits import WhyNot, why_content_is_off_limits
from repoagent.errors import Refused
from repoagent.git.files import Content, Source, blob_hash, check_path, read_source
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.llm.model import printable
from repoagent.llm.usage import estimate_tokens
from repoagent.review.change import Change, ChangedFile, ChangedLines
from repoagent.review.checks import file_kinds
from repoagent.review.read_diff import read_blob
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

CONTEXT_LINES = 8
WHOLE_LINES = 80  # of a definition that is shown completely
MOST_LINES, MOST_CHARACTERS = 300, 24_000  # of one block
LINE_CHARACTERS = 400  # a longer line is truncated
FILES = 12  # of one call
NAMED = 5
LONG_LINES = 1_000  # average bytes per line of a file not written by hand
REGULAR = ("100644", "100755")
LOCKS = (  # without those in file_kinds
    "bun.lock", "bun.lockb", "deno.lock", "go.work.sum", "podfile.lock", "packages.lock.json", "*.lockfile",
    "conan.lock", "package.resolved", "module.bazel.lock", ".terraform.lock.hcl",
)  # fmt: skip
BUILT = ("*.min.js", "*.min.css", "*.map", "*.snap", "*.pb.go", "*_pb2.py", "*_pb2_grpc.py", "*.g.dart")


@dataclass(frozen=True)
class FileView:
    """The lines of a changed file by number, from 1, as `text_of` shows them.

    A side whose text is unavailable has only the changed lines.
    """

    file: ChangedFile
    hunks: tuple[ChangedLines, ...]
    new: Mapping[int, str]
    old: Mapping[int, str]
    data: bytes | None
    ending: str = "\n"  # of the lines of the new text

    @property
    def path(self) -> str:
        return self.file.path

    @cached_property
    def symbols(self) -> Sequence[Symbol]:
        from repoagent.syntax.outline import outline

        return list(outline(self.path, self.data)) if self.data is not None else []

    def side(self, *, old: bool) -> Mapping[int, str]:
        return self.old if old else self.new

    def changed(self, *, old: bool) -> list[int]:
        """The numbers of the added lines, or with `old`, of the removed ones."""
        sides = [(hunk.old, hunk.removed) if old else (hunk.new, hunk.added) for hunk in self.hunks]
        return [first + n for first, lines in sides for n in range(len(lines))]

    def enclosing(self, start: int, end: int, most: int | None = None) -> Symbol | None:
        """The smallest definition around the lines; with `most`, the largest of at most that many lines. None if there
        is none."""
        around = [symbol for symbol in self.symbols if symbol.first_line <= start and end <= symbol.last_line]
        if most is None:
            return min(around, key=lambda symbol: symbol.last_line - symbol.first_line, default=None)
        small = [symbol for symbol in around if symbol.last_line - symbol.first_line < most]
        return max(small, key=lambda symbol: symbol.last_line - symbol.first_line, default=None)


def view_of(change: Change, file: ChangedFile) -> FileView | None:
    """The view of a file; None if no line changed (binary, mode only, pure rename)."""
    hunks = change.texts.lines(file)
    if not hunks:
        return None
    data, before = change.texts.new(file), change.texts.old(file)
    sample = [line for hunk in hunks for line in hunk.added] or (data or b"").splitlines(keepends=True)[:1]
    is_crlf = bool(sample) and all(line.endswith(b"\r\n") for line in sample)
    new, old = _numbered(data, hunks, old=False), _numbered(before, hunks, old=True)
    return FileView(file, hunks, new, old, data, "\r\n" if is_crlf else "\n")


def text_of(data: bytes) -> str:
    """The text of a file as shown to a model: decoded, masked, printable, with `\\n` line endings."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return printable(mask(text.replace("\r\n", "\n")))


def _numbered(data: bytes | None, hunks: tuple[ChangedLines, ...], *, old: bool) -> dict[int, str]:
    """The lines of the whole text by number; those of the hunks if the text is missing."""
    if data is not None:
        lines = text_of(data).split("\n")
        return dict(enumerate(lines if lines[-1] else lines[:-1], 1))
    numbered: dict[int, str] = {}
    for hunk in hunks:
        changed, first = (hunk.removed, hunk.old) if old else (hunk.added, hunk.new)
        text = text_of(b"\n".join(line.rstrip(b"\r\n") for line in changed))
        numbered |= dict(enumerate(text.split("\n")[: len(changed)], first))
    return numbered


class Row(NamedTuple):
    """A line as shown in a prompt.

    `sign` is "+" for an added line, "-" for a removed one, " " for an unchanged one. The number of a removed line is
    that in the old file.
    """

    sign: str
    number: int
    text: str

    @property
    def shown(self) -> str:
        text = self.text if len(self.text) <= LINE_CHARACTERS else self.text[:LINE_CHARACTERS] + " …(cut)"
        return f"{self.number:>6} {self.sign}| {text}".rstrip()


@dataclass(frozen=True)
class ReviewBlock:
    """A section of one file; `scope` is the signature of the definition that contains it."""

    view: FileView = field(repr=False, compare=False)
    rows: tuple[Row, ...]
    scope: str = ""

    @property
    def path(self) -> str:
        return self.view.path

    @cached_property
    def text(self) -> str:
        return "".join(f"{row.shown}\n" for row in self.rows)

    @cached_property
    def tokens(self) -> int:
        return estimate_tokens(self.text) + 20

    @property
    def name(self) -> str:
        """The changed lines, for the user: `src/a.py:10-14`."""
        numbers = [row.number for row in self.rows if row.sign == "+"] or [self.rows[0].number]
        return f"{self.path}:{numbers[0]}" + (f"-{numbers[-1]}" if numbers[-1] > numbers[0] else "")

    def first(self, *, old: bool) -> int:
        """The number of the block's first line on the new side, or on the `old` one. Cached line numbers are relative
        to it."""
        return next((row.number for row in self.rows if (row.sign == "-") is old), 0)

    def key(self, question: str) -> str:
        """A hash of the block and `question` that does not depend on line numbers."""
        text = "\n".join([question, self.path, self.scope, *(row.sign + row.text for row in self.rows)])
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def blocks_of(view: FileView) -> list[ReviewBlock]:
    """The blocks of a file, in order. Each changed line is in exactly one block."""
    sections: list[tuple[int, int]] = []
    total = max(view.new, default=0)
    for hunk in view.hunks:
        start = hunk.new if hunk.added else hunk.new + 1
        end = start + max(len(hunk.added), 1) - 1
        first, last = max(1, start - CONTEXT_LINES), min(end + CONTEXT_LINES, max(total, 1))
        enclosing = view.enclosing(start, min(end, total), WHOLE_LINES)
        if enclosing is not None:  # without context, so that a change outside does not change this block
            first, last = enclosing.first_line, enclosing.last_line
        if sections and first <= sections[-1][1]:
            before = sections.pop()
            first, last = min(before[0], first), max(before[1], last)
        sections.append((first, last))
    added, starts = set(view.changed(old=False)), {symbol.first_line for symbol in view.symbols}
    removed = {hunk.new if hunk.added else hunk.new + 1: hunk for hunk in view.hunks if hunk.removed}
    blocks = []
    for first, last in sections:
        rows: list[Row] = []
        for number in range(first, last + 2):  # removed lines are before the line at their position
            if (hunk_there := removed.get(number)) and (number <= last or last >= total):
                numbers = range(hunk_there.old, hunk_there.old + len(hunk_there.removed))
                rows += [Row("-", old, view.old.get(old, "")) for old in numbers]
            if number <= last and number in view.new:
                rows.append(Row("+" if number in added else " ", number, view.new[number]))
        while rows:  # in parts of bounded length, cut before a definition in the second half if possible
            end = size = 0
            for row in rows[:MOST_LINES]:
                if end and size + len(row.shown) >= MOST_CHARACTERS:
                    break
                size += len(row.shown) + 1
                end += 1
            if end < len(rows):
                good = [n for n in range(end // 2, end) if rows[n].sign != "-" and rows[n].number in starts]
                end = max(good[-1] if good else end, 1)
            part, rows = tuple(rows[:end]), rows[end:]
            shown = {sign: [row.number for row in part if row.sign == sign] for sign in "+ -"}
            if shown["+"] or shown["-"]:
                numbers_new = shown["+"] or shown[" "]
                scope = view.enclosing(numbers_new[0], numbers_new[-1]) if numbers_new else None
                blocks.append(ReviewBlock(view, part, scope.signature if scope is not None else ""))
    return blocks


def pack_blocks(blocks: Sequence[ReviewBlock], budget: int) -> list[tuple[ReviewBlock, ...]]:
    """Combine the blocks, in order, into parts of at most about `budget` tokens and FILES files. A larger block is a
    part of its own. A file that fits into one part is not split, unless much of the previous part would stay empty."""
    parts: list[list[ReviewBlock]] = []
    sizes: Counter[str] = Counter()
    for block in blocks:
        sizes[block.path] += block.tokens
    for block in blocks:
        part = parts[-1] if parts else []
        used, paths = sum(other.tokens for other in part), {other.path for other in part}
        size = block.tokens
        if block.path not in paths and sizes[block.path] <= budget < 2 * used:
            size = sizes[block.path]
        if not part or used + size > budget or len(paths | {block.path}) > FILES:
            parts.append([block])
        else:
            part.append(block)
    return [tuple(part) for part in parts]


def why_skipped(file: ChangedFile, attributes: file_kinds.Attributes, why_not: WhyNot) -> str | None:
    """Return the reason to skip a file, whatever its content, as a phrase; None if there is none."""
    path, name = file.path, file.path.rpartition("/")[2].lower()
    if why_not(path) or (file.old_path and why_not(file.old_path)):
        return "listed in .repoagentignore, or named like a file that holds secrets"
    if "160000" in (file.old_mode, file.new_mode):
        return "a submodule"
    if file.status == "deleted":
        return "deleted"
    if file_kinds.is_lock(path) or any(fnmatchcase(name, pattern) for pattern in LOCKS):
        return "a lock file"
    if path in attributes.generated:
        return "generated"
    if path in attributes.vendored or file_kinds.is_vendored_path(path):
        return "vendored"
    return "generated" if any(fnmatchcase(name, pattern) for pattern in BUILT) else None


def why_content_skipped(data: bytes) -> str | None:
    """Return the reason to skip a file because of its content, as a phrase; None if there is none."""
    if reason := why_content_is_off_limits(data):
        return "a Git LFS pointer" if "LFS" in reason else "generated"
    is_long = len(data) > LONG_LINES * (data.count(b"\n") + 1) and len(data) > 5_000
    return "minified, or data in very long lines" if is_long else None


def list_names(names: Sequence[str]) -> str:
    return list_some([name if name.isprintable() else repr(name) for name in names], NAMED)


def gather_material(
    change: Change, worktree: WorkTree, why_not: WhyNot
) -> tuple[list[ReviewBlock], dict[str, FileView], list[str]]:
    """The blocks of a change, the views by path, and a phrase for each skipped part, with tests and documentation last.

    Skips files that a model cannot use or must not see.
    """
    views: dict[str, FileView] = {}
    skipped: dict[str, list[str]] = {}
    attributes = file_kinds.attributes(worktree.top, change, [file.path for file in change.files])
    for file in sorted(change.files, key=lambda file: (file_kinds.is_test(file.path), file.path)):
        reason = why_skipped(file, attributes, why_not)
        view = None if reason else view_of(change, file)
        if view is not None:
            reason = why_content_skipped(view.data or b"")
        elif (
            not reason and file.status in ("added", "modified") and not (file.old_blob == file.new_blob != "")
        ):
            # no line changed: the file is empty, or binary, or only its mode changed
            is_changed = change.texts.new(file) if file.new_blob else file.old_mode == file.new_mode
            reason = "binary" if is_changed else None
        if reason:
            skipped.setdefault(reason, []).append(file.path)
        elif view is not None:
            views[file.path] = view
    blocks = [block for view in views.values() for block in blocks_of(view)]
    unseen = [f"{list_names(paths)} (not sent to the model: {reason})" for reason, paths in skipped.items()]
    return blocks, views, unseen


class Versions:
    """Reads files as they are after the change."""

    def __init__(self, worktree: WorkTree, change: Change) -> None:
        self.worktree, self.change = worktree, change
        self.files = {file.path: file for file in change.files if file.status != "deleted"}
        # where `git grep` searches: a commit, "" for the index, None for the work tree
        self.at = change.head or ("" if change.kind == "staged" else None)

    def read(self, path: str) -> Source:
        """The file at `path` after the change; its `data` is None if it does not exist. Raises Refused if it is not a
        regular file of the repository, or if a partial clone lacks it."""
        check_path(path)
        file = self.files.get(path)
        if file is not None and (data := self.change.texts.new(file)) is not None:
            content = Content(data, file.new_mode or REGULAR[0])
            return Source(path, content, blob_hash(data, self.worktree.object_format))
        if self.at is None:
            return read_source(self.worktree, path)
        listing = ("ls-tree", "-z", self.at) if self.at else ("ls-files", "-s", "-z")
        for entry in git(self.worktree.top, *listing, "--", path).split(b"\0"):
            properties, _, name = entry.partition(b"\t")
            if os.fsdecode(name) == path:
                fields = properties.decode().split()
                mode, blob = fields[0], fields[2] if self.at else fields[1]
                if mode not in REGULAR:
                    raise Refused(f"{path} is not a regular file")
                data = read_blob(self.worktree.top, blob)
                if data is None:
                    raise Refused(f"this partial clone lacks {path}; run `git fetch --refetch --no-filter`")
                return Source(path, Content(data, mode), blob)
        return Source(path, None, "")
