"""`repoagent memory show`."""

from __future__ import annotations

import json
import re

from repoagent.memory.identity.record import identity_file
from repoagent.memory.notes import add_note
from tests.cli.memory.conftest import Ask, known, talked
from tests.memory.conftest import Desk, atomic_save, text


def test_everything_on_one_page(ask: Ask, context: Desk) -> None:
    memory = known(context, "src/a.py")
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


def test_details_need_verbose(ask: Ask, context: Desk) -> None:
    known(context, "src/a.py")
    atomic_save(context.worktree.top / "src/a.py", text("a"))
    assert context.folder("src/a.py") and "another inode" not in ask("show", "src/a.py").out
    assert "another inode: src/a.py" in ask("show", "src/a.py", before=("-v",)).out


def test_json(ask: Ask, context: Desk) -> None:
    talked(known(context, "src/a.py"), 1)
    value = json.loads(ask("show", "src/a.py", "--json").out)
    assert (value["version"], value["state"], value["edits"][0]["id"]) == (1, "live", "e1")
    assert value["conversation"]["exchanges"] == 1
    assert value["rekeyings"][0]["reason"] == "first seen"


def test_names_without_a_memory(ask: Ask, context: Desk) -> None:
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


def test_orphans_and_their_replacements(ask: Ask, context: Desk) -> None:
    top = context.worktree.top
    mine, other = known(context, "src/a.py"), known(context, "src/b.py")
    (top / "src/a.py").unlink()
    (top / "src/a.py").symlink_to("b.py")
    assert "orphaned: the file no longer exists" in ask("show", "src/a.py").out
    assert "orphaned: the file no longer exists" in ask("show", mine.folder.name).out
    value = json.loads(identity_file(other.folder).read_text())
    identity_file(other.folder).write_text(json.dumps({**value, "path": "src/a.py", "places": {}}))
    done = ask("show", "src/a.py")
    assert (
        done.code == 2
        and "src/a.py is ambiguous: several deleted files had this path; name one of their memories"
        in done.err
    )
