"""A scripted model for summaries, a large file, and a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import OnText, Reply, Request, Usage
from repoagent.llm.usage import Meter
from repoagent.memory.file_summaries import FileSummary, plan_summary, summarize_file
from repoagent.memory.file_summary_store import SourceFile, SummaryCache
from repoagent.storage.layout import Layout

FUNCTIONS = 36


def function(number: int) -> str:
    body = "".join(f"    total += {number} * {line}  # the {line}th step\n" for line in range(30))
    return f"def step_{number}(total):\n{body}    return total\n\n\n"


def large(change: Callable[[int, str], str] = lambda number, text: text) -> bytes:
    """About 48 kB of Python; `change` is in each function."""
    return "".join(change(number, function(number)) for number in range(FUNCTIONS)).encode()


def changed(*numbers: int) -> bytes:
    """The same with another constant in some functions."""
    return large(lambda number, text: text.replace(" 7  ", " 8  ") if number in numbers else text)


@dataclass
class Scripted:
    """A model whose answers are `replies`, in order; when there are none left, "answer N". An error is raised."""

    replies: Iterator[str | Exception] = field(default_factory=lambda: iter(()))
    requests: list[Request] = field(default_factory=list)
    spec = "test/scripted"
    context_tokens = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        self.requests.append(request)
        answer = next(self.replies, f"It is answer {len(self.requests)}. And more.")
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer, "end", Usage(10, 5), "")

    @property
    def prompts(self) -> list[str]:
        return [request.messages[0].text for request in self.requests]


@dataclass
class Workspace:
    """Where the tests of this folder summarize."""

    layout: Layout
    model: Scripted = field(default_factory=Scripted)

    def ask(
        self, data: bytes, path: str = "src/app.py", *, refresh: bool = False, **options: Any
    ) -> FileSummary:
        """The summary of these bytes, in about as many calls as the plan said."""
        file, cache = SourceFile(path, data), SummaryCache(self.layout, refresh, warn=pytest.fail)
        todo = plan_summary([file], cache, **options)
        before = len(self.model.requests)
        done = summarize_file(file, cache, self.model, Meter(), **options)
        assert todo.asked == done.paid
        made = len(self.model.requests) - before
        # how many calls a long join takes depends on what was said
        assert abs(todo.calls - made) <= made // 4
        return done

    def calls(self, data: bytes, path: str = "src/app.py", **options: Any) -> int:
        """How many calls it takes."""
        before = len(self.model.requests)
        self.ask(data, path, **options)
        return len(self.model.requests) - before

    def says(self, *replies: str | Exception) -> None:
        self.model.replies = iter(replies)

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in (self.layout.summaries / "files").rglob("*.md*"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Layout(tmp_path / ".repoagent", tmp_path / ".git"))


BROKEN = ModelError("out of order")
