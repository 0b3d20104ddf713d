"""The loop and its protocol: a model's text becomes actions, observations and in the end an outcome.

Read `loop` first, then `protocol` and `pieces` (a reply becomes actions), `tags` (how actions and quoted
content are written) and `state`. A tool is a value the loop is given; it knows no tool's package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door
from repoagent.llm.quoting import fence

if TYPE_CHECKING:
    from repoagent.agent.actions import Action, Observation
    from repoagent.agent.agents import Agent, ModelAgent, load_agent
    from repoagent.agent.loop import LoopEvent, Outcome, account, replay, run
    from repoagent.agent.protocol import Parsed, parse, protocol_text
    from repoagent.agent.state import State, open_state
    from repoagent.agent.tags import render
    from repoagent.agent.tool import Tool

_HOME = {
    "Action": "actions",
    "Agent": "agents",
    "LoopEvent": "loop",
    "ModelAgent": "agents",
    "Observation": "actions",
    "Outcome": "loop",
    "Parsed": "protocol",
    "State": "state",
    "Tool": "tool",
    "account": "loop",
    "load_agent": "agents",
    "open_state": "state",
    "parse": "protocol",
    "protocol_text": "protocol",
    "render": "tags",
    "replay": "loop",
    "run": "loop",
}

__all__ = [
    "Action",
    "Agent",
    "LoopEvent",
    "ModelAgent",
    "Observation",
    "Outcome",
    "Parsed",
    "State",
    "Tool",
    "account",
    "fence",
    "load_agent",
    "open_state",
    "parse",
    "protocol_text",
    "render",
    "replay",
    "run",
]

__getattr__ = door(__name__, _HOME)
