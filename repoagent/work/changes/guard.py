"""What a command has done that is asked about in every mode: many files deleted, and what acts when a folder is opened.

The sandbox keeps most of the latter from being written; what it can't keep is found here. Where the answer is no, or
there is nobody to ask, it is taken back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repoagent.agent.approval import Asked, Verdict
from repoagent.edit.verify.sensitive import ON_OPENING, count_tracked, is_mass, listed
from repoagent.errors import RepoagentError
from repoagent.repo import FileChange
from repoagent.work.changes.back import Write, put_back, said_of
from repoagent.work.changes.ledger import Ledger
from repoagent.work.changes.telling import names_of
from repoagent.work.tools.names import named

Say = Callable[[str], None]


def _nobody(asked: Asked) -> Verdict:
    return Verdict(False, by="nobody")


def _nothing(changes: Sequence[FileChange]) -> None:
    pass


@dataclass
class Guard:
    """ask: the person. write: writes changes to the work tree. is_agreed: whether a change is an edit that was agreed
    to. agreed: is told the paths to which the person said yes. sensitive: what acts on opening may be written unasked.
    """

    ledger: Ledger
    say: Say
    ask: Callable[[Asked], Verdict] = _nobody
    write: Write = _nothing
    is_agreed: Callable[[FileChange], bool] = lambda change: False
    agreed: Callable[[Sequence[str]], None] = lambda paths: None
    sensitive: bool = False
    _seen: frozenset[tuple[str, bytes | None]] = field(init=False)  # what there was at the last look
    _allowed: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._seen = self._state()

    def after(self, acting: Sequence[tuple[str, bool]]) -> str:
        """To be called when a command has ended and the ledger has what it changed. `acting` is what it has written
        that acts on opening, with whether it is new. What the model is to be told, "" for nothing."""
        told = [self._deletions(), *self._acting(acting)]
        self._seen = self._state()
        return "\n".join(filter(None, told))

    def _changes(self) -> tuple[FileChange, ...]:
        return (*self.ledger.changes, *self.ledger.candidates)

    def _state(self) -> frozenset[tuple[str, bytes | None]]:
        return frozenset((change.name, change.after) for change in self._changes())

    def _is_last(self, change: FileChange) -> bool:
        """Whether the command has made this change, or what else nobody has agreed to."""
        return (change.name, change.after) not in self._seen and not self.is_agreed(change)

    def _gone(self) -> Iterator[FileChange]:
        """The files that are deleted, and not moved: their bytes are in no new file."""
        new = {change.after for change in self._changes() if change.before is None}
        return (change for change in self._changes() if change.path is None and change.before not in new)

    def _deletions(self) -> str:
        gone = [change for change in self._gone() if change.name not in self._allowed]
        open_, last = (
            [change.name for change in gone],
            [change.name for change in gone if self._is_last(change)],
        )
        if not last or not is_mass(len(open_), count_tracked(self.ledger.worktree)):
            return ""
        why = f"a command has deleted {len(open_)} files: {names_of(list(map(named, open_)))}"
        verdict = self._asked(Asked("delete", "\n".join(map(named, open_)), why=why), last)
        if verdict.allowed:
            self._allowed.update(open_)
            self.agreed(open_)
            return ""
        return self._back(last, f"{len(open_)} files were deleted, which is not done without a yes", verdict)

    def _acting(self, acting: Sequence[tuple[str, bool]]) -> Iterator[str]:
        found = dict(acting)
        found.update(
            (one.name, one.before is None)
            for one in self._changes()
            if one.after is not None and self._is_last(one) and listed(one.name) in ON_OPENING
        )
        for path, is_new in found.items():
            if self.sensitive or path in self._allowed:
                continue
            why = f"{named(path)} {listed(path) or 'is obeyed by git in that folder'}, and a command has written it"
            verdict = self._asked(Asked("sensitive", named(path), why=why), [path], is_new=is_new)
            if verdict.allowed:
                self._allowed.add(path)
                self.agreed([path])
            else:
                yield self._back([path], why, verdict, is_new=is_new)

    def _asked(self, asked: Asked, paths: Sequence[str], *, is_new: bool = False) -> Verdict:
        try:
            return self.ask(asked)
        except BaseException:  # the person stops the run
            self._back(paths, asked.why, Verdict(False), is_new=is_new)
            raise

    def _back(self, paths: Sequence[str], why: str, verdict: Verdict, *, is_new: bool = False) -> str:
        """Take it back, and say so to the person and to the model."""
        because = "there is nobody to ask" if verdict.by == "nobody" else verdict.reason or "the user said no"
        try:
            known = [path for path in paths if self.ledger.of(path) is not None]
            left = put_back(self.ledger, known, self.write) if known else {}
            for path in paths:
                if path not in known and is_new:
                    self._set_aside(path)
            missing = [path for path in paths if path not in known and not is_new]
        except (RepoagentError, OSError) as error:
            self.say(f"warning: {why}; it could not be taken back: {error}")
            return f"{why}: {because}. Take it back yourself."
        kept = [*([said_of(left)] if left else []), *map(named, missing)]
        rest = f"; {', '.join(kept)} could not be put back: look at it" if kept else ""
        self.say(f"note: {why}: it was taken back, as {because.rstrip('.')}{rest}")
        return f"{why}. It was taken back: {because.rstrip('.')}{rest}."

    def _set_aside(self, path: str) -> None:
        """Into the run's folder, for git does not say what it is."""
        top, number = self.ledger.worktree.top, 1
        while (to := self.ledger.folder / f"aside-{number}" / Path(path).name).parent.exists():
            number += 1
        to.parent.mkdir(parents=True)
        os.rename(top / path, to)  # noqa: PTH104 - a folder too
