"""Plan a commit that is HEAD plus the change, whatever else is staged or changed, even in the same file.

Refuses states of the work tree in which the commit would contain more or less than the change.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import SUBMODULE, SYMLINK, Content, FileChange
from repoagent.git.index import Entry, Staged, Status, read_entries
from repoagent.git.merge import Conflict, lines_text, merge_entry
from repoagent.git.objects import to_blob
from repoagent.git.transaction.journal import PlannedPath
from repoagent.git.transaction.results import AlreadyCommitted, InPlace, Inseparable
from repoagent.git.worktree import WorkTree, head_ref, operation_in_progress

_COMMIT_FIRST = "commit or stash that work first"
_COMMIT_WHOLE = "use --include-dirty to commit the whole file, or commit it yourself"
_WAYS_OUT = ", or use --include-dirty to commit it too, or --no-commit to only write the file"
_ONLY_WRITE = ", or use --no-commit to only write the files"


@dataclass(frozen=True)
class CommitPlan:
    """The paths of the planned commit, and sentences for the user."""

    paths: tuple[PlannedPath, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EntryVersions:
    """The entries in HEAD, the index and the work tree for the paths of a change.

    `include_dirty`, `offer` and `in_place` are as in `make_plan`.
    """

    worktree: WorkTree
    status: Status
    index: Mapping[str, Staged]
    include_dirty: bool = False
    offer: bool = True
    in_place: InPlace | None = None

    @property
    def ways_out(self) -> str:
        """The remedies to name in a refusal, as the end of a sentence."""
        if self.in_place is not None:
            return _COMMIT_WHOLE
        return _COMMIT_FIRST + (_WAYS_OUT if self.offer else "")

    def is_whole(self, change: FileChange) -> bool:
        """Whether to commit the whole file."""
        return self.include_dirty or (self.in_place is not None and change.name in self.in_place.whole)

    def in_head(self, path: str) -> Entry | None:
        return self.status.changed[path].head if path in self.status.changed else self.staged(path)

    def staged(self, path: str) -> Entry | None:
        """The index entry of `path`; None if it is missing or only an intent to add."""
        if path in self.status.changed:
            return self.status.changed[path].staged
        return self.index[path].entry if path in self.index else None

    def blob(self, path: str, content: Content | None) -> Entry | None:
        """The entry for `content` from the work tree, stored with git's filters applied."""
        return None if content is None else to_blob(self.worktree, path, content, self.staged(path))

    def nested(self, target: str) -> Iterator[str]:
        """The changed tracked files in the way of `target`: below it, or at a path that it needs as a folder."""
        for path, changed in self.status.changed.items():
            is_nested = target.startswith(path + "/") or path.startswith(target + "/")
            if is_nested and (changed.head or changed.staged):
                yield path


def refuse_operation(worktree: WorkTree, *, offer: bool = True) -> None:
    """Raise Refused if a commit would become part of a merge, rebase or the like, or if HEAD is on no branch.

    With `offer`, the message suggests --no-commit.
    """
    refuse_no_branch(worktree, offer=offer)
    name = operation_in_progress(worktree)
    if name not in (None, "bisect"):
        raise Refused(
            f"{'an' if name == 'am' else 'a'} {name} is in progress, and a commit would become part of it: finish or "
            f"abort it first{_ONLY_WRITE if offer else ''}"
        )


def refuse_no_branch(worktree: WorkTree, *, offer: bool = True) -> None:
    """Raise Refused if HEAD names a reference that is not a branch. A detached HEAD is allowed.

    With `offer`, the message suggests --no-commit.
    """
    ref = head_ref(worktree)
    if ref is not None and not ref.startswith("refs/heads/"):
        raise Refused(
            f"HEAD is on {ref}, which is not a branch: switch to a branch first"
            f" (`git switch`){_ONLY_WRITE if offer else ''}"
        )


