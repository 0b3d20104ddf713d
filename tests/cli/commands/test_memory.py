"""`repoagent memory`: notes and relinking, `show` and `list`, `clear` and `edit`, `export`, `import` and `gc`."""

from __future__ import annotations

import json
import os
import re
import time
from functools import partial
from pathlib import Path

import pytest

from repoagent.llm.conversation import Turn, append_turns
from repoagent.memory.edit_records import EditRecord, append_edit
from repoagent.memory.identity.record import FILE, Memory
from repoagent.memory.identity.store import remember_file
from repoagent.memory.notes import add_note, read_notes
from tests.cli.apply_patch import Ask, Done
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.memory.archive.conftest import turns
from tests.memory.conftest import Committed, Workspace, atomic_save, committed, text, workspace_at
from tests.program import run

__all__ = ["committed"]


@pytest.fixture
def context(committed: Committed) -> Workspace:
    """`src/a.py` and `src/b.py`, committed and remembered."""
    context = workspace_at(committed(**{"src/a.py": text("a"), "src/b.py": text("b")}).top)
    for path in ("src/a.py", "src/b.py"):
        context.remember(path)
    return context


@pytest.fixture
def ask(context: Workspace, in_process: Ask) -> Ask:
    """`repoagent memory ARGUMENTS` in this process, at the top or in `cwd`."""
    top = context.worktree.top
    return lambda *arguments, cwd=top, **more: in_process("memory", *arguments, cwd=cwd, **more)


def talked(memory: Memory, number: int) -> None:
    """Exchange number `number` about the file, and the record of its edit."""
    edit, time, request = f"e{number}", f"2026-11-{number:02}T10:00:00+00:00", f"request {number}"
    append_turns(
        memory.conversation,
        Turn("user", request, {"edit": edit, "time": time}),
        Turn("assistant", f"answer {number}\x1b[31m", {"model": "m"}),
    )
    append_edit(memory.edits, EditRecord(edit, time, "src/a.py", request, "1" * 40, "2" * 40, "3" * 40))


def test_bad_input_is_one_sentence(ask: Ask, context: Workspace) -> None:
    context.repo.write("new.py", text("new"))
    for arguments, code, sentence in (
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
            ["relink", "new.py", "--from", "gone.py"],
            2,
            "no such file: gone.py, and there is no memory for it",
        ),
    ):
        assert sentence in ask(*arguments, code=code).error


def test_a_note_has_the_version_of_its_file_and_no_duplicate(ask: Ask, context: Workspace) -> None:
    assert ask("note", "src/a.py", "the order\nof results matters").code == 0
    memory = context.known("src/a.py")
    (note,) = read_notes(memory.notes)
    assert (note.text, note.source) == ("the order of results matters", "person")
    assert memory.identity.blob.startswith(note.blob) and len(note.blob) == 12
    done = ask("note", "src/a.py", "The order of  results matters")
    assert done.code == 1 and "already noted: the order of results matters" in done.err
    assert len(read_notes(memory.notes)) == 1
    # the first one makes a memory
    done = ask("note", "../a.txt", "ten lines", "--json", cwd=context.worktree.top / "src")
    value = done.json
    assert done.code == 0 and value["new"] == 1 and value["masked"] is False
    memory = context.known("a.txt")
    assert memory.notes == Path(value["file"]) and memory.identity.commit == context.repo.head()


