"""Who is overloaded is replaced by the next."""

from __future__ import annotations

import pytest

from repoagent.errors import ModelError
from repoagent.llm.client import Fallback, complete
from repoagent.llm.model import Reply, Retryable, Usage
from repoagent.llm.usage import Meter, Price
from tests.llm.ask import Scripted, ask

BUSY = Retryable("the server is overloaded", usage=Usage(10, 1))
PRICES = {"a/one": Price(1e6, 0), "b/two": Price(1e3, 0)}


def reply(text: str = "done") -> Reply:
    return Reply(text, "end", Usage(100, 0))


def run(model: Fallback, meter: Meter | None = None) -> tuple[Reply, list[tuple[float, str]]]:
    waits: list[tuple[float, str]] = []
    done = complete(
        model,
        ask(),
        meter or Meter(),
        on_wait=lambda seconds, why: waits.append((seconds, why)),
        sleep=lambda seconds: None,
    )
    return done, waits


def test_the_next_is_asked_after_two_failures_and_stays() -> None:
    first, second = Scripted([BUSY, BUSY], spec="a/one"), Scripted([reply(), reply()], spec="b/two")
    model = Fallback([first, second])
    meter = Meter(price_of=PRICES.get)
    done, waits = run(model, meter)
    assert done.text == "done"
    assert waits[1] == (0.0, "the server is overloaded: continuing with b/two")
    assert (model.spec, meter.attempts, len(first.seen), len(second.seen)) == ("b/two", 3, 2, 1)
    assert meter.cost == pytest.approx(20 + 0.1)  # each attempt at the price of the model it was made at
    run(model)
    assert (len(first.seen), len(second.seen)) == (2, 2)


def test_one_failure_keeps_the_model() -> None:
    first = Scripted([BUSY, reply(), BUSY, reply()], spec="a/one")
    model = Fallback([first, Scripted([], spec="b/two")])
    run(model)
    run(model)
    assert model.spec == "a/one"


def test_a_long_wait_uses_the_fallback() -> None:
    first = Scripted([Retryable("the rate limit is reached", retry_after=90.0)], spec="a/one")
    model = Fallback([first, Scripted([reply()], spec="b/two")])
    _, waits = run(model)
    assert [seconds for seconds, _ in waits] == [0.0]


def test_the_last_one_fails_as_any_model_does() -> None:
    model = Fallback([Scripted([BUSY] * 2, spec="a/one"), Scripted([BUSY] * 3, spec="b/two")])
    with pytest.raises(ModelError, match="tried 5 times"):
        run(model)


def test_what_will_not_pass_is_not_hidden_by_another_model() -> None:
    model = Fallback([Scripted([ModelError("the key is wrong")], spec="a/one"), Scripted([], spec="b/two")])
    with pytest.raises(ModelError, match="the key is wrong"):
        run(model)


def test_tools_are_offered_where_all_take_them() -> None:
    """Which of them answers is not known when they are offered."""
    one, two, tagged = (
        Scripted([], spec=f"a/{name}", takes=frozenset(takes))
        for name, takes in [("one", {"tools", "stop"}), ("two", {"tools"}), ("three", {"stop"})]
    )
    assert "tools" in Fallback([one, two]).takes
    assert Fallback([one, two, tagged]).takes == {"stop"}
