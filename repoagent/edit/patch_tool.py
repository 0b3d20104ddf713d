"""The tool `edit`: fold the patches of a reply into the draft, or explain why they do not fit.

The second half offers files outside the scope that have to change too, and adds them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.edit.guards.off_limits import why_content_is_off_limits
from repoagent.edit.guards.sensitive import concerns
from repoagent.edit.guards.unrequested_losses import Part, unasked_losses
from repoagent.edit.prompt.formats import form_text, short_refusal
from repoagent.edit.request import Draft, names_file
from repoagent.edit.small_models.excerpts import rows_now
from repoagent.edit.tools import ToolContext, is_ignored_here, read_tool
from repoagent.edit.ui import tolerances_text
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git.files import FileChange, Source, read_source
from repoagent.llm.conversation import Turn
from repoagent.patch.apply_file import Applied, apply_patches, read_answer
from repoagent.patch.errors import NOTHING, NOTHING_TO_DO, TOLERANCES, NoPatch, PatchRefused, Problem
from repoagent.patch.locate.exact import Placement
from repoagent.patch.model import FilePatch, decode
from repoagent.patch.paths import bad_path

if TYPE_CHECKING:
    from repoagent.patch.targets import Outcome

NAMES = {  # an edit that cannot be made as it was meant: nothing of it is kept
    "unknown-file", "out-of-scope", "exists", "bad-path", "mode", "symlink", "binary",
}  # fmt: skip
PARTLY = "Part of the change was refused; nothing is written yet."
FITS = "This fits; nothing is written yet, because another part of the edit is missing."
NOT_A_FILE = "Not applied: your answer does not contain all of the requested text."


def edit_tool(tool_context: ToolContext) -> Tool:
    """The tool for diffs in a reply: fold them into the draft, or explain why they do not fit."""

    def perform(action: Action) -> Observation:
        try:
            return _folded(tool_context, action.body)
        except PatchRefused as error:
            closed = [problem.path for problem in error.problems if problem.reason == "out-of-scope"]
            needed = can_be_offered(tool_context, closed)
            if not allow_files(tool_context, needed):
                return _refused(tool_context, error, action.body)
        except NoPatch as error:
            text = tool_context.sent_back(NOT_A_FILE if tool_context.loose else str(error))
            return Observation(
                "edit", text, ok=False, shown="the reply contains no change that can be applied"
            )
        except Refused as error:  # a path in a submodule, or through a link
            return Observation(
                "edit", tool_context.sent_back(str(error)), ok=False, error=error, shown=str(error)
            )
        try:
            seen = _folded(tool_context, action.body)
        except PatchRefused as error:
            seen = _refused(tool_context, error, action.body)
        return with_shown(tool_context, seen, needed)

    return Tool("edit", form_text(tool_context.form), perform, replay=True, loose=tool_context.loose)


def _folded(tool_context: ToolContext, answer: str) -> Observation:
    """What comes of the patches of an answer that all fit. Raises what `apply_patches` does."""
    draft, placed = tool_context.draft, tool_context.placements
    try:
        applied, parts = _fit(tool_context, draft, answer, tool_context.kept)
    except PatchRefused as error:
        if not draft.edits:
            raise
        draft, placed = Draft(draft.sources), []  # after a setback many models send the whole edit again
        try:
            applied, parts = _fit(tool_context, draft, answer, ())
        except PatchRefused as other:
            raise (error if error.fits else other) from None
        whole = {
            change.name
            for change in (*tool_context.draft.edits, *(result.change for result in tool_context.kept))
        }
        if not applied.named >= whole | tool_context.missing.keys():
            raise
    if guess := _guessed(applied.placements, draft, tool_context.seen):
        return Observation("edit", tool_context.sent_back(guess), ok=False, data={"reasons": ["unseen"]})
    words = "\n\n".join([*tool_context.said, answer])
    if lost := unasked_losses(
        applied,
        tool_context.request.instruction,
        words,
        {path: source.data for path, source in draft.sources.items() if source.data is not None},
        parts=parts,
        loose=tool_context.loose,
    ):
        return Observation(
            "edit", tool_context.sent_back(lost), ok=False, data={"reasons": ["lost-definition"]}
        )
    tool_context.missing = {
        path: part for path, part in tool_context.missing.items() if path not in applied.named
    }
    if tool_context.missing:
        from repoagent.patch.targets import Outcome

        tool_context.said.append(answer)
        tool_context.kept = tuple(
            Outcome(change, tuple(place for place in applied.placements if place.path == change.name))
            for change in applied.changes
        )
        text = f"{FITS}\n\n{tool_context.still_missing}"
        return Observation("edit", text, ok=False, data={"partial": True}, shown=tool_context.waiting)
    tool_context.refusals = 0
    tool_context.drop_kept()
    tool_context.draft = draft.with_changes(applied.changes)
    tool_context.placements = [*placed, *applied.placements]
    tool_context.editable |= {change.path for change in applied.changes if change.path}
    return Observation("edit", _applied_text(applied), final=True)


_LOOSE_LEVELS = frozenset({"fuzzy-context", "elision"})
_LINES_AROUND = 20  # lines that are worth reading on both sides


def _guessed(
    placements: Iterable[Placement], draft: Draft, seen: Mapping[str, Sequence[tuple[int, int]]]
) -> str:
    """A sentence for the model if a hunk goes to lines outside those that it has `seen` (by path, for files not shown
    whole; from 1, both inclusive) without quoting them exactly, or "".

    Lines that are quoted exactly are known. Files that were changed already are not judged: their lines have moved.
    """
    changed = {edit.path for edit in draft.edits}
    for place in placements:
        if place.level == "whole-file" and seen.get(place.path) == []:
            return f"Not applied: {place.path} exists and you have not seen it. Read it first."
        if (
            place.path not in seen
            or place.path in changed
            or not _LOOSE_LEVELS & {place.level, *place.tolerances}
        ):
            continue
        if any(first <= place.line <= last for first, last in seen[place.path]):
            continue
        return (
            f"Not applied: hunk {place.hunk} of {place.path} would go to line {place.line}, which you have not seen, "
            f"and does not quote it exactly. Read it first, with "
            f'lines="{max(1, place.line - _LINES_AROUND)}-{place.line + _LINES_AROUND}".'
        )
    return ""


def _fit(
    tool_context: ToolContext, draft: Draft, answer: str, kept: Sequence[Outcome]
) -> tuple[Applied, list[Part]]:
    from repoagent.syntax.regressions import parses_worse

    patches = _read(tool_context, draft, answer)
    applied = apply_patches(
        patches,
        draft.texts(),
        scope=tool_context.editable & set(draft.texts()),
        may_create=lambda path: _may_create(tool_context, path),
        strict=tool_context.request.strict,
        parses_worse=parses_worse if tool_context.request.parse_check else None,
        exists=lambda path: exists(tool_context, path),
        earlier=kept,
    )
    return applied, _parts(draft, patches)


def _refused(tool_context: ToolContext, error: PatchRefused, answer: str) -> Observation:
    known = all(problem.reason == "already-applied" for problem in error.problems)
    if known and tool_context.draft.edits and not tool_context.missing:
        return Observation("edit", f"{error}\nThere is nothing left to do.", final=True)
    reasons = sorted({problem.reason for problem in error.problems})
    nothing = NothingDone(f"no changes: {error}") if set(reasons) <= NOTHING_TO_DO else error
    text = short_refusal(error) if tool_context.short else str(error)
    missing = _missing(error.problems)
    partial = tool_context.drafts and bool(error.fits) and bool(missing) and NAMES.isdisjoint(reasons)
    if partial:
        tool_context.kept, tool_context.refusal = error.fits, error
        tool_context.said.append(answer)
        tool_context.missing = {
            path: part for path, part in tool_context.missing.items() if path not in error.named
        }
        tool_context.missing |= missing
        text = text.replace(NOTHING, PARTLY, 1)
    return Observation(
        "edit",
        tool_context.sent_back(text),
        ok=False,
        data={"reasons": reasons, "hunks": len(error.problems)} | ({"partial": True} if partial else {}),
        error=nothing,
        shown="\n".join(
            [*(problem.brief for problem in error.problems), *([tool_context.waiting] if partial else [])]
        ),
    )


def _missing(problems: Sequence[Problem]) -> dict[str, str]:
    """What of each file must be sent again, in words; a hunk that has nothing to do must not."""
    hunks: dict[str, set[int]] = {}
    for problem in problems:
        if problem.reason in NOTHING_TO_DO:
            continue
        hunks.setdefault(problem.path, set()).add(problem.hunk)
    return {
        path: f"all of {path}"
        if 0 in numbers
        else f"hunk{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))} of {path}"
        for path, numbers in hunks.items()
    }


def _read(tool_context: ToolContext, draft: Draft, answer: str) -> list[FilePatch]:
    """The patches of an answer; where whole files or functions were asked for, with what their fences are for."""
    ended = not tool_context.short  # else a reply that reached its length limit is not continued
    patches = list(read_answer(answer, loose=tool_context.loose, known=draft.texts(), ended=ended))
    if not tool_context.loose:
        return patches
    from repoagent.edit.small_models.replies import ShownFile, read_reply

    texts = draft.texts()
    files = {}
    for path in tool_context.editable & set(texts):
        if text := decode(texts[path].data):
            source = draft.sources.get(path)
            before = decode(source.data) if source is not None and source.data is not None else None
            lines = () if before is None else before.lines
            parts = tuple(  # that the model was shown, where they are now
                (rows_now(window, lines, text.lines), window.names)
                for window in tool_context.windows.get(path, ())
            )
            words = frozenset(re.findall(r"\w+", tool_context.request.instruction))
            files[path] = ShownFile(path, text.lines, parts, lines, words)
    missing = [path for path in tool_context.request.paths if path not in texts]
    return read_reply(
        patches,
        files,
        tool_context.request.instruction,
        lambda path: _may_create(tool_context, path),
        missing,
    )


def _parts(draft: Draft, patches: Sequence[FilePatch]) -> list[Part]:
    """The old and new lines of each part of a file that came again as a whole."""
    texts = draft.texts()
    found: list[Part] = []
    for patch in patches:
        text = decode(texts[patch.name].data) if patch.rows and patch.name in texts else None
        if text is not None and patch.rows and patch.whole is not None:
            found.append(
                (patch.name, text.lines[slice(*patch.rows)], patch.whole.removesuffix("\n").split("\n"))
            )
    return found


def _may_create(tool_context: ToolContext, path: str) -> bool:
    """Whether the model may make this file: one that is there but was not shown to it is not new."""
    if tool_context.why_not(path):
        return False
    if path in tool_context.request.paths:
        return True
    request = tool_context.request
    if not request.create and request.scope != "repo":
        tail_of_known = any(known.endswith(f"/{path}") for known in tool_context.draft.sources)
        if tail_of_known or not names_file(request.instruction, path):
            return False
    return read_source(tool_context.worktree, path).data is None and not is_ignored_here(tool_context, path)


def _applied_text(applied: Applied) -> str:
    """Where the hunks went; then, a line each, what the program had to forgive in one."""
    plain = {"exact", *TOLERANCES}
    places = ", ".join(
        f"{place.path}:{place.line}" + ("" if place.level in plain else f" ({place.level})")
        for place in applied.placements
    )
    said = [f"Applied: {places}." if places else "Applied."]
    for place in applied.placements:
        if words := tolerances_text(place):
            hunk = f"Hunk {place.hunk} of {place.path}, line {place.line}" if place.hunk else place.path
            said.append(f"{hunk}: {words}.")
    if applied.unclosed:
        said.append("The fence of the diff was not closed; the diff was read to the end of the answer.")
    return "\n".join(said)


_PATH = re.compile(r"[^\s`'\"()<>\[\]{},;:*|]+")
MOST = 8  # files


class OutOfScope(Refused):
    """Other files have to change too, and there is no user to ask. The model's answer is kept."""

    def __init__(self, paths: Sequence[str], scope: Sequence[str]) -> None:
        has = "has" if len(paths) == 1 else "have"
        super().__init__(
            f"{', '.join(paths)} {has} to change too, but this edit may change only {', '.join(scope)}: run the same "
            "command with --scope repo (edit.scope) to allow it; the model's answer is kept and reused"
        )


