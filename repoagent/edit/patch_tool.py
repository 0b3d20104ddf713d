"""The `edit` tool: apply the patches of a reply to the draft, or explain why they do not fit; and ask the user to add
files to the scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import EDIT, Tool
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import why_content_is_off_limits
from repoagent.edit.guards.risky_changes import find_concerns
from repoagent.edit.guards.unrequested_losses import Part, unasked_losses
from repoagent.edit.prompt.blocks import prompt_text
from repoagent.edit.prompt.formats import short_refusal
from repoagent.edit.request import names_file
from repoagent.edit.tools import look_up
from repoagent.edit.ui import tolerances_text
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git.files import FileChange, Source, read_source
from repoagent.patch.apply_answer import AppliedAnswer, apply_patches, read_answer
from repoagent.patch.model import FilePatch, decode_text
from repoagent.patch.paths import bad_path
from repoagent.patch.refusal import NOTHING_TO_DO, TOLERANCES, NoPatch, PatchRefused

NOT_A_FILE = "Not applied: your answer does not contain all of the requested text."
SEND_ALL = "No part of this edit is kept: send all of it again, including the hunks that fit."
OR_REPEAT = "If this is the whole edit, send it once more."
# reasons after which the edit may come again without these files
WITHOUT = frozenset({"unknown-file", "out-of-scope", "exists", "bad-path", "mode", "symlink", "binary"})
_HUNK = re.compile(r"^(?:@@|<<<<<<<)", re.MULTILINE)
_LOOSE_LEVELS = frozenset({"fuzzy-context", "elision"})
_LINES_AROUND = 20  # lines to read before and after
_PATH = re.compile(r"[^\s`'\"()<>\[\]{},;:*|]+")
MOST = 8  # files to offer


def edit_tool(session: EditSession) -> Tool:
    """The tool that applies the patches of a reply to the draft of `session`."""

    def perform(action: Action, added: Sequence[str] = ()) -> Observation:
        try:
            seen = _fold(session, action.body)
        except PatchRefused as error:
            closed = [problem.path for problem in error.problems if problem.reason == "out-of-scope"]
            if not added and allow_files(session, needed := can_be_offered(session, closed)):
                return perform(action, needed)
            seen = _refusal(session, error, action.body)
        except NoPatch as error:
            text = session.sent_back(NOT_A_FILE if session.loose else str(error))
            return Observation(EDIT, text, ok=False, shown="the reply contains no change that can be applied")
        except Refused as error:  # a path in a submodule, or below a symbolic link
            return Observation(EDIT, session.sent_back(str(error)), ok=False, error=error, shown=str(error))
        if not added:
            return seen
        more = scope_observation(session, added)
        text = seen.text if seen.ok else f"{seen.text}\n\n{more.text}"
        return replace(seen, text=text, data={**seen.data, **more.data})

    return Tool(EDIT, prompt_text(session.form), perform, replay=True, loose=session.loose)


def refused(session: EditSession, text: str, cause: str, *reasons: str) -> Observation:
    """The refusal of an edit: `text` for the model, `cause` for the user."""
    return Observation(
        EDIT, session.sent_back(text), ok=False, data={"reasons": list(reasons)}, shown=cause,
        error=Refused(f"{cause}: rephrase the request, or choose another model with --model"),
    )  # fmt: skip


def _fold(session: EditSession, answer: str) -> Observation:
    """Apply an answer to the draft if all its patches fit. Raises what `apply_patches` raises."""
    draft, earlier = session.draft, session.placements
    try:
        applied, parts = _fit(session, draft, answer)
    except PatchRefused as error:
        if not draft.edits:
            raise
        draft, earlier = Draft(draft.sources), []  # after a setback many models send the whole edit again
        try:
            applied, parts = _fit(session, draft, answer)
        except PatchRefused as second:
            raise second from error
        if not {change.name for change in applied.changes} >= {change.name for change in session.draft.edits}:
            raise
    reason, problem = "unseen", ""
    changed = {edit.path for edit in draft.edits}  # lines have moved in these
    for placement in applied.placements:
        # lines of a file that was not shown in full must have been read, or quoted exactly
        seen = session.seen.get(placement.path)
        if placement.level == "whole-file" and seen == []:
            problem = f"Not applied: {placement.path} exists and you have not seen it. Read it first."
            break
        is_exact = not _LOOSE_LEVELS & {placement.level, *placement.tolerances}
        if seen is None or placement.path in changed or is_exact:
            continue
        if not any(first <= placement.line <= last for first, last in seen):
            lines = f"{max(1, placement.line - _LINES_AROUND)}-{placement.line + _LINES_AROUND}"
            problem = (
                f"Not applied: hunk {placement.hunk} of {placement.path} would go to line {placement.line}, which you "
                f'have not seen, and does not quote it exactly. Read it first, with lines="{lines}".'
            )
            break
    if not problem:
        originals = {path: source.data for path, source in draft.sources.items() if source.data is not None}
        instruction, reason = session.request.instruction, "lost-definition"
        problem = unasked_losses(applied, instruction, answer, originals, parts=parts, loose=session.loose)
    if problem:
        cause = problem.removeprefix("Not applied: ").split(". ")[0].replace("you have", "the model has")
        return refused(session, problem, cause.rstrip("."), reason)
    hunks, owed, session.owed = len(_HUNK.findall(answer)), session.owed, 0
    if 0 < hunks < owed:
        text = f"Not applied: your refused edit had {owed} hunks, and this one has {hunks}. {SEND_ALL} {OR_REPEAT}"
        shown = "asked the model for all hunks of its refused edit"
        return Observation(EDIT, text, ok=False, data={"reasons": ["incomplete"]}, shown=shown)
    session.refusals = 0
    session.draft = draft.with_changes(applied.changes)
    session.placements = [*earlier, *applied.placements]
    session.editable |= {change.path for change in applied.changes if change.path}
    places, remarks = [], []
    for placement in applied.placements:
        special = placement.level not in {"exact", *TOLERANCES}
        places.append(f"{placement.path}:{placement.line}{f' ({placement.level})' * special}")
        if words := tolerances_text(placement):
            hunk = f"Hunk {placement.hunk} of {placement.path}, line {placement.line}"
            remarks.append(f"{hunk if placement.hunk else placement.path}: {words}.")
    texts = [f"Applied: {', '.join(places)}." if places else "Applied.", *remarks]
    if applied.unclosed:
        texts.append("The fence of the diff was not closed; the diff was read to the end of the answer.")
    return Observation(EDIT, "\n".join(texts), final=True)


def _fit(session: EditSession, draft: Draft, answer: str) -> tuple[AppliedAnswer, list[Part]]:
    """Apply the patches of an answer to the draft; also returns each rewritten part."""
    from repoagent.syntax.regressions import parses_worse

    texts = draft.texts()
    # a small model's reply that reached its length limit is not continued
    patches: Sequence[FilePatch] = read_answer(
        answer, loose=session.loose, known=texts, ended=not session.short
    )
    if session.loose:
        from repoagent.edit.small_models.excerpts import rows_now
        from repoagent.edit.small_models.replies import ShownFile, read_reply

        instruction = session.request.instruction
        words, files = frozenset(re.findall(r"\w+", instruction)), {}
        for path, current in texts.items():
            if path in session.editable and (text := decode_text(current.data)):
                source = draft.sources.get(path)
                before = decode_text(source.data) if source is not None and source.data is not None else None
                lines = () if before is None else before.lines
                windows = session.windows.get(path, ())
                parts_seen = tuple((rows_now(window, lines, text.lines), window.names) for window in windows)
                files[path] = ShownFile(path, text.lines, parts_seen, lines, words)
        missing = [path for path in session.request.paths if path not in texts]
        patches = read_reply(patches, files, instruction, lambda path: _may_create(session, path), missing)
    applied = apply_patches(
        patches,
        texts,
        scope=session.editable & set(texts),
        may_create=lambda path: _may_create(session, path),
        strict=session.request.strict,
        parses_worse=parses_worse if session.request.parse_check else None,
        exists=lambda path: _source(session, path) is not None,
    )
    parts: list[Part] = []
    for patch in patches:
        if patch.rows and patch.whole is not None and (text := decode_text(texts[patch.name].data)):
            new = patch.whole.removesuffix("\n").split("\n")
            parts.append((patch.name, text.lines[slice(*patch.rows)], new))
    return applied, parts


def _refusal(session: EditSession, error: PatchRefused, answer: str) -> Observation:
    reasons = sorted({problem.reason for problem in error.problems})
    if reasons == ["already-applied"] and session.draft.edits:
        return Observation(EDIT, f"{error}\nThere is nothing left to do.", final=True)
    text = short_refusal(error) if session.short else str(error)
    hunks = len(_HUNK.findall(answer))
    if hunks > len(error.problems):  # many models send only the corrected hunk
        session.owed = hunks if WITHOUT.isdisjoint(reasons) else 0
        text = f"{text}\n\n{SEND_ALL}"
    shown = [problem.brief for problem in error.problems]
    is_done = NOTHING_TO_DO.issuperset(reasons)
    return Observation(
        EDIT, session.sent_back(text), ok=False, data={"reasons": reasons, "hunks": len(error.problems)},
        error=NothingDone(f"no changes: {'; '.join(shown)}") if is_done else error, shown="\n".join(shown),
    )  # fmt: skip


def _may_create(session: EditSession, path: str) -> bool:
    request = session.request
    if session.why_not(path):
        return False
    if path in request.paths:
        return True
    if not request.create and request.scope != "repo":
        tail_of_known = any(known.endswith(f"/{path}") for known in session.draft.sources)
        if tail_of_known or not names_file(request.instruction, path):
            return False
    return read_source(session.worktree, path).data is None and not session.is_ignored(path)


class OutOfScope(Refused):
    """Files outside the scope also have to change, and there is no user to ask. The model's answer is saved."""

    def __init__(self, paths: Sequence[str], scope: Sequence[str]) -> None:
        has = "has" if len(paths) == 1 else "have"
        super().__init__(
            f"{', '.join(paths)} {has} to change too, but this edit may change only {', '.join(scope)}: run the same "
            "command with --scope repo (edit.scope) to allow it; the model's answer is saved and reused"
        )


