"""What an edit asks of the model: the next replies, which part of a file is meant, what a change does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from repoagent.agent import State
from repoagent.agent.native import messages_of
from repoagent.dataclass import dataclass
from repoagent.edit.briefing.context import check_fits, request_key
from repoagent.edit.briefing.gather import Prepared
from repoagent.edit.corrections import next_prompts
from repoagent.edit.dialogue import Dialogue
from repoagent.edit.means import Means
from repoagent.edit.remembering.sent import blocks_of, keep_blocks, keep_sent
from repoagent.llm import Message, Part, Reply, Request, complete
from repoagent.llm.naming import shown
from repoagent.memory import search_memory
from repoagent.repo import layout
from repoagent.store.document import now

PART, PART_TOKENS = "part", 80  # the answer to the question which part of a file is meant
EXPLAIN = (
    "Before deciding, the person asks: explain this change. What does it do, why so, and what could it break?"
)


@dataclass(frozen=True)
class Asking:
    """The questions of one prepared edit; each is kept as it was sent."""

    prepared: Prepared
    means: Means
    dialogue: Dialogue

    def render(self, state: State) -> tuple[Request, ...]:
        """The requests for the next reply."""
        requests = self.requests(state)
        for request in requests:
            check_fits(request, self.means.context_tokens)
        spec = self.means.model.spec
        self.dialogue.note(f"asking {shown(spec)}")
        if spec == "manual":  # it is the person who is asked now
            self.dialogue.quiet()
        return requests

    def requests(self, state: State) -> tuple[Request, ...]:
        prepared = self.prepared
        replies = sum(turn.role == "assistant" for turn in state.turns)
        key = request_key(prepared.bench.request.instruction, prepared.blobs, replies)
        most = min(self.means.max_output_tokens, prepared.reply_tokens or self.means.max_output_tokens)
        shelf = prepared.bench.attachments
        attached = shelf.of(state.turns) if shelf is not None else {}
        prompts, alone, warm = next_prompts(prepared, state.turns)
        kept = partial(blocks_of, layout(prepared.bench.worktree))
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
        """Which part of a long file a small model takes the request to be about: names, on one line."""
        self.dialogue.note(f"asking {shown(self.means.model.spec)} which part it is about")
        asked = Request(
            (), (Message("user", (Part(self.prepared.question, "question"),)),), PART_TOKENS, key + PART
        )
        reply = complete(self.means.model, asked, self.means.meter, on_wait=self.waiting, continues=False)
        self.kept(asked, reply)
        return " ".join(reply.text.split())

    def explain(self, state: State) -> str:
        """The model's account of its change; asked beside the conversation, which goes on as if it had not been."""
        asked = self.requests(state)[0]
        question = (*asked.messages, Message("user", (Part(EXPLAIN),)))
        request = replace(asked, messages=question, key=asked.key + "explain")
        reply = complete(
            self.means.model, request, self.means.meter,
            on_text=self.dialogue.text, on_void=self.dialogue.void, on_wait=self.waiting,
        )  # fmt: skip
        self.kept(request, reply)
        return reply.text

    def kept(self, request: Request, reply: Reply) -> dict[str, str]:
        """Keep the exact text that was sent, and the blocks that came back; what the conversation says of it."""
        place = layout(self.prepared.bench.worktree)
        return {
            "time": now(),
            "sent": keep_sent(place, request),
            "tokens": f"{reply.usage.total - reply.usage.output}+{reply.usage.output}",
            **keep_blocks(place, reply),
        }

    def waiting(self, seconds: float, reason: str) -> None:
        self.dialogue.note(f"{reason}; trying again in {seconds:.0f} s")

    def recall(self, query: str) -> list[str]:
        return search_memory(layout(self.prepared.bench.worktree), query)
