"""One run, from the person's words to its end: the table is laid, the loop goes on, and what came of it is said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from repoagent.agent import Outcome, open_state
from repoagent.config import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.means import Means
from repoagent.llm import Usage
from repoagent.llm.naming import shown
from repoagent.repo import WorkTree, layout
from repoagent.store import ensure
from repoagent.work.at_work import AtWork
from repoagent.work.desk import Desk
from repoagent.work.ground.footing import refuse_vain, standing
from repoagent.work.home import About, Home, living, refuse_foreign
from repoagent.work.landing.finishing import unfinished_business
from repoagent.work.outset import lay_table
from repoagent.work.request import RunRequest
from repoagent.work.talk import Talk
from repoagent.work.tools.confinement import confinement

if TYPE_CHECKING:
    from repoagent.edit.landing.check import CheckResult

Kind = Literal["done", "answered", "unfinished"]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: "unfinished" with words alone while its change was not committed or tasks were open, or when
    its last edit was refused. `text` is its last word, `words` what else its last reply says, `messages` what it told
    the user on the way, `commits` what it has committed, `left` the paths that it has changed and not committed,
    `left_out` the files that its commands made and that are no part of the change, `check` how the check ended that
    the commit has passed, `turns` the model calls; seconds are wall time without the user's."""

    kind: Kind
    name: str
    text: str
    model: str
    usage: Usage
    turns: int
    cost: float | None
    seconds: float
    commits: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    words: str = ""
    messages: tuple[str, ...] = ()
    check: CheckResult | None = None
    left_out: tuple[str, ...] = ()


def run(worktree: WorkTree, request: RunRequest, settings: Settings, talk: Talk, ready: Means) -> RunOutcome:
    """Do one run, or go on with it. Raises LimitReached, ModelError, CheckFailed, Stopped and what the steps raise; the
    conversation, and what was changed, are kept then, and the same run can be gone on with. Raises Refused for a run
    that came with the repository."""
    started = time.monotonic()
    store = layout(worktree)
    ensure(store)
    home = Home(store, request.name)
    refuse_foreign(home)
    refuse_vain(worktree, request)
    meter = ready.meter
    if meter.book is not None:
        meter.book = meter.book.about(request.name, str(worktree.top), ())
    with living(home, _about(worktree, request, ready), warn=talk.say) as live:
        place = confinement(worktree, store, settings, request, home.folder / "scratch")
        desk = lay_table(worktree, request, settings, talk, ready, home, place)
        desk.commits[:] = [commit for commit in desk.commits if commit not in live.record.commits]
        live.committed(desk.commits)
        try:
            work = AtWork(desk, live, place, open_state(home.conversation))
            outcome = work.go()
        finally:  # the last call counts too
            live.turn(turns=meter.attempts, doing="", usage=meter.usage, cost=meter.cost)
        kind = _kind(desk, outcome)
        live.ended(kind, outcome.text, commits=desk.commits)
    left = standing(worktree, desk.ledger).left
    return RunOutcome(
        kind, request.name, outcome.text, shown(ready.model.spec), meter.usage, meter.attempts, meter.cost,
        time.monotonic() - started - talk.waited, tuple(desk.commits), left,
        outcome.words, outcome.messages, work.finishing.check if work.finishing else None,
        tuple(change.name for change in desk.ledger.candidates if change.after is not None),
    )  # fmt: skip


def _kind(desk: Desk, outcome: Outcome) -> Kind:
    """What a run came to. In a chat, and from a child, words are an answer whatever is open."""
    alone = desk.request.kind == "run" and not desk.request.parent
    if outcome.kind == "answered":
        return "unfinished" if alone and unfinished_business(desk) else "answered"
    if desk.bench.missing:
        return "unfinished"
    nothing = not desk.commits and not desk.ledger.changes
    return "unfinished" if alone and nothing and desk.edit_is_missing else "done"


def _about(worktree: WorkTree, request: RunRequest, ready: Means) -> About:
    limits = ready.meter.limits
    return About(
        request.prompt,
        kind=request.kind,
        parent=request.parent,
        model=shown(ready.model.spec),
        mode=request.mode,
        worktree=str(worktree.top),
        branch=request.branch,
        said=request.said,
        limits={
            "cost": limits.cost,
            "tokens": limits.tokens,
            "turns": limits.turns,
            "seconds": limits.seconds,
        },
    )
