"""What one run has on the table: where it works, who it asks, what it may do, what it has changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from repoagent.agent import State, Tool, open_state
from repoagent.agent.approval import Gate
from repoagent.agent.tool import EDIT
from repoagent.config import Settings
from repoagent.edit.briefing.tools import Workbench
from repoagent.edit.draft import Draft
from repoagent.edit.means import Means
from repoagent.edit.verify.proposal import NOTHING_TO_DO
from repoagent.errors import Refused
from repoagent.llm import Turn
from repoagent.repo import FileChange, WorkTree, blob_hash
from repoagent.repo.paths import check_path
from repoagent.store import Layout
from repoagent.work.changes import Ledger
from repoagent.work.home import Home
from repoagent.work.request import RunRequest
from repoagent.work.talk import Talk

# What an earlier version wrote over a file that it showed; a text that imitates it only has a file read once more.
_SHOWN = re.compile(r'<file path="((?:[^"\\\n]|\\.)*)" blob="([0-9a-f]{40,64})"')


@dataclass
class Desk:
    """The table of one run. `shown` are the files that the model has seen, with the blob it last saw of each;
    `commits` the ids of those that were made, `tools` what the loop is given."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    request: RunRequest
    means: Means
    talk: Talk
    home: Home
    ledger: Ledger
    bench: Workbench
    gate: Gate
    shown: dict[str, str] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)  # files whose notes were shown
    commits: list[str] = field(default_factory=list)
    # Files of which the person has seen a change, and agreed, with what they held then; None for one that went.
    agreed: dict[str, bytes | None] = field(default_factory=dict)
    deletions: set[str] = field(default_factory=set)  # files that the person agreed to delete
    # Whether the change has something that no person has seen and accepted: an edit that passed by the mode, or what an
    # earlier process of the run has changed.
    unseen: bool = False
    tools: tuple[Tool, ...] = ()
    branch: str | None = None  # the one it began on in this process
    # What the run had changed when its last edit was refused; None when that was applied, or there was none.
    when_refused: frozenset[FileChange] | None = None

    @property
    def edit_is_missing(self) -> bool:
        """Whether the last edit was refused, and nothing has been changed since."""
        return self.when_refused is not None and self.when_refused == frozenset(self.ledger.changes)

    def note_edit(self, *, ok: bool, reasons: Iterable[str]) -> None:
        """Remember whether an edit was applied. One that had nothing to do, or that the user did not want, is not
        missing."""
        reasons = set(reasons)
        applied = ok or (reasons and reasons <= NOTHING_TO_DO | {"person"})
        self.when_refused = None if applied else frozenset(self.ledger.changes)

    @property
    def state(self) -> State:
        """The conversation so far, as its file has it."""
        return open_state(self.home.conversation)

    def clear(self) -> None:
        """Forget what files held: each action sees them as they are now."""
        self.bench.draft = Draft({})
        self.bench.placements = []
        self.bench.editable = set()
        self.bench.not_ignored = frozenset()


def shown_in(state: State, written: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files that a conversation shows, with the blob of each that was shown last; given what the run has `written`,
    of a file that it has edited since that blob, or none where it is not there any more."""
    found: dict[str, str] = {}
    reply = ""
    for turn in state.turns:
        if turn.role == "assistant":
            reply = turn.text
        edits = turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "yes"
        if written is not None and turn.role == "observation" and edits:
            for path in [path for path in found if path in reply]:
                found.pop(path)
                found |= {path: written[path]} if path in written else {}
        elif turn.role == "observation":
            blobs = (*_SHOWN.findall(turn.text), *_blobs(turn).items())
            found |= {path: blob for path, blob in blobs if _is_path(path)}
    return found


def _blobs(turn: Turn) -> dict[str, str]:
    """The blob of each file that an observation shows; none where somebody has broken that record."""
    try:
        blobs = json.loads(turn.meta.get("shown", "{}"))
    except ValueError:
        return {}
    return {path: str(blob) for path, blob in blobs.items()} if isinstance(blobs, dict) else {}


def written_by(desk: Desk) -> dict[str, str]:
    """The blob of each file as the run has left it."""
    kind = desk.worktree.object_format
    changes = [change for change in desk.ledger.changes if change.path and change.after is not None]
    return {change.path: blob_hash(change.after, kind) for change in changes if change.path and change.after}


def _is_path(path: str) -> bool:
    try:
        check_path(path)
    except Refused:
        return False
    return "\\" not in path
