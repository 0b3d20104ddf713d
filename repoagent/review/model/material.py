"""The change as it is asked about: its blocks in order, and what of it no model is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from repoagent.config import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.verify.scope import WhyNot
from repoagent.repo import WorkTree
from repoagent.review.change import Change, ChangedFile
from repoagent.review.finding import Level
from repoagent.review.model.blocks import Block, blocks_of, scopes, symbols_of
from repoagent.review.model.skipped import (
    listed,
    marks_of,
    order,
    sentences,
    why_content_skipped,
    why_skipped,
)
from repoagent.review.model.view import View, view_of
from repoagent.review.rules import RULES, level_of


@dataclass
class Material:
    """The blocks of a change in the order in which they are asked about, and what is not shown."""

    blocks: list[Block] = field(default_factory=list)
    views: dict[str, View] = field(default_factory=dict)
    scopes: dict[str, Mapping[int, str]] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self.views)


def gathered(change: Change, worktree: WorkTree, why_not: WhyNot) -> Material:
    """Cut the change into blocks, without what a model can do nothing with or may not see."""
    material = Material()
    skipped: list[tuple[str, str]] = []
    marks = marks_of(worktree, change)
    for file in sorted(change.files, key=lambda one: order(one.path)):
        reason = why_skipped(file, marks, why_not)
        view = None if reason else view_of(change, file)
        if view is not None:
            reason = why_content_skipped(view.data or b"")
        elif not reason and _has_other_bytes(change, file):
            reason = "binary, or no text"
        if reason:
            skipped.append((file.path, reason))
        elif view is not None:
            symbols = symbols_of(view)
            material.views[file.path] = view
            material.scopes[file.path] = scopes(view, symbols)
            material.blocks += blocks_of(view, symbols)
    material.unseen += sentences(skipped)
    return material


def _has_other_bytes(change: Change, file: ChangedFile) -> bool:
    """Whether a file without changed lines is one with other content all the same, and not only of another mode."""
    if file.status not in ("added", "modified") or (file.old_blob and file.old_blob == file.new_blob):
        return False
    return bool(change.read_new(file)) if file.new_blob else file.old_mode == file.new_mode


def not_asked(blocks: Sequence[Block]) -> str:
    """The sentence on blocks that there was no time, money or model for."""
    return f"{listed([block.name for block in blocks])} (by the model: see the note on it)"


def levels_of(settings: Settings) -> dict[str, Level]:
    """The rules that a model is asked about, with the level of what it finds."""
    found = {rule.id: level_of(rule.id, settings) for rule in RULES.values() if rule.source == "model"}
    return {rule: level for rule, level in found.items() if level is not None}
