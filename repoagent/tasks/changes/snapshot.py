"""What a command changed, by comparing the work tree before and after it, and what the user must agree to.

A snapshot costs one `git status` and the bytes of uncommitted files; ignored files are skipped. What the user saves
while a command runs in the foreground counts as the command's; between two snapshots around a background command it
is a candidate. Many deletions, and files that act when a folder is opened, are undone unless the user agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from repoagent.agent.approvals.policy import Asked, Verdict
from repoagent.dataclass import dataclass
from repoagent.edit.guards.sensitive import ON_OPENING, count_tracked, is_mass, listed
from repoagent.errors import RepoagentError
from repoagent.git.files import Content, FileChange
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes.change_set import ChangeSet
from repoagent.tasks.changes.detect import (
    UNSEEN,
    Look,
    change_of,
    differences,
    entries,
    in_submodules,
    look_around,
    named,
    names_of,
    sentences,
    verb,
    written,
)
from repoagent.tasks.changes.executed_files import tracked_folders, watch_executed
from repoagent.tasks.changes.interrupted import forget_look, keep_look
from repoagent.tasks.changes.submodules import checked_out, look_inside, told


@dataclass
class Guard:
    """ask: the person. write: writes changes to the work tree. agreed: is told the paths to which the person said yes.
    sensitive: what acts on opening may be written unasked."""

    change_set: ChangeSet
    say: Callable[[str], None]
    ask: Callable[[Asked], Verdict]
    write: Callable[[Sequence[FileChange]], None]
    agreed: Callable[[Sequence[str]], None]
    sensitive: bool = False
    _allowed: set[str] = field(default_factory=set, init=False)

    def after(self, done: Sequence[FileChange], acting: Sequence[tuple[str, bool]]) -> str:
        """To be called when a command has ended and the ledger has what it has `done`. `acting` is what it has written
        that acts on opening, with whether it is new. What the model is to be told, "" for nothing."""
        return "\n".join(filter(None, [self._deletions(done), *self._acting(done, acting)]))

    def _deletions(self, done: Sequence[FileChange]) -> str:
        last = [change for change in done if change.path is None]
        if not last:
            return ""
        every = (*self.change_set.changes, *self.change_set.candidates)
        moved = {change.after for change in every if change.before is None}
        gone = [change for change in every if change.path is None and change.before not in moved]
        open_ = [change.name for change in gone if change.name not in self._allowed]
        last = [change for change in last if change.name in open_]
        if not last or not is_mass(len(open_), count_tracked(self.change_set.worktree)):
            return ""
        why = f"commands deleted {len(open_)} files: {names_of(list(map(named, open_)))}"
        return self._decided(Asked("delete", "\n".join(map(named, open_)), why=why), open_, last)

    def _acting(self, done: Sequence[FileChange], acting: Sequence[tuple[str, bool]]) -> Iterator[str]:
        changes = {
            change.name: change
            for change in done
            if change.after is not None and listed(change.name) in ON_OPENING
        }
        for path in dict.fromkeys([*(path for path, _ in acting), *changes]):
            if self.sensitive or path in self._allowed:
                continue
            what = listed(path) or "is obeyed by git in that folder"
            asked = Asked("sensitive", named(path), why=f"a command wrote {named(path)}, which {what}")
            if path in changes:
                yield self._decided(asked, [path], [changes[path]])
            else:  # git ignores it, or it is a repository
                yield self._decided(asked, [path], [], aside=path if dict(acting)[path] else "")

    def _decided(
        self, asked: Asked, paths: Sequence[str], changes: Sequence[FileChange], *, aside: str = ""
    ) -> str:
        """Ask; without a yes take `changes` back, and move what is `aside` away. What the model is to be told."""
        try:
            verdict = self.ask(asked)
        except BaseException:  # the person stops the run
            self._take_back(changes, aside)
            raise
        if verdict.allowed:
            self._allowed.update(paths)
            self.agreed(paths)
            return ""
        because = "no user can be asked" if verdict.by == "nobody" else verdict.reason or "the user said no"
        end = f"{because.rstrip('.')}; {self._take_back(changes, aside)}."
        self.say(f"note: {asked.why}; {end}")
        return f"{asked.why[0].upper()}{asked.why[1:]}; {end}"

    def _take_back(self, changes: Sequence[FileChange], aside: str) -> str:
        """What became of it, as the end of a sentence."""
        try:
            if changes:
                self._undo(changes)
            elif aside:
                return f"moved it to {self._set_aside(aside)}"
            else:
                return "could not restore it; check it"
        except (RepoagentError, OSError) as error:
            return f"could not restore it ({error}); check it"
        return "restored what it was before"

    def _undo(self, changes: Sequence[FileChange]) -> None:
        back = [
            FileChange(one.path, one.old_path, one.after, one.before, one.mode, one.old_mode)
            for one in changes
        ]
        self.write(back)
        own = {path for one in self.change_set.changes for path in (one.path, one.old_path)}
        self.change_set.wrote([one for one in back if one.name in own])
        self.change_set.found([one for one in back if one.name not in own])

    def _set_aside(self, path: str) -> Path:
        """Move it into the run's folder, for nobody knows what it held before."""
        number = 1
        while (folder := self.change_set.folder / f"aside-{number}").exists():
            number += 1
        folder.mkdir(parents=True)
        return (self.change_set.worktree.top / path).rename(folder / Path(path).name)


KEPT = "the previous content is kept in the folder of the run until you delete the run"

Audit = Callable[[Sequence[Mapping[str, object]]], None]


