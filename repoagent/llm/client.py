"""Calling a model: limits, retries, fallback models, continuation of replies that were cut off.

All model calls go through `complete`.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from repoagent import tracing
from repoagent.dataclass import dataclass
from repoagent.errors import LimitReached, ModelError
from repoagent.llm.model import (
    Message,
    Model,
    OnText,
    Part,
    Reply,
    Request,
    Retryable,
    Schema,
    Usage,
    strings,
)
from repoagent.llm.usage import Meter, estimate
from repoagent.storage.secrets import mask

FALLBACK_TRIES = 2  # at each model but the last
FALLBACK_WAIT = 20.0  # seconds; a server that asks for more is left at once


@dataclass
class Fallback:
    """`models` in the order of preference. Once left, a model is not called again: failures seldom pass within a run,
    and each attempt costs the user's time."""

    models: Sequence[Model]
    _at: int = 0
    _failed: int = 0

    @property
    def current(self) -> Model:
        return self.models[self._at]

    @property
    def takes(self) -> frozenset[str]:
        """Tools only where all models take them: they are offered before it is known which model will answer."""
        tools = all("tools" in model.takes for model in self.models)
        return self.current.takes if tools else self.current.takes - {"tools"}

    @property
    def spec(self) -> str:
        return self.current.spec

    @property
    def context_tokens(self) -> int | None:
        return self.current.context_tokens

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`."""
        try:
            reply = self.current.complete(request, on_text)
        except Retryable as error:
            self._failed += 1
            give_up = self._failed >= FALLBACK_TRIES or (error.retry_after or 0.0) > FALLBACK_WAIT
            if not give_up or self._at + 1 == len(self.models):
                raise
            self._at, self._failed = self._at + 1, 0
            raise Retryable(
                f"{error}: continuing with {self.spec}", retry_after=0.0, usage=error.usage
            ) from error
        self._failed = 0
        return reply


_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^\n`]*?)[ \t]*\r?")
_LOOK_BACK = 8_000  # characters; no model repeats more
_SURE_LINES = 3
_SURE_CHARACTERS = 4  # of an unfinished line, white space not counted


def join(text: str, more: str) -> str:
    """`text` with its continuation `more`, without what `more` certainly repeats.

    Most models continue exactly where they stopped. Some open the code fence again, some start the unfinished line
    again. In doubt nothing is removed: a repetition makes a patch that is refused, missing text one that applies.
    """
    more = _without_reopened_fence(text, more)
    tail = text[-_LOOK_BACK:]
    starts = [0] if len(tail) == len(text) else []
    starts += [match.end() for match in re.finditer("\n", tail)]
    for start in starts:
        piece = tail[start:]
        if piece and more.startswith(piece) and _is_repetition(text, piece):
            return text + more[len(piece) :]
    return text + more


def open_fence(text: str) -> str:
    """The line that opened the code fence in which `text` ends, or ""."""
    opened = marker = ""
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        run, language = fence.groups()
        if not opened:
            opened, marker = run + language, run
        elif run.startswith(marker) and not language:
            opened = ""
    return opened


def _without_reopened_fence(text: str, more: str) -> str:
    """Drop a first line that opens the fence again in which `text` was cut."""
    opened = open_fence(text)
    first, newline, rest = more.lstrip("\n").partition("\n")
    fence = _FENCE.fullmatch(first)
    if not (opened and fence and newline and opened == "".join(fence.groups())):
        return more
    if fence.group(2):  # the same language again: a fence that names one never closes one
        return rest
    # A bare one may also close the fence. Then the fences that follow it come in pairs; if it opens the fence
    # again, the one that closes it is left over.
    return rest if open_fence(rest) and not open_fence(f"{first}\n{rest}") else more


