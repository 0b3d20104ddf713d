"""What hooks changed in a commit: a formatter's work stays, the user's other work is removed from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError
from repoagent.git.file_writer import Step, write_file
from repoagent.git.files import look, same
from repoagent.git.index import Entry, put_entries, reset_to, staged_entries, write_tree
from repoagent.git.merge import Conflict, project
from repoagent.git.objects import Commit, from_blob, head_commit, reset_ref, to_blob
from repoagent.git.process import GitError, git
from repoagent.git.transaction.journal import PlannedPath, Record
from repoagent.git.transaction.locks import remove_stale_ref_locks
from repoagent.git.transaction.other_files import COMMITTED
from repoagent.git.worktree import WorkTree
from repoagent.storage.journal import Journal

# File systems keep times coarsely: a file made by a hook may look a little older than the hook.
_COARSE_NS = 20_000_000


@dataclass
class HookVerdict:
    """What the commit must have instead (`corrections`), and the index (`stage`).

    `folded` and `taken_out` are the paths where a hook's work was accepted, and where other work was not.
    """

    corrections: dict[str, Entry | None] = field(default_factory=dict)
    stage: dict[str, Entry | None] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    taken_out: list[str] = field(default_factory=list)


def judge_commit(worktree: WorkTree, record: Record, made: Commit) -> HookVerdict:
    """Compare the commit with the plan."""
    verdict = HookVerdict()
    own = {planned.path: planned for planned in record.planned}
    steps = {step.path: step for step in record.steps}
    expected = {p.path: p.commit for p in record.planned if p.commit != p.in_head}
    for path in sorted(expected.keys() | made.changed.keys()):
        if path in expected and path in made.changed and expected[path] == made.changed[path]:
            continue
        if path in own:
            found = made.changed[path] if path in made.changed else own[path].in_head
            _judge_own(worktree, own[path], steps.get(path), found, verdict)
        elif path in record.uncommitted or (made.was[path] is None and _was_there(worktree, record, path)):
            verdict.corrections[path] = made.was[path]
            verdict.taken_out.append(path)
        else:
            verdict.stage[path] = made.changed[path]
            verdict.folded.append(path)
    return verdict


def _judge_own(
    worktree: WorkTree, planned: PlannedPath, step: Step | None, found: Entry | None, verdict: HookVerdict
) -> None:
    """A file of the edit that a hook has staged again. Where the user has other work in it, that has come
    along: then only what the hook changed is carried over."""
    right = found
    if step is not None and planned.has_other_work and planned.commit != planned.work:
        whole = _whole(worktree, planned, step)
        if found in (whole, planned.work):
            again = project(worktree, planned.commit, planned.work, whole)
            right = planned.commit if isinstance(again, Conflict) else again
    if right != found:
        verdict.corrections[planned.path] = right
        verdict.taken_out.append(planned.path)
    if right != planned.commit:
        verdict.folded.append(planned.path)
        stage = project(worktree, planned.stage, planned.commit, right)
        if not isinstance(stage, Conflict):
            verdict.stage[planned.path] = stage
        _into_work_tree(worktree, planned, step, right)


def _whole(worktree: WorkTree, planned: PlannedPath, step: Step) -> Entry | None:
    """The file as it is now in the repository's form."""
    now = look(worktree.top, planned.path)
    if same(now, step.new):
        return planned.work
    return None if now is None else to_blob(worktree, planned.path, now, planned.staged)


def _into_work_tree(worktree: WorkTree, planned: PlannedPath, step: Step | None, right: Entry | None) -> None:
    """Where a hook rewrote only what was staged, the file follows, unless it holds anything but our bytes."""
    if step is None or planned.has_other_work or not same(look(worktree.top, planned.path), step.new):
        return
    new = None if right is None else from_blob(worktree, planned.path, right)
    write_file(worktree.top, planned.path, step.new, new, step.temporary)


def _was_there(worktree: WorkTree, record: Record, path: str) -> bool:
    """Whether an untracked file that a hook added is the user's: it is older than the hook."""
    try:
        changed = (worktree.top / path).lstat().st_ctime_ns
    except OSError:
        return False
    return record.started is not None and changed < record.started - _COARSE_NS


def withdraw(worktree: WorkTree, made: Commit) -> None:
    """Take HEAD back from the commit `made` to its parent, see `set_back`. Raises GitError when HEAD is not on it."""
    where = ("HEAD", made.parent) if made.parent else ("-d", "HEAD")
    reason = "repoagent: withdraw a commit that is not the planned one"
    reset_ref(worktree, "-m", reason, *where, made.oid)


