"""Review a change with a model: reuse cached answers, and ask about the rest part by part, within limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import WhyNot, gate
from repoagent.edit.model_setup import ModelSetup, model_setup
from repoagent.edit.prompt.blocks import Prompt
from repoagent.errors import ModelError, Refused, RepoagentError, UsageError
from repoagent.git.worktree import WorkTree
from repoagent.llm.complete import ignore
from repoagent.llm.model import Retryable, display_name
from repoagent.llm.providers.errors import MODEL_ADVICE
from repoagent.review.change import Change
from repoagent.review.dismissals import verdicts_on
from repoagent.review.finding import Finding, Level
from repoagent.review.llm.cache import AnswerCache, forget
from repoagent.review.llm.chunks import Block, Material, Versions, gather, levels_of, pack, unreviewed
from repoagent.review.llm.claims import merge_findings
from repoagent.review.llm.loop import Clock, FindingCollector, ModelAccess, review_chunk, tools_for
from repoagent.review.llm.prompt import instructions, prompt_for, repository
from repoagent.review.untrusted_change import ignored_before
from repoagent.storage.layout import Layout

SPARE_TOKENS = 8_000  # of a small window, for the rest of the prompt and the reply
LEAST_TOKENS = 1_000  # of the change in one call
FAILURES = 2  # in a row, after which the review ends


@dataclass(frozen=True)
class ReviewSession:
    """Where to review, and within which limits.

    `warn` gets warnings for the user, `progress` the current step. `ready` is the model to ask; None opens the model of
    the settings. `record` is the cassette to write, `reply` the reply for `manual`. `afresh` ignores cached answers.
    """

    worktree: WorkTree
    layout: Layout
    settings: Settings
    warn: Callable[[str], None] = ignore
    progress: Callable[[str], None] = ignore
    ready: ModelSetup | None = None
    record: Path | None = None
    reply: Path | None = None
    afresh: bool = False


@dataclass(frozen=True)
class ModelAnswer:
    """The verified findings of a model.

    `dropped` counts the findings that could not be verified, `reasons` the same by reason. `unseen` has a phrase for
    each part of the change that was not reviewed, `notes` sentences for the user. `reused` counts the parts with a
    cached answer, `calls` the calls. `error` is the reason why the review is incomplete (no model, no network, a
    limit); it is also in the `notes`, and the findings before it count.
    """

    findings: tuple[Finding, ...] = ()
    dropped: int = 0
    unseen: tuple[str, ...] = ()
    tokens: int = 0
    cost: float | None = 0.0
    model: str = ""
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    reused: int = 0
    calls: int = 0
    error: RepoagentError | None = None


def open_model(session: ReviewSession) -> ModelSetup:
    """The model of `review.model`, otherwise that of edits, with its meter. Raises as `model_setup`."""
    settings = review_settings(session.settings)
    ready = model_setup(settings, session.record, session.reply, session.warn)
    if settings.origin("max_turns") == "default":  # a limit for an edit; a review has max_calls
        ready.meter.limits = replace(ready.meter.limits, turns=None)
    return ready


def review_settings(settings: Settings) -> Settings:
    """The settings with the model of reviews, unless the command line names one, and a timeout of at most
    `review.max_seconds`."""
    entries = dict(settings.entries)
    model = settings.text_or_none("review.model")
    if model is not None and not settings.origin("model").startswith("flag "):
        origin = settings.origin("review.model")
        entries["model"] = settings.setting("model")._replace(value=model, origin=origin)
    seconds = min(settings.number("timeout"), settings.number("review.max_seconds"))
    entries["timeout"] = settings.setting("timeout")._replace(value=seconds)
    return replace(settings, entries=entries)


def model_findings(change: Change, session: ReviewSession) -> ModelAnswer:
    """The findings of a model in `change`; does not ask again about parts with a cached answer.

    Without a model, network, time or money, the answer has the `error` instead of raising it, and `unseen` and `notes`
    name what is missing.
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
        notes = (f"could not ask a model: {_first_line(error)}",)
        return ModelAnswer(unseen=unseen, notes=notes, error=error)
    return _Review(change, session, ready, material, levels, why_not).run()


def prompts(change: Change, session: ReviewSession) -> list[Prompt]:
    """The prompt of the first call about each part, ignoring cached answers; nothing is sent."""
    why_not = gate(session.worktree.top, (), ignored_before(change, session.worktree))
    material = gather(change, session.worktree, why_not)
    common = _CommonParts(change, session, material, why_not, None)
    budget = max(LEAST_TOKENS, session.settings.whole("review.context_limit"))
    return [common.prompt(part) for part in pack(material.blocks, budget)]


