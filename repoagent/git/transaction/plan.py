"""Plan a commit that is HEAD plus the change, whatever else is staged or changed, in the same file too.

Refuses the states of the work tree in which the commit would hold more or less than the change.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.facts import head_ref, operation
from repoagent.git.files import REGULAR, SUBMODULE, SYMLINK, Content, FileChange
from repoagent.git.index import Entry, Staged, Status, read_entries
from repoagent.git.merge import Conflict, lines_between, lines_text, project
from repoagent.git.objects import read_blobs, to_blob
from repoagent.git.transaction.journal import PlannedPath
from repoagent.git.transaction.results import AlreadyCommitted, InPlace, Inseparable
from repoagent.git.worktree import WorkTree

COMMIT_FIRST = "commit or stash that work first"
_COMMIT_WHOLE = "use --include-dirty to commit the whole file, or commit it yourself"
_WAYS_OUT = ", or use --include-dirty to commit it too, or --no-commit to only write the file"


@dataclass(frozen=True)
class Versions:
    """What HEAD and the index have of the paths of a change, and whether the work tree has something else.

    `include_dirty` is that of `make_plan`, `offer` and `in_place` too.
    """

    worktree: WorkTree
    status: Status
    index: Mapping[str, Staged]
    include_dirty: bool
    offer: bool = True
    in_place: InPlace | None = None

    @property
    def ways_out(self) -> str:
        if self.in_place is not None:
            return _COMMIT_WHOLE
        return COMMIT_FIRST + (_WAYS_OUT if self.offer else "")

    def is_whole(self, change: FileChange) -> bool:
        """Whether all that its file holds is to be committed."""
        return self.include_dirty or (self.in_place is not None and change.name in self.in_place.whole)

    def in_head(self, path: str) -> Entry | None:
        if path in self.status.changed:
            return self.status.changed[path].head
        return self.index[path].entry if path in self.index else None

    def staged(self, path: str) -> Entry | None:
        if path in self.status.changed:
            return self.status.changed[path].staged
        return self.index[path].entry if path in self.index else None

    def is_clean(self, path: str) -> bool:
        """Whether git says that the file is what is staged; it does not look at marked entries."""
        if path not in self.index or self.index[path].skip_worktree or self.index[path].assume_unchanged:
            return False
        return path not in self.status.changed or not (
            self.status.changed[path].unstaged or self.status.changed[path].intent_to_add
        )

    def in_the_way(self, target: str) -> Iterator[str]:
        """A file that git has where `target` needs a folder, and files below it."""
        for path, changed in self.status.changed.items():
            nested = target.startswith(path + "/") or path.startswith(target + "/")
            if nested and (changed.head or changed.staged):
                yield path


_ONLY_WRITE = ", or use --no-commit to only write the files"


def refuse_operation(worktree: WorkTree, *, offer: bool = True) -> None:
    """Raises Refused where a commit would be taken for a part of a merge, rebase, …, or where HEAD is on no branch;
    `offer` --no-commit there."""
    refuse_no_branch(worktree, offer=offer)
    what = operation(worktree)
    if what not in (None, "bisect"):
        article = "an" if what == "am" else "a"
        raise Refused(
            f"{article} {what} is in progress, and a commit would become part of it: finish or "
            f"abort it first{_ONLY_WRITE if offer else ''}"
        )


def refuse_no_branch(worktree: WorkTree, *, offer: bool = True) -> None:
    """Raises Refused where HEAD names a reference that is no branch. A detached HEAD names none."""
    ref = head_ref(worktree)
    if ref is not None and not ref.startswith("refs/heads/"):
        raise Refused(
            f"HEAD is on {ref}, which is not a branch: switch to a branch first"
            f" (git switch){_ONLY_WRITE if offer else ''}"
        )


def refuse_unmerged(status: Status, *, offer: bool = True) -> None:
    """Raises Refused while the index has conflicts; `offer` --no-commit there."""
    if status.unmerged:
        raise Refused(
            f"{', '.join(status.unmerged[:3])} has merge conflicts in the index: resolve them and `git add` "
            f"first{_ONLY_WRITE if offer else ''}"
        )


def refuse_inseparable(versions: Versions, change: FileChange) -> None:
    """Raises Refused where the change is one of a submodule, of a file that git has not, or of one that takes the
    place of something else that git has; not the last two where files are committed whole."""
    for path in {change.old_path, change.path} - {None}:
        entry = path and (versions.staged(path) or versions.in_head(path))
        if entry and entry.mode == SUBMODULE:
            raise Refused(f"{path} is a submodule: run repoagent inside it")
    if versions.is_whole(change):
        return
    if change.old_path is not None and versions.in_head(change.old_path) is None:
        raise Inseparable(_not_in_head(versions, change.old_path), change.name)
    if change.path is not None and change.path != change.old_path and versions.in_place is None:
        _refuse_occupied(versions, change.path)


def _not_in_head(versions: Versions, path: str) -> str:
    known = "staged but not in the last commit" if versions.staged(path) else "not tracked"
    ways_out = "use --include-dirty to commit it whole, or --no-commit to only write it"
    if versions.in_place is not None:
        ways_out = versions.ways_out
    return (
        f"{path} is {known}, so committing the edit would commit the whole file: "
        f"{ways_out if versions.offer else COMMIT_FIRST}"
    )


def _refuse_occupied(versions: Versions, target: str) -> None:
    """For a new file, or the new place of one."""
    if target in versions.index and versions.index[target].skip_worktree:
        raise Refused(sparse_advice(target))
    if versions.in_head(target) or versions.staged(target):
        raise Refused(f"{target} is missing in the work tree but still tracked: {versions.ways_out}")
    for path in versions.in_the_way(target):
        if versions.status.changed[path].submodule:
            raise Refused(f"{target} is in the submodule {path}: run repoagent inside it")
        raise Refused(f"{target} would replace {path}, which git still tracks: {versions.ways_out}")


def sparse_advice(path: str) -> str:
    """What to say of a tracked file that a sparse checkout leaves out. A plain `git restore` does not see it."""
    return (
        f"{path} is tracked, but excluded by the sparse checkout: restore it first with "
        f"`git restore --ignore-skip-worktree-bits {shlex.quote(path)}`, or its whole folder with "
        "`git sparse-checkout add FOLDER`"
    )


@dataclass(frozen=True)
class Plan:
    """What would be committed on top of `head` (None: a first commit). `uncommitted` are all tracked paths
    with the user's own work, which a check sees too; `notes` are sentences for the user."""

    head: str | None
    branch: str | None
    paths: tuple[PlannedPath, ...] = ()
    uncommitted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def dirty(self) -> tuple[str, ...]:
        """The paths of the edit that hold other uncommitted work, which stays uncommitted."""
        return tuple(planned.path for planned in self.paths if planned.has_other_work)


