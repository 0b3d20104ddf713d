"""`repoagent conversation …` in this process, in a repository with a conversation; and a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from repoagent.git.worktree import layout, open_worktree
from repoagent.llm.conversation import append, dumps
from repoagent.memory.identity.store import remember
from tests.cli.applying import Done
from tests.conftest import GitRepo
from tests.memory.conversations.conftest import TALK

Talk = Callable[..., Done]


@dataclass(frozen=True)
class Script:
    """A model that answers with one text after another, and records its requests."""

    folder: Path

    @property
    def spec(self) -> str:
        return f"command:sh {self.folder / 'model.sh'}"

    @property
    def prompts(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("prompt-*"))]

    def answers(self, *texts: str) -> None:
        for number, text in enumerate(texts):
            (self.folder / f"answer-{number}").write_text(text)
        (self.folder / "model.sh").write_text(
            f'cd {self.folder}; n=$(ls | grep -c prompt-); cat > "prompt-$n"; cat "answer-$n"\n'
        )


@pytest.fixture
def model(tmp_path: Path) -> Script:
    result = Script(tmp_path / "model")
    result.folder.mkdir()
    return result


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
def ui(talked: GitRepo, in_process: Talk) -> Talk:
    """`repoagent conversation ARGUMENTS`, at the top or in `cwd`."""
    return partial(in_process, "conversation")


def diff(*lines: str) -> str:
    """A model's answer with one hunk, its numbers left out."""
    body = "\n".join(["--- a/conversation.md", "+++ b/conversation.md", "@@", *lines])
    return f"I did that.\n\n````diff\n{body}\n````\n"


def texts(done: Done) -> Sequence[str]:
    """The texts of the turns, from `show --json`."""
    return [turn["text"] for turn in done.json["turns"]]
