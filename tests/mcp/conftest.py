"""The tools as the server uses them, without the protocol."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from repoagent.mcp.server import perform
from repoagent.mcp.tool import Service, ToolResult
from repoagent.mcp.tools import make_tools
from tests.conftest import GitRepo


@dataclass
class Tools:
    """`cancelled` is that of every call; `messages` has the progress of all."""

    service: Service
    cancelled: threading.Event
    messages: list[str]

    def call(self, name: str, /, **arguments: Any) -> ToolResult:
        """The result, validated against the schema of the tool."""

        def progress(message: str, done: float | None = None, total: float | None = None) -> None:
            self.messages.append(message)

        tool = make_tools(self.service)[name]
        result = perform(tool, self.service, arguments, self.cancelled, progress)
        jsonschema.validate(result.data, tool.result)
        return result

    def data(self, name: str, /, **arguments: Any) -> Any:
        return self.call(name, **arguments).data


Use = Callable[..., Tools]


@pytest.fixture
def use(repo: GitRepo) -> Use:
    """Tools of a server that was started in the repository with these options."""

    def make(**options: Any) -> Tools:
        return Tools(Service(repo.top, **options), threading.Event(), [])

    return make
