"""Plan a commit that is HEAD plus the change, whatever else is staged or unstaged, in the same file too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from repoagent.errors import NothingDone, Refused
from repoagent.repo.blobs import to_blob
from repoagent.repo.change import REGULAR, FileChange
from repoagent.repo.content import Content
from repoagent.repo.facts import operation
from repoagent.repo.index import Entry, Staged, Status, read_entries
from repoagent.repo.project import Conflict, project, say_lines
from repoagent.repo.record import Planned
from repoagent.repo.worktree import WorkTree

_FIRST = "commit or stash that work first"
_WAYS_OUT = ", or use --include-dirty to commit it too, or --no-commit to only write the file"
_ONLY_WRITE = ", or use --no-commit to only write the files"


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


@dataclass(frozen=True)
class Tree:
    """What the plan is made against."""

    worktree: WorkTree
    status: Status
    index: Mapping[str, Staged]
    include_dirty: bool
    offer: bool = True

    @property
    def ways_out(self) -> str:
        return _FIRST + (_WAYS_OUT if self.offer else "")

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


def refuse_operation(worktree: WorkTree, *, offer: bool = True) -> None:
    """Raises Refused where a commit would be taken for a part of a merge, rebase, …; `offer` --no-commit there."""
    what = operation(worktree)
    if what not in (None, "bisect"):
        article = "an" if what == "am" else "a"
        raise Refused(
            f"{article} {what} is in progress, and a commit now would be taken for a part of it: finish it or "
            f"abort it first{_ONLY_WRITE if offer else ''}"
        )


def refuse_unmerged(status: Status, *, offer: bool = True) -> None:
    """Raises Refused while the index has conflicts; `offer` --no-commit there."""
    if status.unmerged:
        raise Refused(
            f"{', '.join(status.unmerged[:3])} has merge conflicts in the index: resolve them and `git add` "
            f"first{_ONLY_WRITE if offer else ''}"
        )


def make_plan(
    worktree: WorkTree,
    changes: Sequence[FileChange],
    status: Status,
    *,
    include_dirty: bool = False,
    offer: bool = True,
) -> Plan:
    """Store the blobs of the commit and say which they are.

    Raises Refused when a change can't be separated from the user's uncommitted work in the same file, and
    NothingDone when HEAD holds all of it already. `include_dirty` commits each file whole, which is proposed in a
    refusal where there is such an `offer`.
    """
    paths = sorted({path for change in changes for path in (change.old_path, change.path) if path})
    tree = Tree(worktree, status, read_entries(worktree, paths), include_dirty, offer)
    for change in changes:
        _refuse_what_is_in_the_way(tree, change)
    planned = tuple(one for change in changes for one in _plan_change(tree, change))
    planned += tuple(_plan_what_gives_way(tree, planned))
    if all(one.commit == one.in_head for one in planned):
        raise NothingDone(
            f"the last commit has this change of {_names(changes)} already"
            + (": use --no-commit to only write it" if offer else "")
        )
    plan = Plan(status.head, status.branch, planned, tuple(status.changed))
    return replace(plan, notes=tuple(_notes(worktree, plan, include_dirty=include_dirty)))


def _plan_change(tree: Tree, change: FileChange) -> Iterator[Planned]:
    source = change.old_path or change.path
    target = change.path or change.old_path
    if source is None or target is None:
        raise ValueError("a change without a path")
    base = _base(tree, source, change)
    work = _work(tree, source, target, change, base)
    head, staged = tree.in_head(source), tree.staged(source)
    if change.is_rename:
        yield Planned(source, head, staged, base, None, None, None, tree.index.get(source))
    commit, stage = work, work
    if not tree.include_dirty:
        commit = _carry(tree, source, "HEAD", (head, base, work))
        stage = commit if staged == head else _carry(tree, source, "the index", (staged, base, work))
    renamed = source if change.is_rename else None
    yield Planned(target, head, staged, base, work, commit, stage, tree.index.get(source), renamed)


def _plan_what_gives_way(tree: Tree, planned: Sequence[Planned]) -> Iterator[Planned]:
    """The removal, which is in the work tree already, of what git still has where a file of the edit is to be."""
    own = {one.path for one in planned}
    for target in (one.path for one in planned if one.work is not None):
        for path in _in_the_way(tree, target):
            if path not in own:
                yield Planned(path, tree.in_head(path), tree.staged(path), None, None, None, None)


def _in_the_way(tree: Tree, target: str) -> Iterator[str]:
    """A file that git has where `target` needs a folder, and files below it."""
    for path, changed in tree.status.changed.items():
        if (target.startswith(path + "/") or path.startswith(target + "/")) and (
            changed.head or changed.staged
        ):
            yield path


def _base(tree: Tree, path: str, change: FileChange) -> Entry | None:
    if change.before is None:
        return None
    if tree.is_clean(path):
        return tree.staged(path)
    return to_blob(tree.worktree, path, Content(change.before, change.old_mode or REGULAR), tree.staged(path))


def _work(tree: Tree, source: str, target: str, change: FileChange, base: Entry | None) -> Entry | None:
    if change.after is None:
        return None
    mode = change.mode or REGULAR
    if base is not None and change.mode == change.old_mode:
        mode = base.mode  # where core.fileMode is off, the index knows and the file does not
    if base is not None and change.after == change.before and source == target:
        return Entry(mode, base.oid)
    stored = to_blob(tree.worktree, target, Content(change.after, mode), tree.staged(source))
    return Entry(mode, stored.oid)


def _carry(
    tree: Tree, path: str, where: str, versions: tuple[Entry | None, Entry | None, Entry | None]
) -> Entry | None:
    """The first of the `versions` with the change from the second to the third."""
    found = project(tree.worktree, *versions)
    if not isinstance(found, Conflict):
        return found
    raise Refused(
        f"the change of {path} can't be separated from uncommitted work in it{say_where(found)} "
        f"(compared with {where}): {tree.ways_out}"
    )


def say_where(conflict: Conflict) -> str:
    """ " on line 3", for a message."""
    return f" on {say_lines(conflict.lines)}" if conflict.lines else ""


def _refuse_what_is_in_the_way(tree: Tree, change: FileChange) -> None:
    for path in {change.old_path, change.path} - {None}:
        entry = path and (tree.staged(path) or tree.in_head(path))
        if entry and entry.mode == "160000":
            raise Refused(f"{path} is a submodule: run repoagent inside it")
    if tree.include_dirty:
        return
    source, target = change.old_path, change.path
    if source is not None and tree.in_head(source) is None:
        known = "staged but not in the last commit" if tree.staged(source) else "not tracked"
        raise Refused(
            f"{source} is {known}, so a commit of the edit would be a commit of the whole file: "
            + (
                "use --include-dirty to commit it whole, or --no-commit to only write it"
                if tree.offer
                else _FIRST
            )
        )
    if target is None or target == source:
        return
    if target in tree.index and tree.index[target].skip_worktree:
        raise Refused(
            f"{target} is tracked, but left out of this work tree: bring it back first, as "
            "`git sparse-checkout add FOLDER` does"
        )
    if tree.in_head(target) or tree.staged(target):
        raise Refused(f"{target} is missing in the work tree, but git has it: {tree.ways_out}")
    for path in _in_the_way(tree, target):
        if tree.status.changed[path].submodule:
            raise Refused(f"{target} is in the submodule {path}: run repoagent inside it")
        raise Refused(f"{target} would take the place of {path}, which git still has: {tree.ways_out}")


def _notes(worktree: WorkTree, plan: Plan, *, include_dirty: bool) -> Iterator[str]:
    if operation(worktree) == "bisect":
        yield "a bisect is in progress: it may move HEAD away from the commit"
    if plan.head is not None and plan.branch is None:
        yield "HEAD is detached: the commit is on no branch"
    names = ", ".join(plan.dirty)
    if names and include_dirty:
        yield f"the commit includes the other uncommitted work in {names}"
    elif names:
        yield f"other uncommitted work in {names} stays as it is"


def _names(changes: Sequence[FileChange]) -> str:
    return ", ".join(change.name for change in changes)
