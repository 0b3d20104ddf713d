"""What a patch asks for, in the files that it is for: the reading and placing that all ways of applying one share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.edit.apply.already import NOTHING_TO_DO, is_applied
from repoagent.edit.apply.given import Given
from repoagent.edit.apply.tree import Tree, plain_name
from repoagent.edit.request import EditRequest
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.patch import Applied, FilePatch, NoPatch, PatchRefused, apply_patches, read_answer


def read_patches(given: Given, known: Collection[str] = ()) -> tuple[FilePatch, ...]:
    """What `given` asks for; `known` are the names of files. Raises Refused when it holds no patch."""
    patches = read_answer(given.text, known=known)
    if patches:
        return patches
    if "\0" in given.text:
        raise UsageError(f"{given.name} is binary: give the text of a patch")
    raise Refused(
        f"{given.name} holds no patch: a unified diff, SEARCH/REPLACE blocks, or whole files under their names"
    )


def named(patches: Sequence[FilePatch], given: Given, paths: Sequence[str]) -> tuple[FilePatch, ...]:
    """The patches, those without a name as of the one that the person named. Raises UsageError."""
    nameless = [patch for patch in patches if patch.old is None and patch.new is None]
    if nameless and not paths:
        raise UsageError(f"{given.name} does not say which file it changes: name it with --path FILE")
    if paths and not nameless and paths[0] not in map(plain_name, patches):
        names = ", ".join(dict.fromkeys(map(plain_name, patches)))
        raise UsageError(f"{given.name} names its files ({names}): leave --path out")
    return tuple(replace(patch, new=paths[0]) if patch in nameless else patch for patch in patches)


def placed(patches: Sequence[FilePatch], files: Tree, given: Given, request: EditRequest) -> Applied:
    """The patches in `files`. Raises NothingDone when they are there already, PatchRefused, and what reading does."""
    from repoagent.split import parses_worse

    def may_create(path: str) -> bool:
        return files.source(path).data is None

    try:
        applied = apply_patches(
            patches, files, may_create=may_create, strict=request.strict,
            parses_worse=parses_worse if request.parse_check else None,
        )  # fmt: skip
    except NoPatch:
        raise Refused(f"{given.name} holds no patch of these files") from None
    except PatchRefused as error:
        if error.reasons <= NOTHING_TO_DO or is_applied(patches, files):
            raise NothingDone(f"nothing was changed: {given.name} is applied already") from error
        raise
    if lost := _lost(applied, given):
        raise Refused(lost)
    return applied


def _lost(applied: Applied, given: Given) -> str:
    """What vanishes unsaid from files that come anew as a whole: often they are not written to their end."""
    whole = {place.path for place in applied.placements if place.level == "whole-file"}
    if not whole:
        return ""
    from repoagent.edit.verify.losses import unasked_losses

    some = replace(applied, changes=tuple(change for change in applied.changes if change.path in whole))
    before = {
        change.path: change.before for change in some.changes if change.path and change.before is not None
    }
    return unasked_losses(some, given.message, given.text, before)
