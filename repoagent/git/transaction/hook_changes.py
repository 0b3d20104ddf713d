"""Judge what hooks changed in a commit: keep the work of formatters, take the user's other work out of the commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError
from repoagent.git.file_writer import FileStep, write_file
from repoagent.git.files import Content, read_content, same_content
from repoagent.git.index import Entry, put_entries, reset_to, staged_entries, write_tree
from repoagent.git.merge import Conflict, merge, merge_entry
from repoagent.git.objects import Commit, from_blob, head_commit, reset_ref, to_blob
from repoagent.git.process import GitError, git
from repoagent.git.transaction.journal import EditJournal, PlannedPath
from repoagent.git.transaction.other_files import COMMITTED
from repoagent.git.worktree import WorkTree

# File systems store times coarsely: a file that a hook creates may seem a little older than the hook.
_COARSE_NS = 20_000_000


@dataclass
class HookVerdict:
    """The entries to set in the user's index (`stage`) and to correct in the commit (`corrections`).

    `folded` are the paths where a hook's work is accepted, `taken_out` those from which other work is removed.
    """

    stage: dict[str, Entry | None]
    corrections: dict[str, Entry | None] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    taken_out: list[str] = field(default_factory=list)


def judge_commit(journal: EditJournal, made: Commit) -> HookVerdict:
    """Compare the commit with the plan, and return the verdict."""
    worktree, record = journal.worktree, journal.record
    verdict = HookVerdict(stage={planned.path: planned.stage for planned in record.planned})
    plans = {planned.path: planned for planned in record.planned}
    steps = {step.path: step for step in record.steps}
    expected = {p.path: p.commit for p in record.planned if p.commit != p.in_head}
    for path in sorted(expected.keys() | made.changed.keys()):
        if path in expected and path in made.changed and expected[path] == made.changed[path]:
            continue
        if path in plans:
            committed = made.changed[path] if path in made.changed else plans[path].in_head
            _judge_own(worktree, plans[path], steps.get(path), committed, verdict)
            continue
        is_other_work = path in record.uncommitted
        if made.was[path] is None and record.started is not None:
            with suppress(OSError):  # an untracked file that existed before the hooks
                changed = (worktree.top / path).lstat().st_ctime_ns
                is_other_work = is_other_work or changed < record.started - _COARSE_NS
        if is_other_work:
            verdict.corrections[path] = made.was[path]
            verdict.taken_out.append(path)
        else:
            verdict.stage[path] = made.changed[path]
            verdict.folded.append(path)
    return verdict


def _judge_own(
    worktree: WorkTree,
    planned: PlannedPath,
    step: FileStep | None,
    committed: Entry | None,
    verdict: HookVerdict,
) -> None:
    """Judge a file of the edit that a hook has staged again. If the user has other work in it, the hook has added that
    too: keep only what the hook changed."""
    path, correct = planned.path, committed
    if step is not None and planned.has_other_work and planned.commit != planned.work:
        current = read_content(worktree.top, path)
        whole = planned.work  # the present file, with filters applied
        if not same_content(current, step.new):
            whole = None if current is None else to_blob(worktree, path, current, planned.staged)
        if committed in (whole, planned.work):
            projected = merge_entry(worktree, planned.commit, planned.work, whole)
            correct = planned.commit if isinstance(projected, Conflict) else projected
    if correct != committed:
        verdict.corrections[path] = correct
        verdict.taken_out.append(path)
    if correct == planned.commit:
        return
    verdict.folded.append(path)
    stage = merge_entry(worktree, planned.stage, planned.commit, correct)
    if not isinstance(stage, Conflict):
        verdict.stage[path] = stage
    # if a hook rewrote only the staged content, update the file, unless it has anything but our bytes; a file that a
    # hook only took out of the index stays, as after `git rm --cached`
    if (
        step is not None
        and correct is not None
        and not planned.has_other_work
        and same_content(read_content(worktree.top, path), step.new)
    ):
        write_file(worktree.top, path, step.new, from_blob(worktree, path, correct), step.temporary)


def withdraw_commit(worktree: WorkTree, made: Commit) -> None:
    """Move HEAD back from the commit `made` to its parent. Raises GitError if HEAD is not at `made`."""
    target = ("HEAD", made.parent) if made.parent else ("-d", "HEAD")
    reason = "repoagent: withdraw a commit that is not the planned one"
    reset_ref(worktree, "-m", reason, *target, made.oid)


class CommitWithdrawn(RepoagentError):
    """The commit was withdrawn: it contained other work, and could not be made again without it."""


def remove_other_work(
    journal: EditJournal, made: Commit, verdict: HookVerdict, key: str | None
) -> tuple[str, list[str]]:
    """Make the commit again without other work that hooks added; return its id and sentences for the user.

    The commit stays unchanged if another one is on top. If it cannot be made again because of a hook or the signature,
    it is withdrawn and CommitWithdrawn is raised.
    """
    if not verdict.corrections:
        return made.oid, []
    worktree, names = journal.worktree, ", ".join(verdict.taken_out)
    if head_commit(worktree) != made.oid:
        stays = f"a hook added {names} to the commit, and repoagent cannot remove that because another commit is on top"
        # otherwise the index would revert it
        staged = {**staged_entries(worktree, verdict.corrections), **verdict.stage}
        for path, correct in verdict.corrections.items():
            if path in made.changed and staged.get(path) == correct:
                verdict.stage[path] = made.changed[path]
        return made.oid, [stays]
    index = journal.path(COMMITTED)
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    try:
        return _commit_again(worktree, index, made, verdict.corrections, key), []
    except GitError as error:
        if error.returncode < 0:
            journal.remove_stale_ref_locks()
        withdraw_commit(worktree, made)
        raise CommitWithdrawn(
            f"a hook added {names} to the commit, and repoagent could not make the commit again without that: "
            f"{error.stderr or error}"
        ) from error


def _commit_again(
    worktree: WorkTree, index: Path, made: Commit, entries: Mapping[str, Entry | None], key: str | None
) -> str:
    """Replace the tip `made` by the same commit with `entries`: same message, people and times, signed again if it was.
    Only reference transaction hooks run. Raises GitError."""
    reset_to(worktree, index, made.oid)
    put_entries(worktree, index, entries)
    tree = write_tree(worktree, index)
    raw = git(worktree.top, "cat-file", "commit", made.oid)
    header, _, message = raw.partition(b"\n\n")
    env: dict[str, str] = {}
    if b"\ngpgsig" not in header:
        command = ["hash-object", "-t", "commit", "-w", "--stdin"]
        stdin = b"tree " + tree.encode() + raw[raw.index(b"\n") :]
    else:  # `commit-tree -S` takes author, committer and dates from the environment
        fields = dict(line.split(b" ", 1) for line in header.split(b"\n") if not line.startswith(b" "))
        stdin = message
        for role in ("author", "committer"):
            name, _, rest = fields[role.encode()].partition(b" <")
            email, _, date = rest.partition(b"> ")
            env[f"GIT_{role.upper()}_NAME"] = os.fsdecode(name)
            env[f"GIT_{role.upper()}_EMAIL"] = os.fsdecode(email)
            env[f"GIT_{role.upper()}_DATE"] = "@" + date.decode()
        encoding = fields.get(b"encoding", b"UTF-8").decode()
        parents = [argument for parent in made.parents for argument in ("-p", parent)]
        command = ["-c", f"i18n.commitEncoding={encoding}", "commit-tree", f"-S{key or ''}", *parents, tree]
    new = git(worktree.top, *command, stdin=stdin, env=env, read_only=False).decode().strip()
    reason = "repoagent: commit again without the other work that a hook added"
    git(worktree.top, "update-ref", "-m", reason, "HEAD", new, made.oid, read_only=False)
    return new


def steps_after_hooks(journal: EditJournal, made: Commit, verdict: HookVerdict) -> tuple[FileStep, ...]:
    """The steps for undo, including what hooks changed and added.

    The hooks' version is read from the commit, because the user may have saved the file since.
    """
    worktree, record = journal.worktree, journal.record

    def content(path: str, entry: Entry | None) -> Content | None:
        return None if entry is None else from_blob(worktree, path, entry)

    plans = {planned.path: planned for planned in record.planned}
    steps = {step.path: step for step in record.steps}
    for path in verdict.folded:
        step = steps.get(path)
        if step is not None and plans[path].has_other_work and not record.in_place:
            steps[path] = replace(step, new=read_content(worktree.top, path))
            continue
        committed = content(path, verdict.corrections.get(path, made.changed.get(path)))
        if step is not None and record.in_place:
            before = content(path, plans[path].commit)
            steps[path] = step_after_hook(worktree, step, read_content(worktree.top, path), before, committed)
        elif step is not None:
            # only taken out of the index: the file still has the edit, and maybe a later save, which is the user's
            gone = committed is None and read_content(worktree.top, path) is None
            steps[path] = replace(step, new=None if gone else committed or step.new)
        else:
            old, temporary = content(path, made.was[path]), f"{record.id}-{len(steps)}"
            steps[path] = FileStep(path, old, committed, temporary)
            if record.in_place:
                current = read_content(worktree.top, path)
                steps[path] = FileStep(path, current, current, temporary, was=old, done=committed)
    return tuple(steps.values())


def step_after_hook(
    worktree: WorkTree, step: FileStep, now: Content | None, before: Content | None, after: Content | None
) -> FileStep:
    """Update `step`, whose change was already in the work tree, for a hook that turned `before` into `after`.

    `now` is the current content of the file. Only the hook's changes become part of the step; on a conflict, none do.
    """
    done = step.done
    if same_content(step.new, done):
        return replace(step, new=now, done=now)
    if done is None or before is None or after is None or done.is_link or before.is_link or after.is_link:
        return replace(step, new=now)
    text = merge(worktree, done.data, before.data, after.data, exact=True)
    return replace(step, new=now, done=done if isinstance(text, Conflict) else replace(done, data=text))