@pytest.mark.soak  # the rules for secrets are loaded
def test_several_notes_from_standard_input_are_masked(ask: Ask, context: Workspace) -> None:
    token = "ghp_C0YeKXhPTzuBAzqIXaxJGWoA8Bz7ChqE0xiA"
    given = f"# Notes\n\n- one is one\n- two\n  goes on\n\n#3 is a ticket\nthe token is {token}\n"
    done = ask("note", "src/a.py", "-", stdin=given.encode())
    assert done.code == 0 and "masked what looks like a key or token" in done.err
    one, two, three = [note.text for note in read_notes(context.known("src/a.py").notes)]
    assert (one, two) == ("one is one", "two goes on")
    assert three.startswith("#3 is a ticket the token is <<secret")
    assert token not in context.known("src/a.py").notes.read_text() + done.err


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
        "src/c.py", "notes (2)", "edits (2)", "  2026-11-02 committed 333333333333: request 2",
        "  2 exchanges with 4 turns; print it with: repoagent conversation show file:src/c.py",
    ):  # fmt: skip
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
    assert "a.txt has no memory" in ask("show", "a.txt", code=1).err
    assert ask("show", "src/a.py", cwd=top / "src", code=0).out == ask("show", "a.py", cwd=top / "src").out
    assert ask("show", "./src/a.py", cwd=top / "src").code == 2
    (top / "src/b.py").rename(top / "d.py")
    assert context.folder("d.py")
    assert "it was renamed to d.py" in ask("show", "src/b.py", code=2).err


def test_orphans_and_their_replacements(ask: Ask, context: Workspace) -> None:
    top = context.worktree.top
    mine, other = context.known("src/a.py"), context.known("src/b.py")
    (top / "src/a.py").unlink()
    (top / "src/a.py").symlink_to("b.py")
    assert "orphaned: the file was not found" in ask("show", "src/a.py").out
    assert "orphaned: the file was not found" in ask("show", mine.folder.name).out
    value = json.loads((other.folder / FILE).read_text())
    (other.folder / FILE).write_text(json.dumps({**value, "path": "src/a.py", "places": {}}))
    done = ask("show", "src/a.py")
    message = "src/a.py is ambiguous: several deleted files had this path; name one of their memories"
    assert done.code == 2 and message in done.err


# `list`: memories and their states, in any width and for programs.


def states(ask: Ask, *arguments: str) -> dict[str, tuple[str, str | None]]:
    listed = ask("list", "--json", *arguments).json["memories"]
    return {row["path"]: (row["state"], row["current_path"]) for row in listed}


def test_an_empty_memory(repo: GitRepo, memory: Ask, tmp_path: Path) -> None:
    assert "nothing is remembered in this repository yet" in memory("list", code=1).error
    assert not (repo.top / ".repoagent").exists()
    repo.git("init", "-q", "--bare", str(tmp_path / "bare.git"))
    assert "not in a git work tree" in memory("list", cwd=tmp_path, code=2).err
    assert "is a bare repository" in memory("list", cwd=tmp_path / "bare.git", code=2).err


def test_states_are_listed_without_changes(ask: Ask, context: Workspace) -> None:
    top = context.worktree.top
    before = (context.known("src/a.py").folder / FILE).read_bytes()
    (top / "src/a.py").rename(top / "c.py")
    (top / "src/b.py").unlink()
    assert states(ask) == {"src/a.py": ("moved", "c.py"), "src/b.py": ("orphaned", None)}
    folder = next(context.layout.memory.glob("a-py-*"))
    assert (folder / FILE).read_bytes() == before
    assert states(ask, "--state", "orphaned").keys() == {"src/b.py"}
    assert states(ask, "--state", "live", "--state", "moved").keys() == {"src/a.py"}
    assert ask("list", "--state", "gone").code == 2
    context.repo.git("add", "-A")
    context.repo.git("commit", "-qm", "moved and edited")
    (top / "c.py").write_bytes((top / "c.py").read_bytes() + b"a line more\n")
    os.utime(context.layout.memory, (1, 1))
    assert states(ask)["src/a.py"] == ("moved", "c.py")
    assert context.folder("c.py") == folder.name
    assert states(ask)["c.py"] == ("live", None)


def test_a_path_that_another_file_has_now(ask: Ask, context: Workspace) -> None:
    """The new file is a stranger: a memory is not live just because a file exists at its path."""
    top = context.worktree.top
    (top / "src/a.py").rename(top / "moved.py")
    (top / "src/a.py").write_bytes(text("nothing alike"))
    context.remember("src/a.py")
    listed = ask("list", "--json").json["memories"]
    mine = [(row["state"], row["current_path"]) for row in listed if row["path"] == "src/a.py"]
    assert sorted(mine) == [("live", None), ("moved", "moved.py")]


