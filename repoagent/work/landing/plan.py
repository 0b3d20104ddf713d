"""The plan of a run where it can't be read: a folder, or not UTF-8. It is kept, and the run goes on."""

from __future__ import annotations

from repoagent.agent.plan import plan_news, read_plan
from repoagent.errors import Refused
from repoagent.store.atomic import set_aside
from repoagent.work.desk import Desk


def mend_plan(desk: Desk) -> None:
    """Set a plan aside that can't be read, say so, and make it again of the conversation."""
    file = desk.home.plan
    try:
        read_plan(file)
    except Refused as error:
        try:
            kept = set_aside(file)
        except FileNotFoundError:  # somebody has put it right just now
            return
        desk.talk.say(
            f"warning: {error}; it is kept as {kept.name}, and the plan is made again from the conversation"
        )
        state = desk.state
        plan_news(file, state.turns, [tool.name for tool in desk.tools], state.nonce)