def commit_again(
    worktree: WorkTree, index: Path, made: Commit, entries: Mapping[str, Entry | None], key: str | None = None
) -> str:
    """Replace the commit `made`, which HEAD is on, by the same one with `entries` as they are given.

    Message, author, committer and times stay; a signed commit is signed again, with `key` if one is given.
    Hooks do not run again, except for one of reference transactions. Raises GitError when HEAD is not on it, or
    when it can't be signed.
    """
    reset_to(worktree, index, made.oid)
    put_entries(worktree, index, entries)
    tree = write_tree(worktree, index)
    raw = git(worktree.top, "cat-file", "commit", made.oid)
    if b"\ngpgsig" in raw.partition(b"\n\n")[0]:
        new = _sign(worktree, tree, made, raw, key or "")
    else:
        new = git(
            worktree.top, "hash-object", "-t", "commit", "-w", "--stdin", read_only=False,
            stdin=b"tree " + tree.encode() + raw[raw.index(b"\n") :],
        ).decode().strip()  # fmt: skip
    reason = "repoagent: commit again without what a hook had added of other work"
    git(worktree.top, "update-ref", "-m", reason, "HEAD", new, made.oid, read_only=False)
    return new


def _sign(worktree: WorkTree, tree: str, made: Commit, raw: bytes, key: str) -> str:
    """The commit by way of `commit-tree -S`, which takes from the environment who and when."""
    header, _, message = raw.partition(b"\n\n")
    fields = dict(line.split(b" ", 1) for line in header.split(b"\n") if not line.startswith(b" "))
    env = {}
    for role in ("author", "committer"):
        name, _, rest = fields[role.encode()].partition(b" <")
        email, _, date = rest.partition(b"> ")
        values = {"NAME": os.fsdecode(name), "EMAIL": os.fsdecode(email), "DATE": "@" + date.decode()}
        env.update({f"GIT_{role.upper()}_{what}": value for what, value in values.items()})
    encoding = fields.get(b"encoding", b"UTF-8").decode()
    parents = [argument for parent in made.parents for argument in ("-p", parent)]
    out = git(
        worktree.top, "-c", f"i18n.commitEncoding={encoding}", "commit-tree", f"-S{key}", *parents, tree,
        stdin=message, env=env, read_only=False,
    )  # fmt: skip
    return out.decode().strip()


@dataclass(frozen=True)
class CorrectedCommit:
    """The commit as it is now, the paths that were taken out of it, and sentences for the user."""

    oid: str
    taken_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class CommitWithdrawn(RepoagentError):
    """There is no commit any more: it held what it must not, and could not be made again without."""


def remove_other_work(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    made: Commit,
    verdict: HookVerdict,
    *,
    key: str | None,
) -> CorrectedCommit:
    """The commit without what hooks swept in; `key` is that of `with_other_tree`.

    Where another commit stands on it, that stays in: it is in the history then, and as it was in the files and in the
    index. Where it can't be made again (a hook forbids it; there is no signature now) it is taken back: raises
    Withdrawn.
    """
    if not verdict.corrections:
        return CorrectedCommit(made.oid)
    names = ", ".join(verdict.taken_out)
    if head_commit(worktree) != made.oid:
        stays = f"a hook added {names} to the commit, where it stays because another commit is on top of it"
        return CorrectedCommit(made.oid, notes=(stays,))
    index = journal.path(COMMITTED)
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    try:
        oid = commit_again(worktree, index, made, verdict.corrections, key)
    except GitError as error:
        if error.returncode < 0:
            remove_stale_ref_locks(worktree, record)
        withdraw(worktree, made)
        copies = "".join(f"; {said}" for said in _published_notes(worktree, made.oid, names))
        raise CommitWithdrawn(
            f"a hook added {names} to the commit, and the commit could not be made again without it: "
            f"{error.stderr or error}{copies}"
        ) from error
    return CorrectedCommit(oid, tuple(verdict.taken_out), _published_notes(worktree, made.oid, names))


def _published_notes(worktree: WorkTree, commit: str, names: str) -> tuple[str, ...]:
    """A sentence where a hook had pushed or tagged the commit before."""
    seen = git(
        worktree.top, "for-each-ref", "--format=%(refname:short)", f"--contains={commit}",
        "refs/remotes", "refs/tags",
    )  # fmt: skip
    if not seen:
        return ()
    where = ", ".join(seen.decode(errors="replace").split())
    return (
        f"a hook pushed or tagged the commit as {commit[:12]} with your work in {names} before that "
        f"was removed: {where} still has it; fix that, for example with `git push --force-with-lease`",
    )


def uncorrected_entries(
    worktree: WorkTree, made: Commit, verdict: HookVerdict, stage: Mapping[str, Entry | None]
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
