"""The results of the library and of MCP as frozen values, and the functions that make them.

Each function (`patched`, `outlined`, `neighbors_of`, `past_of`, `reviewed`, `split_of`, `uses_of`) makes one call of
the engine. Withheld files are left out for every caller: results end in prompts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import layout
from repoagent.split.pack import TARGET_BYTES

if TYPE_CHECKING:
    from git import Commit

    from repoagent.config.settings import Settings
    from repoagent.edit.apply_patch import ApplyOutcome
    from repoagent.edit.edit import EditOutcome
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.edit.ui import NonInteractive
    from repoagent.git.files import Source
    from repoagent.git.worktree import WorkTree
    from repoagent.history.file_history import HistoryReport
    from repoagent.llm.model import Usage
    from repoagent.patch.locate.exact import Placement
    from repoagent.review.diff.select import How
    from repoagent.review.finding import Report
    from repoagent.split.folder_index import IndexedSegment
    from repoagent.syntax.outline import Outline
    from repoagent.uses.query import Answer

Kind = Literal["committed", "written", "proposed", "answered"]


@dataclass(frozen=True)
class ChangedFile:
    """`old_path` is None for a new file, `path` for a deleted one; they differ for a rename. `mode` is git's
    ("100644"), None for a deleted file."""

    path: str | None
    old_path: str | None
    mode: str | None


@dataclass(frozen=True)
class EditResult:
    """The result of `edit` and `apply`. `kind` is "committed"; "written" for files changed without a commit; "proposed"
    for a dry run; "answered" when the model answered without an edit.

    `edit_id` is what `undo` takes. `commit` (a full id; `git_commit` is the object), `parent` and `branch` are None
    without a commit, `branch` also on a detached HEAD. `files` are the changed files, `diff` their patch as git prints
    it, `message` the commit message. `remarks` are sentences for the user. `placements` has for each hunk its lines and
    the tolerances that it needed. `seconds` is wall time. Only of `edit`: the `model`, its `answer` when it did not
    edit, the rest of its last reply (`words`), its earlier `messages` to the user, its tokens (`usage`) and the `cost`
    in US dollars (None: unknown). `top` is the work tree.
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
        """The commit as a `git.Commit` of GitPython, None without one. Raises UsageError where GitPython cannot open
        it."""
        if self.commit is None or self.top is None:
            return None
        from repoagent.api.gitpython import open_commit

        return open_commit(self.top, self.commit)


def edit_result(outcome: EditOutcome | ApplyOutcome, top: Path, remarks: Sequence[str]) -> EditResult:
    """The result of an edit by a model, or of a patch; `remarks` come before those of the commit."""
    change = outcome.result
    made = change.commit if change else None
    of_model = ("model", "answer", "words", "messages", "usage", "cost")
    return EditResult(
        cast(Kind, outcome.kind),
        outcome.edit_id,
        commit=made.commit if made else None,
        parent=made.parent if made else None,
        branch=made.branch if made else None,
        files=tuple(ChangedFile(c.path, c.old_path, c.mode) for c in change.changes) if change else (),
        diff=change.proposal.diff if change else "",
        message=change.proposal.message if change else "",
        remarks=tuple(dict.fromkeys((*remarks, *(change.remarks if change else ())))),
        placements=change.proposal.placements if change else (),
        seconds=outcome.seconds,
        top=top,
        **{name: getattr(outcome, name) for name in of_model if hasattr(outcome, name)},
    )


