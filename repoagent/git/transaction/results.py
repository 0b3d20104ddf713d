"""The options of a commit, and its results: the commit, what other programs changed, and the errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import CheckFailed, NothingDone, Refused
from repoagent.git.file_writer import Step
from repoagent.git.files import Content, same
from repoagent.git.merge import Conflict, merge
from repoagent.git.worktree import WorkTree


@dataclass(frozen=True)
class Options:
    """The names are those of `git commit` where it has them.

    `sign` is a key, "" for the default one, None for what the configuration says. `fixup` is a commit.
    `branch` is a new branch for the commit. `include_dirty` commits the files whole, with the
    user's other work in them. `no_commit` only writes the files.
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
    """The commit. `folded` are paths where what a hook made of them is in it, `taken_out` those where a hook
    had added the user's other work, which is out again, `restored` files of the user whose uncommitted work was gone
    and is back. `output` is what git and the hooks printed."""

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
    """What others did to the user's files while a transaction ran.

    `restored` are the paths whose uncommitted work was gone and is back, `left` those that hold something newer, which
    stays; in `conflicts` of these the edit is too, for it could not be taken out. `sentences` say what is left.
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
        """The sentences; `folder` is what the journal's folder becomes, with the bytes that are kept."""
        return tuple(sentence.replace(KEPT_FOLDER, str(folder)) for sentence in self.sentences)

    def remarks(self, folder: Path) -> tuple[str, ...]:
        """The same, and what is restored."""
        return (*self.notes(folder), *restored_notes(self.restored))


def merged(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Both in their order, each string once."""
    return tuple(dict.fromkeys([*first, *second]))


def restored_notes(paths: Sequence[str]) -> tuple[str, ...]:
    """A sentence where uncommitted work was put back."""
    if not paths:
        return ()
    return (
        f"your uncommitted changes in {', '.join(paths)} were lost during `git commit` and were restored",
    )


class Inseparable(Refused):
    """A change cannot be committed without uncommitted work in the file `path`, which can be committed whole."""

    def __init__(self, sentence: str, path: str) -> None:
        super().__init__(sentence)
        self.path = path


class HookFailed(CheckFailed):
    """git or one of its hooks refused the commit; `output` is what they printed. Everything is as it was, except for
    what `remarks` say.

    `by_git` says that it was git itself (no identity, no signature) or the user at the editor, which no
    other edit would change.
    """

    def __init__(self, output: bytes, *, by_git: bool = False, remarks: Sequence[str] = ()) -> None:
        self.output = output
        self.by_git = by_git
        self.remarks = tuple(remarks)
        text = output.decode(errors="replace").strip()
        reason = f":\n{text}" if text else "; neither git nor a hook gave a reason"
        super().__init__(f"git commit failed{and_unchanged(remarks)}{reason}")


def and_unchanged(remarks: Sequence[str]) -> str:
    """The end of a sentence on a failure: that everything is as it was, except for what the `remarks` say."""
    if not remarks:
        return ", and everything was restored"
    return f". {'. '.join(remarks)}. Everything else was restored"


class AlreadyCommitted(NothingDone):
    """HEAD holds all of a change already."""


class UnfinishedTransaction(Refused):
    """A transaction could be neither completed nor rolled back; its journal is there, and the next command does it."""

    def __init__(self, event: str, edit_id: str, error: Exception) -> None:
        super().__init__(
            f"the {event} {edit_id} could not be finished ({error}): fix that, and the next "
            "repoagent command completes it or rolls it back; until then git may report a lock"
        )


@dataclass(frozen=True)
class InPlace:
    """A change that the work tree holds already. `current` is what is at the paths that somebody has changed since
    (None: no file): it stays as it is, and uncommitted. Only at the paths `whole` it is committed as it is."""

    current: Mapping[str, Content | None] = field(default_factory=dict)
    whole: Collection[str] = ()


def step_after_hook(
    worktree: WorkTree, step: Step, now: Content | None, before: Content | None, after: Content | None
) -> Step:
    """The step of a change in place when a hook has made `now` of the file, and `after` of `before`: what the hook did
    is a part of the change, what somebody else did is not. On the same lines it stays out."""
    done = step.done
    if same(step.new, done):
        return replace(step, new=now, done=now)
    if done is None or before is None or after is None or done.is_link or before.is_link or after.is_link:
        return replace(step, new=now)
    text = merge(worktree, done.data, before.data, after.data, exact=True)
    return replace(step, new=now, done=done if isinstance(text, Conflict) else replace(done, data=text))
