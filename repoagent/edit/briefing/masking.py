"""Where keys and tokens are masked on their way to a model, and put back in what it writes.

What a file holds is masked as it is shown (`context.shown`), all else as it becomes part of a prompt or an
observation. Of what comes back only the patches are unmasked: they must fit the real bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent import Action, Observation, Tool
from repoagent.agent.tool import EDIT
from repoagent.llm import Part
from repoagent.store.masking import mask, unknown_in, unmask

if TYPE_CHECKING:
    from repoagent.edit.briefing.context import Prompt
    from repoagent.edit.briefing.tools import Workbench


def masked_prompt(prompt: Prompt) -> Prompt:
    """The prompt without keys and tokens."""
    return replace(prompt, system=_masked(prompt.system), opening=_masked(prompt.opening))


def masked_tool(tool: Tool, bench: Workbench) -> Tool:
    """The tool as a model may use it: what it tells is masked, and a patch it is given has the real text again."""

    def perform(action: Action) -> Observation:
        if tool.name == EDIT:
            action = replace(action, body=unmask(action.body))
            if made_up := _made_up(action.body, bench):
                text = f"There is no {made_up}: write what the file shows, or a placeholder of another kind."
                return Observation(EDIT, bench.sent_back(text), ok=False)
        seen = tool.perform(action)
        return replace(seen, text=mask(seen.text))

    return replace(tool, perform=perform)


def _made_up(patches: str, bench: Workbench) -> str:
    """A placeholder of ours in the patches that stands for nothing and is in no file; "" for none."""
    files = [text.data for text in bench.draft.texts().values()]
    return next(
        (name for name in unknown_in(patches) if not any(name.encode() in data for data in files)), ""
    )


def _masked(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(replace(part, text=mask(part.text)) for part in parts)
