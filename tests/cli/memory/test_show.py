"""`repoagent memory note`, `relink` and `show`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from repoagent.memory.identity.record import FILE
from repoagent.memory.notes import add_note, read_notes
from tests.cli.apply_patch import Ask
from tests.cli.memory.conftest import talked
from tests.memory.conftest import Workspace, atomic_save, text

TOKEN = "ghp_C0YeKXhPTzuBAzqIXaxJGWoA8Bz7ChqE0xiA"

WRONG: tuple[tuple[list[str], int, str], ...] = (
    (["note", "src/a.py", ""], 2, "empty note"),
    (["note", "src/a.py", " \n "], 2, "empty note"),
    (["note", "src/a.py", "x" * 4001], 2, "the note has 4,001 characters, more than the limit of 4,000"),
    (["note", "nowhere.py", "x"], 2, "no such file: nowhere.py, and there is no memory for it"),
    (["note", "src", "x"], 2, "src is a folder; name a file (`repoagent memory list src`"),
    (["note", "../x", "x"], 2, "../x is outside the work tree"),
    (["note", "00000000", "x"], 2, "no file or memory named 00000000"),
    (["note", "src/a.py"], 2, "missing argument"),
    (["relink", "src/a.py", "--from", "src/b.py"], 3, "src/a.py already has a memory"),
    (["relink", "src/a.py", "--from", "src/a.py"], 1, "src/a.py already has that memory"),
    (["relink", "nowhere.py", "--from", "src/a.py"], 3, "no such file: nowhere.py"),
    (["relink", "new.py"], 2, "missing option '--from'"),
    (
        ["relink", "new.py", "--from", "nowhere.py"],
        2,
        "no such file: nowhere.py, and there is no memory for it",
    ),
)


def test_bad_input_is_one_sentence(ask: Ask, context: Workspace) -> None:
    context.repo.write("new.py", text("new"))
    for arguments, code, sentence in WRONG:
        done = ask(*arguments)
        assert (done.code, done.out) == (code, "") and sentence in done.err, arguments
        assert len(done.err.splitlines()) == 1


def test_a_note_has_the_version_of_the_file_no_duplicate_and_makes_a_memory(
    ask: Ask, context: Workspace
) -> None:
    assert ask("note", "src/a.py", "the order\nof results matters").code == 0
    memory = context.known("src/a.py")
    (note,) = read_notes(memory.notes)
    assert (note.text, note.source) == ("the order of results matters", "person")
    assert memory.identity.blob.startswith(note.blob) and len(note.blob) == 12
    done = ask("note", "src/a.py", "The order of  results matters")
    assert done.code == 1 and "already noted: the order of results matters" in done.err
    assert len(read_notes(memory.notes)) == 1
    done = ask("note", "../a.txt", "ten lines", "--json", cwd=context.worktree.top / "src")
    value = done.json
    assert done.code == 0 and value["new"] == 1 and value["masked"] is False
    memory = context.known("a.txt")
    assert memory.notes == Path(value["file"]) and memory.identity.commit == context.repo.head()


@pytest.mark.soak  # the rules for secrets are loaded
def test_several_notes_from_standard_input_are_masked(ask: Ask, context: Workspace) -> None:
    given = f"# Notes\n\n- one is one\n- two\n  goes on\n\n#3 is a ticket\nthe token is {TOKEN}\n".encode()
    done = ask("note", "src/a.py", "-", stdin=given)
    assert done.code == 0 and "masked what looks like a key or token" in done.err
    one, two, three = [note.text for note in read_notes(context.known("src/a.py").notes)]
    assert (one, two) == ("one is one", "two goes on")
    assert three.startswith("#3 is a ticket the token is <<secret")
    assert TOKEN not in context.known("src/a.py").notes.read_text() and TOKEN not in done.err


def test_older_notes_are_marked_until_it_is_undone(ask: Ask, context: Workspace) -> None:
    """They were not marked: notes about one text were shown as facts about another."""
    memory = context.known("src/a.py")
    add_note(memory.notes, "squares are right", blob=memory.identity.blob, source="person")
    context.repo.write("new.py", text("new"))
    done = ask("relink", "new.py", "--from", memory.folder.name)
    assert done.out == "attached the memory of src/a.py to new.py\n"
    assert done.code == 0 and "new.py has different content; old notes are marked" in done.err
    assert context.folder("new.py") == memory.folder.name and context.folder("src/a.py") is None
    assert "squares are right [about an older version]" in ask("show", "new.py").out
    assert ask("note", "new.py", "this is of new.py").code == 0
    assert "of new.py [about" not in ask("show", "new.py").out
    back = f"relink src/a.py --from {memory.folder.name}"
    assert f"undo it with: repoagent memory {back}" in done.err and ask(*back.split()).code == 0
    assert context.folder("src/a.py") == memory.folder.name and context.folder("new.py") is None
    assert "squares are right\n" in ask("show", "src/a.py").out


def test_everything_on_one_page(ask: Ask, context: Workspace) -> None:
    memory = context.known("src/a.py")
    add_note(memory.notes, "`a says 4` is what callers read", blob=memory.identity.blob, source="person")
    add_note(memory.notes, "`gone_name` is slow\x1b[2J", source="m")
    for number in (1, 2):
        talked(memory, number)
    (context.worktree.top / "src/a.py").rename(context.worktree.top / "src/c.py")
    assert context.folder("src/c.py") == memory.folder.name
    done = ask("show", "src/c.py")
    assert done.code == 0 and done.err == ""
    for line in (
        "src/c.py",
        "notes (2)",
        "edits (2)",
        "  2026-11-02 committed 333333333333: request 2",
        "  2 exchanges with 4 turns; print it with: repoagent conversation show file:src/c.py",
    ):
        assert line in done.out
    assert re.search(r"- \d{4}-\d\d-\d\d by m: `gone_name` is slow\^\[\[2J \[gone: gone_name\]", done.out)
    assert "callers read\n" in done.out and "moved from src/a.py: src/c.py" in done.out
    assert "\x1b" not in done.out


def test_json_and_details_if_verbose(ask: Ask, context: Workspace) -> None:
    talked(context.known("src/a.py"), 1)
    value = ask("show", "src/a.py", "--json").json
    assert (value["version"], value["state"], value["edits"][0]["id"]) == (1, "live", "e1")
    assert value["conversation"]["exchanges"] == 1
    assert value["rekeyings"][0]["reason"] == "first seen"
    atomic_save(context.worktree.top / "src/a.py", text("a"))
    assert context.folder("src/a.py") and "another inode" not in ask("show", "src/a.py").out
    assert "another inode: src/a.py" in ask("show", "src/a.py", "-v").out


def test_names_without_a_memory(ask: Ask, context: Workspace) -> None:
    top = context.worktree.top
    done = ask("show", "a.txt")
    assert done.code == 1 and "a.txt has no memory" in done.err
    other = ask("show", "src/a.py", cwd=top / "src")  # a path from the top, as `memory list` prints it
    assert other.code == 0 and other.out == ask("show", "a.py", cwd=top / "src").out
    assert ask("show", "./src/a.py", cwd=top / "src").code == 2
    (top / "src/b.py").rename(top / "d.py")
    assert context.folder("d.py")
    done = ask("show", "src/b.py")
    assert done.code == 2 and "it was renamed to d.py" in done.err


def test_orphans_and_their_replacements(ask: Ask, context: Workspace) -> None:
    top = context.worktree.top
    mine, other = context.known("src/a.py"), context.known("src/b.py")
    (top / "src/a.py").unlink()
    (top / "src/a.py").symlink_to("b.py")
    assert "orphaned: the file no longer exists" in ask("show", "src/a.py").out
    assert "orphaned: the file no longer exists" in ask("show", mine.folder.name).out
    value = json.loads((other.folder / FILE).read_text())
    (other.folder / FILE).write_text(json.dumps({**value, "path": "src/a.py", "places": {}}))
    done = ask("show", "src/a.py")
    message = "src/a.py is ambiguous: several deleted files had this path; name one of their memories"
    assert done.code == 2 and message in done.err
