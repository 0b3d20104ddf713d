"""The requests of an edit to its model: the next reply, which part of a file is meant, an explanation.

A small model whose edit failed its check, or that repeats itself, gets a prompt of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from repoagent.agent.native_tools import messages_of
from repoagent.agent.state import State
from repoagent.dataclass import dataclass
from repoagent.edit.checks import first_lines
from repoagent.edit.commit import check_output
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.prompt.blocks import Prompt, check_fits, request_key, retry_temperature
from repoagent.edit.prompt.build import Prepared, prompt_for
from repoagent.edit.prompt.formats import LOOSE, UNCHANGED
from repoagent.edit.recorder import blocks_of, keep_blocks, keep_sent
from repoagent.edit.small_models.excerpts import Window, fence_mark, rows_now, shown_text
from repoagent.edit.ui import UserInterface
from repoagent.git.files import Source
from repoagent.git.worktree import layout
from repoagent.llm.client import complete
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Message, Part, Reply, Request, display_name, fence
from repoagent.llm.registry import provider_of
from repoagent.memory.search.search import search_memory
from repoagent.patch.model import decode
from repoagent.storage.json_files import now


def next_prompts(prepared: Prepared, turns: Sequence[Turn]) -> tuple[tuple[Prompt, ...], bool, float | None]:
    """The next prompts, whether to send them without the conversation, and at what temperature."""
    last = turns[-1]
    if prepared.form not in LOOSE:
        return prepared.prompts, False, None
    replies = [turn.text for turn in turns if turn.role == "assistant"]
    same = replies.count(replies[-1]) if replies else 0
    if same > 1 or last.text.startswith(UNCHANGED):
        return (
            _prompts(prepared, prepared.context.request.paths, plain=True),
            True,
            None if same < 3 else retry_temperature(turns),
        )
    if last.meta.get("kind") == "check" and prepared.tool_context.draft.edits:
        output = fence(first_lines(check_output(last.text)), "output")
        return corrections(prepared, output), True, retry_temperature(turns)
    return prepared.prompts, False, None


def corrections(prepared: Prepared, output: str) -> tuple[Prompt, ...]:
    """Prompts after a check failed with `output`, to correct the first attempt, which is shown as the file.

    Of several files only those that the output names are asked for, if it names any. Told in a conversation what is
    wrong with its answer, Qwen2.5-Coder-1.5B repeats it; shown it as a file with a defect, it corrects what it
    understands.
    """
    tool_context, context = prepared.tool_context, prepared.context
    texts = tool_context.draft.texts()
    tried: dict[str, Source] = {}
    windows: dict[str, tuple[Window, ...]] = {}
    for path, source in context.sources.items():
        if path not in texts:
            continue
        tried[path] = replace(source, data=texts[path].data)
        windows[path] = tool_context.windows.get(path, ())
        old, new = decode(source.data or b""), decode(texts[path].data)
        if old is not None and new is not None:  # the windows where they are in the first attempt
            rows = [(window, *rows_now(window, old.lines, new.lines)) for window in windows[path]]
            windows[path] = tuple(
                replace(window, first=first + 1, last=max(last, first + 1)) for window, first, last in rows
            )
    windows = {path: parts for path, parts in windows.items() if parts}
    paths = [path for path in context.request.paths if path in tried]
    named = [path for path in paths if path.rpartition("/")[2] in output]
    now = replace(context, sources={**context.sources, **tried})
    changed = replace(tool_context, windows=windows)
    note = f"\nThe file above already has a first attempt, which fails the check:\n{output}\nCorrect it.\n"
    return _prompts(replace(prepared, context=now, tool_context=changed), named or paths, note=note)


def _prompts(
    prepared: Prepared, paths: Sequence[str], *, note: str = "", plain: bool = False
) -> tuple[Prompt, ...]:
    """One prompt for each file; with `plain` in other words, because a small model repeats its answer to the same ones
    at any temperature."""
    context, tool_context = prepared.context, prepared.tool_context
    marks = {
        path: fence_mark(shown_text(context.sources[path], tool_context.windows.get(path, ())))
        for path in context.request.paths
        if path in paths
    }
    return tuple(
        prompt_for(context, tool_context, prepared.tools, [path], marks, note=note, plain=plain)
        for path in paths
    )


PART, PART_TOKENS = "part", 80  # the answer to the question which part of a file is meant
EXPLAIN = (
    "Before the user decides: explain this change. What does it do, why this way, and what could it break?"
)


@dataclass
class ModelCalls:
    """The model calls of one prepared edit; each request is stored as it was sent."""

    prepared: Prepared
    model_setup: ModelSetup
    ui: UserInterface

    def render(self, state: State) -> tuple[Request, ...]:
        """The requests for the next reply."""
        requests = self.requests(state)
        for request in requests:
            check_fits(request, self.model_setup.context_tokens)
        spec = self.model_setup.model.spec
        self.ui.note(f"asking {display_name(spec)}")
        if provider_of(spec).answered_by == "user":  # it is the user who is asked now
            self.ui.quiet()
        return requests

    def requests(self, state: State) -> tuple[Request, ...]:
        prepared = self.prepared
        replies = sum(turn.role == "assistant" for turn in state.turns)
        key = request_key(prepared.tool_context.request.instruction, prepared.blobs, replies)
        most = min(
            self.model_setup.max_output_tokens, prepared.reply_tokens or self.model_setup.max_output_tokens
        )
        attachments = prepared.tool_context.attachments
        attached = attachments.of(state.turns) if attachments is not None else {}
        prompts, alone, warm = next_prompts(prepared, state.turns)
        kept = partial(blocks_of, layout(prepared.tool_context.worktree))
        as_messages = partial(messages_of, tools=prepared.tools, blocks_of=kept, attached=attached)
        requests = []
        for number, prompt in enumerate(prompts):
            part = key if len(prompts) == 1 else f"{key}{number}"
            requests.append(
                prompt.alone(key=part, max_output_tokens=most, temperature=warm)
                if alone
                else prompt.request(
                    state.turns, state.nonce, key=part, max_output_tokens=most, messages_of=as_messages
                )
            )
        return tuple(requests)

    def locate(self, key: str) -> str:
        """Ask a small model which part of a long file the request is about: names, on one line."""
        self.ui.note(f"asking {display_name(self.model_setup.model.spec)} which part of the file to change")
        asked = Request(
            (), (Message("user", (Part(self.prepared.question, "question"),)),), PART_TOKENS, key + PART
        )
        reply = complete(
            self.model_setup.model, asked, self.model_setup.meter, on_wait=self.waiting, continues=False
        )
        self.kept(asked, reply)
        return " ".join(reply.text.split())

    def explain(self, state: State) -> str:
        """The model's explanation of its change, asked outside of the conversation."""
        asked = self.requests(state)[0]
        question = (*asked.messages, Message("user", (Part(EXPLAIN),)))
        request = replace(asked, messages=question, key=asked.key + "explain")
        reply = complete(
            self.model_setup.model, request, self.model_setup.meter,
            on_text=self.ui.text, on_void=self.ui.void, on_wait=self.waiting,
        )  # fmt: skip
        self.kept(request, reply)
        return reply.text

    def kept(self, request: Request, reply: Reply) -> dict[str, str]:
        """Store the text that was sent and the blocks that came back; returns the metadata of the turn."""
        dirs = layout(self.prepared.tool_context.worktree)
        return {
            "time": now(),
            "sent": keep_sent(dirs, request),
            "tokens": f"{reply.usage.total - reply.usage.output}+{reply.usage.output}",
            **keep_blocks(dirs, reply),
        }

    def waiting(self, seconds: float, reason: str) -> None:
        self.ui.note(f"{reason}; retrying in {seconds:.0f} s")

    def recall(self, query: str) -> list[str]:
        return search_memory(layout(self.prepared.tool_context.worktree), query)