def watch(
    worktree: WorkTree,
    change_set: ChangeSet,
    say: Callable[[str], None],
    audit: Audit = lambda _: None,
    guard: Guard | None = None,
) -> Callable[[bool], Callable[[], str]]:
    """What looks before a command, and returns what looks after it: that tells the model what has changed. It is told
    whether something else that the run has started may have written since the last look.

    `say` gets a sentence where the person's own uncommitted work was changed, what is in a submodule, what other
    programs obey, and what changed in the background. `audit` is told of each file that was written,
    and `guard` looks after each command.
    """
    look_at_usual = watch_executed(worktree.top, say, tracked_folders(worktree))
    submodules = checked_out(worktree)  # those of the beginning, whose .git no command in a sandbox may write
    last: Look | None = None  # from look to look, so that a file that stays as it is is read once

    def before(background: bool = False) -> Callable[[], str]:
        nonlocal last
        was, last = last, look_around(worktree, change_set, last.seen if last else {})
        first = last
        if was is None:
            look_at_usual(first.repositories, tell=False)
        others_did: Sequence[FileChange] = ()
        meanwhile = ""
        if background and was:
            others_did, meanwhile = _meanwhile(worktree, change_set, was, first, say, audit=audit)
        keep_look(change_set, first.seen)
        inside = look_inside(worktree, submodules)

        def after() -> str:
            nonlocal last
            last = look_around(worktree, change_set, first.seen)
            acting = look_at_usual(last.repositories)
            others = told(inside, look_inside(worktree, submodules))
            audit([written(path) for _, paths in others for path in paths])
            done, changed = _after(worktree, change_set, first, last, say, audit=audit)
            guarded = guard.after([*others_did, *done], acting) if guard is not None else ""
            last = replace(
                look_around(worktree, change_set, last.seen) if guarded else last, entries=entries(change_set)
            )
            return "\n".join(filter(None, [meanwhile, changed, *in_submodules(others, say), guarded]))

        return after

    return before


def _after(
    worktree: WorkTree,
    change_set: ChangeSet,
    was: Look,
    now: Look,
    say: Callable[[str], None],
    *,
    audit: Audit,
) -> tuple[Sequence[FileChange], str]:
    changes: list[FileChange] = []
    candidates: list[FileChange] = []
    large: list[str] = []
    for path, old, new in differences(worktree, was, now):
        before, after = was.seen.get(path), now.seen.get(path)
        tracked = (before or after or UNSEEN).tracked
        if not (before or after or UNSEEN).followed or not (after or before or UNSEEN).followed:
            large.append(path)
            if tracked:
                too_large = "is too large to track, so it is not in the commit"
                say(f"the command changed {named(path)}, which {too_large}")
            continue
        own = change_set.of(path) is not None
        (changes if tracked or (own and path not in _candidates(change_set)) else candidates).append(
            change_of(path, old, new)
        )
        if before is not None and old is not None and not own:
            what = "holds your uncommitted work" if tracked else "git does not track"
            say(f"the command changed {named(path)}, which {what}; {KEPT}")
    if changes:
        change_set.wrote(changes)
    if candidates:
        change_set.found(candidates)
    kind = worktree.object_format
    audit([written(change.name, change, kind) for change in (*changes, *candidates)] + [*map(written, large)])
    forget_look(change_set)
    was_there = {change.name: change.before is not None for change in change_set.candidates}
    return (*changes, *candidates), "\n".join(sentences(changes, candidates, large, was_there))


def _meanwhile(
    worktree: WorkTree,
    change_set: ChangeSet,
    was: Look,
    now: Look,
    say: Callable[[str], None],
    *,
    audit: Audit,
) -> tuple[Sequence[FileChange], str]:
    """What has changed since the last look, while a command ran in the background: by it or by the person, but not by
    what the run itself has written. It is a candidate then; of a file that the run has changed it is only said."""
    touched = {
        path
        for change in was.entries ^ entries(change_set)
        for path in (change.path, change.old_path)
        if path is not None
    }
    own = {path: change for change in change_set.changes for path in (change.path, change.old_path) if path}
    found, again = [], []
    for path, old, new in differences(worktree, was, now):
        if not now.seen.get(path, UNSEEN).followed or not was.seen.get(path, UNSEEN).followed:
            continue
        if path not in own and path not in touched:
            found.append(change_of(path, old, new))
        elif path in own and not _is_left_by(own[path], path, new):
            again.append(path)
    if not found and not again:
        return (), ""
    change_set.found(found)
    kind = worktree.object_format
    events = [written(change.name, change, kind) for change in found] + [*map(written, again)]
    audit([{**event, "by": "background"} for event in events])
    said = []
    if found:
        names = names_of([verb(change) for change in found])
        say(
            f"note: {names} changed while a command ran in the background, by the command or by you: not "
            "part of the change of the run unless the model keeps it"
        )
        said.append(
            f"While a command ran in the background, the command or the user changed {names}: not part of "
            'your change unless you use <keep path="FILE"/>.'
        )
    if again:
        names = names_of(list(map(named, again)))
        said.append(
            f"While a command ran in the background, {names}, which you had changed, changed again; look at "
            "it."
        )
    return found, "\n".join(said)


def _is_left_by(change: FileChange, path: str, now: Content | None) -> bool:
    """Whether a file is as this change of the run has left it."""
    after = change.after if path == change.path else None
    return (None if now is None else now.data) == after


def _candidates(change_set: ChangeSet) -> set[str]:
    return {change.name for change in change_set.candidates}
