"""Parse a streamed reply of the Messages API. Gateways may omit fields or set them to zero."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repoagent.llm.complete import call_as_text
from repoagent.llm.model import Reply, ReplyBlocks, Request, Stop, ToolSchema, Usage
from repoagent.llm.usage import estimate_tokens, estimate_usage

if TYPE_CHECKING:
    from anthropic.types import RawMessageStreamEvent

_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_BLOCK_TYPES = {"text", "thinking", "redacted_thinking", "tool_use"}
# A pause asks for another call; a full context truncates the reply. Any other reason is a normal end.
_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "refusal",
}
# The field of a block that each kind of delta adds to.
_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class StreamedReply:
    """The reply so far; `tools` are the offered tools. `garbled`: a complete tool call is not valid JSON."""

    def __init__(self, tools: Sequence[ToolSchema] = ()) -> None:
        self.ended = False
        self.garbled = False
        self._model = ""
        self._end: Any = None  # the delta with the reason for the end
        self._tools = tools
        self._blocks: dict[int, dict[str, Any]] = {}  # in the form to be sent back
        self._calls: list[tuple[str, str]] = []
        self._pieces: list[str] = []
        self._counts: dict[str, int] = {}
        self._final_output: int | None = None  # the count at the end; the count at the start is a guess

    def take(self, event: RawMessageStreamEvent) -> str:
        """Process `event`; return the text that it adds to the reply."""
        text = ""
        if event.type == "message_start":
            self._model = getattr(event.message, "model", None) or ""
            self._count(getattr(event.message, "usage", None))
        elif event.type == "content_block_start":
            self._blocks[event.index] = event.content_block.model_dump(mode="json", exclude_none=True)
            text = event.content_block.text if event.content_block.type == "text" else ""
        elif event.type == "content_block_delta":
            block = self._blocks.setdefault(event.index, {})
            if name := _FIELDS.get(event.delta.type):
                piece = getattr(event.delta, name) or ""
                block[name] = block.get(name, "") + piece if name != "signature" else piece
                text = piece if name == "text" else ""
            else:
                block["type"] = event.delta.type  # an unknown type, so the block is not sent back
        elif event.type == "content_block_stop":
            text = self._finish_call(self._blocks.get(event.index, {}))
        elif event.type == "message_delta":
            self._end = event.delta
            # some gateways do not send the message_stop that should follow
            self.ended = self.ended or bool(event.delta.stop_reason)
            self._final_output = self._count(getattr(event, "usage", None))
        elif event.type == "message_stop":
            self.ended = True
        self._pieces.append(text or "")
        return text or ""

    def _finish_call(self, block: dict[str, Any]) -> str:
        """A complete tool call as a tag on a separate line."""
        if block.get("type") != "tool_use":
            return ""
        try:
            block["input"] = json.loads(block.pop("partial_json", "") or "{}") or block.get("input") or {}
        except json.JSONDecodeError:
            self.garbled = True
            return ""
        tag, text = call_as_text("".join(self._pieces), self._tools, block["name"], block["input"])
        self._calls.append((block["id"], tag))
        return text

    def _count(self, usage: object) -> int | None:
        """Store the counts of `usage`, and return its output tokens. Counts are cumulative: a later zero is ignored."""
        for name in (*_INPUT, "output_tokens"):
            if isinstance(count := getattr(usage, name, None), int):
                self._counts[name] = max(count, self._counts.get(name, 0))
        output = getattr(usage, "output_tokens", None)
        return output if isinstance(output, int) else None

    def usage(self, request: Request) -> Usage:
        """The usage of the attempt, estimated if the server has not reported it (yet)."""
        counts = self._counts
        thoughts = (block.get("thinking", "") for block in self._blocks.values())
        text = "".join([*self._pieces, *thoughts])
        if not counts and not text:
            return Usage()
        output = counts.get("output_tokens", 0)
        input_known = any(counts.get(name) for name in _INPUT)
        output_known = self.ended and self._final_output is not None and bool(self._final_output or not text)
        return Usage(
            counts.get("input_tokens", 0) if input_known else estimate_usage(request).input,
            output if output_known else max(output, estimate_tokens(text)),
            counts.get("cache_read_input_tokens", 0),
            counts.get("cache_creation_input_tokens", 0),
            estimated=not (input_known and output_known),
        )

    def reply(self, request: Request, platform: str, spec: str, prefix: str = "") -> Reply:
        """The reply of the model `spec`; `prefix` is the hash of the request."""
        text, reason = "".join(self._pieces), getattr(self._end, "stop_reason", None) or ""
        stop = _STOPS.get(reason, "end")
        details = getattr(self._end, "stop_details", None)
        if stop == "refusal" and details is not None:
            category = getattr(details, "category", None)
            explanation = getattr(details, "explanation", None)
            text = explanation or (f"refusal category: {category}" if category else text)
        blocks = self._blocks_to_return(spec, prefix) if stop == "end" else None
        model = f"{platform}/{self._model}" if self._model else spec
        return Reply(text, stop, self.usage(request), model, blocks)

    def _blocks_to_return(self, spec: str, prefix: str) -> ReplyBlocks | None:
        """The blocks, if they have more than text and can be sent back; the API rejects blank text and unsigned
        thinking."""
        blocks = [block for _, block in sorted(self._blocks.items())]
        types = {block.get("type") for block in blocks}
        signed = all(block.get("signature") for block in blocks if block.get("type") == "thinking")
        if not types <= _BLOCK_TYPES or types <= {"text"} or not signed:
            return None
        items = tuple(block for block in blocks if block["type"] != "text" or block["text"].strip())
        return ReplyBlocks(
            spec, items, prefix if types & {"thinking", "redacted_thinking"} else "", tuple(self._calls)
        )
