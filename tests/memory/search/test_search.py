"""What is found, and in which order."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest

from repoagent.errors import UsageError
from repoagent.llm.conversation import Turn
from repoagent.memory.edit_records import append_edit
from repoagent.memory.notes import add_note
from repoagent.memory.search import index
from repoagent.memory.search.search import SearchOptions, hit_line, search_memories
from repoagent.storage.layout import Layout
from tests.memory.conftest import Workspace, fail
from tests.memory.search.memory_files import MemoryFiles
from tests.memory.test_files import record


def lines(layout: Layout, query: str, limit: int = 10) -> list[str]:
    """The hits as lines for a model."""
    how = SearchOptions(limit=limit, width=400)
    return [hit_line(hit) for hit in search_memories(layout, query, how=how, warn=fail)]


def test_nothing_is_remembered_and_nothing_is_made(workspace: Workspace, memories: MemoryFiles) -> None:
    assert lines(workspace.layout, "anything") == []
    assert memories.search("anything") == [] and list(memories.root.iterdir()) == []
    memories.root.rmdir()
    assert memories.search("anything") == [] and not memories.root.exists()


def test_rare_words_and_parts_of_names(workspace: Workspace) -> None:
    a, b = workspace.known("a.py"), workspace.known("b.py")
    add_note(a.notes, "the parser is called by the loader", day=date(2026, 11, 1))
    add_note(a.notes, "the cache is shared", day=date(2026, 11, 1))
    add_note(b.notes, "the loader calls readConfig twice", day=date(2026, 11, 1))
    append_edit(b.edits, record(1, request="speed up the loader cache"))
    found = lines(workspace.layout, "the CONFIG loader")
    assert found[0] == "b.py: 2026-11-01: the loader calls readConfig twice" and len(found) == 3
    assert lines(workspace.layout, "cache", limit=1) == ["a.py: 2026-11-01: the cache is shared"]
    assert lines(workspace.layout, "speed up")[0].startswith("b.py: 2026-11-01: speed up the loader")


def test_missing_fts5_is_reported(memories: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = index.SCHEMA.tables.replace("USING fts5", "USING no_such_module")
    monkeypatch.setattr(index, "SCHEMA", index.SCHEMA._replace(tables=tables))
    assert memories.search("cache") == []
    memories.notes("a.py", "the cache is shared")
    with pytest.raises(UsageError, match="FTS5"):
        memories.search("cache")


@pytest.mark.parametrize(
    "query", ["readConfig", "read_config", "read config", "READ-CONFIG", "config.read readConfig"]
)
def test_a_name_is_found_in_any_style_and_itself_comes_first(memories: MemoryFiles, query: str) -> None:
    memories.notes("a.py", "read it, then config it: a config that is read twice", "config read")
    memories.notes("b.py", "words about other things, and among them one readConfig somewhere in between all")
    assert memories.files(query)[0] == "b.py"


def test_words_of_the_path_count(memories: MemoryFiles) -> None:
    memories.notes("src/net/http_server.py", "be careful with time-outs")
    memories.notes("src/other.py", "be careful with time-outs")
    assert memories.files("time-outs of HTTPServer") == ["src/net/http_server.py"]
    assert memories.search("time-outs of HTTPServer")[0].also == ("src/other.py",)


def test_new_passages_and_files_with_more_matches_rank_higher(memories: MemoryFiles) -> None:
    memories.notes("old.py", "2020-01-01: the cache is cold")
    memories.notes("new.py", "2026-11-01: the cache is warm")
    assert memories.files("cache", SearchOptions(today=date(2026, 11, 22))) == ["new.py", "old.py"]
    memories.notes("many.py", "2020-01-01: cache one", "2020-01-01: cache two", "2020-01-01: cache six")
    assert memories.files("cache", SearchOptions(limit=1, today=date(2026, 11, 22))) == ["many.py"]


def test_phrases_kinds_files_and_limit(memories: MemoryFiles) -> None:
    memories.notes("src/a.py", "the order of results matters")
    memories.edits("src/b.py", "results in another order")
    memories.conversation("conversations/plan.md", Turn("user", "which order?"))
    memories.conversation("conversations/edit-1234.md", Turn("user", "which order in flight?"))
    memories.write(f"summaries/ab/{'c' * 38}.json", json.dumps({"version": 1, "summary": "Keep the order"}))
    memories.write("summaries/files/ab/cd.md", "version: 1\nabout: src/s.py\n\nKeeps order.\n")
    found = {"src/a.py", "src/b.py", "plan", f"commit ab{'c' * 10}", "src/s.py"}
    assert set(memories.files("order")) == found
    assert memories.search("zzzzqqqq") == memories.search(" ?! ") == memories.search("") == []
    assert memories.files('"order of results"') == ["src/a.py"]
    assert memories.files('"results of order"') == []
    assert set(memories.files("order", SearchOptions(kinds=("edit", "summary")))) == {"src/b.py", "src/s.py"}
    assert set(memories.files("order", SearchOptions(files=["src"]))) == {"src/a.py", "src/b.py", "src/s.py"}
    assert memories.files("order", SearchOptions(files=["src/b.py"])) == ["src/b.py"]
    assert memories.files("order", SearchOptions(files=["sr"])) == []
    assert len(memories.files("order", SearchOptions(limit=2))) == 2


def test_a_hit_has_its_path_and_line(memories: MemoryFiles) -> None:
    notes = memories.notes("a.py", "2026-11-01: first", "2026-11-02: the Cache is shared")
    (hit,) = memories.search("caches")
    assert (hit.path, hit.line, hit.date, hit.kind, hit.file) == (notes, 4, "2026-11-02", "note", "a.py")
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["Cache"]
    assert "Cache" in notes.read_text().split("\n")[hit.line - 1]


def test_one_edit_of_several_files_is_one_hit(memories: MemoryFiles) -> None:
    for file in ("a.py", "b.py", "c.py"):
        memories.edits(file, "share the cache")
    (hit,) = memories.search("cache")
    assert sorted([hit.file, *hit.also]) == ["a.py", "b.py", "c.py"]
    where = f"{hit.file} (and {hit.also[0]}, {hit.also[1]})"
    assert lines(memories.layout, "cache")[0].startswith(f"{where}: 2026-11-01: share")


def test_the_best_passage_represents_its_file(memories: MemoryFiles) -> None:
    memories.notes("a.py", "three retries", "the retry waits for the lock of the queue", "the lock is old")
    memories.notes("b.py", "something else of a queue")
    first, *_ = memories.search("which retry waits for a queue, and does closing the socket end that early")
    assert (first.file, first.snippet) == ("a.py", "the retry waits for the lock of the queue")


def test_the_searching_conversation_is_left_out(memories: MemoryFiles) -> None:
    call = Turn("assistant", 'the cache is shared <recall query="is the cache shared"/>')
    asking = memories.conversation("conversations/run-1.md", call)
    memories.conversation("conversations/run-2.md", Turn("user", "the cache is shared"))
    how = SearchOptions(without=asking)
    assert [hit.name for hit in memories.search("why is the cache shared", how)] == ["run-2"]
    assert len(memories.search("why is the cache shared", replace(how, kinds=["conversation"]))) == 1
    assert len(memories.search("why is the cache shared")) == 2


def test_archived_texts_rank_below_current_ones(memories: MemoryFiles) -> None:
    memories.notes("a.py", "the cache is shared by the readers here, which is a longer text than the other")
    memories.notes("b.py", "nothing of that")
    memories.write("memory/b-py-1a2b/archive/notes.md", "# Notes\n\n- the cache is shared by the readers\n")
    archived = "memory/b-py-1a2b/archive/conversation-2026-01-01-1a.md"
    memories.conversation(archived, Turn("user", "paint the zeppelin"))
    memories.write("memory/b-py-1a2b/archive/cleared-20260101T000000Z/notes.md", "- the cleared dirigible\n")
    assert memories.files("cache shared readers") == ["a.py", "b.py"]
    assert memories.files("zeppelin") == ["b.py"] and memories.files("dirigible") == []
    hit = memories.search("zeppelin")[0]
    assert hit.path.name == "conversation-2026-01-01-1a.md" and hit.line == 4
