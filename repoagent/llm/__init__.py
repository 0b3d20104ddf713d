"""Language models: text in, text out. Nothing outside this package knows a provider.

`open_model` makes a model from a name, `complete` is the only door for a call to it, a `Meter` holds the
limits; `conversation` turns turns into text and messages and back. Importing this loads no provider.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from repoagent.llm.model import Message, Model, OnText, Part, Reply, Request, Retryable, Usage

if TYPE_CHECKING:
    from repoagent.llm.call import OnWait, complete
    from repoagent.llm.conversation import (
        BrokenConversation,
        Conversation,
        NewerConversation,
        Turn,
        to_messages,
    )
    from repoagent.llm.rendering import render
    from repoagent.llm.select import DEFAULT_MODEL, default_model, open_model, preload
    from repoagent.llm.usage import Limits, Meter, Price, estimate, estimate_tokens, price

__all__ = [
    "DEFAULT_MODEL",
    "BrokenConversation",
    "Conversation",
    "Limits",
    "Message",
    "Meter",
    "Model",
    "NewerConversation",
    "OnText",
    "OnWait",
    "Part",
    "Price",
    "Reply",
    "Request",
    "Retryable",
    "Turn",
    "Usage",
    "complete",
    "default_model",
    "estimate",
    "estimate_tokens",
    "open_model",
    "preload",
    "price",
    "render",
    "to_messages",
]

_HOME = {
    "call": ("OnWait", "complete"),
    "conversation": ("BrokenConversation", "Conversation", "NewerConversation", "Turn", "to_messages"),
    "rendering": ("render",),
    "select": ("DEFAULT_MODEL", "default_model", "open_model", "preload"),
    "usage": ("Limits", "Meter", "Price", "estimate", "estimate_tokens", "price"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"repoagent.llm.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
