"""Writing one file: atomically, with its metadata, and never over a concurrent save."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.git import file_writer
from repoagent.git.file_writer import (
    FilesChanged,
    FileStep,
    copy_metadata,
    new_folders,
    revert_step,
    write_file,
)
from repoagent.git.files import Content, is_partly_overwritten, read_content

OLD, NEW = Content(b"old\n"), Content(b"new, and longer\n")
THEIRS = Content(b"theirs\n")
ROOT_USER = os.geteuid() == 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD.data)
    return path


@pytest.fixture(params=["exchange", "link"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system that can exchange two files, and one that cannot."""
    if request.param == "link":
        monkeypatch.setattr(file_writer, "exchange_files", lambda *_: False)
    return str(request.param)


def replace(file: Path, old: Content | None = OLD, new: Content | None = NEW) -> None:
    write_file(file.parent, file.name, old, new, ".temporary")


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(number: int) -> Mock:
    """A function that raises this error."""
    return Mock(side_effect=OSError(number, os.strerror(number)))


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o4711, 0o444, 0o640])
def test_the_file_is_replaced_and_its_metadata_stays(file: Path, system: str, mode: int) -> None:
    if ROOT_USER:
        os.chown(file, 12345, 54321)
    file.chmod(mode)
    noted = False
    with suppress(OSError):  # there may be no extended attributes here
        os.setxattr(file, "user.note", b"mine")
        noted = True
    before = file.stat()
    replace(file)
    assert file.read_bytes() == NEW.data and only(file.parent) == ["file"]
    now = file.stat()
    assert (now.st_uid, now.st_gid, now.st_mode & 0o7777) == (before.st_uid, before.st_gid, mode)
    assert now.st_ino != before.st_ino and (not noted or os.getxattr(file, "user.note") == b"mine")


