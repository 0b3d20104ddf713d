"""Ask a model about the commits that have no summary yet: in batches, each kept as soon as it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timezone
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.history.steps import Step
from repoagent.history.summaries.ask import LINE_TOKENS, Question, answers, question, request
from repoagent.history.summaries.known import Known
from repoagent.history.summaries.patches import Patch, bodies, patches
from repoagent.history.summaries.store import Summary, write_summary
from repoagent.llm import Meter, Model, OnWait, Price, Usage, complete, estimate
from repoagent.llm.call import ignore
from repoagent.llm.naming import public
from repoagent.store import Layout, ensure

COMMITS = 10  # of one call
BYTES = 48_000  # of one call
LEAST = 4_000
OUTPUT_TOKENS = 16_000
Shown = Callable[[str], object]


@dataclass(frozen=True)
class Plan:
    """What is to be asked, a tuple for each call, and about how many tokens that is."""

    batches: tuple[tuple[Question, ...], ...]
    usage: Usage
    output_tokens: int = OUTPUT_TOKENS

    @property
    def commits(self) -> int:
        """How many commits are asked about."""
        return sum(map(len, self.batches))

    def cost(self, price: Price | None) -> float | None:
        """About how many US dollars it takes; None where the price is not known."""
        return None if price is None else price.of(self.usage)


@dataclass
class Outcome:
    """What came of a plan: the new summaries, and the commits whose lines were missing or garbled."""

    summaries: dict[str, Summary] = field(default_factory=dict)
    garbled: list[str] = field(default_factory=list)


def plan(
    top: Path,
    steps: Sequence[Step],
    known: Known,
    *,
    why_not: Callable[[str], str | None],
    context_tokens: int | None = None,
    output_tokens: int = OUTPUT_TOKENS,
) -> Plan:
    """The questions about those of `steps` that have no summary. `why_not` says why a path may not be sent;
    `context_tokens` is what the model takes in. Raises GitError."""
    missing = [step for step in steps if step.commit.commit not in known.summaries]
    ids = [step.commit.commit for step in missing]
    changes: dict[str, Patch] = dict(known.patches)
    for commit in [step.commit for step in missing if step.commit.commit not in changes]:  # a bulk commit
        allowed = commit.path == "." or not why_not(commit.path)
        if allowed and commit.path != ".":
            changes |= patches(top, [commit.commit], [commit.path])
    messages = bodies(top, ids)
    room = min(BYTES, max(LEAST, (context_tokens or BYTES) * 3 // 2))
    questions = [
        _question(step, messages, changes.get(step.commit.commit), known, why_not) for step in missing
    ]
    batches = _batches(questions, room)
    calls = [estimate(request(batch, output_tokens)) for batch in batches]
    written = LINE_TOKENS * sum(one.lines for one in questions)
    usage = Usage(sum(call.input for call in calls), written, estimated=True)
    return Plan(batches, usage, output_tokens)


def summarize(
    todo: Plan,
    model: Model,
    meter: Meter,
    place: Layout,
    *,
    outcome: Outcome,
    on_batch: Callable[[int, int], None] = ignore,
    on_wait: OnWait = ignore,
) -> None:
    """Ask, and keep each answer at once: `outcome` grows, and holds what was paid for whatever ends this. Nothing is
    kept of a call that failed. `on_batch` gets the commits done and all of them.

    Raises ModelError, LimitReached, Refused; ^C goes through.
    """
    done = 0
    ensure(place)
    for batch in todo.batches:
        on_batch(done, todo.commits)
        reply = complete(model, request(batch, todo.output_tokens), meter, on_wait=on_wait)
        found = answers(reply.text, batch)
        name, now = (
            public(reply.model or model.spec),
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
        for one in batch:
            answer = found.get(one.commit)
            if answer is None:
                outcome.garbled.append(one.commit)
                continue
            summary = Summary(one.commit, answer.line, answer.files, one.patch, name, now)
            write_summary(place.summaries, summary)
            outcome.summaries[one.commit] = summary
        done += len(batch)


def _question(
    step: Step,
    messages: Mapping[str, str],
    patch: Patch | None,
    known: Known,
    why_not: Callable[[str], str | None],
) -> Question:
    commit = step.commit
    paths = [path for path, _ in patch.files] if patch is not None else [commit.path]
    shown = [path for path in dict.fromkeys([commit.path, *paths]) if path in paths and not why_not(path)]
    patch_id = known.ids.get(commit.commit, "")
    return question(step, messages.get(commit.commit, ""), patch, shown, patch_id=patch_id)


def _batches(questions: Sequence[Question], room: int) -> tuple[tuple[Question, ...], ...]:
    batches: list[list[Question]] = []
    left = 0
    for one in questions:
        size = len(one.text.encode("utf-8", "replace")) + 200
        if not batches or len(batches[-1]) == COMMITS or size > left:
            batches.append([])
            left = room
        batches[-1].append(one)
        left -= size
    return tuple(map(tuple, batches))