def make_plan(
    worktree: WorkTree,
    changes: Sequence[FileChange],
    status: Status,
    *,
    include_dirty: bool = False,
    offer: bool = True,
    in_place: InPlace | None = None,
) -> Plan:
    """Store the blobs of the commit and say which they are.

    Raises Inseparable when a change can't be separated from the user's uncommitted work in the same file, and InHead
    when HEAD holds all of it already. `include_dirty` commits each file whole, which is proposed in a
    refusal where there is such an `offer`. `in_place`: the work tree holds the changes already, and how.
    """
    paths = sorted({path for change in changes for path in (change.old_path, change.path) if path})
    versions = Versions(worktree, status, read_entries(worktree, paths), include_dirty, offer, in_place)
    for change in changes:
        refuse_inseparable(versions, change)
    planned = tuple(one for change in changes for one in _plan_change(versions, change))
    planned += tuple(_plan_removals(versions, planned))
    if all(one.commit == one.in_head for one in planned):
        raise AlreadyCommitted(
            f"the last commit already has this change of {_names(changes)}"
            + (": use --no-commit to only write it" if offer else "")
        )
    plan = Plan(status.head, status.branch, planned, tuple(status.changed))
    notes = _notes(worktree, plan, in_place, include_dirty=include_dirty)
    return replace(plan, notes=(*notes, *_notes_in_place(worktree, plan, in_place)))


def _plan_change(versions: Versions, change: FileChange) -> Iterator[PlannedPath]:
    source = change.old_path or change.path
    target = change.path or change.old_path
    if source is None or target is None:
        raise ValueError("a change without a path")
    base = _base(versions, source, change)
    after = _after(versions, source, target, change, base)
    work = _found(versions, target, after)
    head, staged = versions.in_head(source), versions.staged(source)
    if change.is_rename:
        left = _found(versions, source, None)
        yield PlannedPath(source, head, staged, base, left, None, None, versions.index.get(source))
    commit, stage = work, work
    if not versions.is_whole(change):
        commit = _carry(versions, change, "HEAD", (head, base, after))
        stage = commit if staged == head else _carry(versions, change, "the index", (staged, base, after))
    renamed = source if change.is_rename else None
    yield PlannedPath(target, head, staged, base, work, commit, stage, versions.index.get(source), renamed)


