"""Files of which the run's change can't be committed alone: whole, where the person wants that, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.agent.approval import Asked
from repoagent.patch import canonical_diff
from repoagent.repo import FileChange, Inseparable
from repoagent.repo.content import look
from repoagent.work.changes.back import said_of
from repoagent.work.desk import Desk

_MIXED = (
    "{file} was changed by hand, and then by the run again on the same lines: use --include-dirty to commit the file "
    "as it stands, or commit it by hand, or take all of it back with `repoagent runs restore {name} --whole`, "
    "which keeps a copy"
)


def refuse_mixed(desk: Desk, changes: Sequence[FileChange], whole: Collection[str]) -> None:
    """Raise Inseparable where the run has changed lines again that somebody else had changed since it did; not for
    what is committed `whole`."""
    mixed = {} if desk.request.commit.include_dirty else desk.ledger.mixed
    for path in (change.name for change in changes):
        if path in mixed and path not in whole:
            raise Inseparable(_MIXED.format(file=said_of({path: mixed[path]}), name=desk.home.name), path)


def agreed_whole(desk: Desk, changes: Sequence[FileChange], error: Inseparable, goes_on: str) -> str:
    """The path of the error, where the person says that the file is to be committed as it stands.

    Raises the error, with how it `goes_on`, where they don't or are not to be asked: the model can't mend it.
    """
    refusal = Inseparable(f"{error}\n{goes_on}", error.path)
    change = next((one for one in changes if one.name == error.path), None)
    if desk.request.mode != "ask" or change is None:
        raise refusal from error
    now = look(desk.worktree.top, change.name)
    if now is not None:
        change = replace(change, after=now.data, mode=now.mode)
    diff = canonical_diff([change], hash_name=desk.worktree.object_format)
    if not desk.talk.approve(Asked("include", diff, why=str(error).partition(":")[0])).allowed:
        raise refusal from error
    return error.path
