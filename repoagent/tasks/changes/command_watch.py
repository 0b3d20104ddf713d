"""Record what a command changed, by comparing the work tree before and after it, and guard against harmful changes.

A snapshot costs one `git status` and the bytes of uncommitted files; ignored files are skipped. What the user saves
while a command runs in the foreground counts as the command's; what changes while a command runs in the background
becomes a candidate. Mass deletions, and files that act when a folder is opened, are undone unless the user agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.dataclass import dataclass
from repoagent.edit.guards.risky_changes import ON_OPENING, count_tracked, is_mass, listed
from repoagent.errors import RepoagentError
from repoagent.git.files import FileChange
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes import snapshot
from repoagent.tasks.changes.change_set import (
    ChangeSet,
    after_of,
    before_of,
    change_between,
    free_folder,
    is_at_result,
    paths_of,
)
from repoagent.tasks.changes.executed_files import tracked_folders, watch_executed
from repoagent.tasks.changes.interrupted import discard_snapshot, store_snapshot
from repoagent.tasks.changes.snapshot import Snapshot, named, names_of, write_event

_STORED = "the previous content is kept in the folder of the run until you delete the run"

Say = Callable[[str], None]
Audit = Callable[[Sequence[Mapping[str, object]]], None]


@dataclass
class Guard:
    """Asks about mass deletions and files that act when a folder is opened, and undoes them unless the user agrees.

    ask: asks the user. write: writes changes to the work tree. agreed: gets the paths to which the user agreed.
    sensitive: whether files that act on opening may be written without asking.
    """

    change_set: ChangeSet
    say: Say
    ask: Callable[[ApprovalRequest], Verdict]
    write: Callable[[Sequence[FileChange]], None]
    agreed: Callable[[Sequence[str]], None]
    sensitive: bool = False
    _allowed: set[str] = field(default_factory=set, init=False)

    def after(self, done: Sequence[FileChange], acting: Mapping[str, bool]) -> str:
        """Call when a command has ended and its changes, `done`, are in the change set. `acting`: the files it wrote
        that act on opening, and whether each is new. Returns text for the model."""
        return "\n".join(filter(None, [self._deletions(done), *self._acting(done, acting)]))

    def _deletions(self, done: Sequence[FileChange]) -> str:
        all_changes = (*self.change_set.changes, *self.change_set.candidates)
        moved = {change.after for change in all_changes if change.before is None}
        names = [
            change.name
            for change in all_changes
            if change.path is None and change.before not in moved and change.name not in self._allowed
        ]
        latest = [change for change in done if change.path is None and change.name in names]
        if not latest or not is_mass(len(names), count_tracked(self.change_set.worktree)):
            return ""
        reason = f"commands deleted {len(names)} files: {names_of(names)}"
        request = ApprovalRequest("delete", "\n".join(map(named, names)), why=reason)
        return self._decide(request, names, latest)

    def _acting(self, done: Sequence[FileChange], acting: Mapping[str, bool]) -> Iterator[str]:
        changes = {
            change.name: change
            for change in done
            if change.after is not None and listed(change.name) in ON_OPENING
        }
        for path in dict.fromkeys([*acting, *changes]):
            if self.sensitive or path in self._allowed:
                continue
            effect = listed(path) or "is obeyed by git in that folder"
            reason = f"a command wrote {named(path)}, which {effect}"
            request = ApprovalRequest("sensitive", named(path), why=reason)
            if path in changes:
                yield self._decide(request, [path], [changes[path]])
            else:  # git ignores it, or it is a repository
                yield self._decide(request, [path], [], move_away=path if acting[path] else "")

    def _decide(
        self,
        request: ApprovalRequest,
        paths: Sequence[str],
        changes: Sequence[FileChange],
        *,
        move_away: str = "",
    ) -> str:
        try:
            verdict = self.ask(request)
        except BaseException:  # the user stopped the run
            self._undo(changes, move_away)
            raise
        if verdict.allowed:
            self._allowed.update(paths)
            self.agreed(paths)
            return ""
        reason = "no user can be asked" if verdict.by == "nobody" else verdict.reason or "the user said no"
        end = f"{reason.rstrip('.')}; {self._undo(changes, move_away)}."
        self.say(f"note: {request.why}; {end}")
        return f"{request.why[0].upper()}{request.why[1:]}; {end}"

    def _undo(self, changes: Sequence[FileChange], move_away: str) -> str:
        """Returns a description of the result, worded as the end of a sentence."""
        try:
            if changes:
                reverse = [
                    change_between(change.path, after_of(change), change.old_path, before_of(change))
                    for change in changes
                ]
                self.write(reverse)
                run_paths = paths_of(self.change_set.changes)
                self.change_set.wrote([change for change in reverse if change.name in run_paths])
                self.change_set.add_candidates([change for change in reverse if change.name not in run_paths])
                return "restored the previous content"
            if move_away:  # to the folder of the run, because its previous content is unknown
                folder = free_folder(self.change_set.folder, "aside")
                folder.mkdir(parents=True)
                path = self.change_set.worktree.top / move_away
                return f"moved it to {path.rename(folder / Path(move_away).name)}"
        except (RepoagentError, OSError) as error:
            return f"could not restore it ({error}); check it"
        return "could not restore it; check it"


class Watch:
    """Call it before a command, with whether a background command may have written since the last one; call the
    returned function after the command, for the text about the changes for the model."""

    def __init__(
        self,
        worktree: WorkTree,
        change_set: ChangeSet,
        say: Say,
        audit: Audit = lambda _: None,
        guard: Guard | None = None,
    ) -> None:
        """say: gets a sentence about each change of the user's uncommitted work, of submodules, of executed files and
        in the background. audit: gets an event for each written file. guard: checks the changes of each command."""
        self.worktree, self.change_set = worktree, change_set
        self.say, self.audit, self.guard = say, audit, guard
        self._look_at_executed = watch_executed(worktree.top, say, tracked_folders(worktree))
        self._last: Snapshot | None = None  # reused, so that an unchanged file is read once

    def __call__(self, background: bool = False) -> Callable[[], str]:
        previous = self._last
        first = self._look(previous)
        if previous is None:
            self._look_at_executed(first.repositories, tell=False)
        done: Sequence[FileChange] = ()
        text = ""
        if background and previous:
            done, text = self._in_background(previous, first)
        store_snapshot(self.change_set, first.files)
        return lambda: self._after(first, done, text)

    def _look(self, previous: Snapshot | None) -> Snapshot:
        known = previous.files if previous is not None else {}
        self._last = snapshot.take_snapshot(self.worktree, self.change_set, known)
        return self._last

    def _after(self, first: Snapshot, background_changes: Sequence[FileChange], background_text: str) -> str:
        last = self._look(first)
        acting = self._look_at_executed(last.repositories)
        done, texts = self._after_command(first, last)
        guarded = ""
        if self.guard is not None and (guarded := self.guard.after([*background_changes, *done], acting)):
            last = self._look(last)
        self._last = replace(last, entries=snapshot.entries(self.change_set))
        for path in map(named, snapshot.changed_submodules(first, last)):
            self.say(f"the command moved the submodule {path} to another commit, which is not in the commit")
            texts.append(f"It moved the submodule {path} to another commit: not part of your change.")
        return "\n".join(filter(None, [background_text, *texts, guarded]))

    def _after_command(self, earlier: Snapshot, later: Snapshot) -> tuple[Sequence[FileChange], list[str]]:
        """Record the changes of a command; returns them, and sentences for the model."""
        change_set = self.change_set
        changes: list[FileChange] = []
        candidates: list[FileChange] = []
        large: list[str] = []
        candidate_names = {change.name for change in change_set.candidates}
        for path, old, new in snapshot.differences(self.worktree, earlier, later):
            before = earlier.files.get(path)
            state = before or later.files.get(path)
            tracked = state is None or state.tracked
            if not (earlier.is_followed(path) and later.is_followed(path)):
                large.append(path)
                if tracked:
                    self.say(
                        f"the command changed {named(path)}, which is too large to track, so it is not in the commit"
                    )
                continue
            by_run = change_set.of(path) is not None
            is_change = tracked or (by_run and path not in candidate_names)
            (changes if is_change else candidates).append(change_between(path, old, path, new))
            if before is not None and old is not None and not by_run:
                status = "holds your uncommitted work" if tracked else "git does not track"
                self.say(f"the command changed {named(path)}, which {status}; {_STORED}")
        if changes:
            change_set.wrote(changes)
        if candidates:
            change_set.add_candidates(candidates)
        done = (*changes, *candidates)
        kind = self.worktree.object_format
        self.audit([write_event(change.name, change, kind) for change in done] + [*map(write_event, large)])
        discard_snapshot(change_set)
        existed = {change.name: change.before is not None for change in change_set.candidates}
        untracked = [change for change in candidates if existed.get(change.name) is True]
        created = [change.name for change in candidates if existed.get(change.name) is False]
        texts = []
        if changes:
            texts.append(f"It changed {snapshot.described(changes)}: now part of your change.")
        if untracked:
            texts.append(
                f"It changed {snapshot.described(untracked)}, which git does not track: not part of your change; "
                '<restore path="FILE"/> undoes it.'
            )
        if created:
            texts.append(
                f"It created {names_of(created)}, which git does not track: not part of your change unless you use "
                '<keep path="FILE"/>.'
            )
        if large:
            reason = "too large, not a regular file, or more files than can be part of your change"
            texts.append(f"It also changed {names_of(large)}: {reason}.")
        return done, texts

    def _in_background(self, earlier: Snapshot, later: Snapshot) -> tuple[Sequence[FileChange], str]:
        """Record what a background command or the user changed since the last snapshot. Files that the run itself has
        not written become candidates; the others are only reported. Returns the candidates, and text for the model."""
        change_set = self.change_set
        by_path = {path: change for change in change_set.changes for path in paths_of([change])}
        touched = paths_of(earlier.entries ^ snapshot.entries(change_set))
        changed, again = [], []
        for path, old, new in snapshot.differences(self.worktree, earlier, later):
            if not (later.is_followed(path) and earlier.is_followed(path)):
                continue
            if path not in by_path and path not in touched:
                changed.append(change_between(path, old, path, new))
            elif path in by_path and not is_at_result(by_path[path], path, new):
                again.append(path)
        if not changed and not again:
            return (), ""
        change_set.add_candidates(changed)
        kind = self.worktree.object_format
        events = [write_event(change.name, change, kind) for change in changed] + [*map(write_event, again)]
        self.audit([{**event, "by": "background"} for event in events])
        texts = []
        if changed:
            names = snapshot.described(changed)
            self.say(
                f"note: {names} changed while a command ran in the background, by the command or by you: not "
                "part of the change of the run unless the model keeps it"
            )
            texts.append(
                f"While a command ran in the background, the command or the user changed {names}: not part of "
                'your change unless you use <keep path="FILE"/>.'
            )
        if again:
            texts.append(
                f"While a command ran in the background, {names_of(again)}, which you had changed, changed again; "
                "look at it."
            )
        return changed, "\n".join(texts)
