"""How an edit, or the applying of a patch, ended: one plain value for both.

What a file of the work tree defines, and where.

A patch that a program hands over, on the way of `repoagent apply`.

Names of revisions that a program gives: a command line can't hold all that a text can.

Which files change together with some files, as plain values.

The history of a file, with a model's lines for its commits where such are kept already.

Findings on a change: what history says of it, and with a model that is named, what that shows on its lines.

The segments of a file: cut at its natural seams, in memory or as files in a folder.

Where a symbol is used, as plain values. Withheld files are left out for every caller: answers end in prompts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.transaction.results import Options
from repoagent.split.pack import TARGET_BYTES

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.edit.apply_patch import ApplyOutcome
    from repoagent.edit.commit import CommitOutcome
    from repoagent.edit.edit import EditOutcome
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.edit.ui import NonInteractive
    from repoagent.git.files import Source
    from repoagent.git.worktree import WorkTree
    from repoagent.history.file_history import Past
    from repoagent.llm.model import Usage
    from repoagent.patch.locate.exact import Placement
    from repoagent.review.diff.select import ChangeSelector, How
    from repoagent.review.finding import Report
    from repoagent.split.folder_index import IndexedSegment
    from repoagent.syntax.outline.outline import Outline
    from repoagent.uses.query import Answer


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
    landed: CommitOutcome | None,
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


def present(worktree: WorkTree, path: str) -> tuple[Source, bytes]:
    """The file and its bytes. Raises UsageError for one that is not there, Refused as `repo.read_source`."""
    from repoagent.git.files import read_source
    from repoagent.git.similar_paths import no_such_file

    source = read_source(worktree, path)
    if source.data is None:
        raise no_such_file(path, worktree.top)
    return source, source.data


def outlined(worktree: WorkTree, path: str, *, language: str | None = None) -> tuple[Source, Outline]:
    """The file and its outline. Raises what `present` does, and UsageError for a file that has none: binary, too large
    or without a grammar."""
    from repoagent.syntax.outline.outline import check_language, outline_of

    if language is not None:
        check_language(language)
    source, data = present(worktree, path)
    found = outline_of(path, data, language)
    if found.kind:
        raise UsageError(f"{path} {found.reason}")
    return source, found


@dataclass(frozen=True)
class Patch:
    """`data` is any text with changes in it, `name` how to speak of it. `sources` are the blob ids of the texts that it
    was made for, by path; `path` is the file of a patch that names none; `message` the commit message ("" for the one
    that it brings)."""

    data: bytes
    name: str = "the patch"
    sources: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    message: str = ""


def patched(
    worktree: WorkTree,
    patch: Patch,
    settings: Settings,
    ui: NonInteractive,
    *,
    options: Options,
    strict: bool = False,
    dry_run: bool = False,
    allow_sensitive: bool = False,
) -> EditResult:
    """Apply it; the message that the text brings along is taken for a model's.

    Raises what `edit.apply.run.apply` does; whatever it raises, everything is as it was.
    """
    from repoagent.edit.apply_input import parse_bindings, read_given
    from repoagent.edit.apply_patch import apply
    from repoagent.edit.commit import without_claims
    from repoagent.edit.request import EditRequest, Target
    from repoagent.tasks.check import check_of

    given = read_given(patch.name, patch.data, worktree.top)
    given = replace(given, message=without_claims(given.message).lstrip())
    bindings = parse_bindings([f"{path}={blob}" for path, blob in patch.sources.items()])
    request = EditRequest(
        instruction=f"{patch.message.strip()}\n" if patch.message.strip() else "",
        targets=() if patch.path is None else (Target(patch.path),),
        create=True,
        check=check_of(settings),
        strict=strict,
        parse_check=settings.switch("edit.parse_check"),
        dry_run=dry_run,
        allow_sensitive=allow_sensitive,
        sensitive=settings.texts("edit.sensitive"),
        commit=options,
    )
    outcome = apply(worktree, given, request, settings, ui, bindings=bindings)
    return of_patch(outcome, ui.said)


def sayable(revision: str) -> str:
    """The name as it is. Raises UsageError for one that git can't even be asked for."""
    if "\0" in revision or any("\ud800" <= sign <= "\udfff" for sign in revision):
        raise UsageError(f"there is no commit {revision!r}: name a commit, a branch or a tag")
    return revision


