"""Save, load and branch; undo and redo, to the byte, and what was written since."""

from __future__ import annotations

import hashlib
import random

import pytest

from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.llm.conversation import Turn, append_turns
from repoagent.memory.conversation_log import (
    REDO,
    UNDO,
    ConcurrentChange,
    change_conversation,
    log_folder,
    logged_changes,
    reverse_change,
    text_file,
)
from repoagent.memory.conversations import about_of, last_spoken, list_conversations
from repoagent.storage.atomic import read_regular
from repoagent.storage.locks import hold_lock
from repoagent.storage.secrets import mask
from tests.edit.prompt.test_prompt import made
from tests.memory.conftest import text
from tests.memory.conversations.conftest import TALK, StoredConversations

MORE = (Turn("user", "and now?", {"edit": "3"}), Turn("assistant", "Now it is done."))


def test_a_copy_names_its_file_and_has_the_same_turns(stored: StoredConversations) -> None:
    source = stored.find("file:a.py")
    stored.copy("save", "file:a.py", stored.place("fast"))
    found = stored.find("fast")
    assert found.conversation == source.conversation
    assert about_of(found.text) == "a.py"
    assert found.ref.path.stat().st_mode & 0o777 == 0o600
    [entry] = list_conversations(stored.layout)
    assert (entry.about, entry.turns, entry.last) == ("a.py", 5, "2026-11-21T10:00:00+00:00")


def test_existing_conversations_are_not_overwritten_without_force(stored: StoredConversations) -> None:
    before = stored.make("fast", TALK[:1]).path.read_bytes()
    place = stored.place("fast")
    with pytest.raises(Refused, match="already exists; choose another name or use --force"):
        stored.copy("save", "file:a.py", place)
    assert place.path.read_bytes() == before
    stored.copy("save", "file:a.py", place, replaces=True)
    after = place.path.read_bytes()
    assert stored.undo(place) == "save" and place.path.read_bytes() == before
    assert stored.redo(place) == "save" and place.path.read_bytes() == after
    with pytest.raises(UsageError, match="a copy of itself"):
        stored.copy("save", "fast", place, replaces=True)


def test_keys_are_masked_in_a_copy(stored: StoredConversations) -> None:
    token = made("ghp" + "_", 36)
    stored.make("keys", [Turn("user", f"use {token}, please")])
    stored.copy("save", "keys", stored.place("copy"))
    assert stored.find("copy").conversation.turns[0].text == f"use {mask(token)}, please"
    logged = [path.read_bytes() for path in log_folder(stored.layout).rglob("*") if path.is_file()]
    assert token.encode() not in b"".join(logged)


def test_a_branch_ends_at_its_turn(stored: StoredConversations) -> None:
    place = stored.place("other")
    for turn in (0, 6, -1):
        with pytest.raises(UsageError, match="has no turn"):
            stored.copy("branch", "file:a.py", place, turns=turn)
    stored.copy("branch", "file:a.py", place, turns=2)
    assert stored.find("other").conversation.turns == TALK[:2]
    [entry] = list_conversations(stored.layout)
    assert (entry.about, entry.turns) == ("a.py", 2)
    with pytest.raises(Refused, match=r"already exists; choose another name$"):
        stored.copy("branch", "file:a.py", place)
    append_turns(place.path, *MORE)
    with pytest.raises(Refused, match="has changed since its last branch"):
        stored.undo(place)
    assert stored.find("other").conversation.turns == (*TALK[:2], *MORE)


def test_a_conversation_follows_a_renamed_file_and_outlives_it(stored: StoredConversations) -> None:
    top = stored.workspace.worktree.top
    assert stored.at.ref("file:a.py").key == stored.at.file("a.py").key
    (top / "a.py").rename(top / "moved.py")
    (top / "a.py").write_bytes(text("a stranger"))
    moved = stored.at.ref("file:moved.py")
    assert stored.find("file:moved.py").conversation.turns == TALK
    with pytest.raises(Refused, match=r"no conversation about a\.py yet"):
        stored.at.ref("file:a.py")
    stored.make("fast", TALK[:2])
    stored.copy("load", "fast", stored.at.file("a.py", make=True), replaces=True)
    assert stored.find("file:a.py").conversation.turns == TALK[:2]
    assert stored.at.ref("file:moved.py").key == moved.key != stored.at.ref("file:a.py").key
    for path in ("gone.py", "/etc/passwd", "../x", ".git/config"):
        with pytest.raises((UsageError, Refused)):
            stored.at.ref(f"file:{path}")
    (top / "a.py").unlink()
    assert stored.find("file:a.py").conversation.turns == TALK[:2]
    with pytest.raises(UsageError, match=r"no such file: a\.py"):
        stored.at.file("a.py", make=True)


def test_a_later_change_is_a_conflict(stored: StoredConversations) -> None:
    place = stored.make("fast")
    before = place.path.read_bytes()
    stored.edit(place, before, before.replace(b"- second", b"- 2nd"))
    mine = place.path.read_bytes().replace(b"make it faster", b"make it much faster")
    place.path.write_bytes(mine)
    with pytest.raises(Refused, match="fast has changed since its last edit; undo by hand: copy ") as caught:
        stored.undo(place)
    assert place.path.read_bytes() == mine
    kept = text_file(stored.layout, hashlib.sha256(before).hexdigest())
    assert str(kept) in str(caught.value) and kept.read_bytes() == before
    place.path.unlink()
    with pytest.raises(Refused, match="has changed since its last edit"):
        stored.undo(place)


