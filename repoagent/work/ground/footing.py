"""The state of the repository that a run stands on: whether its commit could be made at all, which is asked before a
model is paid, and what of its change is still there in the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.landing.preflight import preflight
from repoagent.edit.request import EditRequest
from repoagent.repo import WorkTree
from repoagent.repo.facts import unmerged
from repoagent.repo.index import read_entries
from repoagent.repo.status import Status, read_status
from repoagent.repo.transaction.refusals import refuse_operation, refuse_unmerged
from repoagent.work.changes import Ledger
from repoagent.work.request import RunRequest


def refuse_vain(worktree: WorkTree, request: RunRequest) -> None:
    """Raise what the commit would raise in the end whatever the change is: Refused in the middle of a merge or a
    rebase, UsageError where git does not know who commits, Busy while another program holds the index.

    A chat, and a run that commits nothing, is free to begin.
    """
    commits = not request.commit.no_commit and not request.plan_only and request.mode != "read-only"
    if request.kind != "run" or not commits:
        return
    refuse_operation(worktree)
    refuse_unmerged(Status(None, None, {}, unmerged(worktree)))
    preflight(worktree, EditRequest(request.prompt, (), commit=request.commit))


def place_of_person(top: Path) -> str:
    """The folder that the person is in, from the top of the work tree; "" at the top and outside of it."""
    try:
        here = os.path.relpath(os.path.realpath(Path.cwd()), os.path.realpath(top))
    except OSError:  # it was removed under us
        return ""
    outside = here in {os.curdir, os.pardir} or here.startswith(os.pardir + os.sep)
    return "" if outside else here


@dataclass(frozen=True)
class Standing:
    """The paths of a run's changes: `left` in the files and not committed, `gone` out of the files, and those of which
    the last commit holds all there is (`held`), as after a commit of the person's own."""

    left: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """What a person should know of it."""
        found = []
        if self.gone:
            do = "does" if len(self.gone) == 1 else "do"
            found.append(
                f"note: {_names(self.gone)} {do} not hold the run's change any more: it was taken out of the files "
                "while the run worked"
            )
        if self.held:
            found.append(f"note: the last commit holds the run's change of {_names(self.held)} already")
        return found


def standing(worktree: WorkTree, ledger: Ledger) -> Standing:
    """What has become of the changes that are not committed by the run."""
    if not ledger.changes:
        return Standing()
    changed = read_status(worktree).changed
    names = {name for change in ledger.changes for name in (change.old_path, change.path) if name}
    known = read_entries(worktree, sorted(names))
    found: dict[str, list[str]] = {"left": [], "gone": [], "held": []}
    for change in ledger.changes:
        committed = not {change.old_path, change.path} & changed.keys()
        if ledger.standing(change) is None:
            found["gone"].append(change.name)
        elif committed and (change.path in known if change.path else change.old_path not in known):
            found["held"].append(change.name)
        else:
            found["left"].append(change.name)
    return Standing(**{key: tuple(some) for key, some in found.items()})


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