@dataclass(frozen=True)
class Neighbor:
    """A file that changes with those that were asked about.

    `score` says how surely, 0 to 1; `together` in how many of their `commits` it changed too; `rate` is "high",
    "medium", "low", or None when they never did; `last` when both last changed in one commit (ISO 8601, UTC; None for
    never). `reasons` are of "together", "through" (shared partners), "recent", "name", "folder"; `evidence` the full
    ids of commits behind it; `weak` says that there is too little evidence to be shown unasked.
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
    """The surest first. `commit` is the id that `revision` meant, "" before the first one; `commits` how many commits
    of `paths` were looked at. `state` is "whole", or "building", "recent" or "names" for an answer from a part of the
    history; `note` says then, or else, what a reader should know ("" for nothing)."""

    paths: tuple[str, ...]
    revision: str
    commit: str
    state: str
    note: str
    commits: int
    neighbors: tuple[Neighbor, ...]


def neighbors_of(
    worktree: WorkTree,
    paths: Sequence[str],
    *,
    revision: str = "HEAD",
    limit: int = 20,
    min_score: float = 0.0,
) -> Neighbors:
    """The files that changed with `paths` (files or folders from the top). Raises UsageError for what does not exist,
    Refused for what is in a git directory."""
    from repoagent.history.neighbors import neighborhood
    from repoagent.history.render import is_weak, rate

    found = neighborhood(worktree, paths, sayable(revision), limit=limit, min_score=min_score)
    rows = tuple(
        Neighbor(
            os.fsdecode(row.path),
            round(row.score, 4),
            row.together,
            row.commits,
            rate(row.together, row.commits),
            None if row.last is None else _date(row.last),
            tuple(row.reasons),
            is_weak(row),
            tuple(found.ids[number] for number in row.evidence),
        )
        for row in found.rows
    )
    names = tuple(map(os.fsdecode, found.paths))
    return Neighbors(names, found.revision, found.commit, found.state, found.note, found.looked_at, rows)


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def past_of(worktree: WorkTree, path: str, *, revision: str = "HEAD", limit: int = 20) -> Past:
    """See `repoagent.history.file_history.past`, whose errors it raises. No model is asked."""
    from repoagent.git.worktree import layout
    from repoagent.history.file_history import past, with_summaries

    found = past(worktree, path, revision=sayable(revision), limit=limit)
    place = layout(worktree)
    if not place.summaries.is_dir():
        return found
    from repoagent.history.commit_summaries import find_known
    from repoagent.history.summary_store import as_lines

    known = find_known(worktree.top, place, found.steps)
    return with_summaries(found, as_lines(known.summaries, found.steps))


def _ignore(sentence: str) -> None:
    """Nobody listens."""


def wanted(
    worktree: WorkTree,
    *,
    range: str = "",
    base: str = "",
    commit: str = "",
    tracked: bool = False,
    diff: bytes = b"",
    files: Sequence[str] = (),
) -> ChangeSelector:
    """What is to be reviewed: one of these, what is staged without any; of it only `files` (from the top). `tracked`
    means what the tracked files hold other than HEAD, staged or not. Raises UsageError for two of them."""
    from repoagent.review.diff.select import ChangeSelector

    ways: dict[How, str] = {"range": range, "base": base, "commit": commit}
    given = [(how, value) for how, value in ways.items() if value]
    given += [("worktree", "")] if tracked else []
    given += [("diff", "")] if diff else []
    if len(given) > 1:
        raise UsageError(f"{' and '.join(how for how, _ in given)} name two changes: take one of them")
    how, value = given[0] if given else ("staged", "")
    sayable(value)
    if how == "range" and ".." not in value:
        raise UsageError(f"{value} is no range: write A..B, or give one commit as `commit`")
    return ChangeSelector(how, value, tuple(f":(top,literal){file}" for file in files), worktree.top, diff)


def reviewed(
    worktree: WorkTree,
    what: ChangeSelector,
    settings: Settings,
    *,
    ready: ModelSetup | None = None,
    asks: bool = False,
    hear: Callable[[str], None] = _ignore,
) -> Report:
    """The findings. A model is asked only with `asks`: the one that is `ready`, or that the settings name. Raises
    UsageError for a change that does not exist, and with `asks` what the model and the limits raise."""
    from repoagent.git.worktree import layout, open_at_head
    from repoagent.review.diff.read import read_change
    from repoagent.review.review import ReviewRequest, review
    from repoagent.review.untrusted import settings_before

    _, head = open_at_head(worktree.top)
    place = layout(worktree)
    change, unseen = read_change(worktree, head, what)
    settings = settings_before(change, worktree, place, settings)
    context = None
    notes: list[str] = []
    if asks:
        from repoagent.review.llm.session import ReviewSession

        context = ReviewSession(worktree, place, settings, notes.append, hear, ready=ready)
    found = review(
        change,
        ReviewRequest(worktree, place, settings, context, unseen, strict=asks, narrowed=bool(what.pathspecs)),
    )
    return replace(found, notes=(*found.notes, *notes)) if notes else found


@dataclass(frozen=True)
class Split:
    """A file in segments; joined in order, these are the file byte for byte.

    `blob` is the id of the bytes, as `git hash-object --no-filters` gives it; `language` is None where none is known;
    `size` is in bytes. `folder` is where the segment files were written, None for a split in memory.
    """

    path: str
    blob: str
    language: str | None
    size: int
    segments: tuple[IndexedSegment, ...]
    folder: Path | None = None
    data: bytes = field(default=b"", repr=False)

    def text(self, segment: IndexedSegment) -> bytes:
        """The bytes of one of `segments`."""
        return self.data[segment.start : segment.end]


def split_of(
    worktree: WorkTree,
    path: str,
    *,
    target: int = TARGET_BYTES,
    natural: bool = False,
    language: str | None = None,
    write: bool = False,
) -> Split:
    """The file in segments of at most `target` bytes, or with `natural` one for each outermost unit. With `write` they
    become files in `.repoagent/splits/`, for a person to edit and `repoagent split --join` to commit.

    Raises UsageError for a file that is not there and a language that is not known, Refused for a binary file and for
    a folder in which segments were edited.
    """
    from repoagent.git.worktree import layout
    from repoagent.split.create import create
    from repoagent.split.folder import Text, Ways, check_text, check_ways, default_folder, index_of
    from repoagent.storage.folders import open_folder
    from repoagent.storage.layout import ensure

    ways = Ways(target, natural, language)
    check_ways(ways)
    source, data = present(worktree, path)
    text = Text(path, data, worktree)
    check_text(text, ways)
    if not write:
        index, folder = index_of(text, ways, Path()), None
    else:
        place = layout(worktree)
        ensure(place)
        with open_folder(place.splits, create=True):
            pass
        folder = default_folder(text)
        index = create(text, ways, folder)
    return Split(path, source.blob, index.language, len(data), index.segments, folder, data)


def uses_of(
    worktree: WorkTree, what: str, *, limit: int = 20, path_of: Callable[[str], str] = lambda text: text
) -> Answer:
    """The uses of `what`: a name, `Class.method`, `FILE:NAME`, or a FILE, for all that it defines. Raises as
    `uses.answer` does."""
    from repoagent.edit.guards.scope import gate
    from repoagent.uses.report import answer

    return answer(worktree, what, gate(worktree.top, ()), limit=limit, path_of=path_of)
