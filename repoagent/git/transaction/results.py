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
    """As in `git commit`. `sign` is a key ("": the default one, None: as configured), `fixup` a commit, `branch` a new
    branch. `include_dirty` commits whole files, `no_commit` only writes them."""

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
    """The commit. `folded` are paths with a hook's changes, `taken_out` those from which a hook's other work was
    removed, `restored` those whose lost work was restored. `output` is what git and hooks printed."""

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
    """Changes by other programs during a transaction: `restored` lost work, `left` newer content as it is; the files in
    `conflicts` still contain the edit. `sentences` tell the user."""

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
        """The sentences, with the journal's final `folder`, where kept bytes are."""
        return tuple(sentence.replace(KEPT_FOLDER, str(folder)) for sentence in self.sentences)

    def remarks(self, folder: Path) -> tuple[str, ...]:
        """`notes`, and a sentence about restored files."""
        return (*self.notes(folder), *restored_notes(self.restored))


def merged(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Both sequences, in order and without duplicates."""
    return tuple(dict.fromkeys([*first, *second]))


def restored_notes(paths: Sequence[str]) -> tuple[str, ...]:
    if not paths:
        return ()
    return (
        f"your uncommitted changes to {', '.join(paths)} were lost during `git commit`, and repoagent restored them",
    )


class Inseparable(Refused):
    """A change cannot be separated from uncommitted work in `path`."""

    def __init__(self, sentence: str, path: str) -> None:
        super().__init__(sentence)
        self.path = path


class HookFailed(CheckFailed):
    """git or a hook refused the commit and printed `output`; all is restored, except as in `remarks`. `by_git`: another
    edit would not help (no identity or signature, cancelled in the editor, withdrawn)."""

    def __init__(self, output: bytes, *, by_git: bool = False, remarks: Sequence[str] = ()) -> None:
        self.output = output
        self.by_git = by_git
        self.remarks = tuple(remarks)
        text = output.decode(errors="replace").strip()
        reason = f":\n{text}" if text else "; neither git nor a hook gave a reason"
        super().__init__(f"git commit failed{and_unchanged(remarks)}{reason}")


def and_unchanged(remarks: Sequence[str]) -> str:
    """The end of a sentence about a failure: everything was restored, except as in `remarks`."""
    if not remarks:
        return ", and everything was restored"
    return f". {'. '.join(remarks)}. Everything else was restored"


class AlreadyCommitted(NothingDone):
    pass


class UnfinishedTransaction(Refused):
    """It could be neither completed nor rolled back; the next command does that."""

    def __init__(self, event: str, edit_id: str, error: Exception) -> None:
        super().__init__(
            f"could not finish {event} {edit_id} ({error}): fix that, and the next repoagent command will "
            "complete it or roll it back; until then git may report a lock"
        )


@dataclass(frozen=True)
class InPlace:
    """A change that is in the work tree already. `current` has the paths changed since (None: no file); these changes
    stay uncommitted, except in `whole`."""

    current: Mapping[str, Content | None] = field(default_factory=dict)
    whole: Collection[str] = ()
