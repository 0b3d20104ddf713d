"""The question to a model that rewrites a conversation, and the one more after a diff that can't be taken."""

from __future__ import annotations

import json
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.llm import Message, Part, Request
from repoagent.llm.quoting import fence
from repoagent.memory.conversations.past import digest
from repoagent.memory.conversations.places import Held
from repoagent.store.masking import mask

NAME = "conversation.md"
_STAYS = "The turns of `user` are the person's own words: they stay, all of them, each as it is, with their headings."
_MAY_GO = "The turns of `user` may be changed too, where the request says so."
_AGAIN = "{problem}\n\nNothing was changed. Send the whole diff again, made for the file as it was shown."


@dataclass(frozen=True)
class Rewrite:
    """What is asked of a conversation: the words of the person, and whether their own turns may be changed."""

    found: Held
    request: str
    user_turns: bool = False

    @property
    def text(self) -> str:
        """The conversation as it is shown: without keys and tokens."""
        return mask(self.found.text)


def first_request(asked: Rewrite, *, max_output_tokens: int) -> Request:
    """The question: how to answer (the same for each conversation but for its mark), the file with the hash of its
    bytes, the request."""
    nonce = asked.found.conversation.nonce
    system = (files("repoagent.edit.conversations") / "prompt.md").read_text(encoding="utf-8")
    system = system.format(name=NAME, nonce=nonce, person=_MAY_GO if asked.user_turns else _STAYS)
    mark = digest(asked.found.data)
    shown = fence(asked.text, f'file path="{NAME}" sha256="{mark}"')
    words = f"\n\nWhat the person asks to be changed in it:\n\n{mask(asked.request.strip())}\n"
    parts = (Part(shown, "conversation", cache=True), Part(words, "request"))
    key = json.dumps({"conversation": mark, "request": mask(asked.request), "user_turns": asked.user_turns})
    return Request((Part(system, "instructions"),), (Message("user", parts),), max_output_tokens, key)


def next_request(first: Request, reply: str, problem: str) -> Request:
    """The one correction: what was wrong with `reply`."""
    said = Message("assistant", (Part(reply, "reply"),))
    told = Message("user", (Part(_AGAIN.format(problem=mask(problem)), "problem"),))
    return Request(first.system, (*first.messages, said, told), first.max_output_tokens, first.key + "again")