def _is_repetition(text: str, piece: str) -> bool:
    """Whether `piece`, the end of `text`, cannot follow itself by coincidence."""
    if piece in (piece + piece)[1:-1]:  # made of repetitions, like a ruler, which may continue
        return False
    unfinished = piece[piece.rfind("\n") + 1 :]
    if unfinished:
        return len("".join(unfinished.split())) >= _SURE_CHARACTERS
    # Whole lines: equal lines do follow each other in code.
    return piece.count("\n") >= _SURE_LINES and text.count(piece) == 1


ATTEMPTS = 5
LONGEST_REPLY = 16_000_000  # characters, over all continuations
CONTINUATIONS = 3
LONGEST_WAIT = 120.0  # seconds; a longer one is an error that says so

_CONTINUE = (
    "Your reply was cut off there by the limit on its length. Continue it exactly after its last character: "
    "repeat nothing, do not open a code fence again that is already open, and do not mention the cut."
)

_OPAQUE = ("signature", "data", "encrypted_content", "id", "call_id")

OnWait = Callable[[float, str], None]


def ignore(*_: object) -> None:
    """A callback that does nothing."""


def complete(
    model: Model,
    request: Request,
    meter: Meter,
    *,
    on_text: OnText = ignore,
    on_wait: OnWait = ignore,
    on_void: OnText = ignore,
    continues: bool = True,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> Reply:
    """The whole reply to `request`: its `stop` is "end", its `usage` that of all attempts, failed ones too.

    Keys and tokens are masked in what is sent. `on_text` gets the text as it arrives; at the start of a continuation it
    may repeat a few words that the reply does not. `on_void(text)`: this text, of a failed attempt, does not count.
    `on_wait(seconds, reason)` is called before each pause. Without `continues` a reply that was cut is returned with
    the `stop` "length": a small model that is cut is mostly in a loop.

    Raises LimitReached before a call that would exceed a limit of `meter`; ModelError when the model is unreachable,
    refuses, writes nothing, or is still cut after three continuations.
    """
    text = ""
    usage = Usage()
    current = request = masked(request)
    too_long = ModelError(
        f"the reply of {model.spec} is longer than {LONGEST_REPLY // 1_000_000} million characters and was discarded: "
        "ask for a smaller change"
    )
    streamed: list[str] = []  # by the current attempt
    length = 0

    def hear(piece: str) -> None:
        nonlocal length
        length += len(piece)
        if length > LONGEST_REPLY:
            raise too_long
        streamed.append(piece)
        on_text(piece)

    def void(error: Retryable) -> None:
        nonlocal length, usage
        usage += error.usage
        if streamed:
            on_void("".join(streamed))
        length = 0
        streamed.clear()

    def pause(seconds: float, reason: str) -> None:
        on_wait(seconds, reason)
        sleep(seconds)

    for _ in range(1 + CONTINUATIONS):
        length = 0
        streamed.clear()
        reply = _attempt(model, current, meter, hear=hear, void=void, pause=pause, jitter=jitter)
        usage += reply.usage
        if reply.stop == "refusal":
            reason = " ".join(reply.text.split())[:300]
            raise ModelError(
                f"{model.spec} declined this request{f': {reason}' if reason else ''}. "
                "Rephrase it, or use another --model"
            )
        if len(text) + len(reply.text) > LONGEST_REPLY:
            raise too_long
        text = join(text, reply.text)
        if not text.strip() and reply.stop == "length":
            raise ModelError(
                f"{model.spec} reached the limit of its reply before it wrote anything: ask for a smaller "
                "change, or use another --model"
            )
        if not text.strip():
            raise ModelError(f"{model.spec} gave an empty reply: try again, or use another --model")
        if reply.stop == "end" or not continues:
            blocks = (
                reply.blocks if text == reply.text else None
            )  # those of one piece are not the whole reply
            return replace(reply, text=text, usage=usage, blocks=blocks)
        if not reply.text.strip():
            break  # a continuation that adds nothing will not do better next time
        # The last message is the user's: current models reject an assistant message to complete.
        partial = Message("assistant", (Part(text, "cut reply"),))
        ask = Message("user", (Part(_CONTINUE, "continue"),))
        current = replace(request, messages=(*request.messages, partial, ask))
    raise ModelError(
        f"the reply of {model.spec} was still cut off after {CONTINUATIONS} continuations: ask for a smaller "
        "change, or name fewer files"
    )


def _attempt(
    model: Model,
    request: Request,
    meter: Meter,
    *,
    hear: OnText,
    void: Callable[[Retryable], None],
    pause: OnWait,
    jitter: Callable[[], float],
) -> Reply:
    """One reply, after as many failed attempts as there may be; `void` is called for each of these."""
    expected = estimate(request)
    meter.before_attempt(expected, model.spec)
    for attempt in range(1, ATTEMPTS + 1):
        spec = model.spec  # a Fallback may be another model at the next attempt
        began = tracing.begin()
        try:
            reply = model.complete(request, hear)
        except Retryable as error:
            _trace(began, spec, f"failed: {error}")
            meter.add(error.usage, spec)
            void(error)
            if attempt == ATTEMPTS:
                raise ModelError(f"{error} (tried {ATTEMPTS} times): try again later") from error
            try:  # now: the user should not wait for an attempt that is not made
                meter.before_attempt(expected, model.spec)
            except LimitReached as limit:
                raise ModelError(f"{error}; {limit}") from error
            wait = error.retry_after
            if (
                wait is None
            ):  # 1, 2, 4, 8 and up to half of it more, so that many clients do not come back at once
                wait = float(2 ** (attempt - 1)) * (1 + jitter() / 2)
            elif wait > LONGEST_WAIT:
                duration = f"{wait:.0f} s" if wait < 600 else f"{wait / 60:.0f} minutes"
                raise ModelError(
                    f"{error}: the server asked for a wait of {duration}; try again then"
                ) from error
            pause(wait, str(error))
        except ModelError:
            _trace(began, spec, "failed")
            raise
        else:
            meter.add(reply.usage, spec)
            used = reply.usage
            _trace(began, spec, f"{used.total - used.output} + {used.output} tokens, {reply.stop}")
            return reply
    raise AssertionError("the last attempt returns or raises")


def _trace(began: float, spec: str, outcome: str) -> None:
    """Trace one call: neither its texts nor a command that may contain a key."""
    if began:
        from repoagent.llm.model import display_name

        tracing.end(began, "model", f"{display_name(spec)}: {outcome}")


def masked(request: Request) -> Request:
    """The request without keys and tokens. Blocks may not be changed, so those that hold one are left out."""
    messages = [
        replace(
            message,
            parts=_masked(message.parts),
            blocks=None if message.blocks and holds_secret(message.blocks.items) else message.blocks,
        )
        for message in request.messages
    ]
    return replace(request, system=_masked(request.system), messages=tuple(messages))


def holds_secret(value: object) -> bool:
    """Whether a text in the blocks of a reply would be masked; what only the provider can read is left alone."""
    return any(mask(text) != text for text in strings(value, _OPAQUE))


def _masked(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(
        part if (text := mask(part.text)) == part.text else replace(part, text=text) for part in parts
    )


def call_as_text(text: str, tools: Sequence[Schema], name: str, arguments: object) -> tuple[str, str]:
    """The tag of a native tool call, and what it adds to the `text` of the reply: the tag on a line of its own, after
    closing an open code fence. A call of a tool that was not offered is written as such, so it can be corrected."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is not None and isinstance(arguments, Mapping):
        tag = tool.tag(arguments)
    else:
        call = {"name": name, "arguments": arguments}
        tag = f"<tool_call>{json.dumps(call, ensure_ascii=False)}</tool_call>"
    before = "" if not text or text.endswith("\n") else "\n"
    if opened := open_fence(text):
        before += opened[: len(opened) - len(opened.lstrip(opened[0]))] + "\n"
    return tag, f"{before}{tag}\n"
