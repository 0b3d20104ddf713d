"""A request for an edit: files, lines, instruction, options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.transaction.results import Options

if TYPE_CHECKING:
    from repoagent.git.files import NoSuchFile
    from repoagent.git.worktree import WorkTree

    # Takes a work tree, a scratch folder and a command. Returns the confined command and its environment, None if no
    # sandbox works.
    Confine = Callable[[WorkTree, Path, Sequence[str]], tuple[list[str], Mapping[str, str]] | None]

CHECK_TIMEOUT = 1800.0  # seconds, the default of `check.timeout`
_LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?\Z", re.DOTALL)
_SYMBOL = re.compile(r"(?P<path>.+?)::(?P<symbol>.+)\Z", re.DOTALL)
_LIKE_A_PATH = re.compile(r"\S*(/\S+|[\w-]\.[A-Za-z]\w{0,7})(:\S+)?")


@dataclass(frozen=True)
class Target:
    """A file to edit and, optionally, a line range (from 1, inclusive) or a symbol in the file."""

    path: str
    first: int | None = None
    last: int | None = None
    symbol: str | None = None

    @property
    def suffix(self) -> str:
        """The lines or the symbol as written after the path; "" for the whole file."""
        if self.symbol is not None:
            return f"::{self.symbol}"
        return "" if self.first is None else f":{self.first}-{self.last or self.first}"


@dataclass(frozen=True)
class Check:
    """A command that must succeed before a commit. `confine` puts the command into the sandbox unless the user has
    accepted the change."""

    command: str
    timeout: float | None = CHECK_TIMEOUT  # seconds; None for no limit
    confine: Confine | None = None  # used unless the user has accepted the change


@dataclass(frozen=True)
class EditRequest:
    """The request and the options of one edit. Paths are relative to the top of the work tree."""

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
    allow_sensitive: bool = False  # allow changes to sensitive files, see guards/risky_changes.py
    sensitive: tuple[str, ...] = ()  # patterns of more sensitive files
    commit: Options = field(default_factory=Options)
    instead_of: str | None = None  # id of an edit to undo first

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(target.path for target in self.targets))

    @property
    def commits(self) -> bool:
        return not (self.commit.no_commit or self.dry_run)

    def lines_in(self, path: str) -> list[tuple[int, int]]:
        return [
            (target.first, target.last or target.first)
            for target in self.targets
            if target.path == path and target.first is not None
        ]


def names_file(instruction: str, path: str) -> bool:
    """Whether an instruction names the file `path`, by its whole path or the end of it."""
    words = {word.strip("`'\".,;:!?()[]{}<>").removeprefix("./") for word in instruction.split()}
    parts = path.split("/")
    ends = ("/".join(parts[number:]) for number in range(len(parts)))
    return any(end in words and (end == path or "." in end or "/" in end) for end in ends)


def named_files(targets: Sequence[Target]) -> dict[str, str]:
    """The targets as metadata of a turn, which `files_named` reads."""
    meta = {"files": json.dumps([target.path for target in targets], ensure_ascii=False)}
    if any(target.suffix for target in targets):
        meta["places"] = json.dumps([target.suffix for target in targets], ensure_ascii=False)
    return meta


def files_named(meta: Mapping[str, str]) -> tuple[Target, ...]:
    """The targets in the metadata of a turn; none if they are missing or malformed."""
    try:
        files = json.loads(meta.get("files", "[]"))
        suffixes = json.loads(meta.get("places", "null")) or [""] * len(files)
        return tuple(
            replace(_split(f"x{suffix}"), path=file) for file, suffix in zip(files, suffixes, strict=True)
        )
    except (ValueError, TypeError, UsageError):
        return ()


def parse_target(text: str, cwd: Path) -> Target:
    """Parse `FILE`, `FILE:10`, `FILE:10-40` or `FILE::symbol`; the path stays as written.

    An existing file named `text` takes precedence. Raises UsageError for an empty name or an invalid line range.
    """
    if not text:
        raise UsageError('empty file name: use repoagent edit FILE "INSTRUCTION"')
    return Target(text) if _exists(cwd / text) else _split(text)


def _split(text: str) -> Target:
    if match := _SYMBOL.match(text):
        return Target(match["path"], symbol=match["symbol"])
    if match := _LINES.match(text):
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if first < 1 or last < first:
            raise UsageError(
                f"{text}: line numbers start at 1 and the second must not be less than the first."
            )
        return Target(match["path"], first, last)
    return Target(text)


def no_file(worktree: WorkTree, path: str) -> NoSuchFile:
    from repoagent.git.files import no_such_file

    return no_such_file(path, worktree.top, remedy="use --create to create it")


def split_arguments(
    arguments: Sequence[str], *, instruction_elsewhere: bool, cwd: Path, create: bool = False
) -> tuple[list[str], str | None]:
    """Split `FILE... INSTRUCTION` into the files and the instruction; None if there is no instruction.

    With `create`, a last argument that looks like a path but does not exist is a new file. Without `create`, it raises
    UsageError, so that a mistyped name is not sent to a model.
    """
    if instruction_elsewhere or not arguments:
        return list(arguments), None
    *files, last = arguments
    try:
        path = parse_target(last, cwd).path
    except UsageError:
        path = None
    if path is not None and last != "-" and _exists(cwd / path):
        return list(arguments), None
    if not _LIKE_A_PATH.fullmatch(last):
        return files, last
    if create:
        return list(arguments), None
    from repoagent.git.files import no_such_file

    remedy = "use --create to create it, or describe the change in several words"
    raise no_such_file(parse_target(last, cwd).path, cwd, remedy=remedy)


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except (OSError, ValueError):  # too long for a file name, or with a NUL: an instruction
        return False
