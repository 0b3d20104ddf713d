"""What summarizing some files would take, and having it done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm import Meter, Model, OnWait, Price, Usage, complete, estimate
from repoagent.llm.call import ignore
from repoagent.llm.naming import public, shown
from repoagent.memory.summaries.ask import WORDS, usable
from repoagent.memory.summaries.parts import File
from repoagent.memory.summaries.shelf import Shelf
from repoagent.memory.summaries.store import Summary
from repoagent.memory.summaries.walk import FileSummary, OnPart, Question, walk

_TOKENS_A_WORD = 1.5


@dataclass(frozen=True)
class Plan:
    """What is to be asked: how many calls, about how many of all parts, and about how many tokens that takes."""

    calls: int
    asked: int
    parts: int
    usage: Usage

    def cost(self, price: Price | None) -> float | None:
        """About how many US dollars it takes; None where the price is not known."""
        return None if price is None else price.of(self.usage)


def plan(
    files: Sequence[File], shelf: Shelf, *, words: int = WORDS, context_tokens: int | None = None
) -> Plan:
    """What summarizing `files` would take: it is done, with answers that say nothing and are not kept.

    `context_tokens` is what the model takes in. Raises Refused for files of the shelf that are no real ones.
    """
    questions: list[Question] = []
    usage = Usage(estimated=True)
    trial = shelf.aside()

    def ask(question: Question) -> Summary:
        nonlocal usage
        questions.append(question)
        usage += replace(estimate(question.request), output=round(question.words * _TOKENS_A_WORD))
        return Summary(f"{'wording ' * question.words}{question.key}")

    done = [walk(file, trial, words, ask, context_tokens=context_tokens) for file in files]
    parts = sum(len(one.parts) for one in done)
    return Plan(len(questions), sum(one.paid for one in done), parts, usage)


def known(file: File, shelf: Shelf, *, words: int = WORDS) -> FileSummary:
    """The summary of a file of which nothing is left to be asked (see `plan`)."""

    def nobody(question: Question) -> Summary:
        raise ModelError(f"the summary of {question.about} was taken away just now: run it again")

    return walk(file, shelf, words, nobody)


def summarize(
    file: File,
    shelf: Shelf,
    model: Model,
    meter: Meter,
    *,
    words: int = WORDS,
    context_tokens: int | None = None,
    output_tokens: int = 16_000,
    on_part: OnPart = ignore,
    on_wait: OnWait = ignore,
) -> FileSummary:
    """The summary of `file`, in about `words` words. Each answer is kept at once, so that what was paid for is not lost
    whatever ends this; nothing is kept of a call that failed, or that brought nothing usable.

    Raises ModelError, LimitReached, Refused; ^C goes through.
    """

    def ask(question: Question) -> Summary:
        request = question.request
        request = replace(request, max_output_tokens=min(output_tokens, request.max_output_tokens))
        reply = complete(model, request, meter, on_wait=on_wait)
        text = usable(reply.text, question.words)
        if not text:
            raise ModelError(
                f"{shown(model.spec)} gave no summary of {question.about} that could be used: nothing is kept of that "
                "call, try another --model"
            )
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        name = public(reply.model or model.spec)
        return Summary(text, question.about, name, now, carries=question.carries)

    return walk(file, shelf, words, ask, context_tokens=context_tokens, on_part=on_part)
