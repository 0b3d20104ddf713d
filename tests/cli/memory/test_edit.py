"""`repoagent memory edit`: the text is validated, merged with concurrent changes, and never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.memory.notes import read_notes
from tests.cli.applying import program
from tests.cli.memory.conftest import Ask, known
from tests.memory.conftest import Desk

TOKEN = "ghp_C0YeKXhPTzuBAzqIXaxJGWoA8Bz7ChqE0xiA"


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script as the editor; tests write its commands, which change "$1"."""
    script = tmp_path / "editor"
    script.touch()
    script.chmod(0o755)
    monkeypatch.setenv("GIT_EDITOR", str(script))
    return script


def does(editor: Path, script: str) -> None:
    editor.write_text(f"#!/bin/sh\n{script}\n")


def test_notes_are_changed_and_a_first_one_makes_a_memory(ask: Ask, context: Desk, editor: Path) -> None:
    does(editor, 'echo "- my own words" >> "$1"')
    for file in ("src/a.py", "a.txt"):
        assert ask("edit", file).code == 0
        assert [note.text for note in read_notes(known(context, file).notes)] == ["my own words"]
        assert known(context, file).notes.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("true", "nothing was changed"),
        ("exit 1", "the editor failed"),
        (': > "$1"', "an empty file; nothing was changed"),
    ],
)
def test_nothing_is_changed(ask: Ask, context: Desk, editor: Path, script: str, sentence: str) -> None:
    notes = known(context, "src/a.py").notes
    notes.write_text("# mine\n\n- one\n")
    does(editor, script)
    done = ask("edit", "src/a.py")
    assert done.code == 1 and sentence in done.err and notes.read_text() == "# mine\n\n- one\n"


def test_text_saved_before_the_editor_failed_is_not_lost(ask: Ask, context: Desk, editor: Path) -> None:
    does(editor, 'echo "- precious" >> "$1"; exit 1')
    done = ask("edit", "src/a.py")
    assert done.code == 1 and "the editor failed; your saved text is in " in done.err
    saved = Path(done.err.split("is in ", 1)[1].split("\n")[0])
    assert saved.read_text().endswith("- precious\n") and saved.stat().st_mode & 0o777 == 0o600
    saved.unlink()


def test_no_editor_and_no_terminal(context: Desk) -> None:
    top = context.worktree.top
    context.repo.git("config", "--global", "--unset", "core.editor")
    done = program(top, "memory", "edit", "src/a.py")
    assert done.code == 2 and "no terminal for an editor: set EDITOR" in done.err
    assert str(known(context, "src/a.py").notes) in done.err


def test_secrets_are_masked(ask: Ask, context: Desk, editor: Path) -> None:
    does(editor, f'printf -- "- \\377 and {TOKEN}\\n" >> "$1"')
    done = ask("edit", "src/a.py")
    assert done.code == 0 and "masked" in done.err
    data = known(context, "src/a.py").notes.read_bytes()
    assert b"\xff and <<secret " in data and TOKEN.encode() not in data


@pytest.mark.parametrize("theirs", ["- one\\n- two\\n- four\\n", "- none\\n\\n- two\\n"])
def test_concurrent_notes_are_merged(ask: Ask, context: Desk, editor: Path, theirs: str) -> None:
    notes = known(context, "src/a.py").notes
    notes.write_text("- one\n- two\n" if "four" in theirs else "- one\n\n- two\n")
    does(editor, f"sed -i 's/two/TWO/' \"$1\"; printf -- '{theirs}' > '{notes}'")
    done = ask("edit", "src/a.py")
    assert done.code == 0 and "merged with changes made while you edited" in done.err
    assert notes.read_text() == theirs.replace("two", "TWO").replace("\\n", "\n")


def test_on_a_conflict_the_text_is_saved(ask: Ask, context: Desk, editor: Path) -> None:
    notes = known(context, "src/a.py").notes
    notes.write_text("# Notes\n\n- one\n")
    does(editor, f"sed -i 's/# Notes/# mine/' \"$1\"; printf '# theirs\\n\\n- one\\n' > '{notes}'")
    done = ask("edit", "src/a.py")
    assert done.code == 3 and "another program changed the same lines" in done.err
    assert notes.read_text() == "# theirs\n\n- one\n"
    (saved,) = notes.parent.glob("archive/edited-*-notes.md")
    assert saved.read_text() == "# mine\n\n- one\n" and saved.name in done.err


def test_a_text_that_cannot_be_saved_goes_to_the_temporary_folder(
    ask: Ask, context: Desk, editor: Path
) -> None:
    folder = known(context, "src/a.py").folder
    does(editor, 'echo "- precious" >> "$1"')
    (folder / "notes.md.lock").mkdir()
    (folder / "archive").symlink_to("/nowhere")
    done = ask("edit", "src/a.py")
    assert done.code == 3 and "notes.md.lock: Is a directory" in done.err and len(done.err.splitlines()) == 1
    saved = context.worktree.top / done.err.strip().rpartition("saved in ")[2]
    assert saved.read_text().endswith("- precious\n")
    saved.unlink()
