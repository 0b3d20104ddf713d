"""A request as one text: for a program, a person, a cassette."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from repoagent.llm.model import Request, Schema


def wire_text(text: str) -> str:
    """`text` as it can be sent: bytes that were no UTF-8 (lone surrogates) become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tools_text(tools: Sequence[Schema]) -> str:
    """The native tools that are offered, a line each."""
    return "".join(
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            ensure_ascii=False,
        )
        + "\n"
        for tool in tools
    )


def render(request: Request) -> str:
    """The whole prompt: the system parts, the native tools, then each message under a heading that says who speaks.

    The headings carry a hash of all that is said, so no text in the prompt can pass for a speaker.
    The same request is always rendered the same. An image or PDF is a line with its type and hash.
    """
    system = "".join(part.text for part in request.system)
    tools = tools_text(request.tools)
    spoken = [
        (message.role, "".join(part.in_words for part in message.parts)) for message in request.messages
    ]
    seal = hashlib.sha256(
        repr((system, spoken, *([tools] if tools else []))).encode("utf-8", "surrogatepass")
    ).hexdigest()[:8]
    blocks = [f"===== {seal} {role} =====\n\n{text.rstrip()}\n" for role, text in spoken]
    if tools:
        blocks.insert(0, f"===== {seal} tools =====\n\n{tools}")
    if system:
        blocks.insert(0, system.rstrip() + "\n")
    return wire_text("\n".join([*blocks, f"===== {seal} assistant =====\n"]))
