"""Confinement of the commands that a model asks for. It knows no git and no `.repoagent`: paths are in the policy.

Read `policy` first, then `finding` (which back end works here), `plan` (what is mounted), the two back ends, and
`launch` (what runs between us and the command).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.sandbox.finding import Sandbox, find, likely, tried, why_none
    from repoagent.agent.sandbox.policy import Policy, default_hidden
    from repoagent.agent.sandbox.scrubbing import scrubbed
    from repoagent.agent.sandbox.wrapping import supervised, unconfined, why_ended

_HOME = {
    "Policy": "policy",
    "Sandbox": "finding",
    "default_hidden": "policy",
    "find": "finding",
    "likely": "finding",
    "scrubbed": "scrubbing",
    "supervised": "wrapping",
    "tried": "finding",
    "unconfined": "wrapping",
    "why_ended": "wrapping",
    "why_none": "finding",
}

__all__ = [
    "Policy",
    "Sandbox",
    "default_hidden",
    "find",
    "likely",
    "scrubbed",
    "supervised",
    "tried",
    "unconfined",
    "why_ended",
    "why_none",
]

__getattr__ = door(__name__, _HOME)
