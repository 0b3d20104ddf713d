"""What comes of a transaction: its commit, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import CheckFailed, NothingDone, Refused


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


HOME = "\0"  # in a sentence: the folder that the journal becomes at the end


@dataclass(frozen=True)
class Meanwhile:
    """What others did to the user's files while a transaction ran.

    `restored` are the paths whose uncommitted work was gone and is back, `left` those that hold something newer, which
    stays; in `conflicts` of these the edit is too, for it could not be taken out. `sentences` say what is left.
    """

    restored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    def __add__(self, other: Meanwhile) -> Meanwhile:
        return Meanwhile(
            tuple(dict.fromkeys([*self.restored, *other.restored])),
            tuple(dict.fromkeys([*self.left, *other.left])),
            tuple(dict.fromkeys([*self.conflicts, *other.conflicts])),
            tuple(dict.fromkeys([*self.sentences, *other.sentences])),
        )

    def said(self, home: Path) -> tuple[str, ...]:
        """The sentences; `home` is where the journal's folder is in the end, with the bytes that are kept."""
        return tuple(sentence.replace(HOME, str(home)) for sentence in self.sentences)

    def remarks(self, home: Path) -> tuple[str, ...]:
        """The same, and what is restored."""
        return (*self.said(home), *said_of_restored(self.restored))


def said_of_restored(paths: Sequence[str]) -> tuple[str, ...]:
    """A sentence where uncommitted work was put back."""
    if not paths:
        return ()
    return (
        f"your uncommitted changes in {', '.join(paths)} were lost during `git commit` and were restored",
    )


class Inseparable(Refused):
    """A change can't be committed without uncommitted work in the file `path`, which can be committed whole."""

    def __init__(self, sentence: str, path: str) -> None:
        super().__init__(sentence)
        self.path = path


class HookFailed(CheckFailed):
    """git or one of its hooks would not make the commit; `output` is what they printed. All is as it was, but for
    what `remarks` say.

    `by_git` says that it was git itself (no identity, no signature) or the person at the editor, which no
    other edit would change.
    """

    def __init__(self, output: bytes, *, by_git: bool = False, remarks: Sequence[str] = ()) -> None:
        self.output = output
        self.by_git = by_git
        self.remarks = tuple(remarks)
        said = output.decode(errors="replace").strip()
        told = f":\n{said}" if said else "; neither git nor a hook said why"
        super().__init__(f"git commit failed{and_as_it_was(remarks)}{told}")


def and_as_it_was(remarks: Sequence[str]) -> str:
    """The end of a sentence on a failure: that everything is as it was, but for what the `remarks` say."""
    if not remarks:
        return ", and everything is as it was"
    return f". {'. '.join(remarks)}. Everything else is as it was"


class InHead(NothingDone):
    """HEAD holds all of a change already."""


class Unsettled(Refused):
    """A transaction could be brought neither to its end nor back; its journal is there, and the next command does
    it."""

    def __init__(self, event: str, edit_id: str, error: Exception) -> None:
        super().__init__(
            f"the {event} {edit_id} could not be brought to its end ({error}): put that right, and the next "
            "repoagent command completes it or takes it back; until then git may say that it is locked"
        )
