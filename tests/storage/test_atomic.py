"""Atomic writes, appends and safe reads, on real files; the hostile cases first."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.storage import atomic
from repoagent.storage.atomic import append_line, read_regular, set_aside, write_whole
from repoagent.storage.layout import Layout, ensure_root
from repoagent.storage.locks import flock_until


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / ".repoagent", tmp_path / ".git")


def test_a_linked_root_is_refused_and_its_target_untouched(layout: Layout, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    layout.root.symlink_to(elsewhere)
    for attempt in (
        lambda: ensure_root(layout),
        lambda: write_whole(layout.memory / "index.json", b"x"),
        lambda: append_line(layout.audit, b"x"),
        lambda: read_regular(layout.config),
    ):
        with pytest.raises(Refused, match="symbolic link"):
            attempt()
    assert list(elsewhere.iterdir()) == []


def test_a_linked_file_is_replaced_not_followed_and_a_link_above_is(layout: Layout, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    layout.root.mkdir()
    layout.config.symlink_to(victim)
    with pytest.raises(Refused, match="not a regular file"):
        read_regular(layout.config)
    with pytest.raises(Refused, match=r"config\.toml"):
        append_line(layout.config, b"x")
    write_whole(layout.config, b"new")
    assert victim.read_bytes() == b"mine"
    assert layout.config.read_bytes() == b"new" and not layout.config.is_symlink()
    os.close(atomic.write_locked(layout.root / "locked", b"new"))
    assert {path.stat().st_mode & 0o777 for path in layout.root.iterdir()} == {0o600}
    (tmp_path / "link").symlink_to(tmp_path)
    write_whole(tmp_path / "link/new/.repoagent/x", b"1")
    assert (tmp_path / "new/.repoagent/x").read_bytes() == b"1"


def test_missing_files_and_folders(layout: Layout, tmp_path: Path) -> None:
    assert read_regular(layout.root / "a" / "b") is None
    assert not atomic.move_durably(layout.root / "a" / "b", tmp_path / "b")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refused, match="not a regular file"):
        read_regular(tmp_path / "folder")
    with pytest.raises(Refused, match="cannot write"):
        write_whole(tmp_path / "folder", b"x")
    layout.root.mkdir()
    layout.memory.symlink_to(tmp_path)
    with pytest.raises(Refused, match="memory is a symbolic link"):
        write_whole(layout.memory / "a" / "identity.json", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".repoagent", "folder"]


def test_a_fifo_and_a_strange_gitignore_are_refused_without_waiting(layout: Layout, tmp_path: Path) -> None:
    layout.root.mkdir()
    os.mkfifo(layout.audit)
    started = time.monotonic()
    for attempt in (lambda: read_regular(layout.audit), lambda: append_line(layout.audit, b"x")):
        with pytest.raises(Refused, match="not a regular file"):
            attempt()
    strange = (Path.mkdir, os.mkfifo, lambda path: path.symlink_to(tmp_path / "dangling"))
    for number, make in enumerate(strange):
        other = Layout(tmp_path / str(number), tmp_path / ".git")
        other.root.mkdir()
        make(other.root / ".gitignore")
        with pytest.raises(Refused, match="gitignore"):
            ensure_root(other)
    assert not (tmp_path / "dangling").exists() and time.monotonic() - started < 5


def test_a_full_disk_leaves_no_half_of_a_gitignore(layout: Layout) -> None:
    """An empty .gitignore would remain, and git would show all files of the memory."""
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, largest[1]))
    try:
        with pytest.raises(Refused, match="cannot write"):
            ensure_root(layout)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    assert not list(layout.root.iterdir())
    ensure_root(layout)
    assert (layout.root / ".gitignore").read_bytes() == b"*\n"
    (layout.root / ".gitignore").write_bytes(b"*\n!config.toml\n")
    ensure_root(layout)
    assert (layout.root / ".gitignore").read_bytes() == b"*\n!config.toml\n"  # one that is there stays


def test_a_file_swept_before_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, swept = fcntl.flock, []

    def flock_later(descriptor: int, kind: int) -> None:
        if not swept:
            swept.append(True)
            atomic.remove_temporary_files(tmp_path)
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", flock_later)
    write_whole(tmp_path / "file", b"x")
    assert swept and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_readers_see_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"a" * 50_000)
    script = (
        "import sys; from pathlib import Path; from repoagent.storage.atomic import write_whole\n"
        "for n in range(60): write_whole(Path(sys.argv[1]), (b'a', b'b')[n % 2] * 50_000)\n"
    )
    seen = set()
    with subprocess.Popen([sys.executable, "-c", script, str(path)]) as writer:
        while writer.poll() is None:
            seen.add(read_regular(path))
    assert writer.returncode == 0 and seen and seen <= {b"a" * 50_000, b"b" * 50_000}


def test_append_ends_a_torn_line_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\nto")
    append_line(path, b"three")
    append_line(path, b"four\n")
    assert path.read_bytes() == b"one\nto\nthree\nfour\n"


def test_an_appended_line_is_durable_before_its_first_byte_and_that_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "log", []
    path.write_bytes(b"one\n")
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.read_bytes()))
    append_line(path, b"two", marker=b"#")
    assert synced == [b"one\n#wo\n", b"one\ntwo\n"]


def test_appends_of_many_processes_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    script = (
        "import sys; from pathlib import Path; from repoagent.storage.atomic import append_line\n"
        "for n in range(25):\n"
        "    append_line(Path(sys.argv[1]), b'%s %d %s' % (sys.argv[2].encode(), n, b'x' * 3000))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), str(who)]) for who in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    lines = path.read_bytes().splitlines()
    numbers = sorted(tuple(map(int, line.split()[:2])) for line in lines)
    assert numbers == [(who, n) for who in range(4) for n in range(25)]


def test_set_aside_numbers_and_keeps(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    for number in (1, 2):
        path.write_bytes(b"%d" % number)
        assert set_aside(path).name == f"index.json.broken-{number}"
    path.mkdir()
    assert set_aside(path).is_dir()
    path.symlink_to("nowhere")
    assert set_aside(path).is_symlink()
    assert (tmp_path / "index.json.broken-1").read_bytes() == b"1"
    with pytest.raises(FileNotFoundError):
        set_aside(path)


@pytest.mark.parametrize("there", [b"", b"other\n"])
def test_a_line_is_not_appended_to_a_file_that_was_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bytes
) -> None:
    path, away = tmp_path / "lines", tmp_path / "away"
    path.write_bytes(b"old\n")

    def locked_after_a_move(descriptor: int, deadline: float, file: Path) -> bool:
        if not away.exists():
            path.rename(away)
            if there:  # another writer was faster
                path.write_bytes(there)
        return flock_until(descriptor, deadline, file)

    monkeypatch.setattr("repoagent.storage.locks.flock_until", locked_after_a_move)
    append_line(path, b"new")
    assert (away.read_bytes(), path.read_bytes()) == (b"old\n", there + b"new\n")


def test_broken_files_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    path = tmp_path / "run.json"

    def break_often(worker: int) -> None:
        number = 0
        while number < 40:
            with suppress(FileExistsError), path.open("x") as file:
                file.write(f"{worker} {number}")
                number += 1
            with suppress(FileNotFoundError):
                set_aside(path)

    workers = [threading.Thread(target=break_often, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    texts = [file.read_text() for file in tmp_path.iterdir()]
    assert len({text for text in texts if text}) == 160
