"""`repoagent memory note`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repoagent.memory.notes import read_notes
from tests.cli.applying import program
from tests.cli.memory.conftest import Ask, known
from tests.memory.conftest import Desk

TOKEN = "ghp_C0YeKXhPTzuBAzqIXaxJGWoA8Bz7ChqE0xiA"


WRONG = (
    (["src/a.py", ""], "empty note"),
    (["src/a.py", " \n "], "empty note"),
    (["src/a.py", "x" * 4001], "the note has 4,001 characters, more than the limit of 4,000"),
    (["nowhere.py", "x"], "no such file: nowhere.py, and there is no memory for it"),
    (["src", "x"], "src is a folder; name a file (`repoagent memory list src`"),
    (["../x", "x"], "../x is outside the work tree"),
    (["00000000", "x"], "no file or memory named 00000000"),
    (["src/a.py"], "missing argument"),
)


def test_bad_input_is_one_sentence(ask: Ask) -> None:
    for arguments, sentence in WRONG:
        done = ask("note", *arguments)
        assert (done.code, done.out) == (2, "") and sentence in done.err and len(done.err.splitlines()) == 1


def test_a_note_has_the_version_of_the_file_and_no_duplicate(ask: Ask, context: Desk) -> None:
    assert ask("note", "src/a.py", "the order\nof results matters").code == 0
    memory = known(context, "src/a.py")
    (note,) = read_notes(memory.notes)
    assert (note.text, note.source) == ("the order of results matters", "person")
    assert memory.identity.blob.startswith(note.blob) and len(note.blob) == 12
    done = ask("note", "src/a.py", "The order of  results matters")
    assert done.code == 1 and "already noted: the order of results matters" in done.err
    assert len(read_notes(memory.notes)) == 1


def test_a_file_without_a_memory_gets_one(ask: Ask, context: Desk) -> None:
    done = ask("note", "../a.txt", "ten lines", "--json", cwd=context.worktree.top / "src")
    value = json.loads(done.out)
    assert done.code == 0 and value["new"] == 1 and value["masked"] is False
    memory = known(context, "a.txt")
    assert memory.notes == Path(value["file"]) and memory.identity.commit == context.repo.head()


@pytest.mark.soak  # the rules for secrets are loaded
def test_several_notes_from_standard_input_are_masked(context: Desk) -> None:
    given = f"# Notes\n\n- one is one\n- two\n  goes on\n\n#3 is a ticket\nthe token is {TOKEN}\n".encode()
    done = program(context.worktree.top, "memory", "note", "src/a.py", "-", stdin=given)
    assert done.code == 0 and "masked what looks like a key or token" in done.err
    texts = [note.text for note in read_notes(known(context, "src/a.py").notes)]
    assert texts[:2] == ["one is one", "two goes on"] and texts[2].startswith(
        "#3 is a ticket the token is <<secret"
    )
    assert TOKEN not in known(context, "src/a.py").notes.read_text() and TOKEN not in done.err
