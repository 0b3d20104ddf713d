"""Prices, and limits that hold before the call."""

from __future__ import annotations

import pytest

from repoagent.errors import LimitReached, UsageError
from repoagent.llm import Limits, Meter, Price, Usage, estimate, estimate_tokens, price
from repoagent.llm.usage import _price_list
from tests.llm.ask import ask

SONNET = "anthropic/claude-sonnet-5-5"


def test_the_price_list_is_whole() -> None:
    names = _price_list()
    for model in ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2"):
        assert f"anthropic/{model}" in names
    for name in names:
        found = price(name)
        assert found
        assert 0 < found.cache_read < found.input < found.cache_write < found.output, name


def test_a_call_is_priced() -> None:
    sonnet = price(SONNET)
    assert sonnet
    assert sonnet.of(Usage(1_000_000, 100_000, 2_000_000, 400_000)) == pytest.approx(2 + 1 + 0.2 + 1)
    assert price(SONNET + "-20260901") == sonnet


def test_a_long_prompt_of_haiku_costs_more() -> None:
    haiku = price("anthropic/claude-haiku-5-5")
    assert haiku
    assert haiku.of(Usage(100_000, 1000)) == pytest.approx(0.01 + 0.0005)
    assert haiku.of(Usage(1, 1000, cache_read=100_000)) == pytest.approx(0.005 + 0.0025, rel=1e-3)


def test_nobody_knows_the_price() -> None:
    assert price("command:llm") is None
    assert price("manual") == price("replay:x.jsonl") == Price()
    with pytest.raises(UsageError, match=r"\[prices\]"):
        Meter(Limits(cost=1.0), None)
    assert Meter().cost is None


def test_the_users_own_price_comes_first() -> None:
    own = {SONNET: {"input": 1, "output": 2.5}, "command:llm": {"input": 3, "output": 4}}
    assert price(SONNET, own) == Price(1, 2.5)
    assert price("command:llm", own) == Price(3, 4)
    for wrong in (
        {"input": 1},
        {"input": "cheap", "output": 1},
        {"input": -9, "output": 1},
        {"in": 1, "output": 1},
    ):
        with pytest.raises(UsageError, match=SONNET):
            price(SONNET, {SONNET: wrong})


def test_turns() -> None:
    meter = Meter(Limits(turns=2))
    meter.before_attempt(Usage())
    meter.before_attempt(Usage())
    with pytest.raises(LimitReached, match=r"2 model call\(s\).*--max-turns"):
        meter.before_attempt(Usage())
    assert meter.attempts == 2


def test_tokens_are_checked_before_the_call() -> None:
    meter = Meter(Limits(tokens=1000))
    meter.before_attempt(Usage(input=1000))
    meter.add(Usage(input=100, output=300, cache_read=100))
    meter.before_attempt(Usage(input=500))
    with pytest.raises(
        LimitReached, match=r"limit of 1,000 tokens \(500 used, about 501 to be sent\).*--max-tokens"
    ):
        meter.before_attempt(Usage(input=501))


def test_cost_is_checked_before_the_call() -> None:
    meter = Meter(Limits(cost=0.01), price(SONNET))
    meter.before_attempt(Usage(input=5000))
    meter.add(Usage(input=1000, output=500))
    assert meter.cost == pytest.approx(0.007)
    meter.before_attempt(Usage(input=1400))
    with pytest.raises(LimitReached, match=r"limit of \$0\.01 \(\$0\.0070 spent.*--max-cost"):
        meter.before_attempt(Usage(input=1600))


@pytest.mark.parametrize(
    ("text", "at_least", "at_most"),
    [("", 0, 0), ("a", 1, 1), ("word " * 400, 400, 800), ("字" * 100, 80, 200), ("\udcff", 1, 1)],
)
def test_token_estimates(text: str, at_least: int, at_most: int) -> None:
    assert at_least <= estimate_tokens(text) <= at_most


def test_a_request_is_estimated_whole() -> None:
    usage = estimate(ask("x" * 3000, system="y" * 300))
    assert usage.estimated
    assert usage.input == estimate_tokens("x" * 3300)
