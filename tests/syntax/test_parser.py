from __future__ import annotations

import pytest

from repoagent.syntax.parser import clear_cache, parse_bytes, parse_within

LARGE = b"def f(x):\n    return [x, (x, {x: x})]\n\n\n" * 8_000


@pytest.mark.soak
def test_a_large_text_is_parsed_once() -> None:
    tree = parse_within(LARGE, "python", 60)
    assert tree is not None
    assert parse_bytes(bytes(LARGE), "python") is tree
    assert parse_within(LARGE, "javascript", 60) is not tree
    assert parse_within(LARGE + b"\n", "python", 60) is not tree
    clear_cache()
    assert parse_within(LARGE, "python", 60) is not tree