def test_small_files_that_have_exchanged_their_names_are_moved(ask: Ask, context: Workspace) -> None:
    repo = context.repo
    for path in ("small.py", "little.py"):  # git looks for no rewrite of a file of less than 400 bytes
        repo.write(path, text(path, 9))
        remember_file(context.layout, context.worktree, path, repo.read(path), commit=repo.head())
    repo.git("add", "-A")
    for old, new in (("small.py", "a"), ("little.py", "small.py"), ("a", "little.py")):
        (repo.top / old).rename(repo.top / new)
    listed = states(ask)
    assert listed["small.py"] == ("moved", "little.py") and listed["little.py"] == ("moved", "small.py")


def test_odd_names_in_all_forms(ask: Ask, context: Workspace) -> None:
    odd = os.fsdecode(b"odd\n\xff\x1b[31m.py")
    context.repo.write(odd, text("odd"))
    context.remember(odd)
    done = run(["memory", "list", "-z"], context.worktree.top)
    assert done.stdout.split(b"\0") == [os.fsencode(odd), b"src/a.py", b"src/b.py", b""]
    table = ask("list").out
    assert "odd^J<FF>^[[31m.py" in table and "\x1b" not in table and len(table.splitlines()) == 4
    assert odd in states(ask)
    assert ask("list", "-z", "--json").code == 2


def test_order_limit_and_paths(ask: Ask, context: Workspace) -> None:
    talked(context.known("src/b.py"), 1)
    context.repo.write("z.py", text("z"))
    context.remember("z.py")
    os.utime(context.known("src/b.py").folder / "edits.jsonl", (4e9, 4e9))
    assert list(states(ask)) == ["src/a.py", "src/b.py", "z.py"]
    for order in ("edits", "used", "size"):
        assert list(states(ask, "--sort", order, "-n", "1")) == ["src/b.py"]
    assert list(states(ask, "-n", "0", ".")) == ["src/a.py", "src/b.py", "z.py"]
    done = ask("list", ".", "--json", cwd=context.worktree.top / "src")
    assert [row["path"] for row in done.json["memories"]] == ["src/a.py", "src/b.py"]
    assert "no memories match" in ask("list", "nowhere", "--state", "orphaned", code=1).err


def test_broken_and_foreign_folders_are_named(ask: Ask, context: Workspace) -> None:
    memory = context.layout.memory
    a, b = context.known("src/a.py").folder, context.known("src/b.py").folder
    (a / FILE).write_bytes(b"{ not json")
    (memory / "link-00000000").symlink_to("/etc")
    (memory / "file-00000001").write_text("no folder")
    (b / "notes.md").symlink_to("/etc/passwd")
    (b / "edits.jsonl").write_bytes(b'\xff{"id":\n[1]\n{"id":"x"}\n' + b"[" * 100_000)
    done = ask("list")
    assert done.code == 0 and [line.split()[-1] for line in done.out.splitlines()[1:]] == ["src/b.py"]
    assert "renamed it to identity.json.broken-1" in done.err
    (row,) = ask("list", "--json").json["memories"]
    assert (row["edits"], row["notes"]) == (1, 0)


def test_an_identity_with_an_invalid_path(ask: Ask, context: Workspace) -> None:
    """A NUL byte in the path of one memory made every command fail."""
    paths = ("../../etc/passwd", "/etc/passwd", ".git/config", "x\x1b[31m", "a\0b", "\ud800z")
    for number, path in enumerate(paths):
        value = {"version": 1, "path": path, "places": {"/etc": {"path": "passwd", "blob": ""}}}
        file = context.layout.memory / f"h-0000000{number}" / "identity.json"
        file.parent.mkdir()
        file.write_text(json.dumps(value))
    listed = states(ask)
    assert listed.keys() == {"src/a.py", "src/b.py", *paths[:4]}
    assert {listed[path][0] for path in paths if path in listed} == {"orphaned"}
    for number in range(len(paths)):
        done = ask("show", f"h-0000000{number}")
        assert done.code == (0 if number < 4 else 2) and "\x1b" not in done.out
    assert len(list(context.layout.memory.glob("*/identity.json.broken-1"))) == 2


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


