"""The main job: a request becomes a prompt, the answer a change that fits, the change one commit.

Read `request`, `briefing`, `context` (what is asked), `run` (how), `tools` (what comes back), `land` (the commit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

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

__getattr__ = door(__name__, _HOME)
