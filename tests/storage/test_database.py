"""Opening a SQLite file: created once and private, never read if it is another program's."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.storage import database
from repoagent.storage.database import (
    DatabaseDamaged,
    DatabaseSchema,
    DatabaseUnusable,
    open_database,
    open_to_read,
)

SCHEMA = DatabaseSchema(0x123, 1, "CREATE TABLE item (name)")


def test_threads_that_create_a_database_at_once_do_not_set_it_aside(tmp_path: Path) -> None:
    messages: list[str] = []
    for number in range(20):
        barrier = threading.Barrier(4)

        def create(path: Path = tmp_path / f"{number}.db", barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            open_database(path, SCHEMA, messages.append).close()
            messages.append("opened")

        threads = [threading.Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert messages == ["opened"] * 80


def test_a_database_of_an_older_version_is_made_again(tmp_path: Path) -> None:
    path, newer = tmp_path / "items.db", SCHEMA._replace(version=2)
    with closing(open_database(path, SCHEMA, pytest.fail)) as older:
        older.execute("INSERT INTO item VALUES (1)")
        older.execute("""CREATE VIRTUAL TABLE "a ""word" USING fts5 (body)""")
    assert open_to_read(path, newer) is None
    open_database(path, newer, pytest.fail).close()
    with closing(open_database(path, newer, pytest.fail)) as current:
        assert current.execute("SELECT name FROM sqlite_schema").fetchall() == [("item",)]
        assert current.execute("SELECT * FROM item").fetchall() == []


def test_a_newer_version_is_refused_whatever_it_contains(tmp_path: Path) -> None:
    path = tmp_path / "items.db"
    with closing(open_database(path, SCHEMA, pytest.fail)) as newer:
        newer.execute("CREATE VIEW other AS SELECT name FROM item")
        newer.execute("PRAGMA user_version = 99")
    for reopen in (lambda: open_database(path, SCHEMA, pytest.fail), lambda: open_to_read(path, SCHEMA)):
        with pytest.raises(DatabaseUnusable, match="format version 99"):
            reopen()


def test_an_error_of_the_system_has_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "items.db"
    with closing(open_database(path, SCHEMA, pytest.fail)) as full:
        full.execute("PRAGMA max_page_count = 1")
        remedy = pytest.raises(DatabaseUnusable, match=r"is full\); check .* free disk space")
        with remedy, database.sqlite_errors(path):
            full.execute("INSERT INTO item VALUES (randomblob(99999))")


def test_only_an_existing_file_is_opened_for_reading(tmp_path: Path) -> None:
    path = tmp_path / "folder/it's 100%.db"
    assert open_to_read(path, SCHEMA) is None
    path.parent.mkdir()
    assert open_to_read(path, SCHEMA) is None and not path.exists()
    path.touch()
    assert open_to_read(path, SCHEMA) is None
    path.unlink()
    open_database(path, SCHEMA, pytest.fail).close()
    assert path.stat().st_mode & 0o777 == 0o600
    connection = open_to_read(path, SCHEMA)
    assert connection is not None
    with closing(connection), pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("INSERT INTO item VALUES (1)")


@pytest.mark.parametrize("version", [1, 2])
def test_a_failure_leaves_no_lock(tmp_path: Path, version: int) -> None:
    path = tmp_path / "items.db"
    if version == 2:
        open_database(path, SCHEMA, pytest.fail).close()
    with pytest.raises(DatabaseDamaged) as error:
        open_database(path, DatabaseSchema(0x123, version, "CREATE TABLE item (name); nonsense"), pytest.fail)
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("BEGIN EXCLUSIVE")
    assert error.tb  # it keeps the connection
