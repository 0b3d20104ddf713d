"""Retries, continuation, limits: what `complete` makes of what a model does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.errors import LimitReached, ModelError
from repoagent.llm import client
from repoagent.llm.client import ATTEMPTS, complete
from repoagent.llm.model import Reply, Retryable, Usage
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.usage import Limits, Meter, Price
from tests.llm.ask import Scripted, ask
from tests.llm.providers.messages_server import Script, Server, cut, status, text


class Listener:
    """What a terminal would be told, and no waiting."""

    def __init__(self) -> None:
        self.shown = ""
        self.waits: list[tuple[float, str]] = []
        self.slept: list[float] = []

    def run(self, model: Scripted, meter: Meter | None = None) -> Reply:
        return complete(
            model,
            ask(),
            meter or Meter(),
            on_text=self.hear,
            on_void=self.void,
            on_wait=lambda seconds, reason: self.waits.append((seconds, reason)),
            sleep=self.slept.append,
            jitter=lambda: 0.0,
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
    assert reply.text == "done"
    assert reply.usage == meter.usage == Usage(30, 7, estimated=True)
    assert meter.attempts == 3
    assert meter.cost == pytest.approx((30 + 2 * 7) / 1_000_000)
    assert listener.waits == [(1.0, "overloaded"), (2.0, "cut")]
    assert listener.slept == [1.0, 2.0]


def test_it_gives_up_after_five_attempts() -> None:
    listener, meter = Listener(), Meter()
    model = Scripted([Retryable("the server is overloaded")] * 9)
    with pytest.raises(
        ModelError, match=r"the server is overloaded \(tried 5 times\): try again later"
    ) as raised:
        listener.run(model, meter)
    assert not isinstance(raised.value, Retryable)
    assert len(model.seen) == meter.attempts == ATTEMPTS
    assert listener.slept == [1.0, 2.0, 4.0, 8.0]


def test_the_server_decides_how_long_to_wait() -> None:
    listener = Listener()
    listener.run(
        Scripted([Retryable("rate", retry_after=33), Retryable("rate", retry_after=0), Reply("x", "end")])
    )
    assert listener.slept == [33, 0]


def test_long_waits_are_an_error() -> None:
    listener = Listener()
    with pytest.raises(ModelError, match="a wait of 60 minutes"):
        listener.run(Scripted([Retryable("the rate limit is reached", retry_after=3600)]))
    assert listener.slept == []


def test_a_final_failure_is_not_repeated() -> None:
    model = Scripted([ModelError("bad key")])
    with pytest.raises(ModelError, match="bad key"):
        Listener().run(model)
    assert len(model.seen) == 1


def test_text_of_a_broken_attempt_is_void(server_with: Callable[[Script], Server]) -> None:
    server_with([cut("the first try"), "the second"])
    listener, meter = Listener(), Meter()
    reply = complete(
        AnthropicModel("claude-sonnet-5-5"),
        ask(),
        meter,
        on_text=listener.hear,
        on_void=listener.void,
        sleep=listener.slept.append,
    )
    assert listener.shown == reply.text == "the second"
    assert meter.attempts == 2
    assert meter.usage.input == 200


def test_a_cut_reply_is_continued(server_with: Callable[[Script], Server]) -> None:
    server = server_with(
        [text("one two ", stop="max_tokens"), text("three ", stop="max_tokens"), text("four")]
    )
    reply = complete(AnthropicModel("claude-sonnet-5-5"), ask("count"), Meter())
    assert (reply.text, reply.stop) == ("one two three four", "end")
    assert reply.usage.input == 300
    for received in server.requests:
        assert received.turns[-1][0] == "user"  # a last message of the assistant is rejected
    assert [role for role, _ in server.requests[2].turns] == ["user", "assistant", "user"]
    assert server.requests[2].turns[1][1] == "one two three "


def test_a_reply_that_stays_cut_is_an_error() -> None:
    model = Scripted([Reply(f"part {n} ", "length") for n in range(9)])
    with pytest.raises(ModelError, match="still cut off after 3 continuations"):
        Listener().run(model)
    assert len(model.seen) == 4


def test_a_continuation_that_adds_nothing_ends_it() -> None:
    model = Scripted([Reply("part", "length"), Reply(" ", "length"), Reply("more", "end")])
    with pytest.raises(ModelError, match="still cut off"):
        Listener().run(model)
    assert len(model.seen) == 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply("because\nof this", "refusal"), "declined this request: because of this. Rephrase it"),
        (Reply("", "refusal"), r"declined this request\. Rephrase"),
        (Reply(" \n", "end"), "gave an empty reply"),
        (Reply("", "length"), "before it wrote anything"),
    ],
)
def test_nothing_usable(reply: Reply, words: str) -> None:
    meter = Meter()
    with pytest.raises(ModelError, match=words):
        Listener().run(Scripted([reply, reply]), meter)
    assert meter.attempts == 1


def test_limits_hold_for_retries_and_continuations() -> None:
    model = Scripted([Retryable("overloaded"), Reply("part", "length"), Reply("rest", "end")])
    with pytest.raises(LimitReached, match="--max-turns"):
        Listener().run(model, Meter(Limits(turns=2)))
    assert len(model.seen) == 2


def test_a_retry_that_a_limit_forbids_is_not_waited_for() -> None:
    listener = Listener()
    with pytest.raises(ModelError, match=r"overloaded; the limit of 1 model call"):
        listener.run(Scripted([Retryable("overloaded")]), Meter(Limits(turns=1)))
    assert listener.slept == []


def test_a_429_is_repeated_over_http(server_with: Callable[[Script], Server]) -> None:
    server = server_with([status(429, retry_after=2), status(529), "fine"])
    slept: list[float] = []
    reply = complete(
        AnthropicModel("claude-haiku-5-5"), ask(), Meter(), sleep=slept.append, jitter=lambda: 1.0
    )
    assert reply.text == "fine"
    assert slept == [2.0, 3.0]
    assert len(server.requests) == 3


@pytest.mark.parametrize("parts", [1, 3])
def test_a_reply_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(client, "LONGEST_REPLY", 1_000)
    heard: list[str] = []
    model = Scripted([Reply("x" * (1_200 // parts), "length")] * parts)
    with pytest.raises(ModelError, match="was discarded"):
        complete(model, ask("x"), Meter(), on_text=heard.append)
    assert len("".join(heard)) <= 1_200 and len(model.seen) == parts
