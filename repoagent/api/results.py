"""The results of the library and of MCP, as frozen values."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    from git import Commit

    from repoagent.edit.apply import ApplyOutcome
    from repoagent.edit.commit import CommitOutcome
    from repoagent.edit.edit import EditOutcome
    from repoagent.history.neighbors import Neighborhood
    from repoagent.llm.model import Usage
    from repoagent.patch.locate.exact import Placement
    from repoagent.split.pack import Segment

Kind = Literal["committed", "written", "proposed", "answered"]


@dataclass(frozen=True)
class ChangedFile:
    """A file of a change. `old_path` is None for a new file, `path` for a deleted one; they differ for a rename. `mode`
    is git's file mode ("100644"), None for a deleted file."""

    path: str | None
    old_path: str | None
    mode: str | None


@dataclass(frozen=True)
class EditResult:
    """The result of `edit` and `apply`. `kind` is "committed"; "written" for files changed without a commit; "proposed"
    for a dry run; "answered" if the model answered without an edit.

    `edit_id` is the argument for `undo`. `commit` (a full id; `git_commit` is the object), `parent` and `branch` are
    None without a commit; `branch` is also None on a detached HEAD. `files` are the changed files, `diff` their patch
    as git prints it, `message` the commit message. `remarks` are sentences for the user. `placements` has for each hunk
    its lines and the tolerances that it needed. `seconds` is wall time. Only for `edit`: the `model`, its `answer` if
    it did not edit, the rest of its last reply (`words`), its earlier `messages` to the user, its tokens (`usage`) and
    the `cost` in US dollars (None: unknown). `top` is the work tree.
    """

    kind: Kind
    edit_id: str
    commit: str | None
    parent: str | None
    branch: str | None
    files: tuple[ChangedFile, ...]
    diff: str
    message: str
    remarks: tuple[str, ...]
    placements: tuple[Placement, ...]
    seconds: float
    model: str = ""
    answer: str = ""
    words: str = ""
    messages: tuple[str, ...] = ()
    usage: Usage | None = None
    cost: float | None = None
    top: Path | None = field(default=None, repr=False, compare=False)

    @property
    def git_commit(self) -> Commit | None:
        """The commit as a GitPython `git.Commit`, or None. Raises UsageError if GitPython cannot open it."""
        if self.commit is None or self.top is None:
            return None
        from repoagent.api.gitpython import open_commit

        return open_commit(self.top, self.commit)


def change_fields(change: CommitOutcome | None) -> dict[str, Any]:
    """The fields of `EditResult` for a change; empty values if there is none."""
    commit = change.commit if change else None
    return {
        "commit": commit.commit if commit else None,
        "parent": commit.parent if commit else None,
        "branch": commit.branch if commit else None,
        "files": tuple(ChangedFile(c.path, c.old_path, c.mode) for c in change.changes) if change else (),
        "placements": change.proposal.placements if change else (),
        "diff": change.proposal.diff if change else "",
        "message": change.proposal.message if change else "",
        "remarks": change.remarks if change else (),
    }


def edit_result(outcome: EditOutcome | ApplyOutcome, top: Path, remarks: Sequence[str]) -> EditResult:
    """The result of an edit by a model, or of a patch; `remarks` come before those of the commit."""
    fields = change_fields(outcome.result)
    fields["remarks"] = tuple(dict.fromkeys((*remarks, *fields["remarks"])))
    of_model = ("model", "answer", "words", "messages", "usage", "cost")
    fields |= {name: getattr(outcome, name) for name in of_model if hasattr(outcome, name)}
    return EditResult(cast(Kind, outcome.kind), outcome.edit_id, seconds=outcome.seconds, top=top, **fields)


@dataclass(frozen=True)
class Neighbor:
    """A file that changes together with the files of the query.

    `score` is between 0 and 1; the file changed in `together` of the last `commits` commits of the queried files;
    `rate` is "high", "medium", "low", or None for never; `last` is the time of the newest of these common commits (ISO
    8601, UTC; None for never). `reasons` are some
    of "together", "through" (shared partners), "recent", "name", "folder"; `evidence` has the full ids of the commits;
    `weak` means too little evidence to be shown by default.
    """

    path: str
    score: float
    together: int
    commits: int
    rate: str | None
    last: str | None
    reasons: tuple[str, ...]
    weak: bool
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Neighbors:
    """The `neighbors` of `paths`, best score first. `commit` is the id of `revision`, "" before the first commit;
    `commits` is the number of commits to `paths` that were read. `state` is "whole", or "building", "recent" or "names"
    for an answer from part of the history; `note` is a remark for the user, or ""."""

    paths: tuple[str, ...]
    revision: str
    commit: str
    state: str
    note: str
    commits: int
    neighbors: tuple[Neighbor, ...]


def neighbors_result(answer: Neighborhood) -> Neighbors:
    """The answer of the history index as plain values."""
    from repoagent.history.render import is_weak, together_rate

    rows = []
    for row in answer.rows:
        rows.append(
            Neighbor(
                os.fsdecode(row.path), round(row.score, 4), row.together, row.commits,
                together_rate(row.together, row.commits),
                None if row.last is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.last)),
                tuple(row.reasons), is_weak(row), tuple(answer.ids[number] for number in row.evidence),
            )
        )  # fmt: skip
    names = tuple(map(os.fsdecode, answer.paths))
    return Neighbors(
        names, answer.revision, answer.commit, answer.state, answer.note, answer.looked_at, tuple(rows)
    )


@dataclass(frozen=True)
class Split:
    """A file split into segments; concatenated in order, they are the file byte for byte.

    `blob` is the id of the bytes (`git hash-object --no-filters`); `language` is None if unknown; `size` is in bytes.
    `folder` is the folder of the segment files, None for a split in memory.
    """

    path: str
    blob: str
    language: str | None
    size: int
    segments: tuple[Segment, ...]
    folder: Path | None = None
    data: bytes = field(default=b"", repr=False)

    def text(self, segment: Segment) -> bytes:
        """The bytes of one of `segments`."""
        return self.data[segment.start : segment.end]