def exists(tool_context: ToolContext, path: str) -> bool:
    """Whether the file exists and the model may know it."""
    return _source(tool_context, path) is not None


def can_be_offered(tool_context: ToolContext, paths: Iterable[str]) -> list[str]:
    """The paths that are text files of the repository, out of scope, and not withheld, ignored, sensitive or
    generated."""
    found = []
    for path in dict.fromkeys(paths):
        source = (
            _source(tool_context, path)
            if path not in tool_context.editable | set(tool_context.request.read)
            else None
        )
        if source is None or source.binary or why_content_is_off_limits(source.data or b""):
            continue
        change = FileChange(path, path, source.data, source.data, source.mode, source.mode)
        if concerns([change], (), tool_context.worktree, tool_context.request.sensitive) or is_ignored_here(
            tool_context, path
        ):
            continue
        found.append(path)
    return found


def files_named_in(tool_context: ToolContext, text: str) -> list[str]:
    """The files that a text names and that can be offered."""
    names = (word.rstrip(".!?").removeprefix("./") for word in _PATH.findall(text))
    return can_be_offered(tool_context, (name for name in names if "." in name or "/" in name))[:MOST]


def allow_files(tool_context: ToolContext, paths: Sequence[str]) -> bool:
    """Ask whether these files may be changed too and add them to the scope on a yes; a no holds for the whole edit.

    Raises OutOfScope where there is no user to ask.
    """
    if tool_context.allow is None or not paths:
        return False
    answer = tool_context.allow(paths)
    if answer is None:
        raise OutOfScope(paths, sorted(tool_context.editable))
    if not answer:
        tool_context.allow = None
        return False
    for path in paths:
        add_to_scope(tool_context, path)
    return True


