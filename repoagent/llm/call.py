"""The only door for model calls: limits, retries, continuation."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from repoagent import trace
from repoagent.errors import LimitReached, ModelError
from repoagent.llm.model import Message, Model, OnText, Part, Reply, Request, Retryable, Usage, strings
from repoagent.llm.seam import join
from repoagent.llm.usage import Meter, estimate
from repoagent.store.masking import mask

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
            raise ModelError(_nothing(model, reply))
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
        f"the reply of {spec} is longer than {most}, and was not kept: ask for a smaller change"
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
        began = trace.begin()
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
        from repoagent.llm.naming import shown

        trace.end(began, "model", f"{shown(spec)}: {how}")


def _pause(attempt: int, error: Retryable, jitter: Callable[[], float]) -> float:
    """Seconds: what the server asked for, else 1, 2, 4, 8 and up to half of it more, so that many clients
    don't come back at once."""
    if error.retry_after is None:
        return float(2 ** (attempt - 1)) * (1 + jitter() / 2)
    if error.retry_after > LONGEST_WAIT:
        raise ModelError(
            f"{error}: the server asks to wait {_span(error.retry_after)}, try again then"
        ) from error
    return error.retry_after


def _span(seconds: float) -> str:
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
    return f"{model.spec} declined this request{said}. Word it differently, or use another --model"


def _nothing(model: Model, reply: Reply) -> str:
    if reply.stop == "length":
        return (
            f"{model.spec} used up the length of its reply before it wrote anything: ask for a smaller "
            "change, or use another --model"
        )
    return f"{model.spec} gave an empty reply: try again, or use another --model"
