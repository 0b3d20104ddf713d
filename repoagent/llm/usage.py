"""What a run has used and what it may use: tokens, attempts, money. Asked before every call, never after."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repoagent.errors import LimitReached, UsageError
from repoagent.llm.model import Request, Usage

# Four bytes a token is the usual rule; current Claude tokenizers make about a third more tokens, and more of
# code than of prose. A limit that is checked before the call must not be told too little.
_BYTES_PER_TOKEN = 3


def estimate_tokens(text: str) -> int:
    """How many tokens `text` is, roughly and rather too many than too few; for limits, not for bills."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def estimate(request: Request) -> Usage:
    """The input of one call, estimated."""
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    return Usage(input=sum(estimate_tokens(part.text) for part in parts), estimated=True)


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens; `long` instead, for prompts of more than `long_above` tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    long_above: int = 0
    long: Price | None = None

    def of(self, usage: Usage) -> float:
        """What one attempt cost, in dollars."""
        if self.long and usage.input + usage.cache_read + usage.cache_write > self.long_above:
            return self.long.of(usage)
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
        ) / 1_000_000


def price(spec: str, own: Mapping[str, Mapping[str, Any]] | None = None) -> Price | None:
    """What the model `spec` costs, or None when nobody knows.

    `own` is the `prices` table of the user's configuration and comes first. Raises UsageError when a price
    there is no price.
    """
    if spec == "manual" or spec.startswith("replay:"):
        return Price()
    undated = re.sub(r"-\d{8}$", "", spec)
    for table in (own or {}, _price_list()):
        for name in (spec, undated):
            if name in table:
                return _price(name, table[name])
    return None


def _price(name: str, row: Mapping[str, Any]) -> Price:
    fields: dict[str, Any] = dict(row)
    try:
        if "long" in fields:
            fields["long"] = _price(name, fields["long"])
        made = Price(**fields)
        if {"input", "output"} <= fields.keys() and made.of(Usage(1, 1, 1, 1)) >= 0:
            return made
    except TypeError:
        pass  # an unknown name or no number: said below
    raise UsageError(
        f"the price of {name} is not usable: give the numbers input, output, cache_read and cache_write, "
        "in dollars per million tokens"
    )


def _price_list() -> Mapping[str, Mapping[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    text = Path(__file__).with_name("prices.toml").read_text("utf-8")
    models: Mapping[str, Mapping[str, Any]] = tomllib.loads(text)["models"]
    return models


@dataclass(frozen=True)
class Limits:
    """The most that a run may use; None is no limit. `cost` is in US dollars, `turns` are attempts."""

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass
class Meter:
    """Counts every attempt of a run, failed ones too.

    Raises UsageError at once when a limit on cost is set and no price is known: it could not be kept.
    """

    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    _dollars: float = 0.0

    def __post_init__(self) -> None:
        if self.limits.cost is not None and self.price is None:
            raise UsageError(
                "--max-cost can't be kept, because the price of this model is not known: "
                "add it to the [prices] of your configuration, or limit --max-tokens instead"
            )

    @property
    def cost(self) -> float | None:
        """US dollars so far, or None when no price is known."""
        return None if self.price is None else self._dollars

    def before_attempt(self, estimate: Usage) -> None:
        """Count one attempt whose input will be about `estimate`.

        Raises LimitReached, and counts nothing, when it would pass a limit. What the model then writes is
        not known beforehand, so the last call of a run may pass the limits on tokens and cost by one reply.
        """
        limits = self.limits
        if limits.turns is not None and self.attempts >= limits.turns:
            raise LimitReached(
                f"the limit of {limits.turns} model call(s) is reached: raise --max-turns to go on"
            )
        tokens = self.usage.total + estimate.total
        if limits.tokens is not None and tokens > limits.tokens:
            raise LimitReached(
                f"the next call would pass the limit of {limits.tokens:,} tokens ({self.usage.total:,} used, "
                f"about {estimate.total:,} to be sent): raise --max-tokens to go on"
            )
        if limits.cost is not None and self.price is not None:
            next_cost = self.price.of(estimate)
            if self._dollars + next_cost > limits.cost:
                raise LimitReached(
                    f"the next call would pass the limit of ${limits.cost:g} (${self._dollars:.4f} spent, "
                    f"about ${next_cost:.4f} to send the next prompt): raise --max-cost to go on"
                )
        self.attempts += 1

    def add(self, usage: Usage) -> None:
        """Count what an attempt has used."""
        self.usage += usage
        if self.price is not None:
            self._dollars += self.price.of(usage)
