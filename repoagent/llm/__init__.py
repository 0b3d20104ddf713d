"""Language models: text in, text out. Nothing outside this package knows a provider.

`open_model` makes a model from a name, `complete` is the only door for a call to it, a `Meter` holds the
limits; `conversation` turns turns into text and messages and back. Importing this loads no provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.llm.call import OnWait, complete
    from repoagent.llm.catalogue import Format, Known
    from repoagent.llm.conversation import (
        BrokenConversation,
        Conversation,
        NewerConversation,
        Turn,
        to_messages,
    )
    from repoagent.llm.ledger import Ledger, state_folder
    from repoagent.llm.model import (
        Blocks,
        Message,
        Model,
        OnText,
        Part,
        Reply,
        Request,
        Retryable,
        Schema,
        Usage,
        Wishes,
    )
    from repoagent.llm.rendering import render
    from repoagent.llm.select import DEFAULT_MODEL, chosen, counted, known, open_model, preload
    from repoagent.llm.usage import Limits, Meter, Price, estimate, estimate_tokens, refuse_unpriced

__all__ = [
    "DEFAULT_MODEL",
    "Blocks",
    "BrokenConversation",
    "Conversation",
    "Format",
    "Known",
    "Ledger",
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
    "Schema",
    "Turn",
    "Usage",
    "Wishes",
    "chosen",
    "complete",
    "counted",
    "estimate",
    "estimate_tokens",
    "known",
    "open_model",
    "preload",
    "refuse_unpriced",
    "render",
    "state_folder",
    "to_messages",
]

_HOME = {
    "catalogue": ("Format", "Known"),
    "call": ("OnWait", "complete"),
    "conversation": ("BrokenConversation", "Conversation", "NewerConversation", "Turn", "to_messages"),
    "rendering": ("render",),
    "ledger": ("Ledger", "state_folder"),
    "model": (
        "Blocks",
        "Message",
        "Model",
        "OnText",
        "Part",
        "Reply",
        "Request",
        "Retryable",
        "Schema",
        "Usage",
        "Wishes",
    ),
    "select": ("DEFAULT_MODEL", "chosen", "counted", "known", "open_model", "preload"),
    "usage": ("Limits", "Meter", "Price", "estimate", "estimate_tokens", "refuse_unpriced"),
}

__getattr__ = door(__name__, {name: module for module, names in _HOME.items() for name in names})
