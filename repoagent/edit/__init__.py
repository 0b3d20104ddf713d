"""The main job: a request becomes a prompt, the answer a change that fits, the change one commit.

Read `request` (what is asked), `run` (how it goes), and by folder:

briefing/     what the model is told, and the tools to look around
verify/       what comes back: does it fit, may it be, what would it do that nobody asked for
landing/      the way from there to the commit
remembering/  what is kept of it, a kill in between or not
small/ large/ what small models and large files need
apply/ join/ conversations/ context_files/   a patch from anywhere; edited segments; rewritten conversations; what every
              prompt says
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.edit.briefing.gather import Prepared, prepare
    from repoagent.edit.dialogue import Decision, Dialogue, Proposal, summary
    from repoagent.edit.request import EditRequest, Target, parse_target, split_arguments
    from repoagent.edit.run import EditOutcome, edit

_HOME = {
    "Decision": "dialogue",
    "Dialogue": "dialogue",
    "EditOutcome": "run",
    "EditRequest": "request",
    "Prepared": "briefing.gather",
    "Proposal": "dialogue",
    "Target": "request",
    "edit": "run",
    "parse_target": "request",
    "prepare": "briefing.gather",
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
