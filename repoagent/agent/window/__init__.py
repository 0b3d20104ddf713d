"""What of a long conversation is sent. The conversation file keeps everything; a model's window does not hold it.

Results that are too long go to files as they come (`spilling`). All turns are sent as long as they fit, so that each
request is the one before and more. When they near the end of the window, a checkpoint is appended as a turn: it
stands for what is older, and what is sent is the person's words, the checkpoint and the newest turns; from there it
grows again. Read `shown` first (what is sent: a pure function of the turns), then `keeping` (when a checkpoint is made,
and how), `checkpoint` (its text), `units`, `superseded`, `cutting`, `spill` and `marks`.

    tools = [spilling(tool, home / "output", shown_as=relative) for tool in tools]
    window = Window(room(context, reply, prompt.alone(...)), [tool.name for tool in tools], home / "checkpoint.md")

    def ask(turns):                                         # one more call, counted like any other
        request = marked(prompt.request(turns, nonce, ...))
        reply = complete(model, request, meter)
        return reply.text, {"model": shown(reply.model), "tokens": ...}

    def before_call(state):                                 # the loop calls it before each model call
        known = lambda state: Known(plan, files_changed, commands_with_exit_codes)
        return window.ready(state, ask, known)

    def render(state):
        return [marked(prompt.request(window.turns(state), state.nonce, ...))]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.window.checkpoint import Known, known_from
    from repoagent.agent.window.keeping import Ask, Window, room
    from repoagent.agent.window.marks import marked
    from repoagent.agent.window.spill import spilling

__all__ = ["Ask", "Known", "Window", "known_from", "marked", "room", "spilling"]

_HOME = {
    "Ask": "keeping",
    "Known": "checkpoint",
    "Window": "keeping",
    "known_from": "checkpoint",
    "marked": "marks",
    "room": "keeping",
    "spilling": "spill",
}

__getattr__ = door(__name__, _HOME)
