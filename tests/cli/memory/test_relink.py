"""`repoagent memory relink`."""

from __future__ import annotations

from repoagent.memory.notes import add_note
from tests.cli.memory.conftest import Ask, known
from tests.memory.conftest import Desk, text


def test_bad_input_is_one_sentence(ask: Ask, context: Desk) -> None:
    context.repo.write("new.py", text("new"))
    for arguments, code, sentence in (
        (["src/a.py", "--from", "src/b.py"], 3, "src/a.py already has a memory"),
        (["src/a.py", "--from", "src/a.py"], 1, "src/a.py already has that memory"),
        (["nowhere.py", "--from", "src/a.py"], 3, "no such file: nowhere.py"),
        (["new.py"], 2, "missing option '--from'"),
        (["new.py", "--from", "nowhere.py"], 2, "no such file: nowhere.py, and there is no memory for it"),
    ):
        done = ask("relink", *arguments)
        assert (done.code, done.out) == (code, "") and sentence in done.err, arguments


def test_older_notes_are_marked_until_it_is_undone(ask: Ask, context: Desk) -> None:
    """They were not marked: notes about one text were shown as facts about another."""
    memory = known(context, "src/a.py")
    add_note(memory.notes, "squares are right", blob=memory.identity.blob, source="person")
    context.repo.write("new.py", text("new"))
    done = ask("relink", "new.py", "--from", memory.folder.name)
    assert done.out == "attached the memory of src/a.py to new.py\n"
    assert done.code == 0 and "new.py has another text; older notes were marked" in done.err
    assert context.folder("new.py") == memory.folder.name and context.folder("src/a.py") is None
    assert "squares are right [about an older version]" in ask("show", "new.py").out
    assert ask("note", "new.py", "this is of new.py").code == 0
    assert "of new.py [about" not in ask("show", "new.py").out
    back = f"relink src/a.py --from {memory.folder.name}"
    assert f"undo it with: repoagent memory {back}" in done.err and ask(*back.split()).code == 0
    assert context.folder("src/a.py") == memory.folder.name and context.folder("new.py") is None
    shown = ask("show", "src/a.py").out
    assert "squares are right\n" in shown


def test_a_wrong_move_is_undone(ask: Ask, context: Desk) -> None:
    top, mine = context.worktree.top, context.folder("src/a.py")
    (top / "src/a.py").rename(top / "c.py")
    assert context.folder("c.py") == mine
    assert mine and ask("relink", "src/a.py", "--from", mine).code == 0 and context.folder("c.py") is None
    context.repo.git("checkout", "--", "src/a.py")
    assert context.folder("src/a.py") == mine
