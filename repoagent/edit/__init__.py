"""The main job: a request becomes a prompt, the answer a change that fits, the change one commit.

Read `request`, `briefing`, `context` (what is asked), `run` (how), `tools` (what comes back), `land` (the commit).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repoagent.edit.briefing import Prepared, prepare
    from repoagent.edit.dialogue import Decision, Dialogue, Proposal, summary
    from repoagent.edit.request import EditRequest, Target, parse_target, split_arguments
    from repoagent.edit.run import EditOutcome, edit

_HOME = {
    "Decision": "dialogue",
    "Dialogue": "dialogue",
    "EditOutcome": "run",
    "EditRequest": "request",
    "Prepared": "briefing",
    "Proposal": "dialogue",
    "Target": "request",
    "edit": "run",
    "parse_target": "request",
    "prepare": "briefing",
    "split_arguments": "request",
    "summary": "dialogue",
}

__all__ = [
    "Decision",
    "Dialogue",
    "EditOutcome",
    "EditRequest",
    "Prepared",
    "Proposal",
    "Target",
    "edit",
    "parse_target",
    "prepare",
    "split_arguments",
    "summary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
