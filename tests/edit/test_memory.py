"""The notes that an edit adds to its files, how the next prompt shows them, and what undo, redo and another try record."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from repoagent.edit.memory import lessons, undo_note
from repoagent.llm.conversation import Turn
from repoagent.memory.edit_records import read_edits
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


def test_a_note_goes_to_the_files_that_it_names(repo: GitRepo, edit: Run, script: Script) -> None:
    shout = diff("a.txt", "-line 5", "+LINE 5")
    notes = ("app.py is slow", "a.txt is long", "both are old")
    script.replies("".join(f"<note>{note}</note>\n" for note in notes) + GREET + shout)
    edit(more=["a.txt"])
    written = {
        name: [note for note in notes if note in folder.read_text()]
        for name in ("app-py", "a-txt")
        for folder in (repo.top / ".repoagent/memory").glob(f"{name}-*/notes.md")
    }
    assert written == {"app-py": [notes[0], notes[2]], "a-txt": [notes[1], notes[2]]}


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


SHOUT = diff("src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return 'HELLO ' + name")


def states(repo: GitRepo) -> list[str]:
    """The states of the edits in the memory of `src/app.py`, the oldest first."""
    (folder,) = (repo.top / ".repoagent/memory").glob("app-py-*")
    return [edit.state for edit in read_edits(folder / "edits.jsonl")]


@pytest.mark.soak
def test_undo_and_redo_with_later_work(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    script.replies("<commit>First</commit>\n" + GREET)
    edit()
    second = diff("src/app.py", " def main():", "-    print(greet('world'))", "+    print(greet('you'))")
    script.replies("<commit>Second</commit>\n" + second)
    edit(request="greet you")
    repo.write("src/app.py", b"# mine, unstaged\n" + repo.read("src/app.py"))
    tip, status, both = repo.head(), repo.status(), repo.read("src/app.py")
    for subject in ("First", "first commit"):
        run("undo", code=0)
        assert repo.git("log", "-1", "--format=%s").strip() == subject
        assert repo.status() == status
    assert repo.read("src/app.py").startswith(b"# mine, unstaged\ndef greet(name):\n    return 'hello '")
    assert states(repo) == ["undone", "undone"]
    run("undo", code=1)
    run("redo", code=0)
    assert run("redo", "--json").json["commit"] == tip == repo.head()
    assert (repo.status(), repo.read("src/app.py")) == (status, both)
    assert states(repo) == ["redone", "redone"]


@pytest.mark.soak
def test_again_with_another_instruction(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET)
    base = repo.head()
    assert run("edit", "src/app.py::greet", "greet with a comma", "--yes").code == 0
    script.replies(SHOUT)
    done = run("edit", "--again", "shout", "--yes", code=0)
    assert "repoagent redo" in done.err
    assert "Request:\nshout\n" in script.prompts[0]
    assert "greet in src/app.py (lines 1-2)" in script.prompts[0]
    assert "return 'hello ' + name" in script.prompts[0]
    assert repo.git("log", "--format=%P", "-1").strip() == base
    assert b"'HELLO ' + name" in repo.read("src/app.py")
    assert states(repo) == ["undone", "committed"]


@pytest.mark.soak
def test_again_after_an_undo_undoes_nothing_more(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    script.replies("<commit>First</commit>\n" + GREET)
    edit()
    shouts = [diff("a.txt", "-line 5", f"+{line}") for line in ("LINE 5", "LINE FIVE")]
    script.replies(shouts[0], "no edit at all", shouts[1])
    edit(file="a.txt", request="shout")
    run("edit", "--again", "louder", "--yes", code=1)  # undone, and then the model only answered
    assert repo.git("log", "-1", "--format=%s").strip() == "First"
    run("edit", "--again", "louder please", "--yes", code=0)
    assert repo.git("log", "-2", "--format=%s") == "Louder please\nFirst\n"
    assert b"LINE FIVE" in repo.read("a.txt")


@pytest.mark.soak
def test_again_checks_its_preconditions_first(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    script.replies(GREET)
    edit()
    tip = repo.head()
    for code, arguments in [
        (2, ("shout",)),  # no user to ask
        (4, ("shout", "--yes", "--model", "nobody/knows")),
        (2, ("shout", "--yes", "--max-cost", "1")),
        (3, ("shout", "--yes", "--branch", "main")),
        (2, ("shout", "--yes", "--fixup", "nothing")),
        (2, ("src/app.py", "shout", "--yes")),
        (2, ("shout", "--dry-run")),
    ]:
        done = run("edit", "--again", *arguments)
        assert (done.code, repo.head()) == (code, tip), (arguments, done.err)
    assert run("redo").code == 1  # nothing was undone


@pytest.mark.soak
def test_a_locked_memory_does_not_fail_an_undo(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<commit>First</commit>\n" + GREET)
    script.act(0, "echo in the way > .repoagent/memory")
    done = run("edit", "src/app.py", "greet with a comma", "--yes", "--json", code=0)
    assert done.json["commit"] == repo.head()
    assert "could not record this edit in memory" in done.err and "the next command will retry" in done.err
    done = run("undo", "--json", code=0)
    assert json.loads(done.out)["moved"] is True
    assert "could not clean up after a killed command (the next command will try again)" in done.err
    (repo.top / ".repoagent/memory").unlink()
    done = run("redo", code=0)
    assert re.search(r"^recovered: recorded edit \S+ in memory$", done.err, re.MULTILINE)
    (conversation,) = (repo.top / ".repoagent/memory").glob("*/conversation.md")
    assert "greet with a comma" in conversation.read_text()
