"""Calls about one chunk, in the loop without edits: the model looks around and says what it found."""

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
from repoagent.edit.guards.scope import WhyNot
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.prompt.blocks import Prompt, check_fits
from repoagent.edit.prompt.build import masked_tool
from repoagent.edit.request import Draft, EditRequest
from repoagent.edit.sent_requests import blocks_of, keep_blocks, keep_sent
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

REPLIES = 6  # of one chunk: five looks around at most
REPLY_TOKENS = 8_000
LAST = "\nThis is your last reply: nothing can be looked up any more. Send your findings now.\n"
FINDING = "finding"

_NOTHING = re.compile(
    r"\W*(?:no (?:\w+ ){0,3}(?:findings?|problems?|issues?|faults?|bugs?)|nothing\b|lgtm\b)", re.IGNORECASE
)


@dataclass
class FindingCollector:
    """What the replies about one chunk have brought."""

    views: Mapping[str, FileView]
    levels: Mapping[str, Level]
    scopes: Mapping[str, Mapping[int, str]]
    claims: list[tuple[Claim, Finding]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)  # what went back to the model, with why
    returned: bool = False  # a reply went back, because nothing in it counted
    only_words: bool = False

    def take(self, action: Action) -> Observation:
        """Take a finding in, or say why it does not count. Either way it asks for nothing more."""
        claim = parse_finding(action.args, action.body, tuple(self.levels))
        found: Finding | str = claim if isinstance(claim, str) else self.check(claim)
        if isinstance(claim, str) or isinstance(found, str):
            self.dropped.append(str(found))
            return Observation(FINDING, f"It does not count: {found}.", final=True)
        self.claims.append((claim, found))
        return Observation(FINDING, "Noted.", final=True)

    def check(self, claim: Claim) -> Finding | str:
        return verify(claim, self.views, self.levels[claim.rule], self.scopes.get(claim.path, {}))

    def object(self, state: State) -> Observation | None:
        """Before it ends: give it all back once, where findings came and none of them counts."""
        if self.claims or self.returned or not self.dropped:
            self.settle()
            return None
        self.returned = True
        self.back, self.dropped = self.dropped, []
        reasons = "; ".join(dict.fromkeys(self.back))
        text = (
            f"None of your findings counts: {reasons}. Send those again that you can put right, else finish."
        )
        return Observation("objection", text, ok=False)

    def settle(self) -> None:
        """What was given back and did not come again is dropped."""
        if not self.claims and not self.dropped:
            self.dropped, self.back = self.back, []

    def insist(self, state: State) -> Observation | None:
        """Words alone: fine where they say that there is nothing, else asked once for the form, and then no answer."""
        if self.claims or self.dropped or self.back or _NOTHING.match(state.turns[-1].text.strip()):
            self.settle()
            return None
        if self.returned:
            self.only_words = True
            return None
        self.returned = True
        text = "Write each finding as a `finding` tag, in the form described above; without one, `finish`."
        return Observation("objection", text, ok=False)


def tools_for(
    session: ReviewSession, versions: Versions, why_not: WhyNot, window: int | None
) -> tuple[Tool, ...]:
    """What a model may use to look around: nothing that writes or runs anything."""
    bench = ToolContext(
        session.worktree,
        EditRequest("", ()),
        Draft({}),
        set(),
        why_not,
        read_limit=read_limit(window),
        read=versions.read,
        at=versions.at,
    )
    looking = (read_tool, search_tool, outline_tool, neighbors_tool, history_tool, recall_tool)
    return tuple(masked_tool(tool(bench), bench) for tool in looking)


def finding_tool(take: Callable[[Action], Observation]) -> Tool:
    text = '<finding rule="RULE" path="FILE" lines="10-12">...</finding> is one fault, in the form described below.'
    return Tool(FINDING, text, take)


@dataclass(frozen=True)
class ModelAccess:
    """Who is asked, and what stays the same from one chunk to the next."""

    session: ReviewSession
    model_setup: ModelSetup
    clock: Clock
    most: int  # calls, counted as the meter does

    def check(self) -> None:
        """Raise LimitReached where no more may be asked."""
        self.clock.check()
        if self.model_setup.meter.attempts >= self.most:
            raise LimitReached("the limit on calls is reached: raise review.max_calls to go on")


def review_chunk(
    asked: ModelAccess, prompt: Prompt, tools: Sequence[Tool], found: FindingCollector, key: str
) -> None:
    """Ask about one chunk until it is done. `key` says what is asked, for a cassette.

    Raises ModelError, LimitReached, and UsageError for a prompt that does not fit the model.
    """
    model_setup, clock = asked.model_setup, asked.clock
    offered = (*tools, finding_tool(found.take))

    def render(state: State) -> tuple[Request, ...]:
        asked.check()
        replies = sum(turn.role == "assistant" for turn in state.turns)
        if replies >= REPLIES:
            raise LimitReached(f"the model looked around {REPLIES} times and came to no end")
        name = json.dumps({"review": key, "turn": replies})
        most = min(model_setup.max_output_tokens, REPLY_TOKENS)
        request = prompt.request(
            state.turns, state.nonce, key=name, max_output_tokens=most,
            messages_of=partial(messages_of, tools=offered, blocks_of=partial(blocks_of, asked.session.layout)),
        )  # fmt: skip
        if replies == REPLIES - 1:
            *before, last = request.messages
            request = replace(
                request, messages=(*before, Message(last.role, (*last.parts, Part(LAST, "last"))))
            )
        check_fits(request, model_setup.context_tokens)
        return (request,)

    def kept(request: Request, reply: Reply) -> Mapping[str, str]:
        try:
            return {
                "sent": keep_sent(asked.session.layout, request),
                **keep_blocks(asked.session.layout, reply),
            }
        except (Refused, Busy) as error:  # it is paid for: what cannot be written is no reason to lose it
            asked.session.warn(f"what was sent is not kept: {error}")
            return {}

    agent = ModelAgent(
        model_setup.model,
        model_setup.meter,
        render,
        on_text=clock.check,
        on_wait=clock.wait,
        on_reply=kept,
        recall=lambda query: search_memory(asked.session.layout, query),
    )
    state = State().with_turn(Turn("user", REQUEST))
    run(
        _Timed(agent, clock),
        offered,
        state,
        before_finish=found.object,
        before_answer=found.insist,
    )
    if found.only_words:
        raise ModelError(
            "the model answers in words alone, though it was asked for the form: try again, or use another --model"
        )


@dataclass(frozen=True)
class _Timed:
    """An agent whose calls end when the time is over."""

    agent: ModelAgent
    clock: Clock

    def step(self, state: State) -> Turn:
        with self.clock.alarm():
            return self.agent.step(state)

    def search_memory(self, query: str) -> list[str]:
        return self.agent.search_memory(query)


def counted(reasons: Sequence[str]) -> dict[str, int]:
    """How many for each reason, the most first."""
    return dict(Counter(reasons).most_common())
