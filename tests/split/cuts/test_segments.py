from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repoagent.split import segments


@given(st.binary(max_size=400), st.integers(1, 50))
def test_segments_joined_are_the_source(data: bytes, target: int) -> None:
    found = segments("a.txt", data, target=target)
    assert b"".join(data[part.start : part.end] for part in found) == data
    assert all(part.end - part.start <= target or part.oversize for part in found)
