"""`repoagent memory edit`: the text is validated, merged with concurrent changes, and never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.memory.notes import read_notes
from tests.cli.apply_patch import Ask, Done
from tests.memory.conftest import Workspace

TOKEN = "ghp_C0YeKXhPTzuBAzqIXaxJGWoA8Bz7ChqE0xiA"


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
    done = edit(f'printf -- "- \\377 and {TOKEN}\\n" >> "$1"')
    assert done.code == 0 and "masked" in done.err
    data = context.known("src/a.py").notes.read_bytes()
    assert b"\xff and <<secret " in data and TOKEN.encode() not in data


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


def test_concurrent_notes_are_merged_and_on_a_conflict_the_text_is_saved(
    edit: Ask, context: Workspace
) -> None:
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
