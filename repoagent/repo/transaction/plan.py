"""Plan a commit that is HEAD plus the change, whatever else is staged or unstaged, in the same file too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.repo.blobs import read_blobs, to_blob
from repoagent.repo.change import REGULAR, SYMLINK, FileChange
from repoagent.repo.content import Content
from repoagent.repo.facts import operation
from repoagent.repo.index import Entry, read_entries
from repoagent.repo.merge import Conflict, lines_between, say_lines
from repoagent.repo.project import project
from repoagent.repo.status import Status
from repoagent.repo.transaction.in_place import InPlace
from repoagent.repo.transaction.record import Planned
from repoagent.repo.transaction.refusals import refuse_what_is_in_the_way
from repoagent.repo.transaction.results import InHead, Inseparable
from repoagent.repo.transaction.versions import Versions
from repoagent.repo.worktree import WorkTree


@dataclass(frozen=True)
class Plan:
    """What would be committed on top of `head` (None: a first commit). `uncommitted` are all tracked paths
    with the user's own work, which a check sees too; `notes` are sentences for the user."""

    head: str | None
    branch: str | None
    paths: tuple[Planned, ...] = ()
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
        refuse_what_is_in_the_way(versions, change)
    planned = tuple(one for change in changes for one in _plan_change(versions, change))
    planned += tuple(_plan_what_gives_way(versions, planned))
    if all(one.commit == one.in_head for one in planned):
        raise InHead(
            f"the last commit has this change of {_names(changes)} already"
            + (": use --no-commit to only write it" if offer else "")
        )
    plan = Plan(status.head, status.branch, planned, tuple(status.changed))
    notes = _notes(worktree, plan, in_place, include_dirty=include_dirty)
    return replace(plan, notes=(*notes, *_notes_in_place(worktree, plan, in_place)))


def _plan_change(versions: Versions, change: FileChange) -> Iterator[Planned]:
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
        yield Planned(source, head, staged, base, left, None, None, versions.index.get(source))
    commit, stage = work, work
    if not versions.is_whole(change):
        commit = _carry(versions, change, "HEAD", (head, base, after))
        stage = commit if staged == head else _carry(versions, change, "the index", (staged, base, after))
    renamed = source if change.is_rename else None
    yield Planned(target, head, staged, base, work, commit, stage, versions.index.get(source), renamed)


def _plan_what_gives_way(versions: Versions, planned: Sequence[Planned]) -> Iterator[Planned]:
    """The removal, which is in the work tree already, of what git still has where a file of the edit is to be."""
    own = {one.path for one in planned}
    for target in (one.path for one in planned if one.work is not None):
        for path in versions.in_the_way(target):
            if path not in own:
                yield Planned(path, versions.in_head(path), versions.staged(path), None, None, None, None)


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
        f"the change of {change.old_path or change.path} can't be separated from uncommitted work in it"
        f"{say_where(found)} (compared with {where}): {versions.ways_out}",
        change.name,
    )


def say_where(conflict: Conflict) -> str:
    """ " on line 3", for a message."""
    return f" on {say_lines(conflict.lines)}" if conflict.lines else ""


def _notes(worktree: WorkTree, plan: Plan, in_place: InPlace | None, *, include_dirty: bool) -> Iterator[str]:
    if operation(worktree) == "bisect":
        yield "a bisect is in progress: it may move HEAD away from the commit"
    if plan.head is not None and plan.branch is None:
        yield "HEAD is detached: the commit is on no branch"
    dirty = [one for one in plan.paths if one.has_other_work]
    if in_place is not None:  # what was staged of the change itself is no other work
        dirty = [one for one in dirty if one.path not in in_place.found]
        dirty = [one for one in dirty if (one.head != one.base if include_dirty else one.stays_dirty)]
    names = ", ".join(one.path for one in dirty)
    if names and include_dirty:
        yield f"the commit includes the other uncommitted work in {names}"
    elif names:
        yield f"other uncommitted work in {names} stays as it is"


def _notes_in_place(worktree: WorkTree, plan: Plan, in_place: InPlace | None) -> Iterator[str]:
    """Which lines of the files stay uncommitted, for somebody has written them on top of the change."""
    for path in in_place.found if in_place is not None else ():
        one = next(planned for planned in plan.paths if planned.path == path)
        if one.commit == one.work:
            yield f"the commit includes your own changes of {path}"
            continue
        lines: tuple[tuple[int, int], ...] = ()
        if one.commit is not None and one.work is not None:
            blobs = read_blobs(worktree, [one.commit.oid, one.work.oid])
            lines = lines_between(worktree, blobs[one.commit.oid], blobs[one.work.oid])
        where = f" ({say_lines(lines)})" if lines else ""
        yield f"your own changes of {path}{where} are not in the commit: they stay in the file"


def _names(changes: Sequence[FileChange]) -> str:
    return ", ".join(change.name for change in changes)
