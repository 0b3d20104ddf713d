"""The refused last edit of a run, and the part of it that is kept as a draft until the model sends the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from repoagent.agent.state import EDIT, State
from repoagent.dataclass import dataclass
from repoagent.edit.tools import ToolContext
from repoagent.errors import Refused
from repoagent.git.files import FileChange, Source
from repoagent.patch.errors import NOTHING_TO_DO
from repoagent.tasks.changes.change_set import ChangeSet

DRAFT = "@draft"  # the path by which a model names what is kept of a refused edit
DROPPED = "What was kept of your refused edit is dropped"
SEND_WHOLE = "Send the whole edit again if you still want it."

Version = tuple[str, str | None]  # the blob and the mode of a file; "" and None where there is none


@dataclass
class RefusedEdit:
    """`bench` keeps the part that fits; `files` are the files of that edit as they were when it was refused.

    `changes` is what the run had changed then, None when the last edit was applied or there was none. `dropped` is why
    the kept part was dropped, until the model knows.
    """

    bench: ToolContext
    change_set: ChangeSet
    changes: frozenset[FileChange] | None = None
    files: dict[str, Version] = field(default_factory=dict)
    dropped: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether the last edit was refused, and nothing has been changed since."""
        return self.changes is not None and self.changes == frozenset(self.change_set.changes)

    def note(self, *, ok: bool, reasons: Iterable[str]) -> None:
        """Remember whether an edit was applied. One that had nothing to do, or that the user did not want, is not
        missing."""
        reasons = set(reasons)
        applied = ok or (reasons and reasons <= NOTHING_TO_DO | {"person"})
        self.changes = None if applied else frozenset(self.change_set.changes)

    def bind(self) -> None:
        """Remember what the files of a partly refused edit are, as the last action has read them."""
        bench = self.bench
        sides = {path for kept in bench.kept for path in (kept.change.old_path, kept.change.path)}
        sources = bench.draft.sources
        paths = filter(None, sides | bench.missing.keys())
        self.files = {path: _version(sources.get(path)) for path in sorted(paths)}

    def drop_if_changed(self, read: Callable[[str], Source | None]) -> None:
        """Drop what is kept of a refused edit where one of its files has changed since."""

        def changed(path: str) -> bool:
            try:
                return _version(read(path)) != self.files[path]
            except Refused:  # it is a link or a folder by now
                return True

        if names := [path for path in self.files if changed(path)]:
            self.drop(f"{', '.join(names)} changed since")

    def drop(self, why: str) -> None:
        """Drop what is kept of a refused edit, if anything is. The model is told before its next edit counts."""
        if self.bench.missing:
            self.bench.drop_kept()
            self.files = {}
            self.dropped = why

    def withdraw(self) -> str:
        """Drop it because the model wants to. What it is told; "" where nothing is kept."""
        if not self.bench.missing:
            return ""
        self.drop("")
        self.changes = None
        return f"{DROPPED}."

    def take_notice(self) -> str:
        """What the model has to be told of what was dropped; "" for nothing, or where it was told."""
        why, self.dropped = self.dropped, ""
        return f"{DROPPED}, because {why}. {SEND_WHOLE}" if why else ""


def is_draft_pending(state: State) -> bool:
    """Whether the conversation says last that a part of a refused edit is kept."""
    pending = False
    for turn in state.turns:
        if turn.role == "observation":
            done = turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "yes"
            pending = "partial" in turn.meta or (pending and not done and DROPPED not in turn.text)
    return pending


def _version(source: Source | None) -> Version:
    return ("", None) if source is None else (source.blob, source.mode)
