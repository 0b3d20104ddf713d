"""What a patch asks for, in the files that it is for: the reading and placing that all ways of applying one share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from repoagent.edit.apply.already import NOTHING_TO_DO, is_applied
from repoagent.edit.apply.given import Given
from repoagent.edit.apply.tree import Tree, plain_name
from repoagent.edit.request import EditRequest
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.patch import Applied, FilePatch, NoPatch, PatchRefused, apply_patches, read_answer
from repoagent.patch.paths import spellings


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


def named(
    patches: Sequence[FilePatch], given: Given, paths: Sequence[str], there: Callable[[str], bool]
) -> tuple[FilePatch, ...]:
    """The patches, those without a name as of the file that `paths` names; and so the diff of one file whose names are
    of none that is `there` (`before.c`, `after.c`). Raises UsageError."""
    if paths and _stands_in(patches, there):
        return tuple(replace(patch, old=f"a/{paths[0]}", new=f"b/{paths[0]}") for patch in patches)
    nameless = [patch for patch in patches if patch.old is None and patch.new is None]
    if nameless and not paths:
        raise UsageError(f"{given.name} does not say which file it changes: name it with --path FILE")
    if paths and not nameless and paths[0] not in map(plain_name, patches):
        names = ", ".join(dict.fromkeys(map(plain_name, patches)))
        raise UsageError(f"{given.name} names its files ({names}): leave --path out")
    return tuple(replace(patch, new=paths[0]) if patch in nameless else patch for patch in patches)


def _stands_in(patches: Sequence[FilePatch], there: Callable[[str], bool]) -> bool:
    """Are these changes of one file, under names that no file has?"""
    names = {(patch.old, patch.new) for patch in patches}
    if len(names) != 1 or any(patch.form != "diff" or patch.action != "edit" for patch in patches):
        return False
    old, new = names.pop()
    return bool(old and new) and not any(there(name) for side in spellings(old, new) for name in side)


def placed(patches: Sequence[FilePatch], files: Tree, given: Given, request: EditRequest) -> Applied:
    """The patches in `files`.

    Raises NothingDone when they are there already, PatchRefused, and what reading does.
    """
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
    if any(place.level == "whole-file" for place in applied.placements):
        from repoagent.edit.verify.losses import left_out

        if lost := left_out(applied, f"{given.message} {request.instruction}", given.text):
            raise Refused(lost)
    return applied
