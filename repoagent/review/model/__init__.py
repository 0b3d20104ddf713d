"""What a model finds on the changed lines: asked in parts, each of its findings checked against the bytes.

Read `ask` first: `blocks` cuts a change into what is asked about, `chunks` packs that into calls, `briefing` makes the
prompt, `looking` the tools and the loop, `parse` and `verify` decide what of an answer counts, `answers` keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.review.model.ask import model_findings, prompts
    from repoagent.review.model.desk import Desk, ModelAnswer

__all__ = ["Desk", "ModelAnswer", "model_findings", "prompts"]

_HOME = {"Desk": "desk", "ModelAnswer": "desk", "model_findings": "ask", "prompts": "ask"}

__getattr__ = door(__name__, _HOME)
