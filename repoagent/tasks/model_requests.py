"""What a run sends and keeps: the requests for its next replies, and those for a checkpoint of a long conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from repoagent.agent.context_window.checkpoint import Known, known_from
from repoagent.agent.context_window.window import Window, marked, room
from repoagent.agent.native_tools import messages_of
from repoagent.agent.plan.file import read_plan
from repoagent.agent.plan.tool import short
from repoagent.agent.state import State
from repoagent.dataclass import dataclass
from repoagent.edit.prompt.blocks import request_key
from repoagent.edit.sent_requests import blocks_of, keep_blocks, keep_sent
from repoagent.llm.client import complete
from repoagent.llm.conversation import Turn, observation_openings
from repoagent.llm.model import Part, Reply, Request, Schema, display_name
from repoagent.llm.provider import provider_of
from repoagent.storage.jsonl import now
from repoagent.tasks.context import RunContext
from repoagent.tasks.prompt import ENVIRONMENT
from repoagent.tasks.start import first_words

WINDOW = 128_000  # tokens, of a model of which nobody knows how much it takes in


@dataclass(frozen=True)
class Sending:
    """The requests of one run: `system` and `tools` are what they all begin with."""

    context: RunContext
    system: tuple[Part, ...]
    tools: tuple[Schema, ...] = ()

    @property
    def window(self) -> Window:
        """What of the conversation fits the model that is asked now (a fall-back is another than the first)."""
        model_setup = self.context.model_setup
        budget = room(
            model_setup.context_tokens or WINDOW,
            model_setup.max_output_tokens,
            Request(self.system, (), tools=self.tools),
        )
        return Window(budget, [tool.name for tool in self.context.tools], self.context.run_dir.checkpoint)

    def render(self, state: State) -> tuple[Request, ...]:
        """The request for the next reply."""
        context = self.context
        request = self._request(state, self.window.turns(state))
        context.ui.note(f"asking {display_name(context.model_setup.model.spec)}")
        if provider_of(context.model_setup.model.spec).answered_by == "user":
            context.ui.quiet()
        return (request,)

    def ready(self, state: State, *, force: bool = False) -> State:
        """The state to make the next call with: with a checkpoint when one is due, or with `force`."""
        known = len(state.turns)
        state = self.window.ready(
            state, lambda turns: self._checkpoint(state, turns), self._known, force=force
        )
        if len(state.turns) > known:
            told = [turn for turn in state.turns if turn.meta.get("kind") == ENVIRONMENT]
            state = state.with_turn(told[-1]) if told else state  # a checkpoint leaves it out
            self.context.ui.progress("checkpoint", {"file": str(self.context.run_dir.checkpoint)})
        return state

    def kept(self, request: Request, reply: Reply) -> dict[str, str]:
        """Keep the exact text that was sent, and the blocks that came back; what the conversation says of it."""
        usage = reply.usage
        said = {
            "time": now(),
            "sent": keep_sent(self.context.layout, request),
            "tokens": f"{usage.total - usage.output}+{usage.output}",
            **keep_blocks(self.context.layout, reply),
        }
        return said | ({"cached": str(usage.cache_read)} if usage.cache_read else {})

    def waiting(self, seconds: float, reason: str) -> None:
        self.context.ui.note(f"{reason}; retrying in {seconds:.0f} s")

    def _request(self, state: State, turns: Sequence[Turn]) -> Request:
        context = self.context
        shelf = context.bench.attachments
        attached = shelf.of(turns) if shelf is not None else {}
        messages = messages_of(
            turns, state.nonce, context.tools, partial(blocks_of, context.layout), attached
        )
        replies = sum(turn.role == "assistant" for turn in state.turns)
        return marked(
            Request(
                self.system,
                messages,
                context.model_setup.max_output_tokens,
                request_key(first_words(state), {}, replies),
                tools=self.tools,
                stop=observation_openings(messages),
            )
        )

    def _checkpoint(self, state: State, turns: Sequence[Turn]) -> tuple[str, Mapping[str, str]]:
        """What the model says when it is asked for a checkpoint."""
        context = self.context
        context.ui.note("asking for a checkpoint: the conversation is long")
        request = self._request(state, turns)
        request = replace(request, key=request.key + "checkpoint")
        reply = complete(context.model_setup.model, request, context.model_setup.meter, on_wait=self.waiting)
        return reply.text, {
            "model": display_name(reply.model or context.model_setup.model.spec),
            **self.kept(request, reply),
        }

    def _known(self, state: State) -> Known:
        context = self.context
        found = known_from(state.turns, [tool.name for tool in context.tools], state.nonce)
        plan = read_plan(context.run_dir.plan)
        changed = tuple(change.name for change in context.change_set.changes)
        return replace(found, plan=short(plan, 40) if plan.tasks else "", changed=changed or found.changed)
