"""The first request of a run as it would be sent. Nothing is sent, and nothing stays in the repository."""

from __future__ import annotations

import tempfile
from pathlib import Path

from repoagent.agent import State
from repoagent.config import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.means import Means, wants_tools
from repoagent.errors import ModelError
from repoagent.llm import Limits, Meter, OnText, Reply, Request, open_model
from repoagent.repo import WorkTree, layout
from repoagent.store import Layout
from repoagent.work.at_work import AtWork
from repoagent.work.home import About, Home, living
from repoagent.work.outset import lay_table
from repoagent.work.request import RunRequest
from repoagent.work.talk import Talk
from repoagent.work.tools.confinement import confinement


@dataclass(frozen=True)
class _Unasked:
    """Stands for the model, which needs a key to be opened."""

    spec: str
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        raise ModelError("this model is not to be asked")


def first_request(
    worktree: WorkTree, request: RunRequest, settings: Settings, talk: Talk, spec: str
) -> Request:
    """What the first call of the new run `request` would send to the model `spec`; no key is needed.

    What the user's `run.before_turn` says is not in it. Raises what beginning a run does.
    """
    store = layout(worktree)
    takes = open_model(settings, spec=spec).takes if wants_tools(settings, spec) else frozenset[str]()
    ready = Means(settings, _Unasked(spec, takes=takes), Meter(Limits()))
    with tempfile.TemporaryDirectory(prefix="repoagent-") as name:
        base = Path(name).resolve()
        home = Home(Layout(base / ".repoagent", base), request.name)
        with living(home, About(request.prompt)) as live:
            place = confinement(worktree, store, settings, request, home.folder / "scratch")
            desk = lay_table(worktree, request, settings, talk, ready, home, place)
            desk.layout = store  # of the repository, as far as it is read
            found = AtWork(desk, live, place, State()).first()
            live.ended("stopped", "")
    return found
