"""What a person asks for: the files, the place in them, the words, and the conditions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.repo.missing import NoSuchFile, no_such_file
from repoagent.repo.options import Options

if TYPE_CHECKING:
    from repoagent.edit.landing.check import Check
    from repoagent.repo.worktree import WorkTree

_LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?\Z", re.DOTALL)
_SYMBOL = re.compile(r"(?P<path>.+?)::(?P<symbol>.+)\Z", re.DOTALL)
_LIKE_A_PATH = re.compile(r"\S*(/\S+|[\w-]\.[A-Za-z]\w{0,7})(:\S+)?")


@dataclass(frozen=True)
class Target:
    """A file to edit and, where the person pointed at one, the place in it (lines count from 1, both inclusive)."""

    path: str
    first: int | None = None
    last: int | None = None
    symbol: str | None = None

    @property
    def place(self) -> str:
        """The place alone, as a person writes it after the path; "" for the whole file."""
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
    instead_of: str | None = None  # the edit that is taken back first

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(target.path for target in self.targets))


def names_file(instruction: str, path: str) -> bool:
    """Whether the words of an instruction name the file at `path`: all of the path, or the end of it."""
    words = {word.strip("`'\".,;:!?()[]{}<>").removeprefix("./") for word in instruction.split()}
    parts = path.split("/")
    ends = ("/".join(parts[number:]) for number in range(len(parts)))
    return any(end in words and (end == path or "." in end or "/" in end) for end in ends)


def named_files(targets: Sequence[Target]) -> dict[str, str]:
    """The targets as a turn of a conversation keeps them: `files` and, where there are any, `places`; see
    `files_named`."""
    found = {"files": json.dumps([target.path for target in targets], ensure_ascii=False)}
    if any(target.place for target in targets):
        found["places"] = json.dumps([target.place for target in targets], ensure_ascii=False)
    return found


def files_named(meta: Mapping[str, str]) -> tuple[Target, ...]:
    """The targets that `named_files` has put into a turn; none where a person has edited that away."""
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
    """Read `FILE`, `FILE:10`, `FILE:10-40` or `FILE::symbol`; the path stays as written.

    A file that really has such a name wins over the reading as a place. Raises UsageError for an empty line range
    and for what can't be the name of a file.
    """
    if not text:
        raise UsageError('an empty argument is no file: say repoagent edit FILE "INSTRUCTION"')
    if _exists(cwd / text):
        return Target(text)
    if match := _SYMBOL.match(text):
        return Target(match["path"], symbol=match["symbol"])
    if match := _LINES.match(text):
        first = int(match["first"])
        last = int(match["last"] or first)
        if first < 1 or last < first:
            raise UsageError(f"{text}: lines count from 1 and the second may not be before the first.")
        return Target(match["path"], first, last)
    return Target(text)


def no_file(worktree: WorkTree, path: str) -> NoSuchFile:
    """The error for a file to edit that is not there."""
    swapped = " " in path and "." not in path.rpartition("/")[2]
    remedy = "the instruction comes last, after the files" if swapped else "use --create to create it"
    return no_such_file(path, worktree.top, remedy=remedy)


def names_existing_file(text: str, cwd: Path) -> bool:
    """Whether an argument can only be meant as a file: its path part exists (instructions do not)."""
    try:
        return _exists(cwd / parse_target(text, cwd).path)
    except UsageError:
        return False


def split_arguments(
    arguments: Sequence[str], *, instruction_elsewhere: bool, cwd: Path, create: bool = False
) -> tuple[list[str], str | None]:
    """Split `FILE... INSTRUCTION` into the files and the instruction, None where it was left out.

    With `create` a last word that looks like a path is a file to be made. Raises UsageError where such a word is
    neither: a mistyped name must not be paid for as an instruction.
    """
    if instruction_elsewhere or not arguments:
        return list(arguments), None
    *files, last = arguments
    if last != "-" and names_existing_file(last, cwd):
        return list(arguments), None
    if _LIKE_A_PATH.fullmatch(last):
        if create:
            return list(arguments), None
        path = parse_target(last, cwd).path
        raise no_such_file(
            path, cwd, remedy="use --create to create it, or describe the change in more words"
        )
    return files, last


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):  # too long for a name, a NUL: no file, but an instruction
        return False
