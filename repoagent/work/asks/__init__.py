"""The smallest task: a prompt and files in, text out, by one call. What `repoagent ask` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.asks.answer import Answer, Hearing, ask
    from repoagent.work.asks.given import Given, read_given, read_stream
    from repoagent.work.asks.prompt import Question, request_of

__all__ = ["Answer", "Given", "Hearing", "Question", "ask", "read_given", "read_stream", "request_of"]

_HOME = {
    "answer": ("Answer", "Hearing", "ask"),
    "given": ("Given", "read_given", "read_stream"),
    "prompt": ("Question", "request_of"),
}

__getattr__ = door(__name__, {name: module for module, names in _HOME.items() for name in names})
