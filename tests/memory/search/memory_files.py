"""Plain files as the memory keeps them, without a repository."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from repoagent.llm.conversation import Turn, dumps
from repoagent.memory.search.index import in_memory, snapshot_files, update
from repoagent.memory.search.search import Hit, SearchOptions, search_memories
from repoagent.storage.layout import Layout

ALL = SearchOptions()
Rows = list[tuple[object, ...]]


def layout_at(top: Path) -> Layout:
    return Layout(top / ".repoagent", top / ".git")


class MemoryFiles:
    """The `.repoagent` of a test; `warnings` are those of searches."""

    def __init__(self, top: Path) -> None:
        self.layout = layout_at(top)
        self.root = self.layout.root
        self.root.mkdir()
        self.warnings: list[str] = []

    def write(self, path: str, data: bytes | str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f".{place.name}.new")  # at once, as the program does: a search may be reading
        new.write_bytes(data.encode() if isinstance(data, str) else data)
        return new.replace(place)

    def memory(self, file: str, folder: str = "") -> str:
        """Make the memory of `file`; its folder, below the root."""
        name = folder or file.replace("/", "-").replace(".", "-") + "-1a2b"
        self.write(f"memory/{name}/identity.json", json.dumps({"version": 1, "path": file}))
        return f"memory/{name}"

    def notes(self, file: str, *lines: str) -> Path:
        bullets = "".join(f"- {line}\n" for line in lines)
        return self.write(f"{self.memory(file)}/notes.md", f"# Notes\n\n{bullets}")

    def edits(self, file: str, *requests: str, day: str = "2026-11-01") -> Path:
        lines = [
            json.dumps({"version": 1, "id": f"{number}", "time": f"{day}T10:00:00Z", "path": file, "request": request,
                        "source_blob": "", "result_blob": "", "state": "committed", "commit": "abcdef0123456789"})
            for number, request in enumerate(requests)
        ]  # fmt: skip
        return self.write(f"{self.memory(file)}/edits.jsonl", "".join(f"{line}\n" for line in lines))

    def conversation(self, path: str, *turns: Turn) -> Path:
        return self.write(path, dumps(turns))

    def search(self, query: str, how: SearchOptions = ALL) -> list[Hit]:
        return search_memories(self.layout, query, how=how, warn=self.warnings.append)

    def files(self, query: str, how: SearchOptions = ALL) -> list[str]:
        assert not self.warnings
        return [hit.file or hit.name for hit in self.search(query, how)]

    def rows(self) -> Rows:
        """What the index on disk holds, without its own numbers."""
        with closing(sqlite3.connect(self.root / "recall.db")) as connection:
            return content(connection)

    def rebuilt(self) -> Rows:
        """What an index holds that is made now."""
        with closing(in_memory()) as connection:
            update(connection, self.layout, snapshot_files(self.layout), self.warnings.append)
            return content(connection)


def content(connection: sqlite3.Connection) -> Rows:
    found: Sequence[tuple[object, ...]] = connection.execute(
        "SELECT s.path, s.about, p.kind, p.file, p.date, p.line, p.text, p.title, p.name, p.blob, w.title, w.body, "
        "w.names, w.path FROM source s JOIN passage p ON p.source = s.id LEFT JOIN words w ON w.rowid = p.id"
    ).fetchall()
    count = connection.execute("SELECT count(*) FROM words").fetchone()
    return sorted([*found, count], key=repr)
