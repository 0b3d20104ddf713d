"""How alike two texts are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.memory.identity.renames import similarity
from tests.conftest import GitRepo
from tests.memory.conftest import text

_FILES = st.lists(
    st.sampled_from([b"one\n", b"two\r\n", b"three" * 30 + b"\n", b"\n", b"\0\xff", b"four\n"])
).map(b"".join)


@given(_FILES, _FILES)
def test_similarity_is_a_share_and_even_handed(one: bytes, other: bytes) -> None:
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, other) == similarity(other, one)
    assert similarity(one, one) == 1.0
    assert similarity(one.replace(b"\r\n", b"\n"), one) == 1.0


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_similarity_matches_git(repo: GitRepo, line_end: bytes) -> None:
    lines = text("file", 100).splitlines()
    data = line_end.join(lines)
    repo.write("old", data)
    repo.commit("old")
    repo.git("rm", "-q", "old")
    scores = []
    for changed in (0, 5, 20, 40, 48, 60, 80, 100):
        fresh = [f"changed {n * n} in line {n}.".encode() for n in range(changed)]
        other = line_end.join(fresh + lines[changed:])
        repo.write("new", other)
        repo.git("add", "new")
        status = repo.git("diff", "--cached", "-M1%", "--name-status").split()[0]
        score = int(status[1:]) / 100 if status.startswith("R") else 0.0
        mine = similarity(data, other)
        assert mine == pytest.approx(score, abs=0.05) or (mine < 0.5 and score < 0.5)
        scores.append(mine)
    assert scores[0] == 1.0 and scores[4] >= 0.5 > scores[5] and scores == sorted(scores, reverse=True)