@pytest.fixture
def remembered(repo: GitRepo) -> GitRepo:
    repo.write("src/b.py", text("b"))
    repo.commit("one more")
    for path in ("a.txt", "src/b.py"):
        workspace_at(repo.top).remember(path).notes.write_text(f"# Notes\n\n- about {path}\n")
    return repo


@pytest.fixture
def memory(in_process: Ask) -> Ask:
    """`repoagent memory ARGUMENTS` in this process, at the top or in `cwd`."""
    return partial(in_process, "memory")


@pytest.mark.soak
def test_a_team_shares_what_it_learned(remembered: GitRepo, memory: Ask, tmp_path: Path) -> None:
    done = memory("export", "-o", "../team.tar.gz")
    assert (done.code, done.out) == (0, "") and "2 memories, " in done.err
    team = tmp_path / "team.tar.gz"
    assert team.stat().st_mode & 0o777 == 0o600
    assert run(["memory", "export", ".."], remembered.top / "src").stdout == team.read_bytes()
    two = tmp_path / "two"
    remembered.git("clone", "-q", str(remembered.top), str(two))
    done = memory("import", "../team.tar.gz", "--dry-run", cwd=two)
    assert done.code == 0 and "1 note" in done.out and not (two / ".repoagent").exists()
    done = memory("import", "-", "--json", stdin=team.read_bytes(), cwd=two)
    assert done.code == 0 and done.json["version"] == 1 and done.err == ""
    assert {(one["current_path"], one["outcome"], one["notes"]) for one in done.json["memories"]} == {
        ("a.txt", "new", 1), ("src/b.py", "new", 1)
    }  # fmt: skip
    done = memory("import", "../team.tar.gz", cwd=two)
    assert done.code == 1 and done.out.count("known") == 2 and "2 memories: 2 known" in done.err


@pytest.mark.soak
def test_errors_of_archives_are_one_sentence(remembered: GitRepo, memory: Ask, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"nothing")
    before = sorted(remembered.top.rglob("*"))
    for code, words, message in (
        (3, "import ../x.tar.gz", "is not a memory archive"),
        (2, "export README.md", "README.md has no memory"),
        (3, "export -o src", "is not a regular file"),
    ):
        done = memory(*words.split())
        assert (done.code, done.err.count("\n")) == (code, 1) and message in done.err
    assert "no file for the archive" in memory("export", "--json", code=2).json["error"]["message"]
    assert sorted(remembered.top.rglob("*")) == before


@pytest.mark.soak
def test_gc_lists_then_archives_and_import_restores(remembered: GitRepo, memory: Ask) -> None:
    folder = remembered.top / ".repoagent/memory"
    remembered.git("rm", "-q", "src/b.py")
    remembered.git("commit", "-q", "--amend", "--allow-empty", "-m", "gone")
    remembered.git("reflog", "expire", "--expire=now", "--all")
    assert memory("gc").code == 1
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 9e6,) * 2)
    done = memory("gc")
    assert done.code == 0 and "orphan" in done.out
    assert "do it with `repoagent memory gc --apply`" in done.err
    done = memory("gc", "--apply", "--json")
    one = done.json["memories"][0]
    assert done.code == 0 and one["verdict"] == "archived" and one["path"] == "src/b.py"
    assert memory("gc").code == 1
    assert memory("import", one["archive"]).code == 0
    assert (folder / one["memory"] / "notes.md").read_text() == "# Notes\n\n- about src/b.py\n"


@pytest.mark.soak
def test_keep_days(remembered: GitRepo, memory: Ask) -> None:
    about = workspace_at(remembered.top).remember("a.txt")
    append_turns(about.conversation, *turns("old", "secret words", "2020-01-01T00:00:00+00:00"))
    assert memory("gc").code == 1
    remembered.git("config", "repoagent.conversations.keepDays", "30")
    assert "would delete entries older than 30 days: 1 exchange" in memory("gc", code=0).err
    assert "secret words" in about.conversation.read_text()
    assert memory("gc", "--apply").code == 0
    assert "secret words" not in about.conversation.read_text()
    assert not list(about.folder.rglob("conversation-*"))
