"""The simulated runs of bench/window, and its picture of a provider's cache."""

from __future__ import annotations

from bench.window import METHODS, Cache, simulated
from repoagent.llm.model import Message, Part, Request


def request(*texts: str) -> Request:
    return Request((), (Message("user", tuple(Part(text, cache=True) for text in texts)),))


def test_a_cache_has_the_longest_prefix_that_was_marked() -> None:
    cache = Cache()
    first, second = "a" * 6_000, "b" * 3_000
    assert cache.sent(request(first)).cache_write == 2_000
    again = cache.sent(request(first, second))
    assert (again.cache_read, again.cache_write, again.input) == (2_000, 1_000, 0)
    assert cache.sent(request("x", first)).cache_read == 0
    assert Cache().sent(request("a" * 300)).input == 100


def test_a_run_is_the_same_for_its_seed_and_each_way_sends_all_of_its_calls() -> None:
    run = simulated(3, 20, 20)
    assert run == simulated(3, 20, 20)
    assert sum(turn.role == "assistant" for turn in run) == 20
    for method in METHODS.values():
        sent = method(run, 60_000)
        assert len(sent.requests) - sent.checkpoints == 20
