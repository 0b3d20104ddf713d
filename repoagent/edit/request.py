"""The request of an edit (files, places, instruction, conditions) and its draft.

A draft never touches the disk. Each accepted answer is folded in, so that several rounds end as one change from the
bytes that were read to the bytes that will be written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.files import REGULAR, FileChange, Source
from repoagent.git.similar_paths import NoSuchFile, no_such_file
from repoagent.git.transaction.results import Options
from repoagent.patch.model import SourceText

if TYPE_CHECKING:
    from repoagent.edit.checks import Check
    from repoagent.git.worktree import WorkTree

_LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?\Z", re.DOTALL)
_SYMBOL = re.compile(r"(?P<path>.+?)::(?P<symbol>.+)\Z", re.DOTALL)
_LIKE_A_PATH = re.compile(r"\S*(/\S+|[\w-]\.[A-Za-z]\w{0,7})(:\S+)?")


@dataclass(frozen=True)
class Target:
    """A file to edit and, optionally, a place in it (lines from 1, both inclusive)."""

    path: str
    first: int | None = None
    last: int | None = None
    symbol: str | None = None

    @property
    def place(self) -> str:
        """The place as written after the path; "" for the whole file."""
        if self.symbol is not None:
            return f"::{self.symbol}"
        return "" if self.first is None else f":{self.first}-{self.last or self.first}"


@dataclass(frozen=True)
class EditRequest:
    """Everything that decides what one edit does. Paths are relative to the top of the work tree."""

    instruction: str
    targets: tuple[Target, ...]
    read: tuple[str, ...] = ()
    create: bool = False
    scope: str = "files"
    check: Check | None = None
    strict: bool = False
    parse_check: bool = True  # refuse a change after which a file parses worse
    fresh: bool = False
    dry_run: bool = False
    allow_sensitive: bool = False  # files that make git, or a server, run something
    sensitive: tuple[str, ...] = ()  # patterns of further such files
    commit: Options = field(default_factory=Options)
    instead_of: str | None = None  # the edit that is undone first

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(target.path for target in self.targets))


def names_file(instruction: str, path: str) -> bool:
    """Whether an instruction names the file at `path`, by its path or the end of it."""
    words = {word.strip("`'\".,;:!?()[]{}<>").removeprefix("./") for word in instruction.split()}
    parts = path.split("/")
    ends = ("/".join(parts[number:]) for number in range(len(parts)))
    return any(end in words and (end == path or "." in end or "/" in end) for end in ends)


def named_files(targets: Sequence[Target]) -> dict[str, str]:
    """The targets as metadata of a turn: `files` and, if any, `places`; see `files_named`."""
    found = {"files": json.dumps([target.path for target in targets], ensure_ascii=False)}
    if any(target.place for target in targets):
        found["places"] = json.dumps([target.place for target in targets], ensure_ascii=False)
    return found


def files_named(meta: Mapping[str, str]) -> tuple[Target, ...]:
    """The targets in the metadata of a turn; none if a user has removed them."""
    files, places = _texts(meta.get("files", "")), _texts(meta.get("places", ""))
    if len(places) != len(files):
        return tuple(map(Target, files))
    return tuple(_target(file, place) for file, place in zip(files, places, strict=True))


def _target(path: str, place: str) -> Target:
    if place.startswith("::"):
        return Target(path, symbol=place[2:])
    match = _LINES.match(f"x{place}")
    return Target(path, int(match["first"]), int(match["last"] or match["first"])) if match else Target(path)


def _texts(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return found if isinstance(found, list) and all(isinstance(item, str) for item in found) else []


def parse_target(text: str, cwd: Path) -> Target:
    """Parse `FILE`, `FILE:10`, `FILE:10-40` or `FILE::symbol`; the path stays as written.

    An existing file of that name takes precedence. Raises UsageError for an empty line range and an invalid file name.
    """
    if not text:
        raise UsageError('empty file name: use repoagent edit FILE "INSTRUCTION"')
    if _exists(cwd / text):
        return Target(text)
    if match := _SYMBOL.match(text):
        return Target(match["path"], symbol=match["symbol"])
    if match := _LINES.match(text):
        first = int(match["first"])
        last = int(match["last"] or first)
        if first < 1 or last < first:
            raise UsageError(
                f"{text}: line numbers start at 1 and the second must not be less than the first."
            )
        return Target(match["path"], first, last)
    return Target(text)


def no_file(worktree: WorkTree, path: str) -> NoSuchFile:
    """The error for a missing file to edit."""
    swapped = " " in path and "." not in path.rpartition("/")[2]
    remedy = "the instruction comes last, after the files" if swapped else "use --create to create it"
    return no_such_file(path, worktree.top, remedy=remedy)


def split_arguments(
    arguments: Sequence[str], *, instruction_elsewhere: bool, cwd: Path, create: bool = False
) -> tuple[list[str], str | None]:
    """Split `FILE... INSTRUCTION` into the files and the instruction, None if it is missing.

    With `create` a last word that looks like a path is a new file; otherwise UsageError is raised, because a mistyped
    name must not be paid for as an instruction.
    """
    if instruction_elsewhere or not arguments:
        return list(arguments), None
    *files, last = arguments
    try:
        exists = last != "-" and _exists(cwd / parse_target(last, cwd).path)
    except UsageError:
        exists = False
    if exists:
        return list(arguments), None
    if _LIKE_A_PATH.fullmatch(last):
        if create:
            return list(arguments), None
        path = parse_target(last, cwd).path
        raise no_such_file(
            path, cwd, remedy="use --create to create it, or describe the change in several words"
        )
    return files, last


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):  # too long for a name, a NUL: no file, but an instruction
        return False


@dataclass(frozen=True)
class Draft:
    """`sources` by path as they were read; `edits` has the change of each file so far, in order of first change."""

    sources: Mapping[str, Source]
    edits: tuple[FileChange, ...] = ()

    def texts(self) -> dict[str, SourceText]:
        """Every file that exists in the draft, by its current path."""
        texts = {
            path: SourceText(source.data, source.mode or REGULAR)
            for path, source in self.sources.items()
            if source.data is not None
        }
        for edit in self.edits:
            if edit.old_path is not None:
                texts.pop(edit.old_path, None)
        for edit in self.edits:
            if edit.path is not None and edit.after is not None:
                texts[edit.path] = SourceText(edit.after, edit.mode or REGULAR)
        return texts

    def with_source(self, source: Source) -> Draft:
        """The draft with `source` added; a known file keeps its bytes."""
        if source.path in self.sources:
            return self
        return replace(self, sources={**self.sources, source.path: source})

    def with_changes(self, changes: Iterable[FileChange]) -> Draft:
        """The draft after `changes`, which are relative to it."""
        edits = list(self.edits)
        for change in changes:
            _fold(edits, change)
        return replace(self, edits=tuple(edit for edit in edits if _changes(edit)))

    def blobs(self) -> dict[str, str]:
        """The blob id of each file as it was read; "" for one that did not exist."""
        return {path: source.blob for path, source in self.sources.items()}


def _fold(edits: list[FileChange], change: FileChange) -> None:
    """Compose `change` with an earlier one of the same file, or append it."""
    for number, earlier in enumerate(edits):
        continues = change.old_path is not None and earlier.path == change.old_path
        recreates = change.old_path is None and earlier.path is None and earlier.old_path == change.path
        if continues or recreates:
            edits[number] = replace(
                change, old_path=earlier.old_path, before=earlier.before, old_mode=earlier.old_mode
            )
            return
    edits.append(change)


def _changes(change: FileChange) -> bool:
    return (change.old_path, change.before, change.old_mode) != (change.path, change.after, change.mode)
