"""The notes that an edit adds to its files, and how the next prompt shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repoagent.edit.memory import lessons, undo_note
from repoagent.llm.conversation import Turn
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, HELLO, QUESTION, Open, Run, Script, diff, greeting

HI = greeting(HELLO, "'hi ' + name")


def memory_folder(repo: GitRepo) -> Path:
    (found,) = (repo.top / ".repoagent/memory").glob("*app*")
    return found


def notes(repo: GitRepo) -> list[str]:
    """The notes without date and blob."""
    path = memory_folder(repo) / "notes.md"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.partition(" by ")[2] for line in lines if line.startswith("- ")]


@pytest.mark.soak
def test_a_note_of_the_model_is_shown_next_time(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies("<note>`greet` is called with bytes too</note>\n" + GREET)
    edit()
    blob = repo.git("rev-parse", "HEAD:src/app.py")[:12]
    text = (memory_folder(repo) / "notes.md").read_text()
    (line,) = [line for line in text.splitlines() if "greet" in line]
    assert re.fullmatch(rf"- 20\S+ {blob} by command.*: `greet` is called with bytes too", line)
    back = diff("src/app.py", " def greet(name):", "-    return f'hello, {name}'", "+    return 'hello'")
    script.replies("<note>`greet` is called with bytes, too.</note>\n" + back)
    edit(request="greet without a name")
    (prompt,) = script.prompts
    assert "Notes on this file:\n- 20" in prompt and "`greet` is called with bytes too\n" in prompt
    assert len(notes(repo)) == 1  # the model repeated its note
    notes_at, file = prompt.index("Notes on this file"), prompt.index("File src/app.py")
    earlier, request = prompt.index("Earlier requests for this file"), prompt.index("Request:\n")
    assert notes_at < file < earlier < request
    assert "greet with a comma (committed as " in prompt[earlier:request]


def test_a_first_failure_is_noted_after_a_success(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(HI, GREET)
    check = "grep -q 'hello,' src/app.py || { echo 'AssertionError: too short'; exit 1; }"
    edit("--check", check, request="greet")
    (note,) = notes(repo)
    assert note == 'repoagent: the first attempt at "greet" failed its check: AssertionError: too short'


@pytest.mark.soak
def test_the_reason_of_a_rejection_is_noted(repo: GitRepo, run: Run, screen: Open, script: Script) -> None:
    script.replies(HI, GREET)
    with screen("edit", "src/app.py", "greet with a comma") as window:
        window.answer(QUESTION, "n\n")
        window.answer("Tell the model why (leave empty to stop): ", "keep saying hello\n")
        window.answer(QUESTION, "y\n")
        assert window.end() == 0
    (note,) = notes(repo)
    assert note.startswith("person: rejected a proposed change: keep saying hello (")
    assert note.endswith('(request: "greet with a comma"; later accepted another version)')
    script.replies("No change.")
    run("edit", "src/app.py", "greet in another way", "--yes")
    assert "by person: rejected a proposed change: keep saying hello" in script.prompts[0]
    assert "\n  the user: keep saying hello\n" in script.prompts[0]


@pytest.mark.soak
def test_an_undone_edit_is_noted_until_its_redo(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    script.replies(GREET)
    edit()
    assert run("undo").code == 0
    assert notes(repo) == ['person: undid the edit "greet with a comma"']
    script.replies("No.")
    run("edit", "src/app.py", "greet with a comma, again", "--yes")
    assert "greet with a comma (undone" in script.prompts[0]
    assert run("redo").code == 0
    assert notes(repo) == []


@pytest.mark.soak
def test_a_small_model_gets_no_earlier_turns(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    script.replies(GREET)
    edit()
    whole = (repo.top / "src/app.py").read_text().replace("hello, ", "hi, ")
    script.replies(f"```src/app.py\n{whole}```\n")
    run("edit", "src/app.py", "say hi", "--yes", "--format", "whole")
    assert "Earlier requests" not in script.prompts[0]
    assert "Recent edits to this file:\n- 20" in script.prompts[0]


def test_a_shortened_conversation_is_used(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("An answer about lobsters.")
    run("edit", "src/app.py", "what is greet", "--yes")
    path = memory_folder(repo) / "conversation.md"
    path.write_text(path.read_text().replace("lobsters", "shrimps, as I say").rstrip("\n"))
    script.replies("Another answer.")
    run("edit", "src/app.py", "what is greet for", "--yes")
    assert "shrimps, as I say" in script.prompts[0] and "lobsters" not in script.prompts[0]
    assert "shrimps, as I say" in path.read_text() and "Another answer." in path.read_text()


@pytest.mark.parametrize(
    ("state", "answer", "notes"),
    [
        ("committed", "", []),
        ("answered", "Because of it.", []),
        ("proposed", "", []),
        ("declined", "no changes: the files already match the model's answer.", []),
        ("declined", "cancelled: nothing was changed.", []),
        ("rejected", "It is a bad idea.", [('declined to do "x y": It is a bad idea.', "m")]),
        ("refused", "it is busy", []),
        ("failed", "E: bad", [('tried "x y", but the change failed its check and was not kept: E: bad', "repoagent")]),
    ],
)  # fmt: skip
def test_lines_worth_a_note(state: str, answer: str, notes: list[tuple[str, str]]) -> None:
    turns = [Turn("user", "x\ny"), Turn("assistant", "reply")]
    assert list(lessons("x\ny", turns, state, answer, "m")) == notes
    assert len(undo_note("x " * 900)) < 200
