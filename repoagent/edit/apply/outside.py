"""A patch outside of any repository: the files of a folder, written all or none, with no commit and no memory of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from repoagent.edit.apply.given import Given
from repoagent.edit.apply.placing import named, placed, read_patches
from repoagent.edit.apply.run import ApplyOutcome, Bench, failed
from repoagent.edit.apply.tree import Tree, is_there, untracked
from repoagent.edit.dialogue import Dialogue, Proposal
from repoagent.edit.draft import Draft
from repoagent.edit.landing.bench import new_edit_id
from repoagent.edit.landing.commit import Landed, SentBack, check_failure, checked
from repoagent.edit.landing.land import agreed
from repoagent.edit.request import EditRequest
from repoagent.edit.verify.scope import holds_secrets, why_content_is_off_limits
from repoagent.errors import Refused, RepoagentError
from repoagent.repo import Source, WorkTree, blob_hash
from repoagent.repo.content import look
from repoagent.repo.paths import check_path
from repoagent.repo.run import uninterrupted
from repoagent.repo.write.steps import (
    Step,
    new_folders,
    refuse_moved,
    steps_of,
    take,
    take_back,
    with_permissions,
)


def apply_outside(top: Path, given: Given, request: EditRequest, dialogue: Dialogue) -> ApplyOutcome:
    """Apply the patch to the files of the folder `top`, to which its names are relative.

    Raises what reading, placing and the dialogue raise; CheckFailed for a failed check. Whatever it raises, the files
    are as they were, but for one that somebody else has saved meanwhile.
    """
    started = time.monotonic()
    patches = named(read_patches(given), given, request.paths, lambda name: is_there(top, name, ()))
    files = Tree(untracked(top, patches, ()), lambda path: _read(top, path, request))
    applied = placed(patches, files, given, request)
    sources = {path: files.source(path) for c in applied.changes for path in (c.old_path, c.path) if path}
    draft = Draft(sources).with_changes(applied.changes)
    nowhere = WorkTree(
        top, top / ".git", top / ".git"
    )  # no repository, but all that is asked of it is the folder
    bench = Bench(nowhere, request, draft, list(applied.placements))
    edit_id = new_edit_id()
    try:
        proposal = agreed(bench, edit_id, lambda changes: "", dialogue, lambda: "")
        landed = Landed(proposal) if request.dry_run else written(top, proposal, request, edit_id, dialogue)
    except SentBack as setback:
        raise failed(setback) from setback
    return ApplyOutcome(edit_id, landed, time.monotonic() - started - dialogue.waited)


def _read(top: Path, path: str, request: EditRequest) -> Source:
    """The file, no symbolic link followed. Raises Refused for one that a patch may not touch."""
    check_path(path)
    named = path in request.paths or request.allow_sensitive
    if not named and holds_secrets(path):
        raise Refused(
            f"{path} has a name that usually holds secrets: say --allow-sensitive if the patch is meant to change it"
        )
    for folder in [path, *(parent.as_posix() for parent in Path(path).parents)][:-1]:
        if (top / folder).is_symlink():
            where = "is a symbolic link" if folder == path else f"leads through {folder}, a symbolic link"
            raise Refused(f"{path} {where}: name the file itself")
    if (top / path).is_dir():
        raise Refused(f"{path} is a folder: name a file in it")
    try:
        found = look(top, path)
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from error
    if found is None:
        return Source(path, None, None, "")
    if (reason := why_content_is_off_limits(found.data)) and not named:
        raise Refused(
            f"{path} is not edited: {reason}; say --allow-sensitive if the patch is meant for it all the same"
        )
    return Source(path, found.data, found.mode, blob_hash(found.data))


def written(top: Path, proposal: Proposal, request: EditRequest, edit_id: str, dialogue: Dialogue) -> Landed:
    """Write the files and run the check; everything is put back where one of them fails."""
    steps = with_permissions(top, steps_of(proposal.changes, edit_id), proposal.changes)
    refuse_moved(top, steps)
    folders = new_folders(top, steps)
    result = None
    try:
        for step in steps:
            take(top, step)
        if request.check:
            result = checked(request.check, WorkTree(top, top / ".git", top / ".git"), proposal, dialogue)
            if not result.passed:
                raise check_failure(result, top)
    except BaseException as error:
        with uninterrupted():
            left = _taken_back(top, steps, folders)
        if left and isinstance(error, (SentBack, RepoagentError)):
            names = ", ".join(left)
            raise Refused(
                f"{names} was saved by another program meanwhile and is left so; {error}"
            ) from error
        raise
    dialogue.quiet()
    return Landed(proposal, True, None, result)


def _taken_back(top: Path, steps: Sequence[Step], folders: Sequence[str]) -> list[str]:
    """Put back what was written; the paths that hold somebody else's save by now."""
    left = []
    for step in reversed(steps):
        try:
            back = take_back(top, step)
        except Refused:  # it can't be written any more; the others can
            back = False
        left += [] if back else [step.path]
    for folder in folders:
        try:
            (top / folder).rmdir()
        except OSError:  # not made yet, or not empty
            continue
    return left
