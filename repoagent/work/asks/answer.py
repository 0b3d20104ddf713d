"""One call, with limits, and what is kept of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from repoagent.dataclass import dataclass
from repoagent.edit.briefing.context import check_fits
from repoagent.edit.means import Means
from repoagent.errors import RepoagentError
from repoagent.llm import Reply, Request, complete
from repoagent.llm.attached import look
from repoagent.store import Layout
from repoagent.store.layout import ensure
from repoagent.store.report import Warn


def _nothing(*_: object) -> None:
    """What callbacks are when nobody listens."""


@dataclass(frozen=True)
class Hearing:
    """Who listens: `text` to the reply as it comes, `void` to what of it does not count since an attempt broke off,
    `waiting` to pauses (seconds, reason), `warn` to what the person should know."""

    text: Callable[[str], None] = _nothing
    void: Callable[[str], None] = _nothing
    waiting: Callable[[float, str], None] = _nothing
    warn: Warn = _nothing


@dataclass(frozen=True)
class Answer:
    """The whole reply. `seconds` is how long it took; `sent` is the name of the prompt in `sent/`, "" where it is not
    kept."""

    reply: Reply
    seconds: float
    sent: str = ""


def ask(request: Request, ready: Means, place: Layout | None, hearing: Hearing) -> Answer:
    """Send `request` and wait for the whole reply. In a repository (`place`) the prompt is kept, as that of an edit is.

    Raises UsageError before anything is sent where the prompt does not fit the model, or it does not take an image or
    PDF; and what `complete` raises.
    """
    if doubt := look(ready.settings, ready.model.spec, request.media):
        hearing.warn(doubt)
    check_fits(request, ready.context_tokens)
    began = time.monotonic()
    reply = complete(
        ready.model, request, ready.meter,
        on_text=hearing.text, on_void=hearing.void, on_wait=hearing.waiting,
    )  # fmt: skip
    seconds = time.monotonic() - began
    return Answer(reply, seconds, "" if place is None else _kept(request, ready, place, hearing))


def _kept(request: Request, ready: Means, place: Layout, hearing: Hearing) -> str:
    """Keep the prompt. The reply is paid for by now: what goes wrong here is said, and no more."""
    # loading it takes longer than all else that is needed, and by now the reply is there
    from repoagent.edit.remembering.sent import forget_sent, keep_sent

    try:
        ensure(place)
        name = keep_sent(place, request)
        forget_sent(place, ready.settings.whole("sent.keep_days"))
    except (RepoagentError, OSError) as error:
        hearing.warn(f"what was sent could not be kept: {error}")
        return ""
    return name
