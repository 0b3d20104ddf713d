"""Several models behind one: who is overloaded, or can't be reached, is replaced by the next.

Joining a reply that was cut with its continuation.

A model that is asked to go on exactly where it stopped mostly does. Some open the code fence again, some
start the unfinished line anew. Both are put right when there is no doubt; in doubt the texts are joined as
they are: a repetition left in makes a patch that is refused, text wrongly taken out makes one that applies.

The only door for model calls: limits, retries, continuation.

A call of a native tool, as the text of a reply has it: a tag on a line of its own.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

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

FALLBACK_TRIES = 2  # at each but the last, before the next one is taken
FALLBACK_WAIT = 20.0  # seconds; who asks for more is left at once


@dataclass
class Fallback:
    """`models` in the order in which they are to be asked. Once left, a model is not asked again: what made it
    fail seldom passes within a run, and each attempt costs the person's time."""

    models: Sequence[Model]
    _at: int = 0
    _failed: int = 0

    @property
    def now(self) -> Model:
        """The model that is asked next."""
        return self.models[self._at]

    @property
    def takes(self) -> frozenset[str]:
        """Tools only where all take them: which are offered is settled before it is known who will answer."""
        tools = all("tools" in model.takes for model in self.models)
        return self.now.takes if tools else self.now.takes - {"tools"}

    @property
    def spec(self) -> str:
        return self.now.spec

    @property
    def context_tokens(self) -> int | None:
        return self.now.context_tokens

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`."""
        try:
            reply = self.now.complete(request, on_text)
        except Retryable as error:
            self._failed += 1
            hopeless = self._failed >= FALLBACK_TRIES or (error.retry_after or 0.0) > FALLBACK_WAIT
            if not hopeless or self._at + 1 == len(self.models):
                raise
            self._at, self._failed = self._at + 1, 0
            raise Retryable(
                f"{error}: continuing with {self.spec}", retry_after=0.0, usage=error.usage
            ) from error
        self._failed = 0
        return reply


_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^\n`]*?)[ \t]*\r?")
_LOOK_BACK = 8_000  # characters; nobody repeats more than that
_SURE_LINES = 3
_SURE_CHARACTERS = 4  # of an unfinished line, white space not counted


def join(text: str, more: str) -> str:
    """`text` with its continuation `more`, without what `more` repeats of it for certain."""
    more = _without_reopened_fence(text, more)
    return text + more[_repeated(text, more) :]


def open_fence(text: str) -> str:
    """The line that opened the code fence in which `text` ends, or ""."""
    opened = ""
    marker = ""
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


def _repeated(text: str, more: str) -> int:
    """How many characters at the start of `more` are the end of `text` once more, from a line start on."""
    tail = text[-_LOOK_BACK:]
    starts = [0] if len(tail) == len(text) else []
    starts += [match.end() for match in re.finditer("\n", tail)]
    for start in starts:
        piece = tail[start:]
        if piece and more.startswith(piece) and _is_no_coincidence(text, piece):
            return len(piece)
    return 0


def _is_no_coincidence(text: str, piece: str) -> bool:
    if piece in (piece + piece)[1:-1]:  # made of repetitions, like a ruler: it may well go on like that
        return False
    unfinished = piece[piece.rfind("\n") + 1 :]
    if unfinished:
        return len("".join(unfinished.split())) >= _SURE_CHARACTERS
    # Whole lines: equal lines do follow each other in code.
    return piece.count("\n") >= _SURE_LINES and text.count(piece) == 1


ATTEMPTS = 5
LONGEST_REPLY = 16_000_000  # characters, over all continuations; nothing longer is stored
CONTINUATIONS = 3
LONGEST_WAIT = 120.0  # seconds; who is told to wait longer is better told so

_CONTINUE = (
    "Your reply was cut off there by the limit on its length. Continue it exactly after its last character: "
    "repeat nothing, do not open a code fence again that is already open, and do not mention the cut."
)

_OPAQUE = ("signature", "data", "encrypted_content", "id", "call_id")

OnWait = Callable[[float, str], None]


