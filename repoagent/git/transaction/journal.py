"""The journal of a transaction: git's `index.lock`, and a record of everything needed to complete it or roll it back.

The bytes of files are stored before the record refers to them. The lock is a hard link to a file of the journal, so it
appears atomically and names its holder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Busy
from repoagent.git.file_writer import FileStep
from repoagent.git.files import Content
from repoagent.git.index import Entry, Staged, index_path
from repoagent.git.process import git_output
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.storage import journal as stored
from repoagent.storage.folders import SystemFailed

LOCKED = "locked"  # index.lock may exist, no file is changed
WRITING = "writing"  # files have their old or new bytes
COMMITTING = "committing"  # the commit may exist
DONE = "done"  # a finished edit, kept for undo

LOCK_FILE = "lock"  # in the folder of the journal
_MAX_LOCK_BYTES = 1000  # bytes of a lock file that are read
_STALE_SECONDS = 0.3
_COARSE_NS = 2_000_000_000  # some file systems keep times to two seconds


@dataclass(frozen=True)
class PlannedPath:
    """One path of the commit, as entries with git's filters applied; None means no file.

    `base` is the file before the change, and `work` the file after it, including other work on top. Merging the change
    into `head` gives `commit`; merging it into `staged` gives `stage`. For a renamed file, `base`, `head` and `staged`
    are the entries at the old path `renamed`. `bits` are the index flags.
    """

    path: str
    head: Entry | None
    staged: Entry | None
    base: Entry | None
    work: Entry | None
    commit: Entry | None
    stage: Entry | None
    bits: Staged | None = None
    renamed: str | None = None

    @property
    def in_head(self) -> Entry | None:
        """The entry in HEAD at the new path."""
        return None if self.renamed else self.head

    @property
    def staged_here(self) -> Entry | None:
        """The index entry at the new path before the edit."""
        return None if self.renamed else self.staged

    @property
    def has_other_work(self) -> bool:
        """Whether the file has other uncommitted work, from before or after the edit."""
        return self.head != self.base or self.staged != self.head or self.commit != self.work


@dataclass(frozen=True)
class SavedFile:
    """The content of a file before hooks ran (None: deleted). `temporary` is an unused name next to it."""

    path: str
    content: Content | None
    temporary: str


@dataclass(frozen=True)
class JournalRecord:
    """The record of one transaction.

    head, branch: HEAD's commit and branch at the start.
    moves_to: the commit to which HEAD moves if no new one is made; "" for an unborn branch.
    in_place: the files already have the change, and undo uses `was` and `done` of each step.
    uncommitted: all tracked paths with other uncommitted work.
    saved: the files among them that were copied.
    started: when hooks started, in nanoseconds since 1970.
    """

    id: str
    event: str
    state: str
    commits: bool
    head: str | None = None
    branch: str | None = None
    new_branch: str | None = None
    moves_to: str | None = None
    steps: tuple[FileStep, ...] = ()
    folders: tuple[str, ...] = ()
    planned: tuple[PlannedPath, ...] = ()
    saved: tuple[SavedFile, ...] = ()
    uncommitted: tuple[str, ...] = ()
    started: int | None = None
    commit: str | None = None
    message: str | None = None
    in_place: bool = False


class EditJournal(stored.Journal):
    """The open journal of a transaction. Until `store` is called, the record may be newer than the one on disk."""

    def __init__(self, journal: stored.Journal, worktree: WorkTree, record: JournalRecord) -> None:
        super().__init__(journal.folder, journal.descriptor)
        self.worktree = worktree
        self.record = record

    def change(self, **values: Any) -> None:
        """Change fields of the record in memory only."""
        self.record = replace(self.record, **values)

    def store(self, **values: Any) -> None:
        """Change fields of the record and durably save it. The contents of files must be stored first."""
        self.change(**values)
        self.save(to_dict(self.record))

    def store_contents(self, items: Sequence[FileStep | SavedFile]) -> None:
        for number, item in enumerate(items):
            for name, value in vars(item).items():
                if isinstance(value, Content):
                    self.keep(_content_file(name, number), value.data)

    def lock_index(self) -> None:
        """Take git's lock. Raises Busy if another git command holds it, SystemFailed if it cannot be created."""
        path = lock_path(self.worktree)
        try:
            try:
                os.link(self.path(LOCK_FILE), path)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                    try:
                        file.write(stored.read_stored(self.folder, LOCK_FILE))
                        file.flush()
                    except BaseException:
                        path.unlink()
                        raise
        except FileExistsError:
            text = (_read_lock(path) or b"").decode(errors="replace")
            if text.startswith("repoagent "):
                holder = text.partition(": ")[2].strip()
                raise Busy(f"{path} exists: {holder}; try again when it is done") from None
            raise Busy(
                f"{path} exists: another git command is running in this work tree; try again when it is done. "
                "If no git command is running, remove that file"
            ) from None
        except OSError as error:
            raise SystemFailed(f"cannot create {path}: {error.strerror}; fix that and try again") from error

    def has_lock(self) -> bool:
        file = self.path(LOCK_FILE)
        return file.exists() and _read_lock(lock_path(self.worktree)) == _read_lock(file)

    def unlock_index(self) -> None:
        """Remove git's index lock if this journal holds it."""
        if self.has_lock():
            lock_path(self.worktree).unlink()

    def remove_stale_ref_locks(self) -> None:
        """Remove the reference locks that a killed git left behind; with them, git would refuse every later commit.

        Call this only after that git has ended. A lock is stale if it was created after git started, contains what git
        would have written (nothing, the starting commit or a commit on top of it), and stays for a while; a running git
        holds it only for milliseconds.
        """
        worktree, record = self.worktree, self.record
        if record.started is None:
            return
        folder = worktree.common_dir / "refs" / "heads"
        branches = [folder / f"{branch}.lock" for branch in (record.branch, record.new_branch) if branch]
        stale = {}
        for path in (worktree.git_dir / "HEAD.lock", *branches):
            identity = _stale_identity(worktree, path, record)
            if identity is not None:
                stale[path] = identity
        if stale:
            time.sleep(_STALE_SECONDS)
        for path, identity in stale.items():
            if _stale_identity(worktree, path, record) == identity:
                path.unlink(missing_ok=True)


