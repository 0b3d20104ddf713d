"""Ask a model about one chunk in a read-only agent loop: it looks things up and reports findings."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from repoagent.agent.actions import Action, Observation
from repoagent.agent.loop import ModelAgent, run
from repoagent.agent.native_tools import messages_of
from repoagent.agent.state import State, Tool
from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import WhyNot
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.prompt.blocks import Prompt, check_fits
from repoagent.edit.prompt.build import masked_tool
from repoagent.edit.recorder import blocks_of, keep_blocks, keep_sent
from repoagent.edit.request import Draft, EditRequest
from repoagent.edit.tools import (
    ToolContext,
    history_tool,
    neighbors_tool,
    outline_tool,
    read_limit,
    read_tool,
    recall_tool,
    search_tool,
)
from repoagent.errors import Busy, LimitReached, ModelError, Refused
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Message, Part, Reply, Request
from repoagent.memory.search.search import search_memory
from repoagent.review.finding import Finding, Level
from repoagent.review.llm.chunks import FileView, Versions
from repoagent.review.llm.claims import Claim, parse_finding, verify
from repoagent.review.llm.prompt import REQUEST
from repoagent.review.llm.session import Clock, ReviewSession

REPLIES = 6  # for one chunk: at most five rounds of lookups
REPLY_TOKENS = 8_000
LAST = "\nThis is your last reply: you cannot look anything up now. Send your findings.\n"
FINDING = "finding"

_NOTHING = re.compile(
    r"\W*(?:no (?:\w+ ){0,3}(?:findings?|problems?|issues?|faults?|bugs?)|nothing\b|lgtm\b)", re.IGNORECASE
)


@dataclass
class FindingCollector:
    """Collect the findings in the replies about one chunk."""

    views: Mapping[str, FileView]
    levels: Mapping[str, Level]
    scopes: Mapping[str, Mapping[int, str]]
    claims: list[tuple[Claim, Finding]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)  # reasons that were sent back to the model
    returned: bool = False  # a reply without a valid finding was sent back
    only_words: bool = False

    def take(self, action: Action) -> Observation:
        """Verify a finding; the observation says why it does not count."""
        claim = parse_finding(action.args, action.body, tuple(self.levels))
        result: Finding | str = claim if isinstance(claim, str) else self.check(claim)
        if isinstance(claim, str) or isinstance(result, str):
            self.dropped.append(str(result))
            return Observation(FINDING, f"The finding does not count: {result}.", final=True)
        self.claims.append((claim, result))
        return Observation(FINDING, "Noted.", final=True)

    def check(self, claim: Claim) -> Finding | str:
        return verify(claim, self.views, self.levels[claim.rule], self.scopes.get(claim.path, {}))

    def object(self, state: State) -> Observation | None:
        """Before the model finishes: send the findings back once if none of them counts."""
        if self.claims or self.returned or not self.dropped:
            self.settle()
            return None
        self.returned = True
        self.rejected, self.dropped = self.dropped, []
        reasons = "; ".join(dict.fromkeys(self.rejected))
        text = f"None of your findings counts: {reasons}. Correct and resend those that you can, or finish."
        return Observation("objection", text, ok=False)

    def settle(self) -> None:
        """Drop the findings that were sent back and not resent."""
        if not self.claims and not self.dropped:
            self.dropped, self.rejected = self.rejected, []

    def insist(self, state: State) -> Observation | None:
        """For a reply without tags: accept it if it says that there are no findings, else ask once for the form."""
        if self.claims or self.dropped or self.rejected or _NOTHING.match(state.turns[-1].text.strip()):
            self.settle()
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
    tool_context = ToolContext(
        session.worktree,
        EditRequest("", ()),
        Draft({}),
        set(),
        why_not,
        read_limit=read_limit(window),
        read=versions.read,
        at=versions.at,
    )
    factories = (read_tool, search_tool, outline_tool, neighbors_tool, history_tool, recall_tool)
    return tuple(masked_tool(tool(tool_context), tool_context) for tool in factories)


def finding_tool(take: Callable[[Action], Observation]) -> Tool:
    text = '<finding rule="RULE" path="FILE" lines="10-12">...</finding> reports a fault, in the form described below.'
    return Tool(FINDING, text, take)


@dataclass(frozen=True)
class ModelAccess:
    """The model and the limits of a review, the same for all its chunks."""

    session: ReviewSession
    model_setup: ModelSetup
    clock: Clock
    max_calls: int  # as counted by the meter

    def check(self) -> None:
        """Raise LimitReached when the time or the calls are used up."""
        self.clock.check()
        if self.model_setup.meter.attempts >= self.max_calls:
            raise LimitReached("the limit on calls is reached; raise review.max_calls to continue")


def review_chunk(
    access: ModelAccess, prompt: Prompt, tools: Sequence[Tool], collector: FindingCollector, key: str
) -> None:
    """Ask about one chunk until the model finishes. `key` identifies the chunk in a cassette.

    Raises ModelError, LimitReached, and UsageError for a prompt that does not fit the model.
    """
    model_setup, clock = access.model_setup, access.clock
    offered = (*tools, finding_tool(collector.take))

    def render(state: State) -> tuple[Request, ...]:
        access.check()
        replies = sum(turn.role == "assistant" for turn in state.turns)
        if replies >= REPLIES:
            raise LimitReached(f"the model did not finish within {REPLIES} replies")
        name = json.dumps({"review": key, "turn": replies})
        max_output_tokens = min(model_setup.max_output_tokens, REPLY_TOKENS)
        request = prompt.request(
            state.turns, state.nonce, key=name, max_output_tokens=max_output_tokens,
            messages_of=partial(messages_of, tools=offered, blocks_of=partial(blocks_of, access.session.layout)),
        )  # fmt: skip
        if replies == REPLIES - 1:
            *before, last = request.messages
            request = replace(
                request, messages=(*before, Message(last.role, (*last.parts, Part(LAST, "last"))))
            )
        check_fits(request, model_setup.context_tokens)
        return (request,)

    def record(request: Request, reply: Reply) -> Mapping[str, str]:
        try:
            return {
                "sent": keep_sent(access.session.layout, request),
                **keep_blocks(access.session.layout, reply),
            }
        except (Refused, Busy) as error:  # keep the reply: it is paid for
            access.session.warn(f"could not record the request: {error}")
            return {}

    agent = ModelAgent(
        model_setup.model,
        model_setup.meter,
        render,
        on_text=clock.check,
        on_wait=clock.wait,
        on_reply=record,
        recall=lambda query: search_memory(access.session.layout, query),
    )
    state = State().with_turn(Turn("user", REQUEST))
    run(_Timed(agent, clock), offered, state, before_finish=collector.object, before_answer=collector.insist)
    if collector.only_words:
        raise ModelError(
            "the model does not report findings in the required form; try again, or use another --model"
        )


@dataclass(frozen=True)
class _Timed:
    """An agent whose calls are interrupted when the time is up."""

    agent: ModelAgent
    clock: Clock

    def step(self, state: State) -> Turn:
        with self.clock.alarm():
            return self.agent.step(state)

    def search_memory(self, query: str) -> list[str]:
        return self.agent.search_memory(query)


def count_reasons(reasons: Sequence[str]) -> dict[str, int]:
    """The number of each reason, the most frequent first."""
    return dict(Counter(reasons).most_common())
