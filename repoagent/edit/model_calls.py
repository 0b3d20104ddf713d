"""The requests that an edit sends to its model: for the next reply, and to find the part of a file to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from repoagent.agent.describe_tools import messages_of
from repoagent.agent.state import State
from repoagent.dataclass import dataclass
from repoagent.edit.commit import check_output
from repoagent.edit.model_setup import ModelSetup, announce_model, blocks_of, keep_call
from repoagent.edit.prompt.blocks import Prompt, check_fits, first_lines, request_key, retry_temperature
from repoagent.edit.prompt.build import PreparedEdit, prompt_for
from repoagent.edit.prompt.formats import LOOSE, UNCHANGED
from repoagent.edit.ui import UserInterface
from repoagent.git.worktree import layout_of
from repoagent.llm.complete import complete
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Message, Part, Reply, Request, display_name, fence

PART, PART_TOKENS = "part", 80  # the answer of a small model that names the part of a file to change


@dataclass
class ModelCalls:
    prepared: PreparedEdit
    setup: ModelSetup
    ui: UserInterface

    def render(self, state: State) -> tuple[Request, ...]:
        """The requests to send after the turns of `state`: for a small model one per file, otherwise one."""
        requests = tuple(self._requests(state))
        for request in requests:
            check_fits(request, self.setup.context_tokens)
        announce_model(self.ui, self.setup.model.spec)
        return requests

    def _requests(self, state: State) -> Iterator[Request]:
        prepared = self.prepared
        session, turns = prepared.session, state.turns
        replies = [turn.text for turn in turns if turn.role == "assistant"]
        key = request_key(session.request.instruction, prepared.blobs, len(replies))
        most = min(self.setup.max_output_tokens, prepared.reply_tokens or self.setup.max_output_tokens)
        prompts, temperature = self._corrections(turns, replies) if session.form in LOOSE else ((), None)
        as_messages = partial(
            messages_of, tools=prepared.tools, blocks_of=partial(blocks_of, layout_of(session.worktree)),
            attached=session.attached(turns),
        )  # fmt: skip
        several = len(prompts or prepared.prompts) > 1
        for number, prompt in enumerate(prompts or prepared.prompts):
            own = f"{key}{number}" if several else key
            if prompts:
                yield prompt.alone(key=own, max_output_tokens=most, temperature=temperature)
            else:
                yield prompt.request(
                    turns, state.nonce, key=own, max_output_tokens=most, messages_of=as_messages
                )

    def _corrections(
        self, turns: Sequence[Turn], replies: Sequence[str]
    ) -> tuple[tuple[Prompt, ...], float | None]:
        """The prompts and the temperature for a small model that repeated itself or failed the check, without the
        conversation; no prompts if neither happened.

        After a failed check the prompt shows the attempt as the file: in a conversation about its mistake
        Qwen2.5-Coder-1.5B repeats its answer. Requests only the files that the output names, if any.
        """
        context, session, last = self.prepared.context, self.prepared.session, turns[-1]
        paths, note = list(context.request.paths), ""
        temperature: float | None = retry_temperature(turns)
        same = replies.count(replies[-1]) if replies else 0
        # use another wording: a small model repeats its answer to the same prompt at any temperature
        plain = same > 1 or last.text.startswith(UNCHANGED)
        if plain:
            temperature = None if same < 3 else temperature
        elif last.meta.get("kind") != "check" or not session.draft.edits:
            return (), None
        else:
            from repoagent.edit.small_models.excerpts import window_now

            texts = session.draft.texts()
            present = {
                path: replace(source, content=texts.get(path, source.content))
                for path, source in context.sources.items()
            }
            windows = {
                path: tuple(window_now(window, context.sources[path], present[path]) for window in parts)
                for path, parts in session.windows.items()
                if path in texts
            }
            context, session = replace(context, sources=present), replace(session, windows=windows)
            output = fence(first_lines(check_output(last.text)), "output")
            note = f"\nThe file above already has a first attempt, which fails the check:\n{output}\nCorrect it.\n"
            paths = [path for path in paths if path in texts]
            paths = [path for path in paths if path.rpartition("/")[2] in output] or paths
        return tuple(
            prompt_for(context, session, self.prepared.tools, [path], note=note, plain=plain)
            for path in paths
        ), temperature

    def locate(self, key: str) -> str:
        """Ask a small model which part of a long file the request is about. Returns the names of definitions, on one
        line."""
        self.ui.note(f"asking {display_name(self.setup.model.spec)} which part of the file to change")
        message = Message("user", (Part(self.prepared.question, "question"),))
        request = Request((), (message,), PART_TOKENS, key + PART)
        reply = complete(self.setup.model, request, self.setup.meter, on_wait=self.waiting, continues=False)
        self.record(request, reply)
        return " ".join(reply.text.split())

    def record(self, request: Request, reply: Reply) -> dict[str, str]:
        return keep_call(layout_of(self.prepared.session.worktree), request, reply)

    def waiting(self, seconds: float, reason: str) -> None:
        self.ui.note(f"{reason}; retrying in {seconds:.0f} s")