@pytest.mark.parametrize("number", [errno.EMLINK, errno.EBUSY, errno.EACCES, errno.EXDEV])
def test_a_write_in_place_as_a_last_resort(file: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    if number == errno.EMLINK:  # it has two names
        os.link(file, file.with_name("other"))
    else:
        monkeypatch.setattr(file_writer, "exchange_files", failing(number))
    inode, names = file.stat().st_ino, only(file.parent)
    for new in (NEW, OLD):
        replace(file, read_content(file.parent, "file"), new)
        assert file.read_bytes() == new.data and file.stat().st_ino == inode
        assert only(file.parent) == names


@pytest.mark.skipif(ROOT_USER, reason="root may write everywhere")
def test_unwritable_folder(file: Path) -> None:
    file.parent.chmod(0o555)
    try:
        replace(file)
    finally:
        file.parent.chmod(0o755)
    assert file.read_bytes() == NEW.data


def save(path: Path, how: str) -> None:
    if how == "in place":
        path.write_bytes(THEIRS.data)
    else:
        path.with_name("theirs").write_bytes(THEIRS.data)
        path.with_name("theirs").replace(path)


@pytest.mark.parametrize("how", ["in place", "atomic"])
@pytest.mark.parametrize("late", [False, True])
def test_a_save_before_the_write_and_in_the_last_moment(
    file: Path, system: str, how: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (system, how, late) == ("link", "atomic", True):
        pytest.skip("the moment between link and rename: only an exchange closes it")

    def save_first(*arguments: Any) -> None:
        copy_metadata(*arguments)
        save(file, how)

    if late:
        monkeypatch.setattr(file_writer, "copy_metadata", save_first)
    else:
        save(file, how)
    with pytest.raises(FilesChanged) as caught:
        replace(file)
    assert caught.value.current == {"file": THEIRS}
    assert file.read_bytes() == THEIRS.data and only(file.parent) == ["file"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who has a file open")
@pytest.mark.parametrize("new", [NEW, None])
@pytest.mark.parametrize("links", [1, 2])
def test_a_save_that_had_begun_before(file: Path, new: Content | None, links: int) -> None:
    """The file is open for writing, still with its old content."""
    if links == 2:
        os.link(file, file.parent / "other")
    with file.open("r+b", buffering=0) as saver:
        timer = threading.Timer(0.1, lambda: (saver.write(b"saved"), saver.close()))
        timer.start()
        with pytest.raises(FilesChanged):
            replace(file, new=new)
        timer.join()
    assert file.read_bytes() == b"saved" and only(file.parent) == ["file", "other"][:links]


def test_saved_twice(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The later save is in the file, and the earlier one is reported."""
    swap, saves = file_writer.exchange_files, iter([b"one\n", b"two\n"])

    def saving(*arguments: Any) -> bool:
        if (data := next(saves, None)) is not None:
            file.write_bytes(data)
        return swap(*arguments)

    monkeypatch.setattr(file_writer, "exchange_files", saving)
    with pytest.raises(FilesChanged):
        replace(file)
    assert file.read_bytes() == b"two\n"
    earlier = capsys.readouterr().err.strip().rpartition(" ")[2]
    assert (file.parent / earlier).read_bytes() == b"one\n"


def test_new_file_keeps_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_file(tmp_path, "deep/er/new", None, Content(b"x", "100755"), ".temporary")
    finally:
        os.umask(old)
    assert (tmp_path / "deep/er/new").stat().st_mode & 0o777 == 0o750
    assert only(tmp_path / "deep/er") == ["new"]


@pytest.mark.parametrize("links", [True, False])
def test_new_file_does_not_clobber(file: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(FilesChanged):
        replace(file, None, NEW)
    assert file.read_bytes() == OLD.data and only(file.parent) == ["file"]
    file.unlink()
    replace(file, None, NEW)
    assert file.read_bytes() == NEW.data and only(file.parent) == ["file"]


def test_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty folders are removed, but not the current one; a save stays."""
    for path in ("a/b/c", "d/e"):
        write_file(tmp_path, path, None, NEW, ".temporary")
    (tmp_path / "a/keep").touch()
    with pytest.raises(FilesChanged):
        write_file(tmp_path, "a/b/c", OLD, None, ".temporary")
    assert (tmp_path / "a/b/c").read_bytes() == NEW.data and only(tmp_path / "a/b") == ["c"]
    monkeypatch.chdir(tmp_path / "d")
    for path in ("a/b/c", "d/e"):
        write_file(tmp_path, path, NEW, None, ".temporary")
    assert only(tmp_path / "a") == ["keep"] and only(tmp_path / "d") == []
    monkeypatch.chdir(tmp_path)  # undoing a deletion that was there before leaves the folder
    assert revert_step(tmp_path, FileStep("d/e", None, None, ".temporary")) and (tmp_path / "d").exists()


def test_links_and_files_take_each_others_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, other = Content(b"somewhere", "120000"), Content(b"there", "120000")
    replace(file, OLD, link)
    assert file.readlink() == Path("somewhere")
    with monkeypatch.context() as patch:  # content cannot be written to a symbolic link in place
        patch.setattr(file_writer, "exchange_files", failing(errno.EPERM))
        with pytest.raises(Refused, match="cannot write file: Operation not permitted"):
            replace(file, link, other)
    assert file.readlink() == Path("somewhere") and only(file.parent) == ["file"]
    replace(file, link, NEW)
    assert not file.is_symlink() and file.read_bytes() == NEW.data and only(file.parent) == ["file"]


def test_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(OLD.data)
    (tmp_path / "top").mkdir()
    (tmp_path / "top/folder").symlink_to(tmp_path / "outside")
    assert read_content(tmp_path / "top", "folder/file") is None
    for name, old in (("file", OLD), ("new", None)):
        with pytest.raises(Refused):
            write_file(tmp_path / "top", f"folder/{name}", old, NEW, ".temporary")
    assert only(tmp_path / "outside") == ["file"] and (tmp_path / "outside/file").read_bytes() == OLD.data


def test_a_full_disk_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(Refused, match="No space left"):
        replace(file)
    monkeypatch.undo()
    assert file.read_bytes() == OLD.data and only(file.parent) == ["file"]


def test_special_files_and_missing_folders(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a").mkdir()
    for name in ("pipe", "a"):
        with pytest.raises(Refused, match="not a regular file"):
            read_content(tmp_path, name)
    steps = [FileStep(path, None, NEW, ".temporary") for path in ("a/b/c/d", "a/b/e", "f")]
    assert new_folders(tmp_path, [*steps, FileStep("x/y", OLD, None, ".temporary")]) == ("a/b/c", "a/b")


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 40))
def test_torn_is_recognized(old: bytes, new: bytes, cut: int) -> None:
    """Each state that writing front to back, then truncating, can leave."""
    half = new[:cut] + old[len(new[:cut]) :]
    assert is_partly_overwritten(Content(half), Content(old), Content(new))
    assert not is_partly_overwritten(Content(b"abXd"), Content(b"abcd"), Content(b"ABCD"))
    assert not is_partly_overwritten(None, OLD, NEW) and not is_partly_overwritten(OLD, None, NEW)


@pytest.mark.parametrize("suffix", ["", ".old"])
@pytest.mark.parametrize(
    ("left", "now"),
    [(OLD, NEW), (Content(NEW.data[:3]), NEW), (THEIRS, NEW), (THEIRS, Content(b"saved once more"))],
)
def test_the_temporary_file_of_a_kill(file: Path, left: Content, now: Content, suffix: str) -> None:
    """Including the second name of the old file if two files cannot be exchanged. A save during our write is not lost:
    it is in place of ours, or where it was written."""
    temporary = file.with_name(f".temporary{suffix}")
    temporary.write_bytes(left.data)
    file.write_bytes(now.data)
    saved = left == THEIRS
    assert revert_step(file.parent, FileStep("file", OLD, NEW, ".temporary")) is not saved
    if now == NEW:
        assert file.read_bytes() == (THEIRS if saved else OLD).data and only(file.parent) == ["file"]
    else:
        assert (file.read_bytes(), temporary.read_bytes()) == (now.data, THEIRS.data)


@pytest.mark.parametrize("mode", ["100644", "100755"])
def test_a_step_that_changes_only_the_mode_leaves_the_file_and_is_reverted(file: Path, mode: str) -> None:
    step = FileStep("file", OLD, Content(OLD.data, mode), ".temporary")
    inode = file.stat().st_ino
    write_file(file.parent, "file", step.old, step.new, step.temporary)
    assert read_content(file.parent, "file") == step.new and file.stat().st_ino == inode
    for _ in range(2):  # the second time, it is as before
        assert revert_step(file.parent, step) and read_content(file.parent, "file") == OLD
    file.write_bytes(THEIRS.data)
    assert not revert_step(file.parent, step) and file.read_bytes() == THEIRS.data


def test_a_look_at_a_name_that_is_something_else_each_time(tmp_path: Path) -> None:
    """A command in the background can do that: the result existed, or it is refused."""
    stop = threading.Event()

    def swap() -> None:
        other = tmp_path / "other"
        while not stop.is_set():
            other.write_bytes(b"one")
            other.replace(tmp_path / "name")
            other.symlink_to("target")
            other.replace(tmp_path / "name")
            os.mkfifo(other)
            other.replace(tmp_path / "name")

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    try:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            with suppress(Refused):
                content = read_content(tmp_path, "name")
                seen.add(content and content.data)
    finally:
        stop.set()
        swapping.join()
    assert seen <= {None, b"one", b"target"}
