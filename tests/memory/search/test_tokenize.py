"""Texts as words, queries as words; any text at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repoagent.memory.search.index import in_memory
from repoagent.memory.search.passages import stem, words_of
from repoagent.memory.search.search import SearchOptions, parse_query, ranked, snippet

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
