"""A patch that a program hands over, on the way of `repoagent apply`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.repo.options import Options
from repoagent.work.answers.landed import EditResult, of_patch

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.edit.silent import Silent
    from repoagent.repo import WorkTree


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
    dialogue: Silent,
    *,
    options: Options,
    strict: bool = False,
    dry_run: bool = False,
    allow_sensitive: bool = False,
) -> EditResult:
    """Apply it; the message that the text brings along is taken for a model's.

    Raises what `edit.apply.run.apply` does; whatever it raises, everything is as it was.
    """
    from repoagent.edit.apply.bound import parse_bindings
    from repoagent.edit.apply.given import read_given
    from repoagent.edit.apply.run import apply
    from repoagent.edit.landing.message import without_claims
    from repoagent.edit.request import EditRequest, Target
    from repoagent.work.tools.checking import check_of

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
    outcome = apply(worktree, given, request, settings, dialogue, bindings=bindings)
    return of_patch(outcome, dialogue.said)
