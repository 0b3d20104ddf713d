"""A memory is tied to another file by hand, and a re-keying is taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.memory.identity.record import Memory, identity_file
from repoagent.memory.identity.store import memories, relink
from tests.memory.conftest import Desk, atomic_save, edited, text


def link(desk: Desk, memory: Memory, path: str) -> Memory:
    return relink(desk.layout, desk.worktree, memory, path)


def known(desk: Desk, path: str) -> Memory:
    memory = desk.resolve(path)
    assert memory is not None
    return memory


def test_a_memory_that_lost_its_file_is_linked_to_it_again(desk: Desk) -> None:
    mine = known(desk, "a.py")
    (desk.worktree.top / "a.py").unlink()
    (desk.worktree.top / "deep").mkdir()
    desk.repo.write("deep/z.py", text("nothing is as it was"))
    assert desk.resolve("deep/z.py") is None
    memory = link(desk, mine, "deep/z.py")
    assert memory.reason == "linked by hand to another text, before that a.py"
    assert memory.identity.rekeyings[-1].reason == memory.reason
    assert known(desk, "deep/z.py").folder == mine.folder
    atomic_save(desk.worktree.top / "deep/z.py", edited(text("nothing is as it was")))
    assert known(desk, "deep/z.py").folder == mine.folder
    desk.repo.git("checkout", "--", "a.py")
    assert desk.resolve("a.py") is None or known(desk, "deep/z.py").folder != known(desk, "a.py").folder


def test_a_rekeying_is_taken_back(desk: Desk) -> None:
    mine = known(desk, "a.py")
    (desk.worktree.top / "a.py").rename(desk.worktree.top / "c.py")
    moved = known(desk, "c.py")
    assert moved.folder == mine.folder
    back = link(desk, moved, "a.py")  # there is no file now, but it had this path
    assert (
        back.identity.path == "a.py"
        and back.identity.rekeyings[-1].reason == "linked by hand, before that c.py"
    )
    assert desk.resolve("c.py") is None
    desk.repo.git("checkout", "--", "a.py")
    assert known(desk, "a.py").folder == mine.folder
    assert desk.resolve("c.py") is None


def test_a_path_that_has_a_memory_is_refused(desk: Desk) -> None:
    a, b = known(desk, "a.py"), known(desk, "b.py")
    before = {memory.folder: identity_file(memory.folder).read_bytes() for memory in (a, b)}
    with pytest.raises(Refused, match=rf"b\.py already has a memory \({b.folder.name}\); link that one"):
        link(desk, a, "b.py")
    assert {folder: identity_file(folder).read_bytes() for folder in before} == before


def test_invalid_links_are_refused(desk: Desk, tmp_path: Path) -> None:
    mine = known(desk, "a.py")
    (desk.worktree.top / "link.py").symlink_to("a.py")
    for path, why in (
        ("nowhere.py", "no such file: nowhere.py"),
        ("link.py", "link"),
        ("../x", "work tree|\\.\\."),
        ("src", "folder"),
    ):
        with pytest.raises(Refused, match=why):
            link(desk, mine, path)
    with pytest.raises(Refused, match="cannot read the memory"):
        link(desk, Memory(desk.layout.memory / "gone", mine.identity), "a.py")
    assert len(memories(desk.layout)) == 2 and desk.folder("a.py") == mine.folder.name
