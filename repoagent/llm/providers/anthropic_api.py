"""Claude, through the `anthropic` package. Its import takes more than a second of CPU time: see `preload`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from repoagent.llm.anthropic_client import CONNECT_SECONDS, connect, secrets_of
from repoagent.llm.anthropic_errors import broken_stream, no_connection, no_key, rejected, unusable
from repoagent.llm.model import OnText, Part, Reply, Request, Retryable, Stop, Usage
from repoagent.llm.rendering import wire_text
from repoagent.llm.usage import estimate, estimate_tokens

if TYPE_CHECKING:
    from anthropic.types import MessageParam, RawMessageStreamEvent, TextBlockParam

BREAKPOINTS = 4  # prompt-cache breakpoints that one request may have
THINKING_ROOM = 32_000  # tokens; thinking counts against `max_tokens` and must not eat up the reply

Effort = Literal["low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True)
class AnthropicModel:
    """`name` as the API knows it; `effort` as in `output_config`, None for the model's own default."""

    name: str
    effort: Effort | None = None
    read_seconds: float = 120.0  # without a byte; a server that thinks sends pings

    @property
    def spec(self) -> str:
        return f"anthropic/{self.name}"

    @property
    def context_tokens(self) -> int | None:
        if not self.name.startswith("claude-"):
            return None
        return 1_000_000 if thinks(self.name) else 200_000

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """One streamed attempt; see `llm.model.Model`."""
        client, _ = connect()
        import anthropic
        import httpx2

        system, messages = _prompt(request)
        received = _Received()
        secrets = secrets_of(client)
        try:
            with client.messages.create(
                stream=True,
                model=self.name,
                system=system or anthropic.omit,
                messages=messages,
                max_tokens=request.max_output_tokens + (THINKING_ROOM if thinks(self.name) else 0),
                thinking={"type": "adaptive"} if thinks(self.name) else anthropic.omit,
                output_config={"effort": self.effort} if self.effort else anthropic.omit,
                timeout=anthropic.Timeout(self.read_seconds, connect=CONNECT_SECONDS),
            ) as events:
                for event in events:
                    received.take(event, on_text)
        except anthropic.APIStatusError as error:
            raise rejected(error, self.spec, received.usage(request), secrets) from error
        except anthropic.APIConnectionError as error:
            raise no_connection(error, self.read_seconds, secrets) from error
        except (httpx2.HTTPError, httpx2.StreamError, json.JSONDecodeError) as error:
            raise broken_stream(error, self.read_seconds, received.usage(request)) from error
        except (anthropic.CredentialsError, anthropic.WorkloadIdentityError) as error:
            raise no_key(str(error)) from error
        except anthropic.AnthropicError as error:
            raise unusable(error, self.spec, secrets) from error
        if not received.ended:
            raise Retryable(
                "the reply broke off: the server ended it half way", usage=received.usage(request)
            )
        return received.reply(request, self.spec)


class _Received:
    """What has come of a reply so far. Fields that a gateway leaves out are taken as absent."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.model = ""
        self.stop = ""
        self.ended = False
        self._explanation = ""
        self._counts: dict[str, int] = {}
        self._thought: list[str] = []  # no part of the reply, but paid for

    def take(self, event: RawMessageStreamEvent, on_text: OnText) -> None:
        if event.type == "message_start":
            self.model = getattr(event.message, "model", None) or ""
            self._count(getattr(event.message, "usage", None))
        elif event.type == "content_block_start" and event.content_block.type == "text":
            self._hear(event.content_block.text, on_text)
        elif event.type == "content_block_delta":
            if event.delta.type == "text_delta":
                self._hear(event.delta.text, on_text)
            elif event.delta.type == "thinking_delta":
                self._thought.append(event.delta.thinking)
        elif event.type == "message_delta":
            self.stop = event.delta.stop_reason or self.stop
            self._explanation = getattr(event.delta.stop_details, "explanation", None) or ""
            self._count(getattr(event, "usage", None))
        elif event.type == "message_stop":
            self.ended = True

    def _hear(self, text: str, on_text: OnText) -> None:
        if text:
            self.pieces.append(text)
            on_text(text)

    def _count(self, usage: object) -> None:
        for name in _USAGE:
            count = getattr(usage, name, None)
            if isinstance(count, int):
                self._counts[name] = count

    def usage(self, request: Request) -> Usage:
        """What the attempt has used; where the server has not said so (yet), an estimate."""
        counts = self._counts
        if not counts and not self.pieces:
            return Usage()
        known = self.ended and "input_tokens" in counts and "output_tokens" in counts
        output = counts.get("output_tokens", 0)
        if not known:
            output = max(
                output, estimate_tokens("".join(self.pieces)) + estimate_tokens("".join(self._thought))
            )
        return Usage(
            counts["input_tokens"] if "input_tokens" in counts else estimate(request).input,
            output,
            counts.get("cache_read_input_tokens", 0),
            counts.get("cache_creation_input_tokens", 0),
            estimated=not known,
        )

    def reply(self, request: Request, spec: str) -> Reply:
        text = "".join(self.pieces)
        stop = _STOPS.get(self.stop, "end")
        if stop == "refusal" and self._explanation:
            text = self._explanation
        return Reply(text, stop, self.usage(request), f"anthropic/{self.model}" if self.model else spec)


_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

# A pause asks to be called again; a full context is a cut too. What is not named here is an end.
_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "refusal",
}


def thinks(name: str) -> bool:
    """Whether the model takes `thinking: adaptive`: Claude 4.6 and later."""
    version = re.match(r"claude-[a-z]+-(\d+)(?:-(\d{1,2}))?(?:-|$)", name)
    return version is not None and (int(version[1]), int(version[2] or 0)) >= (4, 6)


def _prompt(request: Request) -> tuple[list[TextBlockParam], list[MessageParam]]:
    """System and messages, with the last four of the cache breakpoints asked for: the longest prefix is worth
    most."""
    system = _blocks(request.system)
    said = [(message.role, _blocks(message.parts)) for message in request.messages]
    blocks = [*system, *(block for _, of_message in said for block in of_message)]
    for block in [block for block in blocks if "cache_control" in block][:-BREAKPOINTS]:
        del block["cache_control"]
    messages: list[MessageParam] = [
        {"role": "user", "content": content} if role == "user" else {"role": "assistant", "content": content}
        for role, content in said
    ]
    return system, messages


def _blocks(parts: tuple[Part, ...]) -> list[TextBlockParam]:
    """Text blocks; the API rejects blank ones, so those join their neighbour."""
    blocks: list[TextBlockParam] = []
    blank = ""
    for part in parts:
        text = blank + wire_text(part.text)
        blank = ""
        if text.strip():
            blocks.append({"type": "text", "text": text})
        elif blocks:
            blocks[-1]["text"] += text
        else:
            blank = text
        if blocks and part.cache:
            blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return blocks
