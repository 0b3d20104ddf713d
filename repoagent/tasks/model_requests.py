"""A run's requests to its model: the system prompt, and the request for the next reply or for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files

from repoagent.agent.context_window.checkpoint import CheckpointFacts, facts_from_turns
from repoagent.agent.context_window.window import Window, tokens_for_turns, with_cache_breakpoints
from repoagent.agent.describe_tools import messages_of, protocol_text
from repoagent.agent.plan import read_plan, shorten_plan
from repoagent.agent.state import EDIT, State, Tool
from repoagent.dataclass import dataclass
from repoagent.edit.model_setup import announce_model, blocks_of, keep_call
from repoagent.edit.prompt.blocks import request_key
from repoagent.edit.prompt.instruction_files import collect_instructions
from repoagent.llm.complete import complete
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Part, Reply, Request, ToolSchema, display_name
from repoagent.storage.secrets import mask
from repoagent.tasks.run_context import RunContext
from repoagent.tasks.start import ENVIRONMENT

WINDOW = 128_000  # tokens, if the context window of the model is unknown


def system_parts(context: RunContext, tools: Sequence[Tool], further: Sequence[Part]) -> tuple[Part, ...]:
    """The constant parts of a request: instructions, context files, and the blocks in `further` (skills, agent
    types)."""
    names = ["run.md"]
    if context.request.plan_only:
        names.append("plan.md")
    elif all(tool.name != EDIT for tool in tools):
        names.append("look.md")
    prompts = files("repoagent.tasks") / "prompts"
    texts = [(prompts / name).read_text(encoding="utf-8") for name in names]
    texts.append(protocol_text(tools, "changes", native=context.model_setup.native))
    collected, warnings = collect_instructions(
        context.worktree.top, context.layout.root, context.settings, (), context.tool_context.why_not
    )
    for warning in warnings:
        context.ui.say(f"warning: {warning}")
    parts = [Part("\n".join([*texts, ""]), "protocol", cache=True), *collected, *further]
    parts = [replace(part, text=mask(part.text)) for part in parts if part.text]
    return (*parts[:-1], replace(parts[-1], cache=True))


@dataclass(frozen=True)
class ModelRequests:
    """The requests of one run, which all start with `system` and `tools`."""

    context: RunContext
    system: tuple[Part, ...]
    tools: tuple[ToolSchema, ...] = ()

    @property
    def window(self) -> Window:
        """The window that selects the turns that fit the current model, which may be a fallback."""
        setup, empty = self.context.model_setup, Request(self.system, (), tools=self.tools)
        budget = tokens_for_turns(setup.context_tokens or WINDOW, setup.max_output_tokens, empty)
        return Window(budget, [tool.name for tool in self.context.tools], self.context.run_dir.checkpoint)

    def render(self, state: State) -> tuple[Request, ...]:
        request = self._request(state, self.window.turns(state))
        announce_model(self.context.ui, self.context.model_setup.model.spec)
        return (request,)

    def ready(self, state: State, *, force: bool = False) -> State:
        """The state for the next call, with a new checkpoint if one is due or `force` is set."""
        count = len(state.turns)
        state = self.window.ready(
            state, lambda turns: self._checkpoint(state, turns), self._known, force=force
        )
        if len(state.turns) > count:
            environment = [turn for turn in state.turns if turn.meta.get("kind") == ENVIRONMENT]
            state = state.with_turn(environment[-1]) if environment else state  # a checkpoint omits it
            self.context.ui.progress("checkpoint", {"file": str(self.context.run_dir.checkpoint)})
        return state

    def store(self, request: Request, reply: Reply) -> dict[str, str]:
        """Store the exact prompt and the reply, and return metadata for the conversation."""
        cached = reply.usage.cache_read
        return keep_call(self.context.layout, request, reply) | ({"cached": str(cached)} if cached else {})

    def waiting(self, seconds: float, reason: str) -> None:
        self.context.ui.note(f"{reason}; retrying in {seconds:.0f} s")

    def _request(self, state: State, turns: Sequence[Turn], key: str = "") -> Request:
        context = self.context
        attached = context.tool_context.attached(turns)
        messages = messages_of(
            turns, state.nonce, context.tools, partial(blocks_of, context.layout), attached
        )
        replies = sum(turn.role == "assistant" for turn in state.turns)
        prompt = next((turn.text for turn in state.turns if turn.role == "user"), "")
        return with_cache_breakpoints(
            Request(
                self.system, messages, context.model_setup.max_output_tokens,
                request_key(prompt, {}, replies) + key, tools=self.tools,
            )
        )  # fmt: skip

    def _checkpoint(self, state: State, turns: Sequence[Turn]) -> tuple[str, Mapping[str, str]]:
        """Ask the model for one; returns its text and metadata."""
        setup = self.context.model_setup
        self.context.ui.note("the conversation is long; asking the model for a summary")
        request = self._request(state, turns, "checkpoint")
        reply = complete(setup.model, request, setup.meter, on_wait=self.waiting)
        return reply.text, {
            "model": display_name(reply.model or setup.model.spec),
            **self.store(request, reply),
        }

    def _known(self, state: State) -> CheckpointFacts:
        context = self.context
        known = facts_from_turns(state.turns, [tool.name for tool in context.tools], state.nonce)
        plan = read_plan(context.run_dir.plan)
        changed = tuple(change.name for change in context.change_set.changes)
        return replace(
            known, plan=shorten_plan(plan, 40) if plan.tasks else "", changed=changed or known.changed
        )