def patched(
    worktree: WorkTree,
    patch: bytes,
    settings: Settings,
    ui: NonInteractive,
    *,
    sources: Mapping[str, str],
    path: str | None = None,
    message: str = "",
    options: Options,
    strict: bool = False,
    dry_run: bool = False,
    allow_sensitive: bool = False,
) -> EditResult:
    """Apply a patch: any text with changes in it; the message in it is treated as a model's. `sources` are the ids of
    the blobs that it was made for, by path; `path` is the file of a patch that names none; `message` the commit message
    ("" for the one in the patch). Raises what `edit.apply_patch.apply` does; everything is unchanged then."""
    from repoagent.edit.apply_input import parse_bindings, read_patch_input
    from repoagent.edit.apply_patch import apply
    from repoagent.edit.commit import without_claims
    from repoagent.edit.request import EditRequest, Target
    from repoagent.tasks.check import check_of

    parsed = read_patch_input("the patch", patch, worktree.top)
    parsed = replace(parsed, message=without_claims(parsed.message).lstrip())
    bindings = parse_bindings([f"{name}={blob}" for name, blob in sources.items()])
    request = EditRequest(
        instruction=f"{message.strip()}\n" if message.strip() else "",
        targets=() if path is None else (Target(path),),
        create=True,
        check=check_of(settings),
        strict=strict,
        parse_check=settings.switch("edit.parse_check"),
        dry_run=dry_run,
        allow_sensitive=allow_sensitive,
        sensitive=settings.texts("edit.sensitive"),
        commit=options,
    )
    outcome = apply(worktree, parsed, request, settings, ui, bindings=bindings)
    return edit_result(outcome, worktree.top, ui.said)


def present(worktree: WorkTree, path: str) -> tuple[Source, bytes]:
    """A file and its bytes. Raises UsageError for a missing one, Refused as `git.files.read_source`."""
    from repoagent.git.files import read_source
    from repoagent.git.similar_paths import no_such_file

    source = read_source(worktree, path)
    if source.data is None:
        raise no_such_file(path, worktree.top)
    return source, source.data


def outlined(worktree: WorkTree, path: str, *, language: str | None = None) -> tuple[Source, Outline]:
    """A file and its outline. Raises what `present` does, and UsageError for a file without an outline: binary, too
    large or without a grammar."""
    from repoagent.syntax.outline import check_language, outline_of

    if language is not None:
        check_language(language)
    source, data = present(worktree, path)
    outline = outline_of(path, data, language)
    if outline.kind:
        raise UsageError(f"{path} {outline.reason}")
    return source, outline


def _checked(revision: str) -> str:
    """The revision unchanged. Raises UsageError for text that cannot be an argument of git."""
    if "\0" in revision or any("\ud800" <= character <= "\udfff" for character in revision):
        raise UsageError(f"no such revision: {revision!r}; name a commit, a branch or a tag")
    return revision