def add_to_scope(tool_context: ToolContext, path: str) -> None:
    """Let the model change this file; it must quote lines that it has not seen exactly."""
    if path not in tool_context.draft.sources:
        tool_context.draft = tool_context.draft.with_source(read_source(tool_context.worktree, path))
        tool_context.seen.setdefault(path, [])
    tool_context.editable.add(path)


def scope_observation(tool_context: ToolContext, paths: Sequence[str]) -> Observation:
    """Tell the model which files it may change from now on, with their text."""
    texts = [f"You may change {', '.join(paths)} too."]
    texts += [read_tool(tool_context).perform(Action("read", {"path": path})).text for path in paths]
    blobs = {path: tool_context.draft.sources[path].blob for path in paths}
    return Observation("scope", "\n\n".join(texts), ok=False, data={"allowed": blobs})


def allowed_files(turn: Turn) -> dict[str, str]:
    """The files that an observation adds to the scope, with their blobs; none if its record is broken."""
    try:
        blobs = json.loads(turn.meta.get("allowed", "{}"))
    except ValueError:
        return {}
    return blobs if isinstance(blobs, dict) and all(isinstance(blob, str) for blob in blobs.values()) else {}


def with_shown(tool_context: ToolContext, seen: Observation, paths: Sequence[str]) -> Observation:
    """`seen` with the text of the files added to the scope."""
    more = scope_observation(tool_context, paths)
    text = seen.text if seen.ok else f"{seen.text}\n\n{more.text}"
    return replace(seen, text=text, data={**seen.data, **more.data})


def _source(tool_context: ToolContext, path: str) -> Source | None:
    if bad_path(path) is not None or tool_context.why_not(path):
        return None
    try:
        source = read_source(tool_context.worktree, path)
    except RepoagentError:  # a folder, a link, a submodule
        return None
    return None if source.data is None else source