class _CommonParts:
    """The parts that all prompts of a review share. Raises RepoagentError."""

    def __init__(
        self, change: Change, session: ReviewSession, material: Material, why_not: WhyNot, window: int | None
    ) -> None:
        self.change, self.session = change, session
        self.tools = tools_for(session, Versions(session.worktree, change), why_not, window)
        rules = tuple(levels_of(session.settings))
        self.protocol = instructions(rules, (*self.tools, FindingCollector({}, {}).tool))
        self.context, self.warnings = repository(session, tuple(material.views), why_not)
        try:
            verdicts = verdicts_on(change, session.worktree, session.layout, warn=session.warn)
        except Refused as error:
            verdicts, self.warnings = {}, (*self.warnings, f"could not read the dismissals: {error}")
        self.dismissed = [verdict for verdict in verdicts.values() if verdict.state == "dismissed"]

    def prompt(self, part: Sequence[Block]) -> Prompt:
        paths = {block.path for block in part}
        dismissed = [verdict for verdict in self.dismissed if verdict.path in paths]
        return prompt_for(
            self.change, self.session, part, protocol=self.protocol, context=self.context, dismissed=dismissed
        )


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
    error: RepoagentError | None = None

    def run(self) -> ModelAnswer:
        session, ready, material = self.session, self.ready, self.material
        meter, rules = ready.meter, tuple(self.levels)
        if meter.book is not None:
            meter.book = meter.book.about("review", str(session.worktree.top), tuple(material.views))
        calls, tokens = meter.attempts, meter.usage.total
        cache = AnswerCache(session.layout, ready.model.spec, rules, session.warn, session.afresh)
        waiting = [block for block in material.blocks if not self.use_cached(cache, block)]
        if waiting:
            forget(session.layout)
            self.ask(waiting, cache)
        notes: tuple[str, ...] = ()
        model = display_name(ready.model.spec)
        if self.error is not None:
            notes = (f"the review by {model} is incomplete: {_first_line(self.error)}",)
        return ModelAnswer(
            tuple(merge_findings(self.findings)), len(self.dropped), tuple(material.unseen),
            meter.usage.total - tokens, meter.cost, model, notes, dict(Counter(self.dropped).most_common()),
            len(material.blocks) - len(waiting), meter.attempts - calls, self.error,
        )  # fmt: skip

    def use_cached(self, cache: AnswerCache, block: Block) -> bool:
        """Whether there is a cached answer; if so, verify its claims and add the findings."""
        claims = cache.get(block)
        collector = FindingCollector(self.material.views, self.levels)
        for claim in claims or ():
            if claim.rule in self.levels and isinstance(finding := collector.check(claim), Finding):
                self.findings.append(finding)
        return claims is not None

    def ask(self, blocks: Sequence[Block], cache: AnswerCache) -> None:
        """Ask about each part until all are done or a limit is reached, and cache the answers."""
        session, ready, settings = self.session, self.ready, self.session.settings
        budget, window = settings.whole("review.context_limit"), ready.context_tokens
        if window is not None:
            budget = min(budget, (window - SPARE_TOKENS) // 2)
        parts = pack(blocks, max(LEAST_TOKENS, budget))
        max_calls = settings.whole("review.max_calls") + ready.meter.attempts
        access = ModelAccess(session, ready, Clock(settings.number("review.max_seconds")), max_calls)
        try:
            common = _CommonParts(self.change, session, self.material, self.why_not, window)
        except RepoagentError as error:
            self.error = error
            self.material.unseen.append(unreviewed(blocks))
            return
        for warning in common.warnings:
            session.warn(warning)
        failed: list[Block] = []
        in_a_row = 0
        for number, part in enumerate(parts):
            session.progress(f"reviewing {part[0].path} (part {number + 1} of {len(parts)})")
            collector = FindingCollector(self.material.views, self.levels)
            key = " ".join(block.key("")[:16] for block in part)
            try:
                review_chunk(access, common.prompt(part), common.tools, collector, key)
            except RepoagentError as error:
                self.error = self.error or error
                failed += part
                in_a_row += 1
                concerns_part = isinstance(error, ModelError) and not isinstance(error.__cause__, Retryable)
                if in_a_row == FAILURES or not concerns_part:  # the model or the connection fails
                    failed += [block for later in parts[number + 1 :] for block in later]
                    break
            else:
                in_a_row = 0
                holders = [(_holder(part, finding), claim) for claim, finding in collector.claims]
                for block in part:
                    cache.put(block, [claim for holder, claim in holders if holder is block])
            finally:
                self.findings += [finding for _, finding in collector.claims]
                self.dropped += collector.dropped
        if failed:
            self.material.unseen.append(unreviewed(failed))


def _holder(part: Sequence[Block], finding: Finding) -> Block:
    """The block under which the finding is cached: the block with its lines, otherwise the first of its file."""
    location = finding.location
    sign = "-" if location.old else "+"
    file_blocks = [block for block in part if block.path == location.path]
    for block in file_blocks:
        if any(row.number == location.start and row.sign == sign for row in block.rows):
            return block
    return (file_blocks or list(part))[0]


def _first_line(error: RepoagentError) -> str:
    """The first line of the message without the advice on models: a hook shows it on one line."""
    lines = str(error).partition(MODEL_ADVICE)[0].strip().splitlines()
    return (lines or ["unknown error"])[0].rstrip(":.")