def can_be_offered(session: EditSession, paths: Iterable[str]) -> list[str]:
    """The files in `paths` that are out of scope, but that the user may be asked to add: not withheld, ignored,
    sensitive, binary or generated."""
    offered = []
    for path in dict.fromkeys(paths):
        known = session.editable | set(session.request.read)
        source = None if path in known else _source(session, path)
        if source is None or source.binary or why_content_is_off_limits(source.data or b""):
            continue
        change = FileChange.at(path, source.content, source.content)
        if not find_concerns([change], (), session.worktree, session.request.sensitive):
            offered += [] if session.is_ignored(path) else [path]
    return offered


def files_named_in(session: EditSession, text: str) -> list[str]:
    """The files named in `text` that can be added to the scope."""
    names = (word.rstrip(".!?").removeprefix("./") for word in _PATH.findall(text))
    return can_be_offered(session, (name for name in names if "." in name or "/" in name))[:MOST]


def allow_files(session: EditSession, paths: Sequence[str]) -> bool:
    """Ask the user whether these files may also be changed and, if so, add them to the scope. Returns the answer.

    After a "no", the user is not asked again in this edit. Raises OutOfScope if there is no user to ask.
    """
    if session.allow is None or not paths:
        return False
    answer = session.allow(paths)
    if answer is None:
        raise OutOfScope(paths, sorted(session.editable))
    if not answer:
        session.allow = None
    for path in paths if answer else ():
        add_to_scope(session, path)
    return answer


def add_to_scope(session: EditSession, path: str) -> None:
    """Let the model change this file. If the model has not read some of its lines, a patch must quote them exactly."""
    if path not in session.draft.sources:
        session.draft = session.draft.with_source(read_source(session.worktree, path))
        session.seen.setdefault(path, [])
    session.editable.add(path)


def scope_observation(session: EditSession, paths: Sequence[str]) -> Observation:
    """The message that tells the model that it may now change these files, with their text."""
    texts = [f"You may change {', '.join(paths)} too."]
    texts += [look_up(session, "read").perform(Action("read", {"path": path})).text for path in paths]
    blobs = {path: session.draft.sources[path].blob for path in paths}
    return Observation("scope", "\n\n".join(texts), ok=False, data={"shown": blobs})


def _source(session: EditSession, path: str) -> Source | None:
    """The file, None if it does not exist or the model may not see it."""
    if bad_path(path) is not None or session.why_not(path):
        return None
    try:
        source = read_source(session.worktree, path)
    except RepoagentError:  # a folder, a link, a submodule
        return None
    return None if source.data is None else source
