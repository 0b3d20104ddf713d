"""Whether something may be done: modes, rules for commands, and a person who is asked.

Read `gate` first, then `rule`, `reads` (commands that only read) and `shell` (what commands a text holds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.approval.asked import MODES, Asked, Asker, Mode, Verdict
    from repoagent.agent.approval.gate import Gate
    from repoagent.agent.approval.keeping import kept_rules
    from repoagent.agent.approval.proposing import propose
    from repoagent.agent.approval.rule import Rule, rules

_HOME = {
    "MODES": "asked",
    "Asked": "asked",
    "Asker": "asked",
    "Gate": "gate",
    "Mode": "asked",
    "Rule": "rule",
    "Verdict": "asked",
    "kept_rules": "keeping",
    "propose": "proposing",
    "rules": "rule",
}

__all__ = [
    "MODES",
    "Asked",
    "Asker",
    "Gate",
    "Mode",
    "Rule",
    "Verdict",
    "kept_rules",
    "propose",
    "rules",
]

__getattr__ = door(__name__, _HOME)
