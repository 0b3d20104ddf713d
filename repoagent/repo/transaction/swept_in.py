"""What a hook has added to the commit of the user's other work: taken out again, or said where that can't be."""

from __future__ import annotations

from collections.abc import Mapping

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError
from repoagent.repo.commits import Commit, head_commit
from repoagent.repo.index import Entry, staged_entries
from repoagent.repo.run import GitError, git
from repoagent.repo.transaction.hooks import Verdict
from repoagent.repo.transaction.left_locks import remove_left_locks
from repoagent.repo.transaction.recommit import with_other_tree, withdraw
from repoagent.repo.transaction.record import Record
from repoagent.repo.transaction.user_index import COMMITTED
from repoagent.repo.worktree import WorkTree
from repoagent.store.journal import Journal


@dataclass(frozen=True)
class Corrected:
    """The commit as it is now, the paths that were taken out of it, and sentences for the user."""

    oid: str
    taken_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Withdrawn(RepoagentError):
    """There is no commit any more: it held what it must not, and could not be made again without."""


def take_out(
    worktree: WorkTree, journal: Journal, record: Record, made: Commit, verdict: Verdict, *, key: str | None
) -> Corrected:
    """The commit without what hooks swept in; `key` is that of `with_other_tree`.

    Where another commit stands on it, that stays in: it is in the history then, and as it was in the files and in the
    index. Where it can't be made again (a hook forbids it; there is no signature now) it is taken back: raises
    Withdrawn.
    """
    if not verdict.corrections:
        return Corrected(made.oid)
    names = ", ".join(verdict.taken_out)
    if head_commit(worktree) != made.oid:
        stays = f"a hook had added {names} to the commit, where it has to stay: another commit stands on it"
        return Corrected(made.oid, notes=(stays,))
    index = journal.path(COMMITTED)
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    try:
        oid = with_other_tree(worktree, index, made, verdict.corrections, key)
    except GitError as error:
        if error.returncode < 0:
            remove_left_locks(worktree, record)
        withdraw(worktree, made)
        copies = "".join(f"; {said}" for said in _said_of_copies(worktree, made.oid, names))
        raise Withdrawn(
            f"a hook had added {names} to the commit, and it could not be made again without: "
            f"{error.stderr or error}{copies}"
        ) from error
    return Corrected(oid, tuple(verdict.taken_out), _said_of_copies(worktree, made.oid, names))


def _said_of_copies(worktree: WorkTree, commit: str, names: str) -> tuple[str, ...]:
    """A sentence where a hook had pushed or tagged the commit before."""
    seen = git(
        worktree.top, "for-each-ref", "--format=%(refname:short)", f"--contains={commit}",
        "refs/remotes", "refs/tags",
    )  # fmt: skip
    if not seen:
        return ()
    where = ", ".join(seen.decode(errors="replace").split())
    return (
        f"a hook had pushed or tagged the commit as {commit[:12]}, with your work in {names} in it, before that "
        f"was taken out: {where} has it; put that right, as `git push --force-with-lease` does",
    )


def left_in(
    worktree: WorkTree, made: Commit, verdict: Verdict, stage: Mapping[str, Entry | None]
) -> dict[str, Entry | None]:
    """What the index is to have of the corrections that could not be made, so that what stays in the commit is not
    staged to be taken back. `stage` is what it is to have besides."""
    if not verdict.corrections:
        return {}
    will = {**staged_entries(worktree, verdict.corrections), **stage}
    return {
        path: made.changed[path]
        for path, right in verdict.corrections.items()
        if path in made.changed and will.get(path) == right
    }
