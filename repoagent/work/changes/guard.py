"""What a command has done that is asked about in every mode: many files deleted, and what acts when a folder is opened.

The sandbox keeps most of the latter from being written; what it can't keep is found here. Where the answer is no, or
there is nobody to ask, it is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from repoagent.agent.approval import Asked, Verdict
from repoagent.dataclass import dataclass
from repoagent.edit.verify.sensitive import ON_OPENING, count_tracked, is_mass, listed
from repoagent.errors import RepoagentError
from repoagent.repo import FileChange
from repoagent.work.changes.ledger import Ledger
from repoagent.work.changes.telling import names_of
from repoagent.work.tools.names import named


@dataclass
class Guard:
    """ask: the person. write: writes changes to the work tree. agreed: is told the paths to which the person said yes.
    sensitive: what acts on opening may be written unasked."""

    ledger: Ledger
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
        every = (*self.ledger.changes, *self.ledger.candidates)
        moved = {change.after for change in every if change.before is None}
        gone = [change for change in every if change.path is None and change.before not in moved]
        open_ = [change.name for change in gone if change.name not in self._allowed]
        last = [change for change in last if change.name in open_]
        if not last or not is_mass(len(open_), count_tracked(self.ledger.worktree)):
            return ""
        why = f"{len(open_)} files were deleted by commands: {names_of(list(map(named, open_)))}"
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
            asked = Asked("sensitive", named(path), why=f"a command has written {named(path)}, which {what}")
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
        because = "there is nobody to ask" if verdict.by == "nobody" else verdict.reason or "the user said no"
        end = f"{self._take_back(changes, aside)}, as {because.rstrip('.')}."
        self.say(f"note: {asked.why}; {end}")
        return f"{asked.why[0].upper()}{asked.why[1:]}; {end}"

    def _take_back(self, changes: Sequence[FileChange], aside: str) -> str:
        """What became of it, as the end of a sentence."""
        try:
            if changes:
                self._undo(changes)
            elif aside:
                return f"it was moved to {self._set_aside(aside)}"
            else:
                return "it could not be taken back: look at it"
        except (RepoagentError, OSError) as error:
            return f"it could not be taken back ({error}): look at it"
        return "that was taken back"

    def _undo(self, changes: Sequence[FileChange]) -> None:
        back = [
            FileChange(one.path, one.old_path, one.after, one.before, one.mode, one.old_mode)
            for one in changes
        ]
        self.write(back)
        own = {path for one in self.ledger.changes for path in (one.path, one.old_path)}
        self.ledger.wrote([one for one in back if one.name in own])
        self.ledger.found([one for one in back if one.name not in own])

    def _set_aside(self, path: str) -> Path:
        """Move it into the run's folder, for nobody knows what it held before."""
        number = 1
        while (folder := self.ledger.folder / f"aside-{number}").exists():
            number += 1
        folder.mkdir(parents=True)
        return (self.ledger.worktree.top / path).rename(folder / Path(path).name)
