"""Retries, continuation, limits and fallback models of `complete`."""

from __future__ import annotations

import pytest

from repoagent.errors import LimitReached, ModelError
from repoagent.llm.complete import ATTEMPTS, Fallback, complete
from repoagent.llm.model import Model, OnText, Reply, Request, Retryable, Usage
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.usage import Limits, Meter, Price, estimate_usage
from tests.llm.conftest import Start
from tests.llm.helpers import Scripted, ask
from tests.llm.providers.messages_server import cut, status, text


class Listener:
    """Records the events for a terminal, and does not wait."""

    def __init__(self) -> None:
        self.shown = ""
        self.waits: list[tuple[float, str]] = []
        self.slept: list[float] = []

    def run(self, model: Model, meter: Meter | None = None, jitter: float = 0.0) -> Reply:
        return complete(
            model,
            ask(),
            meter or Meter(),
            on_text=self.hear,
            on_void=self.void,
            on_wait=lambda seconds, reason: self.waits.append((seconds, reason)),
            sleep=self.slept.append,
            jitter=lambda: jitter,
        )

    def hear(self, piece: str) -> None:
        self.shown += piece

    def void(self, piece: str) -> None:
        assert self.shown.endswith(piece)
        self.shown = self.shown.removesuffix(piece)


def test_failures_are_waited_out_and_counted() -> None:
    used = Usage(input=10, output=2, estimated=True)
    answers = [Retryable("overloaded"), Retryable("cut", usage=used), Reply("done", "end", Usage(20, 5))]
    listener, meter = Listener(), Meter(price_of=lambda spec: Price(1.0, 2.0))
    reply = listener.run(Scripted(answers), meter)
    assert (reply.text, meter.attempts) == ("done", 3)
    assert reply.usage == meter.usage == Usage(30, 7, estimated=True)
    assert meter.cost == pytest.approx((30 + 2 * 7) / 1_000_000)
    assert listener.waits == [(1.0, "overloaded"), (2.0, "cut")]
    assert listener.slept == [1.0, 2.0]


@pytest.mark.parametrize(("spec", "counted"), [("scripted/one", True), ("manual", False)])
def test_an_interrupted_attempt_is_counted(spec: str, counted: bool) -> None:
    def stop(piece: str) -> None:
        raise KeyboardInterrupt

    listener, meter = Listener(), Meter(price_of=lambda spec: Price(1.0, 2.0))
    listener.hear = stop
    with pytest.raises(KeyboardInterrupt):
        listener.run(Scripted([Reply("one two", "end")], spec=spec), meter)
    sent = estimate_usage(ask()) + Usage(output=3)
    assert meter.usage == (sent if counted else Usage())
    assert meter.cost == pytest.approx((sent.input + 2 * 3) / 1_000_000 if counted else 0)


BUSY = Retryable("the server is overloaded", usage=Usage(10, 1))


@pytest.mark.parametrize(("answers", "words", "calls", "slept"), [
    ([BUSY] * 9, r"the server is overloaded \(tried 5 times\): try again later", ATTEMPTS, [1, 2, 4, 8]),
    ([Retryable("the rate limit is reached", retry_after=3600)], "asks you to retry in 60 minutes", 1, []),
    ([ModelError("bad key")], "bad key", 1, []),
    ([Reply(f"part {n} ", "length") for n in range(9)], "still cut off after 3 continuations", 4, []),
    ([Reply("part", "length"), Reply(" ", "length"), Reply("more", "end")], "still cut off", 2, []),
    ([Reply("because\nof this", "refusal")], "declined this request: because of this. Rephrase it", 1, []),
    ([Reply("", "refusal")], r"declined this request\. Rephrase", 1, []),
    ([Reply(" \n", "end")], "sent an empty reply", 1, []),
    ([Reply("", "length")], "before it wrote anything", 1, []),
])  # fmt: skip
def test_errors_that_end_a_call(
    answers: list[Reply | Exception], words: str, calls: int, slept: list[float]
) -> None:
    listener, meter, model = Listener(), Meter(), Scripted(answers)
    with pytest.raises(ModelError, match=words) as raised:
        listener.run(model, meter)
    assert not isinstance(raised.value, Retryable)
    assert len(model.seen) == meter.attempts == calls
    assert listener.slept == slept


