"""A folder that becomes a link while we read or write in it leads nowhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.file_writer import exchange_files, write_file
from repoagent.git.files import Content, read_source
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo

pytestmark = pytest.mark.soak


@contextmanager
def swapping(folder: Path, outside: Path) -> Iterator[None]:
    """`folder` is by turns itself and a link to `outside`, as fast as can be."""
    stop = threading.Event()
    folder.with_name("link").symlink_to(outside)
    parent = os.open(folder.parent, os.O_RDONLY)

    def swap() -> None:
        while not stop.is_set():
            exchange_files(parent, "link", folder.name)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        os.close(parent)


@pytest.mark.parametrize("path", ["d/x", "d/deep/x"])
def test_what_is_swapped_for_a_link_is_never_followed(repo: GitRepo, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    for name in ("x", "deep/x"):
        (outside / name).write_bytes(b"theirs\n")
    repo.write(path, b"one\n")
    repo.write(f"{path}.keep", b"")
    worktree = open_worktree(repo.top)
    one, two = Content(b"one\n"), Content(b"two\n")
    read: set[bytes | None] = set()
    written = refused = 0
    with swapping(repo.top / "d", outside):
        for number in range(400):
            old, new = ((one, two), (two, one), (one, None), (None, one))[number % 4]
            try:
                write_file(repo.top, path, old, new, f".tmp-{number}")
                written += 1
            except Refused:
                refused += 1
            try:
                read.add(read_source(worktree, path).data)
            except Refused:
                refused += 1
    assert written and refused
    assert read <= {b"one\n", b"two\n", None}
    assert sorted(p.read_bytes() for p in outside.rglob("*") if p.is_file()) == [b"theirs\n"] * 2
