"""Prices, limits checked before the call, and the log of spending."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path

import pytest

from repoagent.errors import LimitReached, RepoagentError, UsageError
from repoagent.llm.model import Usage
from repoagent.llm.usage import (
    Limits,
    Meter,
    Price,
    SpendLog,
    cost_text,
    dollars,
    estimate_tokens,
    estimate_usage,
    read_spend_log,
    state_folder,
)
from tests.llm.helpers import ask

SONNET = "anthropic/claude-sonnet-5-5"
USAGE = Usage(100, 20, 3, 4)
PRICES = {SONNET: Price(2.0, 10.0, 0.1, 2.5), "free/one": Price()}


@pytest.mark.parametrize(("limits", "used", "most", "words"), [
    (Limits(turns=1), Usage(), 9, r"1 model call: .*--max-turns"),
    (Limits(tokens=1000), Usage(input=100, output=300, cache_read=100), 500,
     r"limit of 1,000 tokens \(500 used, about 501 to be sent\).*: raise max_tokens to"),
    (Limits(cost=0.01), Usage(input=1000, output=500), 1499, r"limit of \$0\.01 \(\$0\.0070 spent.*--max-cost"),
])  # fmt: skip
def test_limits_are_checked_before_the_call(limits: Limits, used: Usage, most: int, words: str) -> None:
    meter = Meter(limits, PRICES.get)
    meter.before_attempt(Usage(input=most), SONNET)
    meter.add(used, SONNET)
    if limits.turns is None:
        meter.before_attempt(Usage(input=most), SONNET)
    attempts = meter.attempts
    with pytest.raises(LimitReached, match=words):
        meter.before_attempt(Usage(input=most + 1 + (limits.cost is not None)), SONNET)
    assert meter.attempts == attempts


def test_a_limit_on_cost_needs_a_price() -> None:
    for limits, name in ((Limits(cost=1.0), "--max-cost"), (Limits(day=1.0), "max_cost_per_day")):
        meter = Meter(limits, PRICES.get)
        words = rf'{name} needs the price of some/other.*\[models."some/other"\].* set max_tokens'
        with pytest.raises(UsageError, match=words):
            meter.before_attempt(Usage(), "some/other")
        assert meter.attempts == 0


def test_the_cost_is_unknown_after_a_call_without_price() -> None:
    meter = Meter(price_of=PRICES.get)
    assert meter.cost == 0
    meter.add(Usage(input=1_000_000), SONNET)
    meter.add(Usage(), "some/other")  # an attempt that used nothing
    assert meter.cost == 2
    meter.add(Usage(input=1), "some/other")
    assert meter.cost is None


def test_a_day_s_limit_counts_what_other_runs_have_spent(tmp_path: Path) -> None:
    SpendLog(tmp_path).add(SONNET, USAGE, 0.9)
    meter = Meter(Limits(day=1.0), PRICES.get, SpendLog(tmp_path))
    meter.before_attempt(Usage(input=40_000), SONNET)
    meter.add(Usage(input=40_000, output=1), SONNET)
    meter.add(Usage(), SONNET)  # nothing was used: nothing to write down
    _, *own = read_spend_log(tmp_path)
    assert [(one.usage.total, one.cost) for one in own] == [(40_001, pytest.approx(0.08001))]
    with pytest.raises(LimitReached, match=r"\$1 a day \(\$0\.9800 spent today.*repoagent activity --cost"):
        meter.before_attempt(Usage(input=20_000), SONNET)
    meter.before_attempt(Usage(input=20_000), "free/one")  # free calls are not limited


def test_a_request_is_estimated_whole() -> None:
    whole = Usage(estimate_tokens("x" * 3300), estimated=True)
    assert estimate_usage(ask("x" * 3000, system="y" * 300)) == whole


def test_a_part_counts_for_the_whole_and_obeys_both_limits() -> None:
    whole = Meter(Limits(tokens=100), lambda spec: Price(1, 1))
    first, second = whole.part(Limits(turns=1)), whole.part(Limits(turns=1))
    first.before_attempt(Usage(input=10), "m")
    first.add(Usage(input=40, output=20), "m")
    with pytest.raises(LimitReached, match="1 model call"):
        first.before_attempt(Usage(input=1), "m")
    second.before_attempt(Usage(input=10), "m")
    second.add(Usage(input=10), "m")
    assert (whole.attempts, whole.usage.total) == (2, 70) and whole.cost == pytest.approx(70e-6)
    assert (first.attempts, first.usage.total, second.usage.total) == (1, 60, 10)
    with pytest.raises(LimitReached, match="100 tokens"):
        whole.part(Limits()).before_attempt(Usage(input=31), "m")


def test_what_is_lent_counts_as_used() -> None:
    whole = Meter(Limits(turns=3, tokens=100, cost=1.0), lambda spec: Price(1, 1))
    part = whole.part(Limits())
    part.lent["a"] = Limits(1, tokens=60, cost=0.25)
    assert part.left == whole.left == Limits(turns=2, tokens=40, cost=0.75)
    more = {"3 model calls": Limits(2), "70 used": Limits(tokens=10), r"\$1.0000 spent": Limits(cost=0.75)}
    for why, part.lent["b"] in more.items():
        with pytest.raises(LimitReached, match=why):
            part.before_attempt(Usage(input=31), "m")
    del part.lent["b"]
    part.before_attempt(Usage(input=31), "m")


def test_a_part_has_left_what_its_whole_has() -> None:
    whole = Meter(Limits(tokens=100, cost=1.0, day=3.0))
    whole.count(Usage(input=10), 0.25)
    part = whole.part(Limits(turns=1, tokens=95, seconds=9))
    part.started -= 10
    part.count(Usage(input=50), 0.25, 2)
    assert part.left == Limits(turns=0, tokens=40, cost=0.5, day=3.0, seconds=0)
    with pytest.raises(LimitReached, match=r"time limit of 9 s"):
        Meter(Limits(seconds=9), started=part.started).before_attempt(Usage(), "m")


def test_no_amount_is_rounded_to_nothing() -> None:
    for amount, digits, text in (
        (0.00001, 0, "$0.00001"), (2.0, 0, "$2"), (0.5, 0, "$0.5"), (0.01234, 4, "$0.0123"), (0.00001, 4, "$0.00001"),
    ):  # fmt: skip
        assert dollars(amount, digits) == text
    assert (cost_text(0.0), cost_text(0.5)) == ("free", "$0.5000")


def today() -> date:
    return datetime.now().astimezone().date()


def test_a_call_round_trips_and_counts_for_its_day(tmp_path: Path) -> None:
    about = {"run": "20261122-1", "repository": "/some/repository", "files": ("a.py", "b c.py")}
    spend_log = SpendLog(tmp_path / "spent").about(*about.values())
    spend_log.add("openai/gpt-x", USAGE, 0.25)
    (first,) = read_spend_log(tmp_path / "spent")
    sent = {"model": "openai/gpt-x", "usage": USAGE, "cost": 0.25, **about}
    assert {name: getattr(first, name) for name in sent} == sent
    assert datetime.fromisoformat(first.time).tzinfo is not None
    (tmp_path / f"spent/{today()}.jsonl").rename(tmp_path / "spent/2001-02-03.jsonl")
    spend_log.add("replay:x.jsonl", USAGE, 0.0)  # costs nothing
    spend_log.add("ollama/llama", USAGE, None)
    spend_log.add("a/b", USAGE, 2.0)
    assert [spent.cost for spent in read_spend_log(tmp_path / "spent")] == [0.25, None, 2.0]
    assert [spent.cost for spent in read_spend_log(tmp_path / "spent", today())] == [None, 2.0]
    assert spend_log.today() == 2.0


def test_lines_of_another_format_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spend_log = SpendLog(tmp_path)
    spend_log.add("a/b", USAGE, 1.0)
    file = tmp_path / f"{today()}.jsonl"
    good = json.loads(file.read_text())
    strange = [{**good, "version": 2}, {**good, "cost": "much"}, {**good, "usage": {"input": 1, "in": 2}}, {}]
    with file.open("a") as lines:
        lines.write("".join(json.dumps(record) + "\n" for record in strange) + "no json\n")
    spend_log.add("a/b", USAGE, 2.0)
    assert spend_log.today() == 3.0
    assert "1 broken line" in capsys.readouterr().err


def test_a_failed_write_stops_an_edit_only_if_a_limit_depends_on_it(tmp_path: Path) -> None:
    (tmp_path / "spent").write_text("a file where the folder should be")
    said: list[str] = []
    SpendLog(tmp_path / "spent", warn=said.append).add("a/b", USAGE, 1.0)
    assert "cannot record the cost of this call" in said[0]
    with pytest.raises(RepoagentError):
        SpendLog(tmp_path / "spent", must=True).add("a/b", USAGE, 1.0)


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    def spend(_: int) -> None:
        for _ in range(5):
            SpendLog(tmp_path).add("a/b", USAGE, 0.5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(spend, range(8)))
    assert SpendLog(tmp_path).today() == 20.0


def test_it_is_in_the_state_folder() -> None:
    usual = "/home/ada/.local/state"
    for state, folder in {"/state": "/state", "": usual, "relative": usual}.items():
        assert state_folder({"XDG_STATE_HOME": state, "HOME": "/home/ada"}) == Path(folder, "repoagent/spent")
