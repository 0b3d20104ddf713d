"""`repoagent memory clear` and `edit`: what is cleared is restored exactly, and no edited text is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.memory.notes import add_note, read_notes
from tests.cli.apply_patch import Ask, Done
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
        assert "nothing" in ask("clear", *arguments, code=1).err
    assert ask("clear", "--undo", "--notes", "src/a.py").code == 2
    archive = context.known("src/a.py").folder / "archive"
    assert not archive.exists()
    archive.symlink_to(context.worktree.top)  # a link in the way is not followed
    assert "is a symbolic link" in ask("clear", "src/a.py", "-y", code=3).err and files(context) == full


def test_all_is_cleared_and_restored_exactly(ask: Ask, context: Workspace, full: dict[str, bytes]) -> None:
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


def test_a_broken_conversation_is_not_merged(ask: Ask, context: Workspace, full: dict[str, bytes]) -> None:
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


# `edit`: the text is validated, merged with concurrent changes, and never lost.


@pytest.fixture
def edit(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """`edit(COMMANDS, FILE)`: `repoagent memory edit FILE` with an editor that runs COMMANDS, which change "$1"."""
    script = tmp_path / "editor"
    script.touch(0o755)
    monkeypatch.setenv("GIT_EDITOR", str(script))

    def edit(commands: str, file: str = "src/a.py") -> Done:
        script.write_text(f"#!/bin/sh\n{commands}\n")
        return ask("edit", file)

    return edit


def test_notes_are_changed_masked_and_a_first_one_makes_a_memory(edit: Ask, context: Workspace) -> None:
    for file in ("src/a.py", "a.txt"):
        assert edit('echo "- my own words" >> "$1"', file).code == 0
        assert [note.text for note in read_notes(context.known(file).notes)] == ["my own words"]
        assert context.known(file).notes.stat().st_mode & 0o777 == 0o600
    token = "ghp_C0YeKXhPTzuBAzqIXaxJGWoA8Bz7ChqE0xiA"
    done = edit(f'printf -- "- \\377 and {token}\\n" >> "$1"')
    assert done.code == 0 and "masked" in done.err
    data = context.known("src/a.py").notes.read_bytes()
    assert b"\xff and <<secret " in data and token.encode() not in data


def test_nothing_is_changed_and_saved_text_is_not_lost(
    ask: Ask, edit: Ask, context: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = context.known("src/a.py").notes
    notes.write_text("# mine\n\n- one\n")
    for commands, sentence in (
        ("true", "nothing was changed"),
        ("exit 1", "the editor failed"),
        (': > "$1"', "an empty file; nothing was changed"),
        ('echo "- precious" >> "$1"; exit 1', "the editor failed; your saved text is in "),
    ):
        done = edit(commands)
        assert done.code == 1 and sentence in done.err and notes.read_text() == "# mine\n\n- one\n"
    saved = Path(done.err.split("is in ", 1)[1].split("\n")[0])
    assert saved.read_text().endswith("- precious\n") and saved.stat().st_mode & 0o777 == 0o600
    saved.unlink()
    monkeypatch.delenv("GIT_EDITOR")
    context.repo.git("config", "--global", "--unset", "core.editor")
    done = ask("edit", "src/a.py")
    assert done.code == 2 and "no terminal for an editor: set EDITOR" in done.err and str(notes) in done.err


def test_concurrent_notes_are_merged_or_the_text_is_saved(edit: Ask, context: Workspace) -> None:
    notes = context.known("src/a.py").notes
    for ours, theirs in (
        ("- one\n- two\n", "- one\n- two\n- four\n"),
        ("- one\n\n- two\n", "- none\n\n- two\n"),
    ):
        notes.write_text(ours)
        done = edit(f"sed -i 's/two/TWO/' \"$1\"; printf -- '{theirs}' > '{notes}'")
        assert done.code == 0 and "merged with changes made while you edited" in done.err
        assert notes.read_text() == theirs.replace("two", "TWO")
    notes.write_text("# Notes\n\n- one\n")
    done = edit(f"sed -i 's/# Notes/# mine/' \"$1\"; printf '# theirs\\n\\n- one\\n' > '{notes}'")
    assert done.code == 3 and "another program changed the same lines" in done.err
    assert notes.read_text() == "# theirs\n\n- one\n"
    (saved,) = notes.parent.glob("archive/edited-*-notes.md")
    assert saved.read_text() == "# mine\n\n- one\n" and saved.name in done.err


def test_a_text_that_cannot_be_saved_goes_to_the_temporary_folder(edit: Ask, context: Workspace) -> None:
    folder = context.known("src/a.py").folder
    (folder / "notes.md.lock").mkdir()
    (folder / "archive").symlink_to("/nowhere")
    done = edit('echo "- precious" >> "$1"')
    assert done.code == 3 and "notes.md.lock: Is a directory" in done.err and len(done.err.splitlines()) == 1
    saved = context.worktree.top / done.err.strip().rpartition("saved in ")[2]
    assert saved.read_text().endswith("- precious\n")
    saved.unlink()
