"""Where a provider is asked to keep the prompt: at places that the next request has too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.llm import Message, Request


def marked(request: Request) -> Request:
    """`request` with cache marks at the end of its first message (what stays until the next checkpoint), where the
    last request ended, and at its own end. Marks that other parts have stay."""
    people = [number for number, message in enumerate(request.messages) if message.role == "user"]
    wanted = {*people[:1], *people[-2:]}
    return replace(request, messages=tuple(_marked(request.messages, wanted)))


def _marked(messages: Sequence[Message], wanted: set[int]) -> list[Message]:
    made = []
    for number, message in enumerate(messages):
        *before, last = message.parts
        made.append(
            replace(message, parts=(*before, replace(last, cache=True))) if number in wanted else message
        )
    return made
