"""A run in the place it was asked to work in: here, or in a linked work tree that goes when nothing is left in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.repo import WorkTree
    from repoagent.work import RunOutcome, RunRequest, Talk
    from repoagent.work.home import Home
    from repoagent.work.home.record import Record


def run_in_place(
    worktree: WorkTree, request: RunRequest, settings: Settings, talk: Talk, ready: Means
) -> RunOutcome:
    """The run, in a linked work tree where one was asked for; that goes when nothing is left in it."""
    from dataclasses import replace

    from repoagent.repo.facts import current_branch
    from repoagent.repo.status import read_status
    from repoagent.work import run
    from repoagent.work.ground.place import linked, reopened, wind_up

    home, before = _before(worktree, request.name)
    if (earlier := reopened(worktree, before.worktree, before.branch)) is not None:  # it is gone on with
        place, branch = earlier, current_branch(earlier) or ""
    elif request.branch or request.worktree:
        branch = request.branch or f"repoagent/{request.name}"
        folder = Path(request.worktree) if request.worktree else None
        place = linked(worktree, branch, folder, request.name)
        without = "; your uncommitted changes are not in it" if read_status(worktree).changed else ""
        talk.say(f"working in {place.top}, on the new branch {branch}{without}")
    else:
        return run(worktree, request, settings, talk, ready)
    request = replace(request, worktree=str(place.top), branch=branch)
    try:
        outcome = run(place, request, settings, talk, ready)
    except RepoagentError:
        if not home.conversation.exists():  # it never began
            wind_up(worktree, place, branch)
        raise
    if said := wind_up(worktree, place, branch, done=outcome.kind == "done"):
        talk.say(said)
    return outcome


def worked_in(worktree: WorkTree, name: str) -> WorkTree:
    """The linked work tree that a chat or run worked in before, made anew where it is gone; else the one here."""
    from repoagent.work.ground.place import reopened

    _, before = _before(worktree, name)
    return reopened(worktree, before.worktree, before.branch) or worktree


def _before(worktree: WorkTree, name: str) -> tuple[Home, Record]:
    """The home of a run, and what it says of itself; an empty record for a new one.

    Raises Refused for one that came with the repository.
    """
    from repoagent.repo import layout
    from repoagent.work.home import Home, refreshed, refuse_foreign
    from repoagent.work.home.listing import Run
    from repoagent.work.home.record import Record

    home = Home(layout(worktree), name)
    refuse_foreign(home)
    return home, refreshed(Run(home, Record(), "")).record if home.record.exists() else Record()
