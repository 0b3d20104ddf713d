"""How an edit, or the applying of a patch, ended: one plain value for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    from repoagent.edit import EditOutcome
    from repoagent.edit.apply.run import ApplyOutcome
    from repoagent.edit.landing.commit import Landed
    from repoagent.llm import Usage
    from repoagent.patch import Placement


@dataclass(frozen=True)
class ChangedFile:
    """`old_path` is None for a new file, `path` for a deleted one; both differ for a rename. `mode` is git's
    ("100644"), None for a deleted file."""

    path: str | None
    old_path: str | None
    mode: str | None


@dataclass(frozen=True)
class EditResult:
    """`kind` is "committed"; "written" for files changed without a commit; "proposed" for a dry run, where nothing was
    written; "answered" when the model gave words and no edit.

    `edit_id` is what `undo` takes. `commit` (its full id), `parent` and `branch` are None where nothing was
    committed, `branch` also on a detached HEAD. `files` are those that changed, `diff` is how, as git shows it,
    `message` the commit message. `remarks` are sentences that a person should read. `placements` says of each hunk
    where it went and what it needed. `seconds` is wall time. Of an edit `model` is who was asked, `answer` its words
    when it did not edit, `words` what else it said last, `messages` what it told the user before, `usage` its tokens
    and `cost` US dollars (None: not known).
    """

    kind: Literal["committed", "written", "proposed", "answered"]
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


def of_edit(outcome: EditOutcome, said: Sequence[str] = ()) -> EditResult:
    """The result of an edit by a model; `said` was told on the way."""
    from dataclasses import replace

    found = _result(outcome.kind, outcome.edit_id, outcome.landed, outcome.seconds, said)
    return replace(
        found,
        model=outcome.model,
        answer=outcome.answer,
        words=outcome.words,
        messages=outcome.messages,
        usage=outcome.usage,
        cost=outcome.cost,
    )


def of_patch(outcome: ApplyOutcome, said: Sequence[str] = ()) -> EditResult:
    """The result of applying a patch."""
    return _result(outcome.landed.kind, outcome.edit_id, outcome.landed, outcome.seconds, said)


def _result(
    kind: Literal["committed", "written", "proposed", "answered"],
    edit_id: str,
    landed: Landed | None,
    seconds: float,
    said: Sequence[str],
) -> EditResult:
    made = landed.commit if landed else None
    remarks = (*said, *(landed.remarks if landed else ()))
    return EditResult(
        kind,
        edit_id,
        commit=made.commit if made else None,
        parent=made.parent if made else None,
        branch=made.branch if made else None,
        files=tuple(
            ChangedFile(change.path, change.old_path, change.mode)
            for change in (landed.changes if landed else ())
        ),
        diff=landed.proposal.diff if landed else "",
        message=landed.proposal.message if landed else "",
        remarks=tuple(dict.fromkeys(remarks)),
        placements=landed.proposal.placements if landed else (),
        seconds=seconds,
    )