def refuse_unmerged(status: Status, *, offer: bool = True) -> None:
    """Raise Refused if the index has conflicts. With `offer`, the message suggests --no-commit."""
    if status.unmerged:
        raise Refused(
            f"unresolved merge conflicts in {', '.join(status.unmerged[:3])}: resolve them and run `git add` "
            f"first{_ONLY_WRITE if offer else ''}"
        )


def sparse_advice(path: str) -> str:
    """The message for a tracked file that the sparse checkout excludes.

    It advises an option of `git restore`, which otherwise skips the file.
    """
    return (
        f"{path} is tracked, but excluded by the sparse checkout: restore it first with "
        f"`git restore --ignore-skip-worktree-bits {shlex.quote(path)}`, or its whole folder with "
        "`git sparse-checkout add FOLDER`"
    )


def _refuse_inseparable(versions: EntryVersions, change: FileChange) -> None:
    """Raise Refused for a submodule and, unless files are committed whole, for a file that is not in HEAD or would
    replace another tracked path."""
    source, target = change.old_path, change.path
    for path in {source, target} - {None}:
        entry = path and (versions.staged(path) or versions.in_head(path))
        if entry and entry.mode == SUBMODULE:
            raise Refused(f"{path} is a submodule: run repoagent inside it")
    if versions.is_whole(change):
        return
    if source is not None and versions.in_head(source) is None:
        state = "staged but not in the last commit" if versions.staged(source) else "not tracked"
        ways_out = "use --include-dirty to commit it whole, or --no-commit to only write it"
        if not versions.offer:
            ways_out = _COMMIT_FIRST
        elif versions.in_place is not None:
            ways_out = versions.ways_out
        sentence = f"{source} is {state}, so committing the edit would commit the whole file: {ways_out}"
        raise Inseparable(sentence, change.name)
    if target is None or target == source or versions.in_place is not None:
        return
    if target in versions.index and versions.index[target].skip_worktree:
        raise Refused(sparse_advice(target))
    if versions.in_head(target) or versions.staged(target):
        raise Refused(f"the deletion of {target} is uncommitted: {versions.ways_out}")
    for path in versions.nested(target):
        if versions.status.changed[path].submodule:
            raise Refused(f"{target} is in the submodule {path}: run repoagent inside it")
        raise Refused(f"{target} would replace {path}, whose deletion is uncommitted: {versions.ways_out}")


def make_plan(
    worktree: WorkTree,
    changes: Sequence[FileChange],
    status: Status,
    *,
    include_dirty: bool = False,
    offer: bool = True,
    in_place: InPlace | None = None,
) -> CommitPlan:
    """Store the blobs of the commit and return the plan.

    `include_dirty` commits whole files; with `offer`, refusals suggest that. Raises Inseparable if the same lines have
    other uncommitted work, AlreadyCommitted if HEAD already contains all changes.
    """
    paths = sorted({path for change in changes for path in (change.old_path, change.path) if path})
    versions = EntryVersions(worktree, status, read_entries(worktree, paths), include_dirty, offer, in_place)
    for change in changes:
        _refuse_inseparable(versions, change)
    planned = [path for change in changes for path in _plan_change(versions, change)]
    own = {path.path for path in planned}
    # tracked paths that a file of the edit replaces: they are removed in the work tree already
    for target in [path.path for path in planned if path.work is not None]:
        for path in versions.nested(target):
            if path not in own:
                entries = versions.in_head(path), versions.staged(path)
                planned.append(PlannedPath(path, *entries, None, None, None, None))
    if all(path.commit == path.in_head for path in planned):
        raise AlreadyCommitted(
            f"the last commit already contains this change to {', '.join(change.name for change in changes)}"
            + (": use --no-commit to only write it" if offer else "")
        )
    return CommitPlan(tuple(planned), tuple(_notes(versions, planned)))


