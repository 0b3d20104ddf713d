"""Record what a command changed, by comparing the work tree before and after it, and guard against harmful changes.

What the user saves while a command runs in the foreground counts as the command's; what changes while a command runs
in the background becomes a candidate. A snapshot costs one `git status` and the bytes of uncommitted files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.dataclass import dataclass
from repoagent.edit.guards.risky_changes import ON_OPENING, count_tracked, is_mass, listed_reason
from repoagent.errors import RepoagentError
from repoagent.git.files import FileChange, blob_hash
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes import snapshot
from repoagent.tasks.changes.change_set import (
    ChangeSet,
    Write,
    describe_changes,
    free_folder,
    names_of,
    paths_of,
    quote_unless_plain,
)
from repoagent.tasks.changes.sensitive_files import tracked_folders, watch_executed
from repoagent.tasks.changes.snapshot import Snapshot

_STORED = "the previous content is kept in the run's folder until you delete the run"

Say = Callable[[str], None]
Audit = Callable[[Sequence[Mapping[str, object]]], None]


def write_event(change: FileChange, kind: str, **details: object) -> dict[str, object]:
    """The audit event for a written file. Its blob ids are computed with the hash algorithm `kind`."""
    before = None if change.before is None else blob_hash(change.before, kind)
    after = None if change.after is None else blob_hash(change.after, kind)
    return {"kind": "write", **details, "path": change.name, "before": before, "after": after}


@dataclass
class CommandWatch:
    """Describes what commands change. Call it before a command, and call the function that it returns after the
    command, to get a description for the model. `background` says whether a background command may have written since
    the last call.

    say: gets a sentence about each change to the user's uncommitted work or to sensitive files, and each change in the
        background
    audit: gets an event for each written file
    ask: asks the user about mass deletions and files that take effect when a folder is opened; they are reverted, with
        `write`, unless the user agrees
    agreed: gets the paths to which the user agreed
    sensitive: whether files that take effect on opening may be written without asking
    """

    worktree: WorkTree
    change_set: ChangeSet
    say: Say
    audit: Audit = lambda _: None
    ask: Callable[[ApprovalRequest], Verdict] = lambda _: Verdict(True)
    write: Write = lambda _: None
    agreed: Callable[[Sequence[str]], None] = lambda _: None
    sensitive: bool = False

    def __post_init__(self) -> None:
        folders = tracked_folders(self.worktree)
        self._look_at_executed = watch_executed(self.worktree.top, self.say, folders)
        self._last: Snapshot | None = None  # reused, so that an unchanged file is read once
        self._entries: set[FileChange] = set()  # of the change set, at the time of the last snapshot
        self._allowed: set[str] = set()

    def __call__(self, background: bool = False) -> Callable[[], str]:
        previous, entries = self._last, self._entries
        first = self._look()
        texts: list[str] = []
        done: Sequence[FileChange] = ()
        if previous is None:
            self._look_at_executed(first.repositories, tell=False)
        elif background:
            lead, touched = "While a command ran in the background, ", paths_of(entries ^ self._entries)
            done, again, texts = snapshot.add_unattributed(self.change_set, previous, first, lead, touched)
            if done:
                self.say(
                    f"note: you or a command in the background changed {describe_changes(done)}; that is not part of "
                    "the run's change unless the model keeps it"
                )
            self._audit("background", done, again)
        snapshot.store_snapshot(self.change_set, first.files)
        return lambda: self._after(first, done, texts)

    def _look(self) -> Snapshot:
        self._last = snapshot.take_snapshot(self.worktree, self._last.files if self._last else {})
        self._entries = {*self.change_set.changes, *self.change_set.candidates}
        return self._last

    def _after(self, first: Snapshot, in_background: Sequence[FileChange], texts: list[str]) -> str:
        last = self._look()
        acting = self._look_at_executed(last.repositories)
        done = self._after_command(first, last, texts)
        guarded = list(filter(None, self._guard([*in_background, *done], acting)))
        if guarded:
            self._look()
        self._entries = {*self.change_set.changes, *self.change_set.candidates}
        return "\n".join([*texts, *guarded])

    def _after_command(self, earlier: Snapshot, later: Snapshot, texts: list[str]) -> Sequence[FileChange]:
        """Record what a command changed, and return it; adds sentences for the model to `texts`."""
        change_set = self.change_set
        changes: list[FileChange] = []
        candidates: list[FileChange] = []
        large: list[str] = []
        candidate_names = {change.name for change in change_set.candidates}
        for path, old, new, followed in snapshot.differences(self.worktree, earlier, later):
            before = earlier.files.get(path)
            tracked = (before or later.files[path]).tracked
            if not followed:
                large.append(path)
                if tracked:
                    size = "too large to track, so it is not in the commit"
                    self.say(f"the command changed {quote_unless_plain(path)}, which is {size}")
                continue
            by_run = change_set.of(path) is not None
            is_change = tracked or (by_run and path not in candidate_names)
            (changes if is_change else candidates).append(FileChange.at(path, old, new))
            if before is not None and old is not None and not by_run:
                status = "holds your uncommitted work" if tracked else "git does not track"
                self.say(f"the command changed {quote_unless_plain(path)}, which {status}; {_STORED}")
        if changes:
            change_set.wrote(changes)
            texts.append(f"It changed {describe_changes(changes)}: that is now part of your change.")
        if candidates:
            change_set.add_candidates(candidates)
        self._audit("command", [*changes, *candidates], large)
        snapshot.discard_snapshot(change_set)
        existed = {change.name: change.before is not None for change in change_set.candidates}
        if untracked := [change for change in candidates if existed.get(change.name) is True]:
            texts.append(
                f"It changed {describe_changes(untracked)}, which git does not track: that is not part of your "
                'change; <restore path="FILE"/> undoes it.'
            )
        if created := [change.name for change in candidates if existed.get(change.name) is False]:
            texts.append(
                f"It created {names_of(created)}, which git does not track: that is not part of your change "
                'unless you use <keep path="FILE"/>.'
            )
        if large:
            texts.append(
                f"It also changed {names_of(large)}, which cannot be part of your change: the files are too many, "
                "too large or not regular files."
            )
        return [*changes, *candidates]

    def _audit(self, by: str, changes: Sequence[FileChange], others: Sequence[str]) -> None:
        """The content of `others` is unknown."""
        kind = self.worktree.object_format
        events = [write_event(change, kind, by=by) for change in changes]
        self.audit([*events, *({"kind": "write", "by": by, "path": path} for path in others)])

    def _guard(self, done: Sequence[FileChange], acting: Mapping[str, bool]) -> Iterator[str]:
        """Check what an ended command changed, and yield text for the model. The command's changes, `done`, must be in
        the change set.

        `acting` has the files that the command wrote and that take effect when a folder is opened, mapped to whether
        they are new.
        """
        all_changes = (*self.change_set.changes, *self.change_set.candidates)
        moved = {change.after for change in all_changes if change.before is None}
        names = [
            change.name
            for change in all_changes
            if change.path is None and change.before not in moved and change.name not in self._allowed
        ]
        latest = [change for change in done if change.path is None and change.name in names]
        if latest and is_mass(len(names), count_tracked(self.change_set.worktree)):
            reason = f"commands deleted {len(names)} files: {names_of(names)}"
            request = ApprovalRequest("delete", "\n".join(map(quote_unless_plain, names)), why=reason)
            yield self._decide(request, names, latest)
        changes = {
            change.name: change
            for change in done
            if change.after is not None and listed_reason(change.name) in ON_OPENING
        }
        for path in dict.fromkeys([*acting, *changes]):
            if self.sensitive or path in self._allowed:
                continue
            effect = listed_reason(path) or "git reads as configuration in that folder"
            request = ApprovalRequest(
                "sensitive",
                quote_unless_plain(path),
                why=f"a command wrote {quote_unless_plain(path)}, which {effect}",
            )
            if path in changes:
                yield self._decide(request, [path], [changes[path]])
            else:  # git ignores it, or it is a repository
                yield self._decide(request, [path], [], move_away=path if acting[path] else "")

    def _decide(
        self,
        request: ApprovalRequest,
        paths: Sequence[str],
        changes: Sequence[FileChange],
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
        reason = "no user can answer" if verdict.by == "nobody" else verdict.reason or "the user said no"
        text = f"{request.why}; {reason.rstrip('.')}; {self._undo(changes, move_away)}."
        self.say(f"note: {text}")
        return text[0].upper() + text[1:]

    def _undo(self, changes: Sequence[FileChange], move_away: str) -> str:
        """Returns how it went, worded as the end of a sentence."""
        change_set = self.change_set
        try:
            if changes:
                reverse = [change.reversed() for change in changes]
                self.write(reverse)
                run_paths = paths_of(change_set.changes)
                change_set.wrote([change for change in reverse if change.name in run_paths])
                change_set.add_candidates([change for change in reverse if change.name not in run_paths])
                return "restored the previous content"
            if move_away:  # to the folder of the run, because its previous content is unknown
                folder = free_folder(change_set.folder, "aside")
                folder.mkdir(parents=True)
                path = change_set.worktree.top / move_away
                return f"moved it to {path.rename(folder / Path(move_away).name)}"
        except (RepoagentError, OSError) as error:
            return f"could not restore the previous content ({error}); check it by hand"
        return "could not restore the previous content; check it by hand"