def test_text_of_a_broken_attempt_is_void(server_with: Start) -> None:
    server_with([status(429, retry_after=2), cut("the first try"), "the second"])
    listener, meter = Listener(), Meter()
    reply = listener.run(AnthropicModel("claude-sonnet-5-5"), meter, jitter=1.0)
    assert listener.shown == reply.text == "the second"
    assert listener.slept == [2.0, 3.0]
    assert (meter.attempts, meter.usage.input) == (3, 200)


def test_a_cut_reply_is_continued(server_with: Start) -> None:
    server = server_with([text(said, stop="max_tokens") for said in ("one two ", "three ")] + ["four"])
    reply = complete(AnthropicModel("claude-sonnet-5-5"), ask("count"), Meter())
    assert (reply.text, reply.stop) == ("one two three four", "end")
    assert reply.usage.input == 300
    # a last message of the assistant is rejected
    roles = [[role for role, _ in received.turns] for received in server.requests]
    assert roles == [["user"], *[["user", "assistant", "user"]] * 2]
    assert server.requests[2].turns[1][1] == "one two three "


def test_limits_hold_for_retries_and_continuations() -> None:
    for turns, kind, words, slept in (
        (2, LimitReached, "--max-turns", [1]),
        (1, ModelError, "overloaded; reached the limit of 1 model call", []),  # no wait for a forbidden retry
    ):
        model, listener = Scripted([BUSY, Reply("part", "length"), Reply("rest", "end")]), Listener()
        with pytest.raises(kind, match=words):
            listener.run(model, Meter(Limits(turns=turns)))
        assert (len(model.seen), listener.slept) == (turns, slept)


def test_an_endless_reply_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Scripted):
        def complete(self, request: Request, on_text: OnText) -> Reply:
            for _ in range(100):
                on_text("x" * 100)
            return Reply("x" * 300, "length")

    monkeypatch.setattr("repoagent.llm.complete.LONGEST_REPLY", 1_000)
    heard: list[str] = []
    with pytest.raises(ModelError, match="too long and was discarded"):
        complete(Endless([]), ask(), Meter(), on_text=heard.append)
    assert len("".join(heard)) == 1_000


PRICES = {"a/one": Price(1e6, 0), "b/two": Price(1e3, 0)}
PAID = Reply("done", "end", Usage(100, 0))


def test_the_fallback_takes_over_after_two_failures() -> None:
    first, second = Scripted([BUSY, BUSY], spec="a/one"), Scripted([PAID, PAID], spec="b/two")
    model, listener = Fallback([first, second]), Listener()
    meter = Meter(price_of=PRICES.get)
    assert listener.run(model, meter).text == "done"
    assert listener.waits[1] == (0.0, "the server is overloaded: continuing with b/two")
    assert (model.spec, meter.attempts, len(first.seen), len(second.seen)) == ("b/two", 3, 2, 1)
    assert meter.cost == pytest.approx(20 + 0.1)  # each attempt at the price of the model it was made at
    listener.run(model)
    assert (len(first.seen), len(second.seen)) == (2, 2)


@pytest.mark.parametrize(("first", "second", "outcome"), [
    ([BUSY, PAID], [], "done"),  # one failure keeps the model
    ([Retryable("the rate limit is reached", retry_after=90.0)], [PAID], "done"),
    ([BUSY] * 2, [BUSY] * 3, "tried 5 times"),  # the last one fails as any model
    ([ModelError("the key is wrong")], [], "the key is wrong"),
])  # fmt: skip
def test_when_the_fallback_takes_over(
    first: list[Reply | Exception], second: list[Reply | Exception], outcome: str
) -> None:
    models = [Scripted(first, spec="a/one"), Scripted(second, spec="b/two")]
    try:
        result = Listener().run(Fallback(models)).text
    except ModelError as error:
        result = str(error)
    assert outcome in result
    assert [len(model.seen) for model in models] == [len(first), len(second)]


def test_tools_are_offered_if_all_models_take_them() -> None:
    """When they are offered, it is unknown which model will answer."""
    takes = {"one": {"tools", "stop"}, "two": {"tools"}, "three": {"stop"}}
    one, two, tagged = (Scripted([], spec=f"a/{name}", takes=frozenset(some)) for name, some in takes.items())
    assert "tools" in Fallback([one, two]).takes
    assert Fallback([one, two, tagged]).takes == {"stop"}
