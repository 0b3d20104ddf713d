"""The options of a commit, and its results: the commit, changes by other programs, and errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import CheckFailed, NothingDone, Refused
from repoagent.git.files import Content


@dataclass(frozen=True)
class Options:
    """Options for a commit, named as in `git commit` where git has them.

    `sign` is a key, "" for the default key, or None to follow the configuration. `fixup` is a commit, `branch` a new
    branch. `include_dirty` commits whole files; `no_commit` only writes them.
    """

    no_commit: bool = False
    no_verify: bool = False
    include_dirty: bool = False
    branch: str | None = None
    signoff: bool = False
    fixup: str | None = None
    edit_message: bool = False
    sign: str | None = None


@dataclass(frozen=True)
class CommitResult:
    """The result of a commit.

    folded: the paths with a hook's changes.
    taken_out: the paths from which other work that a hook added was removed.
    restored: the paths whose lost work was restored.
    output: what git and the hooks printed.
    """

    commit: str
    parent: str | None
    branch: str | None
    folded: tuple[str, ...] = ()
    taken_out: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: bytes = b""


KEPT_FOLDER = "\0"  # in a sentence: the folder that the journal becomes at the end


@dataclass(frozen=True)
class OtherChanges:
    """Changes by other programs during a transaction.

    restored: the paths whose lost work was restored.
    left: the paths with newer content, which stays.
    conflicts: the paths that still contain the edit.
    sentences: a description of the changes for the user.
    """

    restored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    def __add__(self, other: OtherChanges) -> OtherChanges:
        return OtherChanges(
            merged(self.restored, other.restored),
            merged(self.left, other.left),
            merged(self.conflicts, other.conflicts),
            merged(self.sentences, other.sentences),
        )

    def notes(self, folder: Path) -> tuple[str, ...]:
        """The sentences for the user, naming the journal's final `folder`, where saved bytes are."""
        return tuple(sentence.replace(KEPT_FOLDER, str(folder)) for sentence in self.sentences)

    def remarks(self, folder: Path) -> tuple[str, ...]:
        """The sentences of `notes`, and one about restored files."""
        return (*self.notes(folder), *restored_notes(self.restored))


def merged(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Both sequences joined in order, without duplicates."""
    return tuple(dict.fromkeys([*first, *second]))


def restored_notes(paths: Sequence[str]) -> tuple[str, ...]:
    if not paths:
        return ()
    return (
        f"your uncommitted changes to {', '.join(paths)} were lost during `git commit`, and repoagent restored them",
    )


class Inseparable(Refused):
    """A change cannot be separated from uncommitted work in the file `path`."""

    def __init__(self, sentence: str, path: str) -> None:
        super().__init__(sentence)
        self.path = path


class HookFailed(CheckFailed):
    """git or a hook refused the commit and printed `output`. Everything was restored, except as stated in `remarks`.

    `by_git` means that another edit would not help: there is no identity or signature, the user may have cancelled in
    the editor, or the commit was withdrawn.
    """

    def __init__(self, output: bytes, *, by_git: bool = False, remarks: Sequence[str] = ()) -> None:
        self.output = output
        self.by_git = by_git
        self.remarks = tuple(remarks)
        text = output.decode(errors="replace").strip()
        reason = f":\n{text}" if text else "; neither git nor a hook gave a reason"
        super().__init__(f"git commit failed{and_unchanged(remarks)}{reason}")


def and_unchanged(remarks: Sequence[str]) -> str:
    """The end of a sentence about a failure, which says that everything was restored except as stated in `remarks`."""
    if not remarks:
        return ", and everything was restored"
    return f". {'. '.join(remarks)}. Everything else was restored"


class AlreadyCommitted(NothingDone):
    pass


class UnfinishedTransaction(Refused):
    """A transaction could be neither completed nor rolled back; the next command will try again."""

    def __init__(self, event: str, edit_id: str, error: Exception) -> None:
        super().__init__(
            f"could not finish {event} {edit_id} ({error}): fix that, and the next repoagent command will "
            "complete it or roll it back; until then git may report a lock"
        )


@dataclass(frozen=True)
class InPlace:
    """A change that is already in the work tree.

    `current` maps the paths that have changed since to their content (None: no file). These further changes stay
    uncommitted, except in the paths of `whole`.
    """

    current: Mapping[str, Content | None] = field(default_factory=dict)
    whole: Collection[str] = ()
