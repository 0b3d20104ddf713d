"""What coding agents print with JSON output: one event a line. Each handler knows the events of one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.llm.model import Stop, Usage
from repoagent.llm.providers.command.text import Said, plain

Event = dict[str, Any]


Handler = Callable[[Said, Event], str]
"""Takes one event in; what it adds to the reply as it is written, "" for nothing."""


@dataclass
class Events:
    """A reader of output that is made of events. `feed` gives what can be shown at once."""

    handler: Handler
    _said: Said = field(default_factory=Said)
    _all: list[str] = field(default_factory=list)
    _line: str = ""

    def feed(self, piece: str) -> str:
        self._all.append(piece)
        *lines, self._line = (self._line + piece).split("\n")
        return "".join(self._take(line) for line in lines)

    def finish(self) -> str:
        """The end of the output; what is still to be shown."""
        shown = self._take(self._line)
        if not self._said.known:  # one object over many lines
            shown += self._take("".join(self._all))
        return shown

    @property
    def said(self) -> Said:
        raw = "".join(self._all)
        if self._said.known or raw.lstrip()[:1] in {"{", "["}:
            return self._said
        return Said(text=plain(raw), known=True)  # the user has asked for text

    def _take(self, line: str) -> str:
        if line.lstrip()[:1] not in {"{", "["}:
            return ""
        try:
            value = json.loads(line)
        except ValueError:
            return ""
        events = value if isinstance(value, list) else [value]
        try:
            return "".join(self.handler(self._said, event) for event in events if isinstance(event, dict))
        except (AttributeError, KeyError, TypeError):
            return ""  # the shape of another version: what is missing then is said at the end


def claude(said: Said, event: Event) -> str:
    """`claude -p --output-format stream-json` (or json: the last of these events alone)."""
    kind = event.get("type")
    if kind == "system" and event.get("subtype") == "init":
        said.model = str(event.get("model") or "")
    elif kind == "stream_event":
        delta = event["event"].get("delta") or {}
        if delta.get("type") == "text_delta":
            return str(delta["text"])
    elif kind == "result":
        said.known = True
        usage = event.get("usage") or {}
        said.usage = _usage(
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("cache_read_input_tokens"),
            usage.get("cache_creation_input_tokens"),
            event.get("total_cost_usd"),
        )
        models = event.get("modelUsage") or {}
        said.model = said.model or max(
            models, key=lambda name: models[name].get("outputTokens", 0), default=""
        )
        words = event.get("result")
        if event.get("is_error") or not isinstance(words, str):
            said.error = str(words or event.get("errors") or event.get("subtype") or "no result")
        else:
            said.text = words
        said.stop = _STOPS.get(str(event.get("stop_reason")), "end")
    return ""


_STOPS: dict[str, Stop] = {"max_tokens": "length", "refusal": "refusal"}


def codex(said: Said, event: Event) -> str:
    """`codex exec --json`: the last message is the reply; errors count unless the turn is completed after all."""
    kind = event.get("type")
    if kind == "item.completed":
        item = event["item"]
        if item.get("type") == "agent_message":
            said.known = True
            said.text = str(item["text"])
    elif kind == "turn.completed":
        said.known, said.error = True, ""
        usage = event.get("usage") or {}
        cached = _whole(usage.get("cached_input_tokens"))
        said.usage = _usage(_whole(usage.get("input_tokens")) - cached, usage.get("output_tokens"), cached, 0)
    elif kind in {"turn.failed", "error"}:
        said.known = True
        said.error = str((event.get("error") or event)["message"])
    return ""


def gemini(said: Said, event: Event) -> str:
    """`gemini --output-format stream-json`, or json: one object with `response` or `error`."""
    kind = event.get("type")
    if kind == "init":
        said.model = str(event.get("model") or "")
    elif kind == "message" and event.get("role") == "assistant":
        said.known = True
        said.text += str(event["content"])
        return str(event["content"])
    elif kind == "result" or "response" in event or (kind is None and "error" in event):
        said.known = True
        said.text = str(event.get("response") or said.text)
        if event.get("error"):
            said.error = str(event["error"]["message"])
        stats = event.get("stats") or {}
        cached = _whole(stats.get("cached"))
        if "input_tokens" in stats:
            said.usage = _usage(stats["input_tokens"] - cached, stats.get("output_tokens"), cached, 0)
        for name, one in (stats.get("models") or {}).items():
            tokens = one["tokens"]
            cached = _whole(tokens.get("cached"))
            said.model = said.model or name
            used = _usage(
                _whole(tokens.get("prompt")) - cached,
                _whole(tokens.get("candidates")) + _whole(tokens.get("thoughts")), cached, 0,
            )  # fmt: skip
            if kind is None and used is not None:
                said.usage = used + (said.usage or Usage())
    return ""


def _usage(
    put_in: object, out: object, cache_read: object, cache_write: object, dollars: object = None
) -> Usage | None:
    """None where nothing was counted: a program that does not know says 0."""
    cost = float(dollars) if isinstance(dollars, int | float) and dollars > 0 else None
    usage = Usage(_whole(put_in), _whole(out), _whole(cache_read), _whole(cache_write), dollars=cost)
    return usage if usage.total else None


def _whole(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0
