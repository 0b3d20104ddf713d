"""Review a change with a model: reuse cached answers, and ask about the rest part by part, within limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from repoagent.config.settings import Settings
from repoagent.edit.guards.off_limits import off_limits_gate
from repoagent.edit.model_setup import ModelSetup, model_setup
from repoagent.edit.prompt.blocks import Prompt
from repoagent.errors import Busy, ModelError, Refused, RepoagentError, UsageError
from repoagent.llm.model import Retryable, display_name
from repoagent.llm.providers.errors import MODEL_ADVICE
from repoagent.llm.registry import provider_of
from repoagent.review.change import Change
from repoagent.review.finding import RULES, Finding, Level, ReviewOutcome, level_of, reviews_dir
from repoagent.review.llm.chunks import ReviewBlock, Versions, gather_material, list_names, pack_blocks
from repoagent.review.llm.claims import Claim, merge_findings, verify_claim
from repoagent.review.llm.loop import FindingCollector, ReviewTimer, review_chunk, tools_for
from repoagent.review.llm.prompt import Prompts, review_instructions
from repoagent.review.review import ReviewSession
from repoagent.review.untrusted_change import ignored_before
from repoagent.storage import json_files
from repoagent.storage.layout import ensure_root

SPARE_TOKENS = 8_000  # of a small window, for the rest of the prompt and the reply
LEAST_TOKENS = 1_000  # of the change in one call
FAILURES = 2  # in a row, after which the review ends
CACHE_PROMPT = 1  # increment if a change to the prompt makes cached answers obsolete
CACHE_VERSION = 1
CACHE_DAYS = 60


def open_model(session: ReviewSession) -> ModelSetup:
    """The model for reviews and its meter, from `review_settings`. Raises what `model_setup` raises."""
    settings = review_settings(session.settings)
    ready = model_setup(settings, session.record, session.reply, session.warn)
    if settings.origin("max_turns") == "default":  # a limit for an edit; a review has max_calls
        ready.meter.limits = replace(ready.meter.limits, turns=None)
    return ready


def review_settings(settings: Settings) -> Settings:
    """The settings for a review: `review.model` is the model unless the command line names one, and the timeout is at
    most `review.max_seconds`."""
    entries = dict(settings.entries)
    model = settings.text_or_none("review.model")
    if model is not None and not settings.origin("model").startswith("flag "):
        origin = settings.origin("review.model")
        entries["model"] = settings.setting("model")._replace(value=model, origin=origin)
    seconds = min(settings.number("timeout"), settings.number("review.max_seconds"))
    entries["timeout"] = settings.setting("timeout")._replace(value=seconds)
    return replace(settings, entries=entries)


def first_prompts(change: Change, session: ReviewSession) -> list[Prompt]:
    """The prompt of the first call about each part, as if no answer were cached. Nothing is sent."""
    review = _Review(change, session)
    budget = max(LEAST_TOKENS, session.settings.whole("review.context_limit"))
    _, common = review.prompts(None)
    return [common.about(part) for part in pack_blocks(review.blocks, budget)]


def model_findings(change: Change, session: ReviewSession) -> ReviewOutcome:
    """A model's findings on `change`. Parts with a cached answer are not asked about again.

    Without a model or a network, or when the time or money runs out, the error is not raised but returned in the
    outcome, whose `unseen` and `notes` name what was not reviewed.
    """
    if not levels_of(session.settings) or not change.files:
        return ReviewOutcome()
    review = _Review(change, session)
    if not review.blocks:
        return ReviewOutcome(unseen=tuple(review.unseen))
    try:
        ready = session.ready or open_model(session)
    except (ModelError, UsageError) as error:
        review.leave_out(review.blocks)
        notes = (f"could not ask a model: {_first_line(error)}",)
        return ReviewOutcome(unseen=tuple(review.unseen), notes=notes, error=error)
    return review.run(ready)


def levels_of(settings: Settings) -> dict[str, Level]:
    """The levels of the enabled model rules."""
    rules = [rule.id for rule in RULES.values() if rule.source == "model"]
    return {rule: level for rule in rules if (level := level_of(rule, settings)) is not None}


class _Review:
    """State of one review: the blocks of the change, the findings so far, the `unseen` parts and the first `error`."""

    def __init__(self, change: Change, session: ReviewSession) -> None:
        self.change, self.session = change, session
        self.levels = levels_of(session.settings)
        self.why_not = off_limits_gate(session.worktree.top, (), ignored_before(change, session.worktree))
        self.blocks, self.views, self.unseen = gather_material(change, session.worktree, self.why_not)
        self.findings: list[Finding] = []
        self.dropped: list[str] = []
        self.error: RepoagentError | None = None

    def leave_out(self, blocks: Sequence[ReviewBlock]) -> None:
        """Record as unseen the blocks that were skipped for lack of time, money or a model."""
        names = list_names([block.name for block in blocks])
        self.unseen.append(f"{names} (the model's review is incomplete)")

    def prompts(self, window: int | None) -> tuple[Sequence[Any], Prompts]:
        """The model's tools, and the content that all prompts share."""
        versions = Versions(self.session.worktree, self.change)
        lookups = tools_for(self.session, versions, self.why_not, window)
        protocol = review_instructions(tuple(self.levels), (*lookups, FindingCollector({}, {}).tool))
        return lookups, Prompts(self.change, self.session, protocol, tuple(self.views), self.why_not)

    def run(self, ready: ModelSetup) -> ReviewOutcome:
        session, meter = self.session, ready.meter
        if meter.book is not None:
            meter.book = meter.book.about("review", str(session.worktree.top), tuple(self.views))
        tokens = meter.usage.total
        cache = AnswerCache(session, ready.model.spec, tuple(self.levels))
        waiting = []
        for block in self.blocks:
            claims = cache.get(block)
            if claims is None:
                waiting.append(block)
            known = [claim for claim in claims or () if claim.rule in self.levels]
            verified = [verify_claim(claim, self.views, self.levels[claim.rule]) for claim in known]
            self.findings += [finding for finding in verified if isinstance(finding, Finding)]
        if waiting:
            cache.forget()
            self.ask(waiting, cache, ready)
        notes: tuple[str, ...] = ()
        model = display_name(ready.model.spec)
        if self.error is not None:
            notes = (f"the review by {model} is incomplete: {_first_line(self.error)}",)
        return ReviewOutcome(
            tuple(merge_findings(self.findings)), notes, tuple(self.unseen), dropped=tuple(self.dropped),
            model=model, tokens=meter.usage.total - tokens, cost=meter.cost, error=self.error,
        )  # fmt: skip

    def ask(self, blocks: Sequence[ReviewBlock], cache: AnswerCache, ready: ModelSetup) -> None:
        """Ask about each part until all are done or a limit is reached, and cache the answers."""
        session, settings = self.session, self.session.settings
        budget, window = settings.whole("review.context_limit"), ready.context_tokens
        if window is not None:
            budget = min(budget, (window - SPARE_TOKENS) // 2)
        parts = pack_blocks(blocks, max(LEAST_TOKENS, budget))
        max_calls = settings.whole("review.max_calls") + ready.meter.attempts
        clock = ReviewTimer(settings.number("review.max_seconds"))
        try:
            lookups, common = self.prompts(window)
        except RepoagentError as error:
            self.error = error
            self.leave_out(blocks)
            return
        for warning in common.warnings:
            session.warn(warning)
        failed: list[ReviewBlock] = []
        in_a_row = 0
        for number, part in enumerate(parts):
            session.progress(f"reviewing {part[0].path} (part {number + 1} of {len(parts)})")
            collector = FindingCollector(self.views, self.levels)
            key = " ".join(block.key("")[:16] for block in part)
            try:
                prompt = common.about(part)
                review_chunk(
                    session, ready, prompt, lookups, collector, clock=clock, max_calls=max_calls, key=key
                )
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
            self.leave_out(failed)


def _holder(part: Sequence[ReviewBlock], finding: Finding) -> ReviewBlock:
    """The block under which the finding is cached: that with its lines, otherwise the first of its file."""
    _, start, _, old = finding.location
    changed = ("-" if old else "+", start)
    own = [block for block in part if block.path == finding.location.path]
    with_lines = (block for block in own if any((row.sign, row.number) == changed for row in block.rows))
    return next(with_lines, (own or list(part))[0])


def _first_line(error: RepoagentError) -> str:
    """The first line of the message without the advice on models: a hook shows it on one line."""
    lines = str(error).partition(MODEL_ADVICE)[0].strip().splitlines()
    return (lines or ["unknown error"])[0].rstrip(":.")


class AnswerCache:
    """The cached answers of one model under one set of rules: a file for each block, named by a hash of the question.
    Answers from a cassette (`replay:`) are not cached."""

    def __init__(self, session: ReviewSession, spec: str, rules: Sequence[str]) -> None:
        self.session, self.spec = session, spec
        self.folder = reviews_dir(session.layout) / "answers"
        self.question = f"{CACHE_PROMPT} {spec} {' '.join(rules)}"
        self.disabled = provider_of(spec).answered_by == "recording"

    def _path(self, block: ReviewBlock) -> Path:
        key = block.key(self.question)
        return self.folder / key[:2] / f"{key[2:34]}.json"

    def get(self, block: ReviewBlock) -> list[Claim] | None:
        """The claims about this block with its current line numbers; None if no answer is cached."""
        if self.session.afresh or self.disabled:
            return None
        claims = []
        try:
            value = json_files.read_document(self._path(block), version=CACHE_VERSION, warn=self.session.warn)
            if value is None:
                return None
            for item in value["claims"]:
                old = bool(item["old"])
                first, last = (
                    (block.first(old=old) + int(n) for n in item["lines"]) if item["lines"] else (0, 0)
                )
                rule, title, why = (str(item[name]) for name in ("rule", "title", "why"))
                level = None if item["level"] is None else Level[str(item["level"]).upper()]
                replace = None if item["replace"] is None else tuple(map(str, item["replace"]))
                quote = tuple(map(str, item["quote"]))
                claims.append(Claim(rule, block.path, first, last, title, quote, why, old, level, replace))
        except (Refused, KeyError, TypeError, ValueError):  # a newer format, not a regular file, or edited
            return None
        return claims

    def put(self, block: ReviewBlock, claims: Sequence[Claim]) -> None:
        """Save the verified claims about this block; only warns if that fails."""
        if self.disabled:
            return
        saved = []
        for claim in claims:
            data = {
                name: getattr(claim, name) for name in ("rule", "old", "title", "quote", "why", "replace")
            }
            first = block.first(old=claim.old)
            data["lines"] = [claim.first - first, claim.last - first] if claim.first else None
            data["level"] = claim.level.word if claim.level is not None else None
            saved.append(data)
        value = {"path": block.path, "model": self.spec, "claims": saved}
        try:
            ensure_root(self.session.layout)
            json_files.write_document(self._path(block), value, version=CACHE_VERSION)
        except (Refused, Busy) as error:
            self.session.warn(f"could not cache the model's answer: {error}")

    def forget(self) -> None:
        """Remove the answers that are older than CACHE_DAYS."""
        oldest = time.time() - CACHE_DAYS * 86_400
        for path in self.folder.glob("??/*.json"):
            with suppress(OSError):  # another process removed it, or the folder is read-only
                if path.stat().st_mtime < oldest:
                    path.unlink()
