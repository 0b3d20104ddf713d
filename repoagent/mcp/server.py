"""The MCP server: it lists the tools, validates the arguments of a call against the schema of its tool, and runs each
call in a thread. The process ends when the client closes the connection.
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
from dataclasses import replace
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
from repoagent.mcp.apply_tool import apply_offer
from repoagent.mcp.schema import Call, Offer, Schema, Service, Told
from repoagent.mcp.tools import FILE_OFFERS as LOOKING
from repoagent.mcp.tools import OFFER as SEGMENTS
from repoagent.mcp.tools import SEARCH_OFFERS as FINDING
from repoagent.mcp.tools import review_offer, sent

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

_SHOWN = 200  # characters of a message
_AS_IT_STANDS = ("required", "additionalProperties")  # its message names keys, not values of any length


def checked(name: str, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with defaults for the missing ones. Raises UsageError for the first invalid one; it does not quote
    values, which may be of any size."""
    from jsonschema import Draft202012Validator

    wrong = sorted(
        Draft202012Validator(schema).iter_errors(dict(arguments)),
        key=lambda error: list(map(str, error.path)),
    )
    if wrong:
        error = wrong[0]
        where = ".".join(str(part)[:40] for part in error.path)
        if error.validator in _AS_IT_STANDS:
            said = error.message[:_SHOWN]
        else:
            said = f"must match {error.validator} {error.validator_value}"[:_SHOWN]
        raise UsageError(f"{name}: {where + ': ' if where else ''}{said}")
    defaults = {
        key: entry["default"] for key, entry in schema.get("properties", {}).items() if "default" in entry
    }
    return {**defaults, **arguments}


def offers(service: Service) -> dict[str, Offer]:
    """The tools of a server by name."""
    every = (*LOOKING, SEGMENTS, *FINDING, review_offer(service), apply_offer(service))
    return {offer.name: offer for offer in every}


def performed(offer: Offer, call: Call) -> Told:
    """The answer to a call. Raises UsageError for arguments that do not match the schema, and what the tool raises."""
    arguments = checked(offer.name, offer.takes, call.arguments)
    told = offer.perform(replace(call, arguments=arguments))
    return Told(sent(told.text), sent(told.data), told.image)


GRACE = 5.0  # seconds that a commit under way has, when the server is told to end
PAUSE = 0.2  # seconds between two words of progress
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
log = logging.getLogger("repoagent.mcp")


def serve(service: Service, end: Callable[[int], None]) -> None:
    """Serve on standard input and output until the client closes them. At a signal that says so `end` is called with
    its number, when no call is writing any more, and GRACE seconds later at the latest: what is half done then is
    settled from the journal by the next command."""
    serving = _Serving(service, end)
    try:
        anyio.run(serving.run)
    except BaseException as error:
        if not _is_gone(error):
            raise
        serving.leave()


def _is_gone(error: BaseException) -> bool:
    """Whether all that went wrong is that the client does not read any more."""
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return all(map(_is_gone, inner)) if inner else isinstance(error, BrokenPipeError)


class _Serving:
    """A server under way: its tools, and the calls that are not answered yet."""

    def __init__(self, service: Service, end: Callable[[int], None]) -> None:
        self.service = service
        self.end = end
        self.offers = offers(service)
        self.running: set[threading.Event] = set()

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
            group.start_soon(self.listen)
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()
        self.leave()

    def leave(self) -> None:
        """The client is gone: what is being written is finished, what looks something up is not waited for."""
        self.quiet()
        if not self.service.writing.acquire(timeout=GRACE) or threading.active_count() > 1:
            sys.stderr.flush()
            os._exit(0)

    async def listen(self) -> None:
        """End at a signal. What waits for standard input can't be cancelled, so this does not return there."""
        heard = [number for number in _ENDS if signal.getsignal(number) != signal.SIG_IGN]
        with anyio.open_signal_receiver(*heard) as signals:
            async for number in signals:
                self.quiet()
                await to_thread.run_sync(lambda: self.service.writing.acquire(timeout=GRACE))
                self.end(number)

    def quiet(self) -> None:
        """Nobody waits for an answer any more: what has not begun to write does not."""
        for cancelled in self.running:
            cancelled.set()

    async def list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(offer) for offer in self.offers.values()])

    async def call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        offer = self.offers.get(params.name)
        if offer is None:
            names = ", ".join(self.offers)
            raise MCPError(
                code=types.INVALID_PARAMS,
                message=f"unknown tool {params.name[:80]!r}; the tools are: {names}",
            )
        cancelled = threading.Event()
        self.running.add(cancelled)
        spoken = 0.0

        def progress(message: str, done: float | None = None, total: float | None = None) -> None:
            nonlocal spoken
            now = time.monotonic()
            if cancelled.is_set() or now - spoken < PAUSE:
                return
            spoken = now
            from_thread.run(
                context.session.report_progress, now - began if done is None else done, total, message
            )

        began = time.monotonic()
        try:
            return await to_thread.run_sync(
                lambda: _answered(offer, Call(self.service, params.arguments or {}, cancelled, progress)),
                abandon_on_cancel=True,
            )
        finally:
            cancelled.set()
            self.running.discard(cancelled)


def _answered(offer: Offer, call: Call) -> types.CallToolResult:
    """The answer, or the error message; only the log gets the traceback of an internal error."""
    try:
        return _result(performed(offer, call))
    except RepoagentError as error:
        return _failed(str(error))
    except OSError as error:
        log.warning("%s: %s", offer.name, error)
        return _failed(f"system error: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001  (the server lives on)
        _log_defect(offer.name, error)
        return _failed(f"{offer.name}: internal error ({type(error).__name__}); see the log of the server")


def _log_defect(name: str, error: Exception) -> None:
    import traceback

    from repoagent.display_text import redact

    log.error("%s: %s", name, redact("".join(traceback.format_exception(error)), os.environ))


def _result(told: Told) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=told.text)]
    if (image := told.image) is not None:
        data = b64encode(image.data).decode("ascii")
        content.append(types.ImageContent(type="image", data=data, mime_type=image.type))
    return types.CallToolResult(content=content, structured_content=dict(told.data))


def _failed(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=sent(sentence))], is_error=True)


def _tool(offer: Offer) -> types.Tool:
    return types.Tool(
        name=offer.name,
        title=offer.title,
        description=offer.description,
        input_schema=offer.takes,
        output_schema=offer.gives,
        annotations=types.ToolAnnotations(
            title=offer.title,
            read_only_hint=not offer.writes,
            destructive_hint=offer.writes,
            idempotent_hint=True,
            open_world_hint=offer.open_world,
        ),
    )
