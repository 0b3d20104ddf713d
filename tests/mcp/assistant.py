"""An assistant: the official client, and the server that it starts, a real process, used without `async`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import CallToolResult


class Assistant:
    """A session with a server; `progress` has its messages during calls."""

    def __init__(self, portal: BlockingPortal, session: ClientSession, hello: Any) -> None:
        self.portal, self.session, self.hello = portal, session, hello
        self.progress: list[str | None] = []

    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self.portal.call(self.session.list_tools).tools}

    def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        async def heard(done: float, total: float | None, message: str | None) -> None:
            self.progress.append(message)

        return self.portal.call(partial(self.session.call_tool, tool, arguments, progress_callback=heard))

    def text(self, tool: str, /, **arguments: Any) -> str:
        result = self.call(tool, **arguments)
        assert not result.is_error, words(result)
        return words(result)

    def error(self, tool: str, /, **arguments: Any) -> str:
        result = self.call(tool, **arguments)
        assert result.is_error, words(result)
        return words(result)


def words(result: CallToolResult) -> str:
    return "\n".join(getattr(part, "text", "") for part in result.content)


@contextmanager
def serving(cwd: Path, *options: str, log: Path, copy: Path | None = None) -> Iterator[Assistant]:
    """A server in `cwd`, started with `options`; its standard error goes to `log`, of its output there is a `copy`."""
    command = [sys.executable, "-m", "repoagent", "mcp", *options]
    if copy is not None:
        command = ["/bin/sh", "-c", f"{shlex.join(command)} | tee {shlex.quote(str(copy))}"]
    parameters = StdioServerParameters(command=command[0], args=command[1:], cwd=cwd, env={**os.environ})

    @asynccontextmanager
    async def session() -> AsyncIterator[tuple[ClientSession, Any]]:
        with log.open("a") as errors:
            async with (
                stdio_client(parameters, errlog=errors) as (incoming, outgoing),
                ClientSession(incoming, outgoing) as opened,
            ):
                yield opened, await opened.initialize()

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(session()) as (opened, hello):
        yield Assistant(portal, opened, hello)
