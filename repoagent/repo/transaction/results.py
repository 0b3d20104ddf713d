"""What comes of a transaction: its commit, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repoagent.errors import CheckFailed, NothingDone, Refused


@dataclass(frozen=True)
class CommitResult:
    """The commit. `folded` are paths where what a hook made of them is in it, `taken_out` those where a hook
    had added the user's other work, which is out again, `restored` files of the user that a hook had changed
    and that are as they were. `output` is what git and the hooks printed."""

    commit: str
    parent: str | None
    branch: str | None
    folded: tuple[str, ...] = ()
    taken_out: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: bytes = b""


class Inseparable(Refused):
    """A change can't be committed without uncommitted work in the file `path`, which can be committed whole."""

    def __init__(self, sentence: str, path: str) -> None:
        super().__init__(sentence)
        self.path = path


class HookFailed(CheckFailed):
    """git or one of its hooks would not make the commit; `output` is what they printed. All is as it was.

    `by_git` says that it was git itself (no identity, no signature) or the person at the editor, which no
    other edit would change.
    """

    def __init__(self, output: bytes, *, by_git: bool = False, left: Sequence[str] = ()) -> None:
        self.output = output
        self.by_git = by_git
        said = output.decode(errors="replace").strip()
        but = f" but {', '.join(left)}, which somebody has changed meanwhile," if left else ""
        told = f":\n{said}" if said else "; neither git nor a hook said why"
        super().__init__(f"git commit failed, and everything{but} is as it was{told}")


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
