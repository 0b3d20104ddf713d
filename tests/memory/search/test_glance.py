"""Of many memories the folders are looked at, and all files where that is not enough."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from repoagent.memory.edit_records import append_edit
from repoagent.memory.search import index
from repoagent.memory.search.index import catch_up, snapshot_folders
from repoagent.memory.search.search import Search
from repoagent.storage.atomic import write_whole
from repoagent.storage.layout import Layout
from tests.memory.archive.conftest import edit_of
from tests.memory.search.shelf import Shelf

OLD = time.time() - 60
QUICK = Search(patient=False)


@pytest.fixture
def many(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Three memories, which are many here, looked at long after they were written."""
    monkeypatch.setattr(index, "MANY", 3)
    for name in ("a", "b", "c"):
        shelf.notes(f"{name}.py", f"the parser of {name}", "one cache")
    settle(shelf)
    assert shelf.files("parser", QUICK) and snapshot_folders(shelf.layout) is not None
    return shelf


def settle(shelf: Shelf) -> None:
    """Let everything be some seconds old."""
    for place in sorted(shelf.root.rglob("*"), reverse=True):
        if not place.name.startswith("recall."):
            os.utime(place, (OLD, OLD))


def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with each look at all files."""
    done: list[None] = []
    sweep = index.snapshot_files

    def counted(layout: Layout) -> index.FileSnapshot:
        done.append(None)
        return sweep(layout)

    monkeypatch.setattr("repoagent.memory.search.index.snapshot_files", counted)
    return done


def in_place(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_where_no_folder_has_changed_no_file_is_looked_at(
    many: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sweeps(monkeypatch)
    assert len(many.files("the parser", QUICK)) == 3 and len(many.files("cache", QUICK)) > 0
    assert done == []


@pytest.mark.parametrize("kind", ["edit", "notes", "new", "gone", "renamed"])
def test_what_is_written_by_us_or_renamed_into_place_is_found_at_once(many: Shelf, kind: str) -> None:
    folder = many.root / "memory" / "a-py-1a2b"
    if kind == "edit":
        append_edit(folder / "edits.jsonl", edit_of("cache of words"))
        settled = folder.stat().st_mtime
        append_edit(folder / "edits.jsonl", edit_of("parser twice"))  # into a file that is there
        assert folder.stat().st_mtime >= settled
    elif kind == "notes":
        write_whole(folder / "notes.md", b"- the cache is a parser now\n")
    elif kind == "new":
        many.notes("d.py", "parser and cache")
    elif kind == "gone":
        (folder / "notes.md").unlink()
    else:
        (folder / "notes.md.new").write_text("- the cache is a parser now\n")
        (folder / "notes.md.new").replace(folder / "notes.md")
    many.search("cache parser", QUICK)
    assert many.rows() == many.rebuilt()


def test_an_appended_edit_shows_in_its_folder(many: Shelf) -> None:
    folder = many.root / "memory" / "a-py-1a2b"
    append_edit(folder / "edits.jsonl", edit_of("one"))
    settle(many)
    before = snapshot_folders(many.layout)
    append_edit(folder / "edits.jsonl", edit_of("two"))
    assert snapshot_folders(many.layout) != before


def test_what_was_written_in_place_is_found_by_a_word_that_is_nowhere(
    many: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place(many.root / "memory/b-py-1a2b/notes.md", "- the zeppelin\n")
    settle(many)
    assert many.files("zeppelin", QUICK) == []  # all were looked at a moment ago
    monkeypatch.setattr(index, "SOON", 0.0)
    assert many.files("zeppelin", QUICK) == ["b.py"]


def test_what_was_written_in_place_is_seen_by_the_look_after(
    many: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place(many.root / "memory/b-py-1a2b/notes.md", "- the cache has a parser\n")
    many.search("cache parser", QUICK)
    assert many.rows() != many.rebuilt()  # the index can't know
    assert not catch_up(many.layout, many.warnings.append)  # all were looked at a moment ago
    monkeypatch.setattr(index, "EVERY", 0.0)
    assert catch_up(many.layout, many.warnings.append)
    assert many.rows() == many.rebuilt()
    in_place(many.root / "memory/b-py-1a2b/notes.md", "- the cache has no parser\n")
    many.search("cache parser")  # who is patient has them looked at first
    assert many.rows() == many.rebuilt() and not many.warnings


def test_a_folder_that_has_just_changed_is_not_believed(many: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(many.root / "memory/a-py-1a2b/notes.md", b"- the cache\n")
    many.search("cache", QUICK)
    done = sweeps(monkeypatch)
    many.search("cache", QUICK)
    assert done


def test_what_was_put_away_is_found_below_what_is_there(shelf: Shelf) -> None:
    from repoagent.llm.conversation import Turn

    shelf.notes("a.py", "the cache is shared by the readers")
    shelf.notes("b.py", "nothing of that")
    shelf.write("memory/b-py-1a2b/archive/notes.md", "# Notes\n\n- the cache is shared by the readers here\n")
    shelf.conversation(
        "memory/b-py-1a2b/archive/conversation-2026-01-01-1a.md", Turn("user", "paint the zeppelin")
    )
    shelf.write("memory/b-py-1a2b/archive/cleared-20260101T000000Z/notes.md", "- the cleared dirigible\n")
    assert shelf.files("cache shared readers") == ["a.py", "b.py"]
    assert shelf.files("zeppelin") == ["b.py"] and shelf.files("dirigible") == []
    hit = shelf.search("zeppelin")[0]
    assert hit.path.name == "conversation-2026-01-01-1a.md" and hit.line == 4