def _plan_removals(versions: Versions, planned: Sequence[PlannedPath]) -> Iterator[PlannedPath]:
    """The removal, which is in the work tree already, of what git still has where a file of the edit is to be."""
    own = {one.path for one in planned}
    for target in (one.path for one in planned if one.work is not None):
        for path in versions.in_the_way(target):
            if path not in own:
                yield PlannedPath(path, versions.in_head(path), versions.staged(path), None, None, None, None)


def _base(versions: Versions, path: str, change: FileChange) -> Entry | None:
    if change.before is None:
        return None
    if not versions.in_place and versions.is_clean(path):
        return versions.staged(path)
    return to_blob(
        versions.worktree, path, Content(change.before, change.old_mode or REGULAR), versions.staged(path)
    )


def _found(versions: Versions, path: str, after: Entry | None) -> Entry | None:
    """What the work tree holds in the end: what the change has left, or what somebody has made of it since."""
    if versions.in_place is None or path not in versions.in_place.found:
        return after
    found = versions.in_place.found[path]
    if found is None:
        return None
    as_before = after is not None and found.is_link == (after.mode == SYMLINK)
    mode = after.mode if after is not None and as_before else found.mode
    return Entry(mode, to_blob(versions.worktree, path, found, versions.staged(path)).oid)


def _after(
    versions: Versions, source: str, target: str, change: FileChange, base: Entry | None
) -> Entry | None:
    if change.after is None:
        return None
    mode = change.mode or REGULAR
    if base is not None and change.mode == change.old_mode:
        mode = base.mode  # where core.fileMode is off, the index knows and the file does not
    if base is not None and change.after == change.before and source == target:
        return Entry(mode, base.oid)
    stored = to_blob(versions.worktree, target, Content(change.after, mode), versions.staged(source))
    return Entry(mode, stored.oid)


def _carry(
    versions: Versions, change: FileChange, where: str, sides: tuple[Entry | None, Entry | None, Entry | None]
) -> Entry | None:
    """The first of the three with the change from the second to the third. Raises Inseparable where that fails; what
    was staged of a file on top of its change stays staged."""
    found = project(versions.worktree, *sides)
    if not isinstance(found, Conflict):
        return found
    if versions.in_place is not None and where == "the index":
        return sides[0]
    raise Inseparable(
        f"cannot separate the change of {change.old_path or change.path} from uncommitted work in it"
        f"{conflict_lines(found)} (compared with {where}): {versions.ways_out}",
        change.name,
    )


def conflict_lines(conflict: Conflict) -> str:
    """ " on line 3", for a message."""
    return f" on {lines_text(conflict.lines)}" if conflict.lines else ""


def _notes(worktree: WorkTree, plan: Plan, in_place: InPlace | None, *, include_dirty: bool) -> Iterator[str]:
    if operation(worktree) == "bisect":
        yield "a bisect is in progress: it may move HEAD away from the commit"
    if plan.head is not None and plan.branch is None:
        yield "HEAD is detached: no branch will have the commit"
    dirty = [one for one in plan.paths if one.has_other_work]
    if in_place is not None:  # what was staged of the change itself is no other work
        dirty = [one for one in dirty if one.path not in in_place.found]
        dirty = [one for one in dirty if (one.head != one.base if include_dirty else one.stays_dirty)]
    names = ", ".join(one.path for one in dirty)
    if names and include_dirty:
        yield f"the commit includes the other uncommitted work in {names}"
    elif names:
        yield f"other uncommitted work in {names} stays uncommitted"


def _notes_in_place(worktree: WorkTree, plan: Plan, in_place: InPlace | None) -> Iterator[str]:
    """Which lines of the files stay uncommitted, for somebody has written them on top of the change."""
    for path in in_place.found if in_place is not None else ():
        one = next(planned for planned in plan.paths if planned.path == path)
        if one.commit == one.work:
            yield f"the commit includes your own changes to {path}"
            continue
        lines: tuple[tuple[int, int], ...] = ()
        if one.commit is not None and one.work is not None:
            blobs = read_blobs(worktree, [one.commit.oid, one.work.oid])
            lines = lines_between(worktree, blobs[one.commit.oid], blobs[one.work.oid])
        where = f" ({lines_text(lines)})" if lines else ""
        yield f"your own changes to {path}{where} are not in the commit: they stay in the file"


def _names(changes: Sequence[FileChange]) -> str:
    return ", ".join(change.name for change in changes)
