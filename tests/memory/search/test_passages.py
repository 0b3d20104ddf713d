"""Files as passages with their lines, texts and queries as words; any text at all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repoagent.llm.conversation import NewerConversation, Turn, dumps
from repoagent.memory.search import passages
from repoagent.memory.search.index import in_memory
from repoagent.memory.search.passages import LONGEST, Passage, stem, words_of
from repoagent.memory.search.search import SearchOptions, parse_query, ranked, snippet


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
    edit = {"id": "1", "time": "2026-11-01T10:00:00Z", "request": "make it\nfaster", "commit": "a" * 40}
    other = {"id": "2", "request": "no more", "state": "refused", "time": 3}
    undone = {**edit, "state": "undone"}
    lines = [{**edit, "state": "committed"}, other, [], undone, {"id": 5, "request": "x"}, {"id": "6"}]
    text = "".join(f"{json.dumps(line)}\n" for line in lines).replace("[]", "broken")
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
    text = dumps(turns, "0" * 8).replace("please", "## [00000000] by hand")
    found = list(passages.conversation(text, "a.py"))
    texts = ["make it faster\n## [00000000] by hand", "I read.", "a check failed"]
    assert [passage.text for passage in found] == texts
    lines = text.split("\n")
    assert all(lines[passage.line - 1] == passage.text.split("\n")[0] for passage in found)
    assert found[0].date == "2026-11-01" and found[0].title == len("make it faster")


def test_searches_by_a_model_are_not_indexed() -> None:
    said = 'I look.\n<recall query="zanzibar"/>\n<recall>\nzanzibar\n</recall>\n<search pattern="zanzibar"/>\nDone: <run>make</run>'
    text = dumps([Turn("user", "ask"), Turn("assistant", said)], "0" * 8)
    found = list(passages.conversation(text, "a.py"))
    assert "zanzibar" not in "".join(passage.text for passage in found)
    last = next(passage for passage in found if "Done: <run>make</run>" in passage.text)
    offset = last.text.split("\n").index("Done: <run>make</run>")
    assert text.split("\n")[last.line - 1 + offset] == "Done: <run>make</run>"


def test_a_broken_conversation_is_text_and_a_newer_one_is_skipped() -> None:
    text = "what I wrote\nby hand"
    assert [passage.text for passage in passages.conversation(text, "", "talk")] == [text]
    with pytest.raises(NewerConversation):
        list(passages.conversation("# repoagent conversation, version 99, nonce 7f3a9c21\n\n", ""))


def test_a_commit_has_a_line_for_each_file() -> None:
    value = {"date": "2026-11-01T10:00:00Z", "summary": "Add “x”", "files": {"a.py": "Reads x", "b.py": 7}}
    text = json.dumps({"commit": "c" * 40, **value}, ensure_ascii=False, indent=1)
    found = list(passages.commit(text, "c" * 40))
    assert [(passage.file, passage.name, passage.text) for passage in found] == [
        ("", "commit cccccccccccc", "Add “x”"), ("a.py", "commit cccccccccccc", "Reads x"),
    ]  # fmt: skip
    assert all(passage.text in text.split("\n")[passage.line - 1] for passage in found)


def test_a_files_summary() -> None:
    text = "version: 1\nabout: src/app.py, lines 1-310\ndate: 2026-11-22T11:09:14+00:00\n\nReads it.\n\nThen more."
    (found,) = passages.summary(text)
    assert (found.file, found.date, found.line) == ("src/app.py", "2026-11-22", 5)


_LONG = st.sampled_from(["x " * LONGEST, "y" * 4000])
_LINES = st.lists(st.text(alphabet="ab \t日", max_size=30) | _LONG).map("\n".join)


@given(_LINES)
def test_pieces_are_short_and_complete(text: str) -> None:
    lines = text.split("\n")
    found = list(passages.conversation(text, ""))
    assert all(len(passage.text) <= LONGEST and passage.text.strip() for passage in found)
    assert all(passage.text.split("\n")[0] in lines[passage.line - 1] for passage in found)
    assert "".join("".join(passage.text for passage in found).split()) == "".join(text.split())


@given(st.text() | st.text(alphabet='{}[]":,\n#-az19 '))
def test_any_text_has_passages(text: str) -> None:
    for read in (passages.notes, passages.edits, passages.conversation):
        list(read(text, "a"))
    list(passages.commit(text, "c" * 40))
    list(passages.summary(text))


ANY = st.text() | st.text(alphabet="\"'*()-:^+{}ANDORNEAnot \n\0\ud800éß日本_.", max_size=40)


@pytest.mark.parametrize(
    ("text", "parts", "names"),
    [
        *((name, "read config", "readconfig") for name in ("readConfig", "ReadConfig", "READ_CONFIG")),
        *((name, "read config", "readconfig") for name in ("read_config", "read-config", "__read_config__")),
        ("HTTPServer2", "http server 2", "httpserver2"),
        ("utf8", "utf 8", "utf8"),
        ("a.b.c", "a b c", "abc"),
        ("std::vector", "std vector", "stdvector"),
        ("self->buffer", "self buffer", "selfbuffer"),
        ("src/foo/barBaz.py", "src foo bar baz py", "barbaz srcfoobarbazpy"),
        ("3f2a9c1be04d7710", "3f2a9c1be04d7710", ""),
        ("the caches, running. Queries stopped!", "the cach run query stop", ""),
        ("Füße naïve", "fuss naive", ""),
        ("日本語 か", "日本 本語 か", ""),
        ("", "", ""),
        ("?! -- ...", "", ""),
    ],
)
def test_names_are_words_and_a_whole(text: str, parts: str, names: str) -> None:
    found = words_of(text)
    assert (" ".join(map(stem, parts.split())), names) == (" ".join(found.parts), " ".join(found.names))


@given(ANY)
def test_words_contain_no_sqlite_syntax(text: str) -> None:
    for words in words_of(text):
        assert all(word and not set(word) & set("\"' \t\n\0*") and len(word) <= 64 for word in words)


@pytest.mark.parametrize(
    ("text", "words", "phrases"),
    [
        ("the cache", "cach", ()),
        ("what is this", "what is this", ()),
        ('"order of results" now', "order result now", (("order", "of", "result"),)),
        ('a " cache', "cach", ()),
        ('"cache"', "cach", ()),
        ("cache AND NOT disk*", "cach disk", ()),
    ],
)
def test_a_query_is_words_and_phrases(text: str, words: str, phrases: tuple[tuple[str, ...], ...]) -> None:
    assert (parse_query(text).words, parse_query(text).phrases) == (tuple(words.split()), phrases)


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    connection = in_memory()
    connection.execute("INSERT INTO words VALUES ('a not near', 'b or', 'ab', 'x py')")
    yield connection
    connection.close()


@given(text=ANY)
@example(text='a OR NEAR("b c*" near) -title:{near} ^a + (\'')
def test_any_text_is_a_query(index: sqlite3.Connection, text: str) -> None:
    query = parse_query(text)
    assert query.words or not words_of(text).parts
    ranked(index, query, SearchOptions(kinds=("note",), files=(text,), today=date(2026, 1, 1)), Path())


@given(ANY, ANY, st.integers(20, 200))
def test_a_snippet_is_one_line_that_fits_and_its_marks_are_words(text: str, asked: str, width: int) -> None:
    query = parse_query(asked)
    found = snippet(text, query, width)
    assert len(found.text) <= width + 1 and "\n" not in found.text
    assert 0 <= found.lines <= text.count("\n")
    assert list(found.marks) == sorted(found.marks)
    for start, end in found.marks:
        marked = words_of(found.text[start:end])
        assert set(marked.parts) & set(query.words) or set(marked.names) & {*query.names, *query.joined}


def test_a_snippet_shows_most_words_of_the_query() -> None:
    text = "one cache here\n" + "nothing at all\n" * 60 + "the cache of readConfig\n" + "more\n" * 60
    found = snippet(text, parse_query("cache of read_config"), 80)
    assert [found.text[start:end] for start, end in found.marks] == ["cache", "readConfig"]
    assert found.lines == 61 and found.text.startswith("…the cache") and found.text.endswith("…")
