"""Sentences with numbers, lists and long names."""

from __future__ import annotations

from repoagent.display_text import list_some, plural, truncate


def test_numbers_with_nouns() -> None:
    counted = [plural(1, "key"), plural(2, "key"), plural(0, "memory"), plural(2000, "more note")]
    assert counted == ["1 key", "2 keys", "0 memories", "2,000 more notes"]


def test_long_lists_and_texts_are_cut() -> None:
    assert [list_some("abc", most) for most in (2, 3)] == ["a, b and 1 more", "a, b, c"]
    assert list_some("abc", 1, ", …") == "a, …"
    assert [truncate("ab cd", most) for most in (5, 4)] == ["ab cd", "ab…"]