def test_a_chain_of_changes_goes_back_and_forth(stored: StoredConversations) -> None:
    place = stored.make("fast")
    states: list[bytes | None] = [place.path.read_bytes()]
    for number in range(4):
        after = states[-1] and states[-1] + b"%d\n" % number
        stored.edit(place, states[-1], after)
        states.append(after)
    change_conversation(stored.layout, place, states[-1], None, "delete")
    states.append(None)

    for state in reversed(states[:-1]):
        stored.undo(place)
        assert read_regular(place.path) == state
    with pytest.raises(NothingDone, match="nothing to undo"):
        stored.undo(place)
    for state in states[1:3]:
        stored.redo(place)
        assert read_regular(place.path) == state
    stored.undo(place)
    stored.edit(place, states[1], b"# another\n")
    with pytest.raises(NothingDone, match="nothing to redo"):
        stored.redo(place)
    stored.undo(place)
    stored.undo(place)
    assert read_regular(place.path) == states[0]


@pytest.mark.soak
def test_undo_never_loses_turns(stored: StoredConversations) -> None:
    for seed in range(60):
        chosen = random.Random(seed)
        place = stored.make(f"talk {seed}")
        said: list[str] = []
        for number in range(25):
            act = chosen.choice(["edit", "say", "undo", "undo", "redo", "by hand"])
            present = place.path.read_bytes()
            if act == "say":
                said.append(f"said {seed} {number}")
                append_turns(place.path, Turn("user", said[-1]))
            elif act == "edit":
                words = chosen.choice([b"make it faster", b"Applied: a.py", b"I share", b"- first"])
                after = present.replace(words, b"%s %d" % (words, number), 1)
                stored.edit(place, present, after)
            elif act == "by hand":
                place.path.write_bytes(present.replace(b"why is", b"why%d is" % number, 1))
            else:
                try:
                    reverse_change(stored.layout, place, UNDO if act == "undo" else REDO)
                except (NothingDone, Refused):
                    assert place.path.read_bytes() == present
            turns = stored.find(place.name).conversation.turns
            assert [turn.text for turn in turns[5:]] == said, (seed, number)


def test_a_late_writer_and_an_equal_text_change_nothing(stored: StoredConversations) -> None:
    place = stored.make("fast")
    before = place.path.read_bytes()
    done = stored.edit(place, before, before)
    assert done.before == done.after and logged_changes(stored.layout) == []
    append_turns(place.path, *MORE)
    with pytest.raises(ConcurrentChange, match="another process has just changed fast"):
        stored.edit(place, before, b"")
    assert stored.find("fast").conversation.turns == (*TALK, *MORE) and logged_changes(stored.layout) == []


def test_undo_reverts_changes_by_commands(stored: StoredConversations) -> None:
    place = stored.make("mine")
    with pytest.raises(NothingDone, match="no command has changed mine"):
        stored.undo(place)
    with pytest.raises(UsageError, match="no conversation 'min'; did you mean 'mine'"):
        stored.undo(stored.place("min"))
    assert not list(place.path.parent.glob("min.md*"))


def test_a_modified_stored_text_is_not_used(stored: StoredConversations) -> None:
    place = stored.make("fast")
    before = place.path.read_bytes()
    done = stored.edit(place, before, before + b"x\n")
    kept = text_file(stored.layout, done.before)
    kept.write_bytes(b"something else")
    with pytest.raises(Refused, match="was modified and no longer matches its hash"):
        stored.undo(place)
    kept.unlink()
    with pytest.raises(Refused, match="is missing; nothing was changed"):
        stored.undo(place)
    assert place.path.read_bytes() == before + b"x\n"
    (log_folder(stored.layout) / "changes.jsonl").write_text('{"version": 2}\n')
    with pytest.raises(Refused, match="newer repoagent"):
        stored.undo(place)


def test_broken_conversations_are_listed_with_the_problem(stored: StoredConversations) -> None:
    folder = stored.make("good").path.parent
    (folder / "broken.md").write_text("no\n")
    (folder / "newer.md").write_text("# repoagent conversation, version 7, nonce aaaaaaaa\n")
    (folder / "link.md").symlink_to("/etc/passwd")
    for name in ("edit-1", "edit-2", "kept-1", "run-1"):
        stored.make(name)
    for name in ("b.md.lock", ".hidden.md", ".md", "x.txt"):  # no conversations
        (folder / name).write_text("")
    (folder / "folder.md").mkdir()
    with hold_lock(stored.layout.locks / "edit-2", label="an edit"):
        listed = {entry.ref.name: entry for entry in list_conversations(stored.layout, files=True)}
    states = {name: (entry.ref.kind, entry.state) for name, entry in listed.items()}
    general = dict.fromkeys(("broken", "good", "link", "newer"), ("general", ""))
    edits = {"edit-1": ("edit", "unfinished"), "edit-2": ("edit", "at work"), "kept-1": ("edit", "kept")}
    assert states == {**general, **edits, "run-1": ("run", ""), "file:a.py": ("file", "")}
    problems = {name: entry.problem for name, entry in listed.items() if entry.problem}
    assert problems.keys() == {"broken", "newer", "link"} and "root:" not in "".join(problems.values())
    last = last_spoken(stored.layout)
    assert last is not None and last.about == "a.py"


def test_a_folder_that_is_a_link_is_not_followed(stored: StoredConversations) -> None:
    elsewhere = stored.workspace.worktree.top.parent / "elsewhere"
    elsewhere.mkdir()
    stored.layout.conversations.symlink_to(elsewhere)
    with pytest.raises(Refused, match="symbolic link"):
        stored.copy("save", "file:a.py", stored.place("fast"))
    with pytest.raises(Refused, match="symbolic link"):
        list_conversations(stored.layout)
    assert list(elsewhere.iterdir()) == []