@dataclass(frozen=True)
class Neighbor:
    """A file that changes together with the files of the query.

    `score` is 0 to 1; `together` in how many of their `commits` it changed too; `rate` is "high", "medium", "low", or
    None for never; `last` when both last changed in one commit (ISO 8601, UTC; None for never). `reasons` are of
    "together", "through" (shared partners), "recent", "name", "folder"; `evidence` the full ids of the commits behind
    it; `weak` means too little evidence to be shown by default.
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
    """`neighbors`, best score first. `commit` is the id of `revision`, "" before the first commit; `commits` is the
    number of commits of `paths` that were read. `state` is "whole", or "building", "recent" or "names" for an answer
    from a part of the history; `note` is a remark for the reader ("" for none)."""

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
    """The files that change together with `paths` (files or folders, relative to the top). Raises UsageError for a path
    or a revision that does not exist, Refused for a path in a git directory."""
    from repoagent.history.neighbors import neighborhood
    from repoagent.history.render import is_weak, rate

    answer = neighborhood(worktree, paths, _checked(revision), limit=limit, min_score=min_score)
    rows = []
    for row in answer.rows:
        last = None if row.last is None else datetime.fromtimestamp(row.last, timezone.utc)
        rows.append(
            Neighbor(
                os.fsdecode(row.path), round(row.score, 4), row.together, row.commits,
                rate(row.together, row.commits),
                None if last is None else last.strftime("%Y-%m-%dT%H:%M:%SZ"),
                tuple(row.reasons), is_weak(row), tuple(answer.ids[number] for number in row.evidence),
            )
        )  # fmt: skip
    names = tuple(map(os.fsdecode, answer.paths))
    return Neighbors(
        names, answer.revision, answer.commit, answer.state, answer.note, answer.looked_at, tuple(rows)
    )


def past_of(worktree: WorkTree, path: str, *, revision: str = "HEAD", limit: int = 20) -> HistoryReport:
    """The history of a file, with the commit summaries that exist. Raises what `history.file_history.read_history`
    does. No model is called."""
    from repoagent.history.file_history import read_history

    history = read_history(worktree, path, revision=_checked(revision), limit=limit)
    paths = layout(worktree)
    if not paths.summaries.is_dir():
        return history
    from repoagent.history.commit_summaries import find_known
    from repoagent.history.summary_store import add_summaries

    known = find_known(worktree.top, paths, history.steps)
    return replace(history, steps=add_summaries(history.steps, known.summaries))


def reviewed(
    worktree: WorkTree,
    settings: Settings,
    *,
    range: str = "",
    base: str = "",
    commit: str = "",
    tracked: bool = False,
    diff: bytes = b"",
    files: Sequence[str] = (),
    ready: ModelSetup | None = None,
    asks: bool = False,
    hear: Callable[[str], None] = lambda sentence: None,
) -> Report:
    """The findings on one change, in `files` (relative to the top) only: `range`, `base`, `commit`, `tracked` (all
    changes of tracked files since HEAD) or `diff`, by default what is staged. Calls a model only with `asks`: the one
    of `ready`, or else of the settings; `hear` gets its progress. Raises UsageError for two changes and for one that
    does not exist, and with `asks` ModelError and LimitReached."""
    from repoagent.git.worktree import open_at_head
    from repoagent.review.diff.read import read_change
    from repoagent.review.diff.select import ChangeSelector
    from repoagent.review.review import ReviewRequest, review
    from repoagent.review.untrusted import settings_before

    ways: dict[How, object] = {
        "range": range, "base": base, "commit": commit, "worktree": tracked, "diff": diff
    }  # fmt: skip
    chosen = [how for how, value in ways.items() if value]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} cannot be combined: use one of them")
    value = _checked(range or base or commit)
    if range and ".." not in range:
        raise UsageError(f"invalid range '{range}': write A..B, or pass one commit as `commit`")
    pathspecs = tuple(f":(top,literal){file}" for file in files)
    selector = ChangeSelector(chosen[0] if chosen else "staged", value, pathspecs, worktree.top, diff)
    _, head = open_at_head(worktree.top)
    paths = layout(worktree)
    change, unseen = read_change(worktree, head, selector)
    settings = settings_before(change, worktree, paths, settings)
    context = None
    notes: list[str] = []
    if asks:
        from repoagent.review.llm.review import ReviewSession

        context = ReviewSession(worktree, paths, settings, notes.append, hear, ready=ready)
    request = ReviewRequest(worktree, paths, settings, context, unseen, strict=asks, narrowed=bool(pathspecs))
    report = review(change, request)
    return replace(report, notes=(*report.notes, *notes)) if notes else report


@dataclass(frozen=True)
class Split:
    """A file in segments; joined in order, these are the file byte for byte.

    `blob` is the id of the bytes (`git hash-object --no-filters`); `language` is None where it is unknown; `size` is in
    bytes. `folder` is where the segment files were written, None for a split in memory.
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
    """Split a file into segments of at most `target` bytes, or with `natural` one per top-level symbol. `write` also
    writes them to `.repoagent/splits/`, where the user edits them and `repoagent split --join` commits them.

    Raises UsageError for a missing file and an unknown language, Refused for a binary file and for a folder with edited
    segments.
    """
    from repoagent.split.create import create
    from repoagent.split.folder import SplitOptions, check_options, check_text, default_folder, new_index
    from repoagent.split.source import SourceText
    from repoagent.storage.folders import open_folder
    from repoagent.storage.layout import ensure

    options = SplitOptions(target, natural, language)
    check_options(options)
    source, data = present(worktree, path)
    text = SourceText(path, data, worktree)
    check_text(text, options)
    if not write:
        index, folder = new_index(text, options, Path()), None
    else:
        paths = layout(worktree)
        ensure(paths)
        with open_folder(paths.splits, create=True):
            pass
        folder = default_folder(text)
        index = create(text, options, folder)
    return Split(path, source.blob, index.language, len(data), index.segments, folder, data)


def uses_of(
    worktree: WorkTree, what: str, *, limit: int = 20, path_of: Callable[[str], str] = lambda text: text
) -> Answer:
    """The uses of `what`: a name, `Class.method`, `FILE:NAME`, or a FILE, for all that it defines. Raises what
    `uses.report.answer` does."""
    from repoagent.edit.guards.off_limits import gate
    from repoagent.uses.report import answer

    return answer(worktree, what, gate(worktree.top, ()), limit=limit, path_of=path_of)