def create(worktree: WorkTree, record: JournalRecord) -> EditJournal:
    """Durably create the journal of a transaction.

    Raises Busy if a journal with this name exists, SystemFailed if it cannot be created.
    """
    name = f"{record.id}-{record.event}"
    # users of git may see the text of the lock
    text = f"repoagent {record.id}: an edit is being committed by process {os.getpid()}\n"
    root = layout_of(worktree).journal
    journal = stored.create_journal(root, name, to_dict(record), {LOCK_FILE: text.encode()})
    return EditJournal(journal, worktree, record)


def _content_file(name: str, number: int) -> str:
    """The file for the field `name` of a step or saved file: `old-0`, `saved-3`."""
    return f"{'saved' if name == 'content' else name}-{number}"


def to_dict(record: JournalRecord) -> dict[str, Any]:
    """The record as JSON, without the bytes of files."""

    def fields(item: FileStep | PlannedPath | SavedFile, number: int) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, value in vars(item).items():
            if isinstance(value, Content):
                value = {"file": _content_file(name, number), "mode": value.mode}
            elif isinstance(value, Entry):
                value = [value.mode, value.oid]
            elif isinstance(value, Staged):
                value = [value.entry.mode, value.entry.oid, value.skip_worktree, value.assume_unchanged]
            values[name] = value
        return values

    lists = {name: getattr(record, name) for name in _ITEMS}
    return vars(record) | {
        name: [fields(item, number) for number, item in enumerate(items)] for name, items in lists.items()
    }


_ITEMS: dict[str, type[Any]] = {"steps": FileStep, "planned": PlannedPath, "saved": SavedFile}


def load_record(folder: Path) -> JournalRecord | None:
    """The record in a journal's folder, with the bytes that it refers to; None if it is missing or unreadable.

    Raises Refused for a record of a newer version.
    """

    def field(value: Any) -> object:
        if isinstance(value, dict):
            return Content(stored.read_stored(folder, value["file"]), value["mode"])
        if isinstance(value, list):
            entry = Entry(value[0], value[1])
            return Staged(entry, value[2], value[3]) if len(value) > 2 else entry
        return value

    raw = stored.record(folder)
    if raw is None:
        return None
    raw.setdefault("in_place", False)  # not in the records of an earlier version
    values: dict[str, Any] = {}
    try:
        for name in JournalRecord.__annotations__:
            value = raw[name]
            if name in _ITEMS:
                kind = _ITEMS[name]
                value = [kind(**{key: field(inner) for key, inner in item.items()}) for item in value]
            values[name] = tuple(value) if isinstance(value, list) else value
        return JournalRecord(**values)
    except (stored.IncompleteJournal, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None


def lock_path(worktree: WorkTree) -> Path:
    return index_path(worktree).with_name("index.lock")


def _read_lock(path: Path) -> bytes | None:
    """The beginning of a lock file; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MAX_LOCK_BYTES)


def _stale_identity(worktree: WorkTree, path: Path, record: JournalRecord) -> tuple[int, int] | None:
    """Inode and time of a lock that our git may have left; None for another one."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if status.st_mtime_ns < (record.started or 0) - _COARSE_NS:
        return None
    content = (_read_lock(path) or b"").decode(errors="replace").strip()
    if content not in ("", record.moves_to, record.head) and not content.startswith("ref: refs/heads/"):
        parent = git_output(worktree.top, "rev-parse", "--verify", "--quiet", f"{content}^", ok=(0, 1, 128))
        if parent.stdout.decode().strip() != (record.head or ""):
            return None
    return status.st_ino, status.st_mtime_ns
