"""What goes into a prompt, and the search."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.llm.usage import estimate_tokens
from repoagent.memory import Memory, add_note, append_edit, block, search
from repoagent.memory.similar import similarity
from tests.conftest import GitRepo
from tests.memory.conftest import Desk, atomic_save, edited, text
from tests.memory.test_files import record


def memory_of(desk: Desk, path: str) -> Memory:
    memory = desk.resolve(path)
    assert memory is not None
    return memory


def test_nothing_to_tell(desk: Desk) -> None:
    assert block(memory_of(desk, "a.py"), 1000) == ""
    assert search(desk.layout, "anything") == []


def test_notes_come_first_then_edits_oldest_first(desk: Desk) -> None:
    memory = memory_of(desk, "a.py")
    add_note(memory.notes, "the order matters", day=date(2026, 11, 1))
    append_edit(memory.edits, record(1, commit="abcdef0123456789", request="make it\nfaster"))
    append_edit(memory.edits, record(2, state="refused"))
    assert block(memory, 1000) == (
        "Notes on this file:\n- 2026-11-01: the order matters\n\n"
        "Last edits of this file:\n"
        "- 2026-11-01: make it faster (committed as abcdef012345)\n- 2026-11-02: request 2 (refused)\n\n"
    )


@pytest.mark.parametrize("budget", [0, 5, 20, 60, 200, 1000])
def test_the_budget_holds_and_the_newest_is_kept(desk: Desk, budget: int) -> None:
    memory = memory_of(desk, "a.py")
    for number in range(1, 20):
        add_note(memory.notes, f"note {number} with some words")
        append_edit(memory.edits, record(number, request="long " * number * 50))
    told = block(memory, budget)
    assert estimate_tokens(told) <= budget
    if "note " in told:
        assert "note 19 " in told
    assert bool(told) == (budget > 40) or budget == 20


def test_notes_on_an_older_text_say_so(desk: Desk) -> None:
    memory = memory_of(desk, "a.py")
    add_note(memory.notes, "about the old", blob=memory.identity.blob)
    (desk.worktree.top / "a.py").write_bytes(text("all new"))
    memory = memory_of(desk, "a.py")
    add_note(memory.notes, "about the new", blob=memory.identity.blob)
    atomic_save(desk.worktree.top / "a.py", edited(text("all new")))
    told = block(memory_of(desk, "a.py"), 1000).splitlines()
    assert told[1].endswith("about the old (about an older text of this file)")
    assert told[2].endswith("about the new")


def test_search_ranks_rare_words_and_parts_of_names(desk: Desk) -> None:
    a, b = memory_of(desk, "a.py"), memory_of(desk, "b.py")
    add_note(a.notes, "the parser is called by the loader", day=date(2026, 11, 1))
    add_note(a.notes, "the cache is shared", day=date(2026, 11, 1))
    add_note(b.notes, "the loader calls readConfig twice", day=date(2026, 11, 1))
    append_edit(b.edits, record(1, request="speed up the loader cache"))
    found = search(desk.layout, "the CONFIG loader")
    assert found[0] == "b.py: 2026-11-01: the loader calls readConfig twice"
    assert len(found) == 4 and search(desk.layout, "cache", limit=1) == [
        "a.py: 2026-11-01: the cache is shared"
    ]
    assert search(desk.layout, "nowhere") == search(desk.layout, " ?! ") == []


# -- similarity --

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
def test_similarity_is_what_git_says(repo: GitRepo, line_end: bytes) -> None:
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
