"""A repository with a conversation about `a.py`, and short words for what the tests do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from repoagent.llm.conversation import Turn, append_turns, dumps
from repoagent.memory.conversation_log import (
    REDO,
    UNDO,
    ConversationChange,
    change_conversation,
    copy_conversation,
    reverse_change,
)
from repoagent.memory.conversations import (
    ConversationRef,
    ConversationResolver,
    StoredConversation,
    conversation_named,
    find_conversation,
)
from repoagent.storage.atomic import write_whole
from repoagent.storage.layout import Layout
from tests.memory.conftest import Workspace

TALK = (
    Turn("user", "make it faster", {"time": "2026-11-20T10:00:00+00:00", "edit": "1"}),
    Turn(
        "assistant", "I share the cache.\n```diff\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n```"
    ),
    Turn("observation", "Applied: a.py:1.", {"kind": "edit", "ok": "yes"}),
    Turn("user", "why is it shared?", {"time": "2026-11-21T10:00:00+00:00", "edit": "2"}),
    Turn("assistant", "Because all readers see the same file.\n\n- first\n- second"),
)


@dataclass(frozen=True)
class StoredConversations:
    """Conversations in the repository of a workspace."""

    workspace: Workspace
    at: ConversationResolver

    @property
    def layout(self) -> Layout:
        return self.workspace.layout

    def place(self, name: str) -> ConversationRef:
        return conversation_named(self.layout, name)

    def make(self, name: str, turns: Sequence[Turn] = TALK, nonce: str = "aaaaaaaa") -> ConversationRef:
        place = self.place(name)
        write_whole(place.path, dumps(turns, nonce).encode("utf-8", "surrogateescape"))
        return place

    def find(self, name: str) -> StoredConversation:
        return find_conversation(self.at, name)

    def edit(self, place: ConversationRef, before: bytes | None, after: bytes | None) -> ConversationChange:
        return change_conversation(self.layout, place, before, after, "edit")

    def undo(self, place: ConversationRef) -> str:
        """Undo the last change; the name of its command."""
        return reverse_change(self.layout, place, UNDO)[0].command

    def redo(self, place: ConversationRef) -> str:
        return reverse_change(self.layout, place, REDO)[0].command

    def copy(self, command: str, source: str, place: ConversationRef, **options: Any) -> ConversationChange:
        return copy_conversation(self.layout, self.find(source), place, command, **options)


@pytest.fixture
def stored(workspace: Workspace) -> StoredConversations:
    append_turns(workspace.known("a.py").conversation, *TALK)
    top = workspace.worktree.top
    return StoredConversations(workspace, ConversationResolver(workspace.layout, workspace.worktree, top))
