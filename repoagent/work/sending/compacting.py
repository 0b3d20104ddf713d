"""A checkpoint of a conversation at the person's wish, between two turns."""

from __future__ import annotations

from repoagent.agent import open_state
from repoagent.agent.window.shown import shown
from repoagent.agent.window.units import tokens
from repoagent.config import Settings
from repoagent.edit.means import Means
from repoagent.repo import WorkTree, layout
from repoagent.work.at_work import AtWork
from repoagent.work.home import About, Home, living, refreshed
from repoagent.work.home.listing import Run
from repoagent.work.home.record import ENDS, Record
from repoagent.work.outset import lay_table
from repoagent.work.request import RunRequest
from repoagent.work.talk import Talk
from repoagent.work.tools.confinement import confinement


def compact(
    worktree: WorkTree, request: RunRequest, settings: Settings, talk: Talk, ready: Means
) -> tuple[int, int]:
    """Have the model sum up what was said so far: about how many tokens the turns took before, and take now.

    Where it can't be asked, or gives nothing usable, the checkpoint is made of what the program knows. Raises
    NothingDone where the conversation is short, Busy where a turn is at work, and what writing raises.
    """
    store = layout(worktree)
    home = Home(store, request.name)
    before = refreshed(Run(home, Record(name=request.name), ""), warn=talk.say).record
    about = About("", kind=request.kind, mode=request.mode, worktree=str(worktree.top))
    with living(home, about, warn=talk.say) as live:
        place = confinement(worktree, store, settings, request, home.folder / "scratch")
        desk = lay_table(worktree, request, settings, talk, ready, home, place)
        state = open_state(home.conversation)
        took = tokens(shown(state.turns))
        try:
            state = AtWork(desk, live, place, state).compact()
        finally:
            live.ended(before.state if before.state in ENDS else "stopped", before.text)  # as it was
    return took, tokens(shown(state.turns))
