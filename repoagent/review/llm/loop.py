"""Ask a model about one chunk in a read-only agent loop, in which it looks up code and reports findings."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.describe_tools import messages_of
from repoagent.agent.loop import ModelAgent, run_loop
from repoagent.agent.state import State, Tool
from repoagent.dataclass import dataclass
from repoagent.edit import tools
from repoagent.edit.draft import Draft, EditSession, read_limit
from repoagent.edit.guards.off_limits import WhyNot
from repoagent.edit.model_setup import ModelSetup, blocks_of, keep_blocks, keep_sent
from repoagent.edit.prompt.blocks import Prompt, check_fits
from repoagent.edit.prompt.build import masked_tool
from repoagent.edit.request import EditRequest
from repoagent.errors import Busy, LimitReached, ModelError, Refused
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Message, Part, Reply, Request
from repoagent.review.finding import Finding, Level
from repoagent.review.llm.chunks import FileView, Versions
from repoagent.review.llm.claims import Claim, parse_finding, verify_claim
from repoagent.review.llm.prompt import REQUEST

if TYPE_CHECKING:
    from repoagent.review.review import ReviewSession

REPLIES = 6  # for one chunk, so at most five rounds of lookups
REPLY_TOKENS = 8_000
LAST = "\nThis is your last reply: you cannot look anything up any more. Send your findings.\n"
FINDING = "finding"
HELP = '<finding rule="RULE" path="FILE" lines="10-12">...</finding> reports a fault, in the form described below.'
_NOTHING = re.compile(
    r"\W*(?:no (?:\w+ ){0,3}(?:findings?|problems?|issues?|faults?|bugs?)|nothing\b|lgtm\b)", re.IGNORECASE
)


@dataclass
class FindingCollector:
    """Collects the findings in the replies about one chunk. A reply without a valid one is sent back once."""

    views: Mapping[str, FileView]
    levels: Mapping[str, Level]
    claims: list[tuple[Claim, Finding]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # the reasons
    returned: bool = False  # a reply without a valid finding was sent back
    only_words: bool = False

    @property
    def tool(self) -> Tool:
        return Tool(FINDING, HELP, self.take)

    def take(self, action: Action) -> Observation:
        """Verify the finding in `action`. If it is rejected, the observation says why."""
        claim = parse_finding(action.args, action.body, tuple(self.levels))
        finding = (
            claim if isinstance(claim, str) else verify_claim(claim, self.views, self.levels[claim.rule])
        )
        if isinstance(claim, str) or isinstance(finding, str):
            self.dropped.append(str(finding))
            return Observation(FINDING, f"The finding does not count: {finding}.", final=True)
        self.claims.append((claim, finding))
        return Observation(FINDING, "Noted.", final=True)

    def object(self, state: State) -> Observation | None:
        """Send the findings back once, before the model finishes, if all of them were rejected."""
        if self.claims or self.returned or not self.dropped:
            return None
        self.returned = True
        reasons = "; ".join(dict.fromkeys(self.dropped))
        text = f"None of your findings counts: {reasons}. Correct and resend those that you can, or finish."
        return Observation("objection", text, ok=False)

    def insist(self, state: State) -> Observation | None:
        """Handle a reply without tags: accept it if it says that there are no findings, otherwise ask once for the
        required format."""
        if self.claims or self.dropped or _NOTHING.match(state.turns[-1].text.strip()):
            return None
        if self.returned:
            self.only_words = True
            return None
        self.returned = True
        text = (
            "Write each finding as a `finding` tag in the form described above, or `finish` if you have none."
        )
        return Observation("objection", text, ok=False)


def tools_for(
    session: ReviewSession, versions: Versions, why_not: WhyNot, window: int | None
) -> tuple[Tool, ...]:
    """The read-only tools of a reviewer."""
    context = EditSession(
        session.worktree, EditRequest("", ()), Draft({}), set(), why_not,
        read_limit=read_limit(window), read=versions.read, at=versions.at,
    )  # fmt: skip
    names = ("read", "search", "outline", "neighbors", "history", "recall")
    return tuple(masked_tool(tools.look_up(context, name), context) for name in names)


class ReviewTimer:
    """The time limit of a review. Each method raises LimitReached when the limit is or would be exceeded."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    def check(self, *_: object) -> None:
        if time.monotonic() >= self.end:
            limit = f"reached the time limit of {self.seconds:g} s"
            raise LimitReached(f"{limit}; raise review.max_seconds to continue")

    def wait(self, seconds: float, reason: str) -> None:
        """Raise LimitReached if a pause of `seconds` would exceed the limit."""
        if seconds > self.end - time.monotonic():
            limit = f"review.max_seconds ({self.seconds:g} s)"
            raise LimitReached(f"{reason}; waiting {seconds:.0f} s would exceed {limit}")

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Raise LimitReached in the block when the time is up, even while it waits for the network."""
        self.check()
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(number: int, frame: FrameType | None) -> None:
            self.end = min(self.end, time.monotonic())
            self.check()

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(self.end - time.monotonic(), 0.001))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def review_chunk(
    session: ReviewSession, setup: ModelSetup, prompt: Prompt, lookups: Sequence[Tool], collector: FindingCollector, *,
    clock: ReviewTimer, max_calls: int, key: str,
) -> None:  # fmt: skip
    """Ask the model about one chunk until it finishes.

    `max_calls` limits the calls of the whole review, as counted by the meter; `key` identifies the chunk in a cassette.
    Raises ModelError if a call fails or the model ignores the required form, LimitReached at a limit, and UsageError if
    the prompt does not fit the model.
    """
    offered = (*lookups, collector.tool)
    to_messages = partial(messages_of, tools=offered, blocks_of=partial(blocks_of, session.layout))

    def render(state: State) -> tuple[Request, ...]:
        clock.check()
        if setup.meter.attempts >= max_calls:
            raise LimitReached("reached the limit on model calls; raise review.max_calls to continue")
        replies = sum(turn.role == "assistant" for turn in state.turns)
        if replies >= REPLIES:
            raise LimitReached(f"the model did not finish within {REPLIES} replies; choose another model")
        request = prompt.request(
            state.turns, state.nonce, key=json.dumps({"review": key, "turn": replies}),
            max_output_tokens=min(setup.max_output_tokens, REPLY_TOKENS), messages_of=to_messages,
        )  # fmt: skip
        if replies == REPLIES - 1:
            *before, last = request.messages
            last = Message(last.role, (*last.parts, Part(LAST, "last")))
            request = replace(request, messages=(*before, last))
        check_fits(request, setup.context_tokens)
        return (request,)

    def record(request: Request, reply: Reply) -> Mapping[str, str]:
        try:
            return {"sent": keep_sent(session.layout, request), **keep_blocks(session.layout, reply)}
        except (Refused, Busy) as error:  # keep the reply: it is paid for
            session.warn(f"could not record the request: {error}")
            return {}

    agent = ModelAgent(
        setup.model, setup.meter, render, on_text=clock.check, on_wait=clock.wait, on_reply=record,
    )  # fmt: skip
    state = State().with_turn(Turn("user", REQUEST))
    with clock.alarm():
        run_loop(agent, offered, state, before_finish=collector.object, before_answer=collector.insist)
    if collector.only_words:
        reason = "the model does not report findings in the required form"
        raise ModelError(f"{reason}; try again, or choose another model")
