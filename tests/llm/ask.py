"""Small helpers of the tests: a request, and a scripted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from repoagent.llm.model import Message, OnText, Part, Reply, Request


def ask(text: str = "make it faster", *, system: str = "You edit.", key: str = "") -> Request:
    return Request((Part(system),), (Message("user", (Part(text),)),), key=key)


@dataclass
class Scripted:
    """A model without a provider: gives each reply, or raises each error, in turn."""

    answers: Sequence[Reply | Exception]
    seen: list[Request] = field(default_factory=list)
    spec: str = "scripted/one"
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        answer = self.answers[len(self.seen)]
        self.seen.append(request)
        if isinstance(answer, Exception):
            raise answer
        on_text(answer.text)
        return answer
