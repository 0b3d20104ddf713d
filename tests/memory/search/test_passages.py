"""Plain files as passages, each with its line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.llm.conversation import NewerConversation, Turn, dumps
from repoagent.memory.search import passages
from repoagent.memory.search.passages import LONGEST, Passage


def test_notes_with_and_without_a_date() -> None:
    text = "# Notes\n\n- 2026-11-21 3f2a9c1: the order\n  matters\n* by hand\n\nA paragraph\ngoes on.\n## Head\n- last"
    found = list(passages.notes(text, "a.py"))
    assert [(one.line, one.date, one.blob, " ".join(one.text.split())) for one in found] == [
        (3, "2026-11-21", "3f2a9c1", "the order matters"),
        (5, "", "", "by hand"),
        (7, "", "", "A paragraph goes on."),
        (10, "", "", "last"),
    ]


def test_the_last_line_of_an_edit_counts() -> None:
    lines = [
        {"id": "1", "time": "2026-11-01T10:00:00Z", "request": "make it\nfaster", "state": "committed", "commit": "a" * 40},
        {"id": "2", "request": "no more", "state": "refused", "time": 3},
        "broken",
        {"id": "1", "time": "2026-11-01T10:00:00Z", "request": "make it\nfaster", "state": "undone", "commit": None},
        {"id": 5, "request": "foreign"},
        {"id": "6"},
    ]  # fmt: skip
    text = "".join(
        line if isinstance(line, str) else json.dumps(line) for line in lines for line in (line, "\n")
    )
    assert list(passages.edits(text, "a.py")) == [
        Passage("edit", "a.py", "", 2, "no more (refused)", 7),
        Passage("edit", "a.py", "2026-11-01", 4, "make it faster (undone)", 14),
    ]


def test_turns_have_lines_and_tool_output_is_left_out() -> None:
    turns = [
        Turn("user", "make it faster\nplease", {"time": "2026-11-01T10:00:00Z"}),
        Turn("assistant", "I read."),
        Turn("observation", "the whole file", {"kind": "read"}),
        Turn("observation", "a check failed", {"kind": "check"}),
    ]
    text = dumps(turns)
    found = list(passages.conversation(text, "a.py"))
    assert [one.text for one in found] == ["make it faster\nplease", "I read.", "a check failed"]
    lines = text.split("\n")
    assert all(lines[one.line - 1] == one.text.split("\n")[0] for one in found)
    assert found[0].date == "2026-11-01" and found[0].title == len("make it faster")


def test_searches_by_a_model_are_not_indexed() -> None:
    said = 'I look.\n<recall query="zanzibar"/>\n<recall>\nzanzibar\n</recall>\n<search pattern="zanzibar"/>\nDone: <run>make</run>'
    text = dumps([Turn("user", "ask"), Turn("assistant", said)], "0" * 8)
    found = list(passages.conversation(text, "a.py"))
    assert "zanzibar" not in "".join(one.text for one in found)
    last = next(one for one in found if "Done: <run>make</run>" in one.text)
    lines = text.split("\n")
    assert (
        lines[last.line - 1 + last.text.split("\n").index("Done: <run>make</run>")] == "Done: <run>make</run>"
    )


def test_a_broken_conversation_is_text_and_a_newer_one_is_skipped() -> None:
    assert [one.text for one in passages.conversation("what I wrote\nby hand", "", "talk")] == [
        "what I wrote\nby hand"
    ]
    with pytest.raises(NewerConversation):
        list(passages.conversation("# repoagent conversation, version 99, nonce 7f3a9c21\n\n", ""))


def test_a_commit_has_a_line_for_each_file() -> None:
    value = {
        "commit": "c" * 40,
        "date": "2026-11-01T10:00:00Z",
        "summary": "Add “x”",
        "files": {"a.py": "Reads x"},
    }
    text = json.dumps({**value, "files": {"a.py": "Reads x", "b.py": 7}}, ensure_ascii=False, indent=1)
    found = list(passages.commit(text, "c" * 40))
    assert [(one.file, one.name, one.text) for one in found] == [
        ("", "commit cccccccccccc", "Add “x”"), ("a.py", "commit cccccccccccc", "Reads x"),
    ]  # fmt: skip
    assert all(one.text in text.split("\n")[one.line - 1] for one in found)


def test_a_files_summary() -> None:
    text = "version: 1\nabout: src/app.py, lines 1-310\ndate: 2026-11-22T11:09:14+00:00\n\nReads it.\n\nThen more."
    (found,) = passages.summary(text)
    assert (found.file, found.date, found.line) == ("src/app.py", "2026-11-22", 5)


_LINES = st.lists(
    st.text(alphabet="ab \t日", max_size=30) | st.just("x " * LONGEST) | st.just("y" * 4000)
).map("\n".join)


@given(_LINES)
def test_pieces_are_short_and_complete(text: str) -> None:
    lines = text.split("\n")
    found = list(passages.conversation(text, ""))
    assert all(len(one.text) <= LONGEST and one.text.strip() for one in found)
    assert all(one.text.split("\n")[0] in lines[one.line - 1] for one in found)
    assert "".join("".join(one.text for one in found).split()) == "".join(text.split())


@given(st.text() | st.text(alphabet='{}[]":,\n#-az19 '))
def test_any_text_has_passages(text: str) -> None:
    for read in (passages.notes, passages.edits, passages.conversation):
        list(read(text, "a"))
    list(passages.commit(text, "c" * 40))
    list(passages.summary(text))
