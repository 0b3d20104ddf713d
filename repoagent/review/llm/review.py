"""Review a change with a model: reuse cached answers, and ask about the rest part by part, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from repoagent.agent.state import Tool
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import WhyNot, gate
from repoagent.edit.model_setup import ModelSetup, model_setup
from repoagent.edit.prompt.blocks import Prompt
from repoagent.errors import ModelError, Refused, RepoagentError, UsageError
from repoagent.llm.model import Part, Retryable, display_name
from repoagent.llm.providers.errors import MODEL_ADVICE
from repoagent.review.change import Change
from repoagent.review.dismissals import Verdict, verdicts_on
from repoagent.review.finding import Finding, Level
from repoagent.review.llm.cache import AnswerCache, forget
from repoagent.review.llm.chunks import Block, Material, Versions, gather, levels_of, pack, unreviewed
from repoagent.review.llm.claims import merge_findings
from repoagent.review.llm.loop import (
    FindingCollector,
    ModelAccess,
    count_reasons,
    finding_tool,
    review_chunk,
    tools_for,
)
from repoagent.review.llm.prompt import instructions, prompt_for, repository
from repoagent.review.llm.session import Clock, ModelAnswer, ReviewSession
from repoagent.review.untrusted import ignored_before


def open_model(session: ReviewSession) -> ModelSetup:
    """The model of `review.model`, or else that of edits, with its meter. Raises as `model_setup`."""
    settings = review_settings(session.settings)
    ready = model_setup(settings, session.record, session.reply, session.warn)
    if settings.origin("max_turns") == "default":  # a limit for an edit; a review has max_calls
        ready.meter.limits = replace(ready.meter.limits, turns=None)
    return ready


def review_settings(settings: Settings) -> Settings:
    """The settings with the model of reviews, unless the command line names one, and a timeout of at most
    `review.max_seconds`."""
    entries = dict(settings.entries)
    named = settings.origin("model").startswith("flag ")
    if not named and (model := settings.text_or_none("review.model")) is not None:
        entries["model"] = settings.setting("model")._replace(
            value=model, origin=settings.origin("review.model")
        )
    seconds = min(settings.number("timeout"), settings.number("review.max_seconds"))
    entries["timeout"] = settings.setting("timeout")._replace(value=seconds)
    return replace(settings, entries=entries)


SPARE_TOKENS = 8_000  # of a small window, for the rest of the prompt and the reply
LEAST_TOKENS = 1_000  # of the change in one call
FAILURES = 2  # in a row, after which the review ends


def model_findings(change: Change, session: ReviewSession) -> ModelAnswer:
    """The findings of a model in `change`; does not ask again about parts with a cached answer.

    If there is no model, network, time or money, the answer has the `error` instead of raising it, and `unseen` and
    `notes` say what is missing.
    """
    levels = levels_of(session.settings)
    if not levels or not change.files:
        return ModelAnswer()
    why_not = gate(session.worktree.top, (), ignored_before(change, session.worktree))
    material = gather(change, session.worktree, why_not)
    if not material.blocks:
        return ModelAnswer(unseen=tuple(material.unseen))
    try:
        ready = session.ready or open_model(session)
    except (ModelError, UsageError) as error:
        unseen = (*material.unseen, unreviewed(material.blocks))
        return ModelAnswer(
            unseen=unseen, notes=(f"could not ask a model: {_first_line(error)}",), error=error
        )
    return _Review(change, session, ready, material, levels, why_not).run()


def prompts(change: Change, session: ReviewSession) -> list[Prompt]:
    """The prompt of the first call about each part, ignoring cached answers; nothing is sent."""
    why_not = gate(session.worktree.top, (), ignored_before(change, session.worktree))
    material = gather(change, session.worktree, why_not)
    parts = pack(material.blocks, max(LEAST_TOKENS, session.settings.whole("review.context_limit")))
    context = _prompt_context(change, session, material, why_not, None)
    return [context.prompt(part) for part in parts]


@dataclass(frozen=True)
class _PromptContext:
    """The parts that all prompts of a review share."""

    change: Change
    session: ReviewSession
    tools: tuple[Tool, ...]
    protocol: str
    context: Sequence[Part]
    dismissed: Sequence[Verdict]
    warnings: tuple[str, ...]

    def prompt(self, part: Sequence[Block]) -> Prompt:
        paths = {block.path for block in part}
        dismissed = [verdict for verdict in self.dismissed if verdict.path in paths]
        return prompt_for(
            self.change, self.session, part, protocol=self.protocol, context=self.context, dismissed=dismissed
        )


def _prompt_context(
    change: Change, session: ReviewSession, material: Material, why_not: WhyNot, window: int | None
) -> _PromptContext:
    tools = tools_for(session, Versions(session.worktree, change), why_not, window)
    rules = tuple(levels_of(session.settings))
    protocol = instructions(rules, (*tools, finding_tool(FindingCollector({}, {}, {}).take)))
    context, warnings = repository(session, material.paths, why_not)
    try:
        known = verdicts_on(change, session.worktree, session.layout, warn=session.warn)
        dismissed = [verdict for verdict in known.values() if verdict.state == "dismissed"]
    except Refused as error:
        dismissed, warnings = [], (*warnings, f"could not read the dismissals: {error}")
    return _PromptContext(change, session, tools, protocol, context, dismissed, warnings)


@dataclass
class _Review:
    """State of one review."""

    change: Change
    session: ReviewSession
    ready: ModelSetup
    material: Material
    levels: dict[str, Level]
    why_not: WhyNot
    findings: list[Finding] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    reused: int = 0
    error: RepoagentError | None = None
    spec: str = ""  # the key of cached answers, also after a fallback to another model

    def run(self) -> ModelAnswer:
        session, meter = self.session, self.ready.meter
        self.spec = self.ready.model.spec
        if meter.book is not None:
            meter.book = meter.book.about("review", str(session.worktree.top), self.material.paths)
        calls, tokens = meter.attempts, meter.usage.total
        waiting = [block for block in self.material.blocks if not self.use_cached(block)]
        if waiting:
            forget(session.layout)
            self.ask(pack(waiting, self.budget))
        notes = (
            ()
            if self.error is None
            else (
                f"the review by {display_name(self.ready.model.spec)} is incomplete: {_first_line(self.error)}",
            )
        )
        return ModelAnswer(
            tuple(merge_findings(self.findings)),
            len(self.dropped),
            tuple(self.material.unseen),
            meter.usage.total - tokens,
            meter.cost,
            display_name(self.ready.model.spec),
            notes,
            count_reasons(self.dropped),
            self.reused,
            meter.attempts - calls,
            self.error,
        )

    @property
    def cache(self) -> AnswerCache:
        session = self.session
        return AnswerCache(session.layout, self.spec, tuple(self.levels), session.warn, session.afresh)

    @property
    def budget(self) -> int:
        """Tokens of the change in one call."""
        most = self.session.settings.whole("review.context_limit")
        window = self.ready.context_tokens
        return max(LEAST_TOKENS, most if window is None else min(most, (window - SPARE_TOKENS) // 2))

    def collector(self) -> FindingCollector:
        return FindingCollector(self.material.views, self.levels, self.material.scopes)

    def use_cached(self, block: Block) -> bool:
        """Whether there is a cached answer; if so, verify its claims and add the findings."""
        claims = self.cache.get(block)
        if claims is None:
            return False
        self.reused += 1
        collector = self.collector()
        for claim in claims:
            if claim.rule in self.levels and isinstance(finding := collector.check(claim), Finding):
                self.findings.append(finding)
        return True

    def ask(self, parts: Sequence[tuple[Block, ...]]) -> None:
        """Ask about each part until all are done or a limit is reached."""
        session, meter = self.session, self.ready.meter
        most = session.settings.whole("review.max_calls")
        access = ModelAccess(
            session, self.ready, Clock(session.settings.number("review.max_seconds")), most + meter.attempts
        )
        try:
            context = _prompt_context(
                self.change, session, self.material, self.why_not, self.ready.context_tokens
            )
        except RepoagentError as error:
            self.error = error
            self.material.unseen.append(unreviewed([block for part in parts for block in part]))
            return
        for warning in context.warnings:
            session.warn(warning)
        failed: list[Block] = []
        in_a_row = 0
        for number, part in enumerate(parts):
            session.progress(f"reviewing {part[0].path} (part {number + 1} of {len(parts)})")
            try:
                self.ask_part(access, context, part)
                in_a_row = 0
            except RepoagentError as error:
                self.error = self.error or error
                failed += part
                in_a_row += 1
                if in_a_row == FAILURES or not _concerns_one_part(error):
                    failed += [block for later in parts[number + 1 :] for block in later]
                    break
        if failed:
            self.material.unseen.append(unreviewed(failed))

    def ask_part(self, access: ModelAccess, context: _PromptContext, part: tuple[Block, ...]) -> None:
        """Ask about one part, and cache the answer."""
        collector = self.collector()
        cache = self.cache
        key = " ".join(block.key("")[:16] for block in part)
        try:
            review_chunk(access, context.prompt(part), context.tools, collector, key)
        finally:
            self.findings += [finding for _, finding in collector.claims]
            self.dropped += collector.dropped
        for block in part:
            block_claims = [claim for claim, finding in collector.claims if _holder(part, finding) is block]
            cache.put(block, block_claims)


def _holder(part: Sequence[Block], finding: Finding) -> Block:
    """The block under which the finding is cached: the one with its lines, else the first of its file."""
    location = finding.location
    sign = "-" if location.old else "+"
    file_blocks = [block for block in part if block.path == location.path]
    for block in file_blocks:
        if any(row.number == location.start and row.sign == sign for row in block.rows):
            return block
    return (file_blocks or list(part))[0]


def _concerns_one_part(error: RepoagentError) -> bool:
    """Whether the error concerns one part only, not the connection to the model."""
    return isinstance(error, ModelError) and not isinstance(error.__cause__, Retryable)


def _first_line(error: RepoagentError) -> str:
    """The first line of the message without the advice on models: a hook has one line for it."""
    lines = str(error).partition(MODEL_ADVICE)[0].strip().splitlines()
    return (lines or ["unknown error"])[0].rstrip(":.")
