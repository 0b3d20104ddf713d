"""Is a patch in the files already? Of hunks the applier knows; here is what it can't: files made, moved and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from repoagent.patch import FilePatch, PatchRefused, SourceText, apply_patches, decode
from repoagent.patch.paths import NO_FILE, spellings

NOTHING_TO_DO = {"already-applied", "no-change"}


def is_applied(patches: Sequence[FilePatch], files: Mapping[str, SourceText]) -> bool:
    """Whether every part of the patches is in `files`, by the names to the letter."""
    edits: list[FilePatch] = []
    for patch in patches:
        old, new = spellings(patch.old, patch.new)
        if patch.action == "create" or patch.old == NO_FILE:
            if not any(_holds(patch, files[name]) for name in new if name in files):
                return False
        elif patch.action == "delete" or patch.new == NO_FILE:
            if any(name in files for name in old):
                return False
        elif patch.action == "rename":
            if patch.old in files or patch.new not in files:
                return False
            edits += (
                [replace(patch, action="edit", old=f"a/{patch.new}", new=f"b/{patch.new}")]
                if patch.hunks
                else []
            )
        else:
            edits.append(patch)
    return not edits or _edited(edits, files)


def _holds(patch: FilePatch, source: SourceText) -> bool:
    text = decode(source.data)
    if text is None:
        return False
    if patch.whole is not None:
        return patch.whole.rstrip("\n").split("\n") == "\n".join(text.lines).rstrip("\n").split("\n")
    return tuple(line.text for hunk in patch.hunks for line in hunk.new) == text.lines


def _edited(patches: Sequence[FilePatch], files: Mapping[str, SourceText]) -> bool:
    try:
        apply_patches(patches, files)
    except PatchRefused as error:
        return error.reasons <= NOTHING_TO_DO
    return False
