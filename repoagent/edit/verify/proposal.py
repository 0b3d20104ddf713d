"""The tool that the patches of a reply are: fold them into the draft, or say why they do not fit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.agent import Action, Observation, Tool
from repoagent.edit.briefing.forms import form_text, short_refusal
from repoagent.edit.briefing.tools import Workbench, is_ignored_here
from repoagent.edit.draft import Draft
from repoagent.edit.large.guessed import guessed
from repoagent.edit.request import names_file
from repoagent.edit.small.windows import rows_now
from repoagent.edit.verify.losses import Part, unasked_losses
from repoagent.errors import NothingDone, Refused
from repoagent.patch import (
    Applied,
    FilePatch,
    NoPatch,
    PatchRefused,
    Placement,
    apply_patches,
    decode,
    read_answer,
)
from repoagent.repo import read_source

NOTHING_TO_DO = {"already-applied", "no-change"}
NOT_A_FILE = "Not applied: what your answer holds is not the whole of what was asked for."


def edit_tool(bench: Workbench) -> Tool:
    """The tool that a diff in a reply is: fold it into the draft, or say why it does not fit."""

    def perform(action: Action) -> Observation:
        from repoagent.split import parses_worse

        def fit(draft: Draft) -> tuple[Applied, list[Part]]:
            patches = _read(bench, draft, action.body)
            applied = apply_patches(
                patches,
                draft.texts(),
                scope=bench.editable & set(draft.texts()),
                may_create=lambda path: _may_create(bench, path),
                strict=bench.request.strict,
                parses_worse=parses_worse if bench.request.parse_check else None,
            )
            return applied, _parts(draft, patches)

        draft, placed = bench.draft, bench.placements
        try:
            try:
                applied, parts = fit(draft)
            except PatchRefused:
                if not draft.edits:
                    raise
                draft, placed = (
                    Draft(draft.sources),
                    [],
                )  # after a setback many models send the whole edit anew
                applied, parts = fit(draft)
        except NoPatch as error:
            text = bench.sent_back(NOT_A_FILE if bench.loose else str(error))
            return Observation("edit", text, ok=False)
        except PatchRefused as error:
            known = all(problem.reason == "already-applied" for problem in error.problems)
            if known and bench.draft.edits:
                return Observation("edit", f"{error}\nNothing is left to do.", final=True)
            reasons = sorted({problem.reason for problem in error.problems})
            nothing = NothingDone(f"nothing was changed: {error}") if set(reasons) <= NOTHING_TO_DO else error
            text = bench.sent_back(short_refusal(error) if bench.short else str(error))
            return Observation("edit", text, ok=False, data={"reasons": reasons}, error=nothing)
        except Refused as error:  # a path in a submodule, or through a link
            return Observation("edit", bench.sent_back(str(error)), ok=False, error=error)
        if guess := guessed(applied.placements, draft, bench.seen):
            return Observation("edit", bench.sent_back(guess), ok=False, data={"reasons": ["unseen"]})
        instruction = bench.request.instruction
        if lost := unasked_losses(
            applied, instruction, action.body, _originals(draft), parts=parts, loose=bench.loose
        ):
            return Observation("edit", bench.sent_back(lost), ok=False, data={"reasons": ["lost-definition"]})
        bench.refusals = 0
        bench.draft = draft.with_changes(applied.changes)
        bench.placements = [*placed, *applied.placements]
        bench.editable |= {change.path for change in applied.changes if change.path}
        return Observation("edit", _applied_text(applied.placements), final=True)

    return Tool("edit", form_text(bench.form), perform, replay=True, loose=bench.loose)


def _read(bench: Workbench, draft: Draft, answer: str) -> list[FilePatch]:
    """The patches of an answer; where whole files or functions were asked for, with what their fences are for."""
    patches = list(read_answer(answer, loose=bench.loose, known=draft.texts()))
    if not bench.loose:
        return patches
    from repoagent.edit.small.fitting import Shown
    from repoagent.edit.small.replies import understood

    texts = draft.texts()
    files = {}
    for path in bench.editable & set(texts):
        if text := decode(texts[path].data):
            source = _source_lines(draft, path)
            parts = _shown_parts(bench, source, path, text.lines)
            words = frozenset(re.findall(r"\w+", bench.request.instruction))
            files[path] = Shown(path, text.lines, parts, source, words)
    missing = [path for path in bench.request.paths if path not in texts]
    return understood(
        patches, files, bench.request.instruction, lambda path: _may_create(bench, path), missing
    )


def _source_lines(draft: Draft, path: str) -> tuple[str, ...]:
    source = draft.sources.get(path)
    before = decode(source.data) if source is not None and source.data is not None else None
    return () if before is None else before.lines


def _shown_parts(
    bench: Workbench, before: tuple[str, ...], path: str, now: tuple[str, ...]
) -> tuple[tuple[tuple[int, int], tuple[str, ...]], ...]:
    """The parts of a file that the model was shown, where they are now."""
    return tuple((rows_now(window, before, now), window.names) for window in bench.windows.get(path, ()))


def _originals(draft: Draft) -> dict[str, bytes]:
    return {path: source.data for path, source in draft.sources.items() if source.data is not None}


def _parts(draft: Draft, patches: Sequence[FilePatch]) -> list[Part]:
    """The old and new lines of each part of a file that came anew as a whole."""
    texts = draft.texts()
    found: list[Part] = []
    for patch in patches:
        text = decode(texts[patch.name].data) if patch.rows and patch.name in texts else None
        if text is not None and patch.rows and patch.whole is not None:
            found.append(
                (patch.name, text.lines[slice(*patch.rows)], patch.whole.removesuffix("\n").split("\n"))
            )
    return found


def _may_create(bench: Workbench, path: str) -> bool:
    """Whether the model may make this file: one that is there but was not shown to it is not new."""
    if bench.why_not(path):
        return False
    if path in bench.request.paths:
        return True
    request = bench.request
    if not request.create and request.scope != "repo":
        tail_of_known = any(known.endswith(f"/{path}") for known in bench.draft.sources)
        if tail_of_known or not names_file(request.instruction, path):
            return False
    return read_source(bench.worktree, path).data is None and not is_ignored_here(bench, path)


def _applied_text(placements: tuple[Placement, ...]) -> str:
    places = ", ".join(
        f"{p.path}:{p.line}" + (f" ({p.level})" if p.level != "exact" else "") for p in placements
    )
    return f"Applied: {places}." if places else "Applied."
