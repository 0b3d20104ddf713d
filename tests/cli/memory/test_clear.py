"""`repoagent memory clear`: entries move to the archive and are restored exactly."""

from __future__ import annotations

import pytest

from repoagent.memory.notes import add_note, read_notes
from tests.cli.apply_patch import Ask
from tests.cli.memory.conftest import talked
from tests.cli.screens import PROGRAM, Screen
from tests.memory.conftest import Workspace

KEPT = ("notes.md", "conversation.md", "edits.jsonl")


@pytest.fixture
def full(context: Workspace) -> dict[str, bytes]:
    """The files of the memory of `src/a.py`, which has notes, a conversation and edits."""
    memory = context.known("src/a.py")
    add_note(memory.notes, "one")
    talked(memory, 1)
    return {name: (memory.folder / name).read_bytes() for name in KEPT}


def files(context: Workspace) -> dict[str, bytes]:
    """The files of that memory that are not empty."""
    paths = [context.known("src/a.py").folder / name for name in KEPT]
    return {path.name: data for path in paths if path.exists() and (data := path.read_bytes())}


def test_no_terminal_and_nothing_to_clear(ask: Ask, context: Workspace, full: dict[str, bytes]) -> None:
    done = ask("clear", "src/a.py")
    assert done.code == 2 and "use --yes" in done.err and files(context) == full
    assert "src/a.py: notes (27 B), conversation (176 B), edits (428 B)\n" in done.err
    for arguments in (["src/b.py", "--yes"], ["--undo", "src/a.py"]):
        done = ask("clear", *arguments)
        assert done.code == 1 and "nothing" in done.err
    assert ask("clear", "--undo", "--notes", "src/a.py").code == 2
    archive = context.known("src/a.py").folder / "archive"
    assert not archive.exists()
    archive.symlink_to(context.worktree.top)  # a link in the way is not followed
    done = ask("clear", "src/a.py", "-y")
    assert done.code == 3 and "is a symbolic link" in done.err and files(context) == full


def test_everything_is_cleared_and_restored_exactly(
    ask: Ask, context: Workspace, full: dict[str, bytes]
) -> None:
    memory = context.known("src/a.py")
    done = ask("clear", "src/a.py", "src/a.py", "-y")
    assert done.code == 0 and "restore it with: repoagent memory clear --undo src/a.py" in done.err
    assert files(context) == {}
    assert context.known("src/a.py").folder == memory.folder
    assert "cleared: notes, conversation, edits" in ask("show", "src/a.py").out
    assert ask("clear", "--undo", "src/a.py").code == 0
    assert files(context) == full and not list((memory.folder / "archive").iterdir())


def test_parts_are_restored_last_first(ask: Ask, context: Workspace, full: dict[str, bytes]) -> None:
    value = ask("clear", "src/a.py", "--notes", "--edits", "-y", "--json").json
    assert value["files"][0]["parts"].keys() == {"notes", "edits"} and value["action"] == "clear"
    assert files(context).keys() == {"conversation.md"}
    add_note(context.known("src/a.py").notes, "two")
    assert ask("clear", "src/a.py", "-y").code == 0
    for texts in (["two"], ["one", "two"]):
        assert ask("clear", "--undo", "src/a.py").code == 0
        assert [note.text for note in read_notes(context.known("src/a.py").notes)] == texts
    assert files(context)["edits.jsonl"] == full["edits.jsonl"]


def test_a_broken_conversation_is_cleared_and_not_merged(
    ask: Ask, context: Workspace, full: dict[str, bytes]
) -> None:
    memory = context.known("src/a.py")
    memory.conversation.write_text("scribbled\n")
    assert ask("clear", "src/a.py", "--conversation", "-y").code == 0
    talked(memory, 2)
    now = memory.conversation.read_bytes()
    done = ask("clear", "--undo", "src/a.py")
    assert done.code == 3 and "not a repoagent conversation" in done.err
    assert memory.conversation.read_bytes() == now
    (saved,) = memory.folder.glob("archive/cleared-*/conversation.md")
    assert saved.read_text() == "scribbled\n" and saved.parent.name in done.err


def test_on_a_terminal_it_asks(context: Workspace, full: dict[str, bytes]) -> None:
    for answer, code, kept in (("n", 1, full), ("y", 0, {})):
        with Screen([*PROGRAM, "memory", "clear", "src/a.py"], context.worktree.top) as screen:
            screen.answer("Clear these parts of the memory of 1 file [y,n,?]? ", f"{answer}\n")
            assert screen.end() == code
        assert files(context) == kept
