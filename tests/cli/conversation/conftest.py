"""`repoagent conversation …` in this process, in a repository with a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from repoagent.git.worktree import layout, open_worktree
from repoagent.llm.conversation import append, dumps
from repoagent.memory.identity.store import remember
from tests.cli.apply_patch import Ask, Done
from tests.conftest import GitRepo
from tests.memory.conversations.conftest import TALK


@pytest.fixture
def talked(repo: GitRepo) -> GitRepo:
    """The sample repository with the conversation TALK about `src/app.py`."""
    worktree = open_worktree(repo.top)
    memory = remember(layout(worktree), worktree, "src/app.py", repo.read("src/app.py"))
    append(memory.conversation, *TALK)
    named = repo.top / ".repoagent/conversations/fast.md"
    named.parent.mkdir()
    named.write_text(dumps(TALK, "aaaaaaaa"))
    return repo


@pytest.fixture
def ui(talked: GitRepo, in_process: Ask) -> Ask:
    """`repoagent conversation ARGUMENTS`, at the top or in `cwd`."""
    return partial(in_process, "conversation")


def diff(*lines: str) -> str:
    """A model's answer with one hunk, its numbers left out."""
    body = "\n".join(["--- a/conversation.md", "+++ b/conversation.md", "@@", *lines])
    return f"I did that.\n\n````diff\n{body}\n````\n"


def texts(done: Done) -> Sequence[str]:
    """The texts of the turns, from `show --json`."""
    return [turn["text"] for turn in done.json["turns"]]
