"""The MCP server: it lists the tools, validates the arguments of a call, and runs each call in a thread. The process
ends when the client closes the connection.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from anyio import from_thread, to_thread
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from repoagent import __version__
from repoagent.errors import RepoagentError, UsageError
from repoagent.mcp.tool import Progress, Service, Tool, ToolCall
from repoagent.mcp.tools import make_tools, sendable

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from repoagent.llm.media import Media

GRACE = 5.0  # seconds for a commit in progress to finish after the server is stopped
PAUSE = 0.2  # seconds between two progress messages
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
log = logging.getLogger("repoagent.mcp")


def perform(
    tool: Tool, service: Service, arguments: Mapping[str, Any], cancelled: threading.Event, progress: Progress
) -> tuple[str, Media | None]:
    """Run a tool; return its text and, if there is one, its image.

    Raises UsageError for invalid arguments or outside a work tree, and whatever the tool raises.
    """
    from jsonschema import Draft202012Validator

    from repoagent.edit.guards.off_limits import off_limits_gate
    from repoagent.git.worktree import open_worktree

    errors = Draft202012Validator(tool.arguments).iter_errors(dict(arguments))
    for error in sorted(errors, key=lambda error: list(map(str, error.path))):
        where = ".".join(str(part)[:40] for part in error.path)
        if error.validator in ("required", "additionalProperties"):  # their message has only names
            problem = error.message
        else:  # without the value, which may have any size
            problem = f"must match {error.validator} {error.validator_value}"
        raise UsageError(f"{tool.name}: {where}{': ' if where else ''}{problem[:200]}")
    worktree = open_worktree(service.cwd)
    answer = tool.perform(
        ToolCall(service, cancelled, progress, worktree, off_limits_gate(worktree.top, ())), **arguments
    )
    text, image = answer if isinstance(answer, tuple) else (answer, None)
    return sendable(text), image


def serve(service: Service, end: Callable[[int], None]) -> None:
    """Serve on standard input and output until the client closes them.

    On a terminating signal, call `end` with the signal's number once no call is writing, or after GRACE seconds. In the
    latter case, the next command recovers the unfinished edit.
    """
    server = _Server(service, end)
    try:
        anyio.run(server.run)
    except BaseException as error:
        if not _is_broken_pipe(error):
            raise
        server.leave()


def _is_broken_pipe(error: BaseException) -> bool:
    """Whether the error is a BrokenPipeError, or a group of only these: the client no longer reads."""
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return all(map(_is_broken_pipe, inner)) if inner else isinstance(error, BrokenPipeError)


class _Server:
    """A running server, with a cancel event for each call in progress."""

    def __init__(self, service: Service, end: Callable[[int], None]) -> None:
        self.service = service
        self.end = end
        self.tools = make_tools(service)
        self.calls: set[threading.Event] = set()

    async def run(self) -> None:
        server = Server(
            "repoagent",
            version=__version__,
            title="repoagent",
            instructions=resources.files(__package__).joinpath("instructions.md").read_text(encoding="utf-8"),
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(self.wait_for_signal)
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()
        self.leave()

    def leave(self) -> None:
        """End after the client has left. Wait for a call that writes, but not for calls that read."""
        self.cancel_calls()
        if not self.service.writing.acquire(timeout=GRACE) or threading.active_count() > 1:
            sys.stderr.flush()
            os._exit(0)

    async def wait_for_signal(self) -> None:
        """End the process after a signal. A read of standard input cannot be cancelled, so `run` would not return."""
        numbers = [number for number in _STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        with anyio.open_signal_receiver(*numbers) as signals:
            async for number in signals:
                self.cancel_calls()
                await to_thread.run_sync(lambda: self.service.writing.acquire(timeout=GRACE))
                self.end(number)

    def cancel_calls(self) -> None:
        """Cancel all calls that do not write yet."""
        for cancelled in self.calls:
            cancelled.set()

    async def list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        described = [
            types.Tool(
                name=tool.name, title=tool.title, description=tool.description, input_schema=tool.arguments,
                annotations=types.ToolAnnotations(
                    title=tool.title, read_only_hint=not tool.writes, destructive_hint=tool.writes,
                    idempotent_hint=True, open_world_hint=tool.open_world,
                ),
            )
            for tool in self.tools.values()
        ]  # fmt: skip
        return types.ListToolsResult(tools=described)

    async def call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self.tools.get(params.name)
        if tool is None:
            message = f"unknown tool {params.name[:80]!r}; the tools are: {', '.join(self.tools)}"
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        cancelled = threading.Event()
        self.calls.add(cancelled)
        began, last = time.monotonic(), 0.0

        def progress(message: str, done: float | None = None, total: float | None = None) -> None:
            nonlocal last
            current = time.monotonic()
            if cancelled.is_set() or current - last < PAUSE:
                return
            last = current
            done = current - began if done is None else done
            from_thread.run(context.session.report_progress, done, total, message)

        try:
            return await to_thread.run_sync(
                lambda: _answer(tool, self.service, params.arguments or {}, cancelled, progress),
                abandon_on_cancel=True,
            )
        finally:
            cancelled.set()
            self.calls.discard(cancelled)


def _answer(
    tool: Tool, service: Service, arguments: Mapping[str, Any], cancelled: threading.Event, progress: Progress
) -> types.CallToolResult:
    """The result of a call, or the error. The traceback of an internal error is only logged."""
    try:
        text, image = perform(tool, service, arguments, cancelled, progress)
    except RepoagentError as error:
        return _error(str(error))
    except OSError as error:
        log.warning("%s: %s", tool.name, error)
        return _error(f"system error: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001  (the server continues)
        import traceback

        from repoagent.display_text import redact

        log.error("%s: %s", tool.name, redact("".join(traceback.format_exception(error)), os.environ))
        return _error(f"{tool.name}: internal error ({type(error).__name__}); see the server's log")
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    if image is not None:
        data = b64encode(image.data).decode("ascii")
        content.append(types.ImageContent(type="image", data=data, mime_type=image.type))
    return types.CallToolResult(content=content)


def _error(message: str) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=sendable(message))], is_error=True
    )