def ignore(*_: object) -> None:
    """What callbacks are when nobody listens."""


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

    What is sent has no keys and tokens in it (`store.masking`).

    `on_text` gets the text as it arrives; at the seam of a continuation it may repeat a few words that the
    reply does not. `on_void(text)` says that this text, streamed by an attempt that broke, does not count.
    `on_wait(seconds, reason)` is called before each pause. Without `continues` a reply that was cut is not gone on
    with, and comes back with the `stop` "length": a small model that is cut has most likely gone round in circles.

    Raises LimitReached before a call that would pass a limit of `meter`; ModelError when the model can't be
    reached, refuses, says nothing, or is still cut after three continuations.
    """
    text = ""
    usage = Usage()
    asked = request = masked(request)
    hooks = _Hooks(on_text, on_wait, on_void, sleep, jitter)
    for _ in range(1 + CONTINUATIONS):
        reply, used = _attempts(model, asked, meter, hooks)
        usage += used
        if reply.stop == "refusal":
            raise ModelError(_refusal(model, reply))
        if len(text) + len(reply.text) > LONGEST_REPLY:
            raise _too_long(model.spec)
        text = join(text, reply.text)
        if not text.strip():
            raise ModelError(_empty_reply(model, reply))
        if reply.stop == "end" or not continues:
            blocks = (
                reply.blocks if text == reply.text else None
            )  # those of one piece are not the whole reply
            return replace(reply, text=text, usage=usage, blocks=blocks)
        if not reply.text.strip():
            break  # a continuation that adds nothing will not do better next time
        asked = _continuation(request, text)
    raise ModelError(
        f"the reply of {model.spec} was still cut off after {CONTINUATIONS} continuations: ask for a smaller "
        "change, or name fewer files"
    )


def _too_long(spec: str) -> ModelError:
    most = f"{LONGEST_REPLY // 1_000_000} million characters"
    return ModelError(
        f"the reply of {spec} is longer than {most} and was discarded: ask for a smaller change"
    )


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


class _Hooks(NamedTuple):
    on_text: OnText
    on_wait: OnWait
    on_void: OnText
    sleep: Callable[[float], None]
    jitter: Callable[[], float]


def _attempts(model: Model, request: Request, meter: Meter, hooks: _Hooks) -> tuple[Reply, Usage]:
    """One reply, and what it and the failed attempts before it have used."""
    expected = estimate(request)
    usage = Usage()
    meter.before_attempt(expected, model.spec)
    for attempt in range(1, ATTEMPTS + 1):
        streamed: list[str] = []
        heard = 0

        def hear(piece: str, streamed: list[str] = streamed) -> None:
            nonlocal heard
            heard += len(piece)
            if heard > LONGEST_REPLY:
                raise _too_long(model.spec)
            streamed.append(piece)
            hooks.on_text(piece)

        spec = model.spec  # of this attempt: a model with a fall-back may be another at the next
        began = tracing.begin()
        try:
            reply = model.complete(request, hear)
        except Retryable as error:
            _trace(began, spec, f"failed: {error}")
            meter.add(error.usage, spec)
            usage += error.usage
            if streamed:
                hooks.on_void("".join(streamed))
            if attempt == ATTEMPTS:
                raise ModelError(f"{error} (tried {ATTEMPTS} times): try again later") from error
            try:
                meter.before_attempt(
                    expected, model.spec
                )  # now: nobody should wait for an attempt that is not made
            except LimitReached as limit:
                raise ModelError(f"{error}; {limit}") from error
            pause = _pause(attempt, error, hooks.jitter)
            hooks.on_wait(pause, str(error))
            hooks.sleep(pause)
        except ModelError:
            _trace(began, spec, "failed")
            raise
        else:
            meter.add(reply.usage, spec)
            if began:
                used = reply.usage
                _trace(began, spec, f"{used.total - used.output} + {used.output} tokens, {reply.stop}")
            return reply, usage + reply.usage
    raise AssertionError("the last attempt returns or raises")


def _trace(began: float, spec: str, how: str) -> None:
    """A line for one call: neither what was said nor a command that may hold a key."""
    if began:
        from repoagent.llm.model import display_name

        tracing.end(began, "model", f"{display_name(spec)}: {how}")


def _pause(attempt: int, error: Retryable, jitter: Callable[[], float]) -> float:
    """Seconds: what the server asked for, else 1, 2, 4, 8 and up to half of it more, so that many clients
    don't come back at once."""
    if error.retry_after is None:
        return float(2 ** (attempt - 1)) * (1 + jitter() / 2)
    if error.retry_after > LONGEST_WAIT:
        raise ModelError(
            f"{error}: the server asks to wait {_duration(error.retry_after)}; try again then"
        ) from error
    return error.retry_after


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} minutes"


def _continuation(request: Request, text: str) -> Request:
    """`request` with what came so far as the assistant's words. The last message is the user's, since current
    models reject an assistant's that is to be completed."""
    said = Message("assistant", (Part(text, "cut reply"),))
    ask = Message("user", (Part(_CONTINUE, "continue"),))
    return replace(request, messages=(*request.messages, said, ask))


def _refusal(model: Model, reply: Reply) -> str:
    why = " ".join(reply.text.split())
    said = f": {why[:300]}" if why else ""
    return f"{model.spec} declined this request{said}. Rephrase it, or use another --model"


def _empty_reply(model: Model, reply: Reply) -> str:
    if reply.stop == "length":
        return (
            f"{model.spec} reached the limit of its reply before it wrote anything: ask for a smaller "
            "change, or use another --model"
        )
    return f"{model.spec} gave an empty reply: try again, or use another --model"


def call_as_text(text: str, tools: Sequence[Schema], name: str, arguments: object) -> tuple[str, str]:
    """The tag of a call, and what it adds to the `text` of the reply before it: a code fence that is open is closed, or
    the tag would be quoted in it. A call of a tool that was not offered is written as one, so it can be corrected."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is not None and isinstance(arguments, Mapping):
        tag = tool.tag(arguments)
    else:
        called: dict[str, Any] = {"name": name, "arguments": arguments}
        tag = f"<tool_call>{json.dumps(called, ensure_ascii=False)}</tool_call>"
    before = "" if not text or text.endswith("\n") else "\n"
    if opened := open_fence(text):
        before += opened[: len(opened) - len(opened.lstrip(opened[0]))] + "\n"
    return tag, f"{before}{tag}\n"
