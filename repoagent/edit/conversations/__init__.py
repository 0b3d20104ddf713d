"""A conversation rewritten as a model is asked to: a diff, placed, checked, and put where it was made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.edit.conversations.prompt import Rewrite, first_request
    from repoagent.edit.conversations.rewriting import Listening, Rewritten, by_hand, land, rewrite

_HOME = {
    "Rewrite": "prompt",
    "Listening": "rewriting",
    "Rewritten": "rewriting",
    "land": "rewriting",
    "by_hand": "rewriting",
    "first_request": "prompt",
    "rewrite": "rewriting",
}

__all__ = ["Listening", "Rewrite", "Rewritten", "by_hand", "first_request", "land", "rewrite"]

__getattr__ = door(__name__, _HOME)
