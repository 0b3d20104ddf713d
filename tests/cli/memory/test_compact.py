"""`repoagent memory compact`: old exchanges move to the archive, and leave a line each."""

from __future__ import annotations

import pytest

from tests.cli.memory.conftest import Ask, known, talked
from tests.memory.conftest import Desk


@pytest.fixture
def long(context: Desk) -> Desk:
    """Four exchanges about `src/a.py`, two about `src/b.py`."""
    for number in (1, 2, 3, 4):
        talked(known(context, "src/a.py"), number)
    for number in (1, 2):
        talked(known(context, "src/b.py"), number)
    return context


def test_bad_input_is_one_sentence(ask: Ask, long: Desk) -> None:
    for arguments, code, sentence in (
        ([], 2, "no files: name them, or use --all"),
        (["--all", "src/a.py"], 2, "--all cannot be combined with files"),
        (["src/b.py"], 1, "the last two exchanges about a file always stay"),
        (["a.txt"], 1, "no memory of a.txt"),
    ):
        done = ask("compact", *arguments)
        assert (done.code, done.out) == (code, "") and sentence in done.err


def test_everything_stays_on_disk(ask: Ask, long: Desk) -> None:
    memory = known(long, "src/a.py")
    before = memory.conversation.read_bytes()
    done = ask("compact", "--all", "--dry-run")
    assert done.out == "src/a.py: would archive 2 exchanges\n" and memory.conversation.read_bytes() == before
    done = ask("compact", "--all")
    assert (
        done.code == 0
        and done.out.startswith("src/a.py: archived 2 exchanges (")
        and "kept 2 notes of them" in done.out
    )
    (archive,) = memory.folder.glob("archive/conversation-*.md")
    assert str(archive.relative_to(long.worktree.top)) in done.out
    _, rest = before.split(b"\n\n", 1)
    assert (
        archive.read_bytes().split(b"\n\n", 1)[1] + memory.conversation.read_bytes().split(b"\n\n", 1)[1]
        == rest
    )
    assert ask("compact", "--all").code == 1


def test_an_unreadable_conversation_does_not_stop_the_others(ask: Ask, long: Desk) -> None:
    known(long, "src/b.py").conversation.write_text("scribbled\n")
    done = ask("compact", "--all")
    assert (
        done.code == 0
        and "src/a.py: archived 2 exchanges" in done.out
        and "not a repoagent conversation" in done.err
    )
