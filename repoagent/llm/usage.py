"""Tokens, attempts and money: estimates, prices, the limits of a run, and the log of all spending.

The log belongs to the user, not to one repository: a daily limit applies across all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.errors import LimitReached, RepoagentError, UsageError
from repoagent.llm.model import Request, Usage, display_name
from repoagent.llm.registry import provider_of
from repoagent.storage import json_files
from repoagent.storage.layout import Warn, to_stderr

# The usual rule is four bytes per token; current Claude tokenizers produce about a third more tokens, and more for code
# than for prose. A limit that is checked before the call needs an upper bound.
_BYTES_PER_TOKEN = 3


def estimate_tokens(text: str) -> int:
    """The estimated number of tokens of `text`, on the high side; for limits, not for costs."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def estimate_usage(request: Request) -> Usage:
    """The estimated usage of one call before its reply: the input tokens only."""
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    unseen = [message.blocks.unseen for message in request.messages if message.blocks]
    tools = [f"{tool.name}{tool.description}{tool.parameters}" for tool in request.tools]
    texts = [*(part.text for part in parts), *unseen, *tools]
    attached = sum(media.tokens for media in request.media)
    return Usage(input=sum(map(estimate_tokens, texts)) + attached, estimated=True)


@dataclass(frozen=True)
class Price:
    """Prices in US dollars per million tokens; `long` applies to prompts of more than `long_above` tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    long_above: int = 0
    long: Price | None = None

    def of(self, usage: Usage) -> float:
        """The cost of one attempt in dollars."""
        if self.long and usage.input + usage.cache_read + usage.cache_write > self.long_above:
            return self.long.of(usage)
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
        ) / 1_000_000


@dataclass(frozen=True)
class Limits:
    """The limits of a run; None means no limit.

    turns: the number of attempts.
    tokens: the number of tokens.
    cost: the cost of the run in US dollars.
    day: the cost of all runs in a day, in US dollars.
    seconds: the time since the meter was created.
    """

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    day: float | None = None
    seconds: float | None = None

    def within(self, other: Limits) -> Limits:
        """For each limit, the lower of the two values, at least 0."""
        lower: dict[str, Any] = {}
        for name, limit in vars(self).items():
            limits = (limit, getattr(other, name))
            lower[name] = min((max(limit, limit * 0) for limit in limits if limit is not None), default=None)
        return Limits(**lower)


@dataclass
class Meter:
    """Counts every attempt of a run, including failed ones, and its cost.

    The attempts of a `part` are also counted and limited here. The limits `lent` to a process count as used until they
    are removed and the actual usage is counted.
    """

    limits: Limits = field(default_factory=Limits)
    price_of: Callable[[str], Price | None] = lambda spec: None
    book: SpendLog | None = None
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    started: float = field(default_factory=time.monotonic)
    whole: Meter | None = None
    lent: dict[str, Limits] = field(default_factory=dict)
    _dollars: float = 0.0
    _unpriced: bool = False

    @property
    def cost(self) -> float | None:
        """The cost in US dollars so far; None if a model without a known price was called."""
        return None if self._unpriced else self._dollars

    @property
    def left(self) -> Limits:
        """What remains of these limits and those of `whole`, each at least 0. `day` is not reduced by what has been
        spent."""
        used = self._used()
        left = {
            name: None if limit is None else limit - used[name] for name, limit in vars(self.limits).items()
        }
        return Limits(**left).within(self.whole.left if self.whole is not None else Limits())

    def part(self, limits: Limits) -> Meter:
        """A meter for a part of the run, such as a turn of a chat, with separate limits."""
        return Meter(limits, self.price_of, self.book, whole=self, lent=self.lent)

    def _used(self) -> dict[str, float]:
        """What counts against each limit; `day` is 0."""
        used = {"turns": self.attempts, "tokens": self.usage.total, "cost": self._dollars}
        for name, number in used.items():
            used[name] = number + sum(getattr(limits, name) or 0 for limits in self.lent.values())
        return {**used, "day": 0.0, "seconds": time.monotonic() - self.started}

    def before_attempt(self, estimate: Usage, spec: str) -> None:
        """Count one attempt with the model `spec` and an input of about `estimate`.

        Raises LimitReached, without counting the attempt, if it would exceed a limit; UsageError if the cost is limited
        and the model's price is unknown. The last call of a run may exceed the limits on tokens and cost by one reply.
        """
        limits, used = self.limits, self._used()
        if limits.turns is not None and used["turns"] >= limits.turns:
            raise LimitReached(
                f"reached the limit of {plural(limits.turns, 'model call')}: raise --max-turns to continue"
            )
        if limits.seconds is not None and used["seconds"] >= limits.seconds:
            raise LimitReached(
                f"reached the time limit of {limits.seconds:g} s: raise --max-time to continue"
            )
        if limits.tokens is not None and used["tokens"] + estimate.total > limits.tokens:
            raise LimitReached(
                f"the next call would exceed the limit of {limits.tokens:,} tokens ({used['tokens']:,} "
                f"used, about {estimate.total:,} to be sent): raise max_tokens to continue"
            )
        if limits.cost is not None or limits.day is not None:
            self._refuse_too_dear(estimate, spec, used["cost"])
        if self.whole is not None:
            self.whole.before_attempt(estimate, spec)
        self.attempts += 1

    def add(self, usage: Usage, spec: str) -> None:
        """Count the usage of an attempt with the model `spec`."""
        price = self.price_of(spec)
        cost = usage.dollars if usage.dollars is not None else price.of(usage) if price is not None else None
        self.count(usage, cost)
        if self.book is not None and usage.total:
            self.book.add(spec, usage, cost)

    def count(self, usage: Usage, cost: float | None, attempts: int = 0) -> None:
        """Count usage that is already in the log. `attempts` is the number of attempts by another process."""
        self.usage += usage
        self.attempts += attempts
        self._dollars += cost or 0.0
        self._unpriced |= cost is None and usage.total > 0
        if self.whole is not None:
            self.whole.count(usage, cost, attempts)

    def _refuse_too_dear(self, estimate: Usage, spec: str, spent: float) -> None:
        refuse_unpriced(self.limits, [spec], self.price_of)
        price = self.price_of(spec)
        next_cost = price.of(estimate) if price is not None else 0.0
        if self.limits.cost is not None and spent + next_cost > self.limits.cost:
            raise LimitReached(
                f"the next call would exceed the limit of {dollars(self.limits.cost, 0)} "
                f"({dollars(spent)} spent, about {dollars(next_cost)} to send the next prompt): "
                "raise --max-cost to continue"
            )
        if self.limits.day is None or next_cost == 0:
            return
        today = self.book.today() if self.book is not None else self._dollars
        if today + next_cost > self.limits.day:
            raise LimitReached(
                f"the next call would exceed the limit of {dollars(self.limits.day, 0)} a day "
                f"({dollars(today)} spent today, about {dollars(next_cost)} to send the next prompt): see "
                "`repoagent activity --cost`, or raise max_cost_per_day"
            )


def dollars(amount: float, digits: int = 4) -> str:
    """US dollars with at least `digits` decimals, and more for a small amount: $0.00001."""
    small = f"{amount:.8f}".rstrip("0").rpartition(".")[2]
    if digits == 0 or 0 < amount < 10**-digits:
        digits = max(digits, len(small))
    return f"${amount:,.{digits}f}"


def cost_text(cost: float) -> str:
    """The cost of model calls as text: in dollars, or "free" if it is 0 (a local model)."""
    return dollars(cost) if cost else "free"


def refuse_unpriced(limits: Limits, specs: Iterable[str], price_of: Callable[[str], Price | None]) -> None:
    """Raise UsageError if there is a limit on cost and the price of a model is unknown."""
    if limits.cost is None and limits.day is None:
        return
    for spec in specs:
        if price_of(spec) is None:
            name = "--max-cost" if limits.cost is not None else "max_cost_per_day"
            raise UsageError(
                f"{name} needs the price of {spec}, which is unknown: set `input` and `output` "
                f'under [models."{spec}"] in your configuration, or set max_tokens instead'
            )


VERSION = 1


@dataclass(frozen=True)
class SpendEntry:
    """One attempt. `time` is ISO 8601 with a time zone; `cost` is in US dollars, None if the price is unknown."""

    time: str
    model: str
    run: str
    repository: str
    files: tuple[str, ...]
    usage: Usage
    cost: float | None


@dataclass(frozen=True)
class SpendLog:
    """The log of spending in `folder`, with one file per day and one line per attempt.

    `must`: a failure to write the log is an error, not a warning, because a limit depends on the log.
    """

    folder: Path
    run: str = ""
    repository: str = ""
    files: tuple[str, ...] = ()
    must: bool = False
    warn: Warn = to_stderr

    def about(self, run: str, repository: str, files: tuple[str, ...]) -> SpendLog:
        """The same log, for the attempts of another `run`."""
        return replace(self, run=run, repository=repository, files=files)

    def add(self, spec: str, usage: Usage, cost: float | None) -> None:
        """Log one attempt. If that fails, warns or, with `must`, raises Refused, Busy or OSError."""
        if provider_of(spec).answered_by == "recording":
            return
        now = datetime.now().astimezone()
        time, model = now.isoformat(timespec="seconds"), display_name(spec)
        entry = SpendEntry(time, model, self.run, self.repository, self.files, usage, cost)
        record = {"version": VERSION, **asdict(entry)}
        try:
            json_files.append_record(self.folder / f"{now.date()}.jsonl", record)
        except (RepoagentError, OSError) as error:
            if self.must:
                raise
            self.warn(f"cannot record the cost of this call: {error}")

    def today(self) -> float:
        """US dollars spent today by all runs, excluding attempts whose price is unknown."""
        path = self.folder / f"{datetime.now().astimezone().date()}.jsonl"
        return sum(entry.cost or 0.0 for entry in _entries(path))


def state_folder(env: Mapping[str, str] | None = None) -> Path:
    """The folder with the user's log: `$XDG_STATE_HOME/repoagent/spent`."""
    env = os.environ if env is None else env
    home = Path(env.get("XDG_STATE_HOME", ""))
    base = home if home.is_absolute() else Path(env.get("HOME") or Path.home(), ".local", "state")
    return base / "repoagent" / "spent"


def read_spend_log(folder: Path, since: date | None = None) -> Iterator[SpendEntry]:
    """The entries since the day `since` (None: all), oldest first."""
    first = f"{since}.jsonl" if since else ""
    for path in sorted(folder.glob("????-??-??.jsonl")):
        if path.name >= first:
            yield from _entries(path)


def _entries(path: Path) -> Iterator[SpendEntry]:
    """The entries of a file, except damaged ones and those of a newer format."""
    for record in json_files.read_records(path):
        with suppress(KeyError, TypeError):
            if record["version"] <= VERSION:
                yield json_files.decode(SpendEntry, record)
