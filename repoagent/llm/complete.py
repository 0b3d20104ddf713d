"""Call a model, with limits, retries, fallback models and continuation of truncated replies.

All model calls go through `complete`.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import StringIO

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
    ToolSchema,
    Usage,
    display_name,
    json_strings,
)
from repoagent.llm.registry import provider_of
from repoagent.llm.usage import Meter, estimate_tokens, estimate_usage
from repoagent.storage.secrets import mask

FALLBACK_TRIES = 2  # for each model but the last
FALLBACK_WAIT = 20.0  # seconds; if the server asks for a longer wait, use the next model at once


@dataclass
class Fallback:
    """A model that calls the first of `models` that has not failed.

    A failed model is not called again in this run, because failures rarely clear up that fast.
    """

    models: Sequence[Model]
    _at: int = 0
    _failed: int = 0

    @property
    def current(self) -> Model:
        return self.models[self._at]

    @property
    def takes(self) -> frozenset[str]:
        """The fields of `Wishes` that the current model supports, and "tools" if all models support tools.

        Any of the models may answer a request with tools.
        """
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


ATTEMPTS = 5
LONGEST_REPLY = 16_000_000  # characters, over all continuations
CONTINUATIONS = 3
LONGEST_WAIT = 120.0  # seconds; a longer wait is an error

_CONTINUE = (
    "Your reply was cut off there because it reached the length limit. Continue exactly after its last "
    "character: repeat nothing, do not reopen a code fence that is already open, and do not mention the cut."
)

_OPAQUE = ("signature", "data", "encrypted_content", "id", "call_id")

OnWait = Callable[[float, str], None]


def do_nothing(*_: object) -> None:
    """A callback that does nothing."""


def complete(
    model: Model,
    request: Request,
    meter: Meter,
    *,
    on_text: OnText = do_nothing,
    on_wait: OnWait = do_nothing,
    on_void: OnText = do_nothing,
    continues: bool = True,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> Reply:
    """Return the complete reply to `request`, after retries and continuations.

    Its `stop` is "end"; its `usage` covers all attempts, including failed ones. Masks keys and tokens in the request.
    `on_text` is called with the text as it arrives, `on_void(text)` to withdraw the text of a failed attempt, and
    `on_wait(seconds, reason)` before each pause. Without `continues`, a truncated reply is returned with the `stop`
    "length": a small model that reaches the limit is usually in a loop.

    Raises LimitReached before a call that would exceed a limit of `meter`. Raises ModelError if the model is
    unreachable, refuses or writes nothing, or if its reply is still cut off after three continuations.
    """
    text = ""
    usage = Usage()
    current = request = mask_request(request)

    def wait_after(error: Retryable, attempt: int) -> None:
        if attempt == ATTEMPTS:
            raise ModelError(f"{error} (tried {ATTEMPTS} times): try again later") from error
        wait = error.retry_after
        if wait is None:  # 1, 2, 4, 8, plus up to half as jitter, so that many clients do not retry at once
            wait = float(2 ** (attempt - 1)) * (1 + jitter() / 2)
        elif wait > LONGEST_WAIT:
            duration = f"{wait:.0f} s" if wait < 600 else f"{wait / 60:.0f} minutes"
            raise ModelError(f"{error}: the server asks you to retry in {duration}") from error
        try:  # before the wait: do not wait for an attempt that a limit forbids
            meter.before_attempt(estimate_usage(current), model.spec)
        except LimitReached as limit:
            raise ModelError(f"{error}; {limit}") from error
        on_wait(wait, str(error))
        sleep(wait)

    def hear(streamed: StringIO, piece: str) -> None:
        streamed.write(piece)
        if len(text) + streamed.tell() > LONGEST_REPLY:
            raise ModelError(
                f"the reply from {model.spec} is too long and was discarded: ask for a smaller change"
            )
        on_text(piece)

    def one_reply() -> Reply:
        """A reply to `current`, after at most ATTEMPTS attempts; its usage includes the failed ones."""
        meter.before_attempt(estimate_usage(current), model.spec)
        lost = Usage()
        for attempt in range(1, ATTEMPTS + 1):
            spec = model.spec  # a Fallback may switch to another model
            streamed = StringIO()
            began = tracing.begin()
            try:
                reply = model.complete(current, partial(hear, streamed))
            except Retryable as error:
                _trace(began, spec, f"failed: {error}")
                meter.add(error.usage, spec)
                lost += error.usage
                if text_so_far := streamed.getvalue():
                    on_void(text_so_far)
                wait_after(error, attempt)
            except ModelError:
                _trace(began, spec, "failed")
                raise
            except KeyboardInterrupt:  # the provider charges for what it has read and written
                if not provider_of(spec).free:
                    written = Usage(output=estimate_tokens(streamed.getvalue()))
                    meter.add(estimate_usage(current) + written, spec)
                raise
            else:
                meter.add(reply.usage, spec)
                used = reply.usage
                _trace(began, spec, f"{used.total - used.output} + {used.output} tokens, {reply.stop}")
                return replace(reply, usage=lost + used) if lost.total else reply
        raise AssertionError("the last attempt returns or raises")

    for _ in range(1 + CONTINUATIONS):
        reply = one_reply()
        usage += reply.usage
        if reply.stop == "refusal":
            reason = " ".join(reply.text.split())[:300]
            raise ModelError(
                f"{model.spec} declined this request{f': {reason}' if reason else ''}. "
                "Rephrase it, or choose another model with --model"
            )
        text += reply.text
        if not text.strip() and reply.stop == "length":
            raise ModelError(
                f"{model.spec} used up its output limit before it wrote anything: ask for a smaller "
                "change, or choose another model with --model"
            )
        if not text.strip():
            raise ModelError(f"{model.spec} sent an empty reply: try again, or choose another model")
        if reply.stop == "end" or not continues:
            # the blocks of a continuation are not the whole reply
            blocks = reply.blocks if text == reply.text else None
            return replace(reply, text=text, usage=usage, blocks=blocks)
        if not reply.text.strip():
            break  # an empty continuation will not improve
        # End with a user message: current models reject an assistant message to complete.
        partial_reply = Message("assistant", (Part(text, "cut reply"),))
        ask = Message("user", (Part(_CONTINUE, "continue"),))
        current = replace(request, messages=(*request.messages, partial_reply, ask))
    raise ModelError(
        f"the reply from {model.spec} was still cut off after {CONTINUATIONS} continuations: ask for a smaller "
        "change, or name fewer files"
    )


def _trace(began: float, spec: str, outcome: str) -> None:
    """Trace a call without its texts."""
    if began:
        tracing.end(began, "model", f"{display_name(spec)}: {outcome}")


def mask_request(request: Request) -> Request:
    """The request with keys and tokens masked. Blocks cannot be changed, so those with a secret are left out."""
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
    """Whether any text in the blocks of a reply would be masked; ignores encrypted and opaque fields."""
    return any(mask(text) != text for text in json_strings(value, _OPAQUE))


def _masked(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(
        part if (text := mask(part.text)) == part.text else replace(part, text=text) for part in parts
    )


def call_as_text(text: str, tools: Sequence[ToolSchema], name: str, arguments: object) -> tuple[str, str]:
    """Convert a native tool call to a tag; return the tag, and the text that appends it to the reply's `text`.

    The tag gets a line of its own, after a closing fence if a code fence is open. A call to an unknown tool keeps its
    name, so that the model can be corrected.
    """
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is not None and isinstance(arguments, Mapping):
        tag = tool.tag(arguments)
    else:
        call = {"name": name, "arguments": arguments}
        tag = f"<tool_call>{json.dumps(call, ensure_ascii=False)}</tool_call>"
    before, fence = "" if not text or text.endswith("\n") else "\n", ""
    for mark, language in re.findall(r"^(`{3,}|~{3,})([^`\n]*)$", text, re.MULTILINE):
        if not fence:
            fence = mark
        elif mark.startswith(fence) and not language.strip():
            fence = ""
    before += fence and f"{fence}\n"
    return tag, f"{before}{tag}\n"