def _plan_change(versions: EntryVersions, change: FileChange) -> Iterator[PlannedPath]:
    source, target = change.old_path or change.path, change.path or change.old_path
    if source is None or target is None:
        raise ValueError("a change without a path")
    head, staged, bits = versions.in_head(source), versions.staged(source), versions.index.get(source)
    base = after = None
    if change.old is not None:
        # git has compared the file with the index, unless the entry is flagged
        changed = versions.status.changed.get(source)
        differs = changed is not None and (changed.unstaged or changed.intent_to_add)
        flagged = bits is None or bits.skip_worktree or bits.assume_unchanged
        is_staged = not (versions.in_place or flagged or differs)
        base = staged if is_staged else versions.blob(source, change.old)
    if change.new is not None:
        mode = change.new.mode
        if base is not None and mode == change.old_mode:
            mode = base.mode  # if core.fileMode is off, only the index has the mode
        if base is not None and change.after == change.before and source == target:
            after = Entry(mode, base.oid)
        else:
            stored = to_blob(versions.worktree, target, Content(change.new.data, mode), staged)
            after = Entry(mode, stored.oid)
    work = _in_work_tree(versions, target, after)
    if change.is_rename:
        left = _in_work_tree(versions, source, None)
        yield PlannedPath(source, head, staged, base, left, None, None, bits)
    commit, stage = work, work
    if not versions.is_whole(change):
        commit = _carry(versions, change, "HEAD", (head, base, after))
        stage = commit if staged == head else _carry(versions, change, "the index", (staged, base, after))
    yield PlannedPath(
        target, head, staged, base, work, commit, stage, bits, source if change.is_rename else None
    )


def _in_work_tree(versions: EntryVersions, path: str, after: Entry | None) -> Entry | None:
    """The final content of the work tree: after the change, or what another program made of it since."""
    if versions.in_place is None or path not in versions.in_place.current:
        return after
    content = versions.in_place.current[path]
    stored = versions.blob(path, content)
    if content is None or stored is None:
        return None
    keeps_mode = after is not None and content.is_link == (after.mode == SYMLINK)
    return Entry(after.mode if after is not None and keeps_mode else content.mode, stored.oid)


def _carry(
    versions: EntryVersions,
    change: FileChange,
    where: str,
    sides: tuple[Entry | None, Entry | None, Entry | None],
) -> Entry | None:
    """Merge the change from the second to the third of `sides` into the first. Raises Inseparable; with `in_place`,
    what is staged on top stays staged."""
    projected = merge_entry(versions.worktree, *sides)
    if not isinstance(projected, Conflict):
        return projected
    if versions.in_place is not None and where == "the index":
        return sides[0]
    raise Inseparable(
        f"cannot separate the change to {change.old_path or change.path} from other uncommitted work in that file"
        f"{conflict_lines(projected)} (compared with {where}): {versions.ways_out}",
        change.name,
    )


def conflict_lines(conflict: Conflict) -> str:
    """Describe where a conflict is, such as " on line 3"; "" if unknown."""
    return f" on {lines_text(conflict.lines)}" if conflict.lines else ""


def _notes(versions: EntryVersions, planned: Sequence[PlannedPath]) -> Iterator[str]:
    worktree, in_place = versions.worktree, versions.in_place
    if operation_in_progress(worktree) == "bisect":
        yield "a bisect is in progress: it may move HEAD away from the commit"
    if versions.status.head is not None and versions.status.branch is None:
        yield "HEAD is detached: no branch will contain the commit"
    dirty = [path for path in planned if path.has_other_work]
    if in_place is not None:  # staged parts of the change itself are not other work
        dirty = [path for path in dirty if path.path not in in_place.current]
        if versions.include_dirty:
            dirty = [path for path in dirty if path.head != path.base]
        else:
            dirty = [path for path in dirty if not path.commit == path.work == path.stage]
    names = ", ".join(path.path for path in dirty)
    if names and versions.include_dirty:
        yield f"the commit includes the other uncommitted work in {names}"
    elif names:
        yield f"other uncommitted work in {names} stays uncommitted"
    for name in in_place.current if in_place is not None else ():
        path = next(path for path in planned if path.path == name)
        if path.commit == path.work:
            yield f"the commit includes your own changes to {name}"
            continue
        yield f"your own changes to {name} are not in the commit: they stay in the file"
