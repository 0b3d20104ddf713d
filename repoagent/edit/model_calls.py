"""The requests of an edit to its model: for the next reply, for the part of a file to change, and for an explanation.

A small model whose edit failed its check, or that repeats itself, gets a separate prompt without the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from repoagent.agent.describe_tools import messages_of
from repoagent.agent.state import State
from repoagent.dataclass import dataclass
from repoagent.edit.commit import check_output
from repoagent.edit.model_setup import ModelSetup, announce, blocks_of, keep_call
from repoagent.edit.prompt.blocks import Prompt, check_fits, first_lines, request_key, retry_temperature
from repoagent.edit.prompt.build import Prepared, prompt_for
from repoagent.edit.prompt.formats import LOOSE, UNCHANGED
from repoagent.edit.ui import UserInterface
from repoagent.git.worktree import layout
from repoagent.llm.complete import complete
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Message, Part, Reply, Request, display_name, fence
from repoagent.patch.model import decode

PART, PART_TOKENS = "part", 80  # the answer of a small model that names the part of a file to change
EXPLAIN = (
    "Before the user decides: explain this change. What does it do, why this way, and what could it break?"
)


@dataclass
class ModelCalls:
    """The model calls of one prepared edit; each request is stored as sent."""

    prepared: Prepared
    setup: ModelSetup
    ui: UserInterface

    def render(self, state: State) -> tuple[Request, ...]:
        """The requests for the next reply."""
        requests = self.requests(state)
        for request in requests:
            check_fits(request, self.setup.context_tokens)
        announce(self.ui, self.setup.model.spec)
        return requests

    def requests(self, state: State) -> tuple[Request, ...]:
        """The requests to send after the turns of `state`: for a small model one per file, otherwise one."""
        prepared = self.prepared
        session, turns = prepared.session, state.turns
        replies = [turn.text for turn in turns if turn.role == "assistant"]
        key = request_key(session.request.instruction, prepared.blobs, len(replies))
        most = min(self.setup.max_output_tokens, prepared.reply_tokens or self.setup.max_output_tokens)
        prompts, temperature = self._corrections(turns, replies) if session.form in LOOSE else ((), None)
        keys = [key]
        if (count := len(prompts or prepared.prompts)) > 1:
            keys = [f"{key}{number}" for number in range(count)]
        if prompts:
            return tuple(
                prompt.alone(key=own, max_output_tokens=most, temperature=temperature)
                for prompt, own in zip(prompts, keys, strict=True)
            )
        as_messages = partial(
            messages_of, tools=prepared.tools, blocks_of=partial(blocks_of, layout(session.worktree)),
            attached=session.attached(turns),
        )  # fmt: skip
        return tuple(
            prompt.request(turns, state.nonce, key=own, max_output_tokens=most, messages_of=as_messages)
            for prompt, own in zip(prepared.prompts, keys, strict=True)
        )

    def _corrections(
        self, turns: Sequence[Turn], replies: Sequence[str]
    ) -> tuple[tuple[Prompt, ...], float | None]:
        """The prompts for a small model that repeated itself or failed the check, instead of the conversation, and
        their temperature; no prompts if neither happened.

        After a failed check the prompt shows the first attempt as the file: in a conversation about its mistake
        Qwen2.5-Coder-1.5B repeats its answer, but it corrects a file with a defect. If the output names some of the
        files, only those are requested.
        """
        prepared, last = self.prepared, turns[-1]
        paths = prepared.context.request.paths
        same = replies.count(replies[-1]) if replies else 0
        if same > 1 or last.text.startswith(UNCHANGED):
            # use another wording: a small model repeats its answer to the same prompt at any temperature
            return _prompts(prepared, paths, plain=True), None if same < 3 else retry_temperature(turns)
        draft = prepared.session.draft
        if last.meta.get("kind") != "check" or not draft.edits:
            return (), None
        from repoagent.edit.small_models.excerpts import rows_now

        output = fence(first_lines(check_output(last.text)), "output")
        texts, sources = draft.texts(), dict(prepared.context.sources)
        windows = dict(prepared.session.windows)
        tried = [path for path in paths if path in texts]
        for path, source in prepared.context.sources.items():
            if path not in texts:
                continue
            sources[path] = replace(source, content=texts[path])
            old, new = decode(source.data or b""), decode(texts[path].data)
            if (
                path in windows and old is not None and new is not None
            ):  # move them to the lines of the attempt
                rows = [(window, *rows_now(window, old.lines, new.lines)) for window in windows[path]]
                windows[path] = tuple(
                    replace(window, first=first + 1, last=max(last, first + 1))
                    for window, first, last in rows
                )
        failing = [path for path in tried if path.rpartition("/")[2] in output]
        changed = replace(
            prepared,
            context=replace(prepared.context, sources=sources),
            session=replace(prepared.session, windows=windows),
        )
        note = (
            f"\nThe file above already has a first attempt, which fails the check:\n{output}\nCorrect it.\n"
        )
        return _prompts(changed, failing or tried, note=note), retry_temperature(turns)

    def locate(self, key: str) -> str:
        """Ask a small model which part of a long file the request is about; returns its answer (names of definitions)
        on one line."""
        self.ui.note(f"asking {display_name(self.setup.model.spec)} which part of the file to change")
        message = Message("user", (Part(self.prepared.question, "question"),))
        request = Request((), (message,), PART_TOKENS, key + PART)
        reply = complete(self.setup.model, request, self.setup.meter, on_wait=self.waiting, continues=False)
        self.record(request, reply)
        return " ".join(reply.text.split())

    def explain(self, state: State) -> str:
        """Ask the model to explain its change; question and answer are not added to the conversation."""
        request = self.requests(state)[0]
        messages = (*request.messages, Message("user", (Part(EXPLAIN),)))
        request = replace(request, messages=messages, key=request.key + "explain")
        reply = complete(
            self.setup.model, request, self.setup.meter,
            on_text=self.ui.text, on_void=self.ui.void, on_wait=self.waiting,
        )  # fmt: skip
        self.record(request, reply)
        return reply.text

    def record(self, request: Request, reply: Reply) -> dict[str, str]:
        """Store the request and the reply's blocks; returns the turn's metadata."""
        return keep_call(layout(self.prepared.session.worktree), request, reply)

    def waiting(self, seconds: float, reason: str) -> None:
        """Tell the user that a call will be repeated in `seconds`, and why."""
        self.ui.note(f"{reason}; retrying in {seconds:.0f} s")


def _prompts(
    prepared: Prepared, paths: Sequence[str], *, note: str = "", plain: bool = False
) -> tuple[Prompt, ...]:
    """One prompt for each file."""
    context, session, tools = prepared.context, prepared.session, prepared.tools
    return tuple(prompt_for(context, session, tools, [path], note=note, plain=plain) for path in paths)
