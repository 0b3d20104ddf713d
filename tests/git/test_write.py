"""Writing one file: atomically, with its metadata, and never over a concurrent save."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.git import file_writer as replacing
from repoagent.git.file_writer import Moved, Step, copy_metadata, new_folders, revert_step, write_file
from repoagent.git.files import Content, look, torn

OLD, NEW = Content(b"old\n"), Content(b"new, and longer\n")
ROOT_USER = os.geteuid() == 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD.data)
    return path


def replace(file: Path, old: Content | None = OLD, new: Content | None = NEW) -> None:
    write_file(file.parent, file.name, old, new, ".temporary")


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_replace(file: Path) -> None:
    inode = file.stat().st_ino
    replace(file)
    assert file.read_bytes() == NEW.data and only(file.parent) == ["file"]
    assert file.stat().st_ino != inode


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o4711, 0o444, 0o640])
def test_mode_stays(file: Path, mode: int) -> None:
    file.chmod(mode)
    replace(file)
    assert file.stat().st_mode & 0o7777 == mode


def test_attributes_stay(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("no extended attributes here")
    replace(file)
    assert os.getxattr(file, "user.note") == b"mine"


@pytest.mark.skipif(not ROOT_USER, reason="only root gives files away")
def test_owner_stays(file: Path) -> None:
    os.chown(file, 12345, 54321)
    replace(file)
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 54321)


def test_hard_link_is_written_in_place(file: Path) -> None:
    os.link(file, file.with_name("other"))
    replace(file)
    assert file.with_name("other").read_bytes() == NEW.data and file.samefile(file.with_name("other"))
    replace(file, NEW, OLD)
    assert file.read_bytes() == OLD.data


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EACCES, errno.EXDEV])
def test_file_that_cannot_be_replaced_is_written_in_place(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(replacing, "exchange", refuse)
    inode = file.stat().st_ino
    replace(file)
    assert file.read_bytes() == NEW.data and file.stat().st_ino == inode and only(file.parent) == ["file"]


@pytest.mark.skipif(not ROOT_USER, reason="only root mounts")
def test_bind_mount(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    done = subprocess.run(["mount", "--bind", str(file), str(target)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        write_file(tmp_path, "target", OLD, NEW, ".temporary")
    finally:
        subprocess.run(["umount", str(target)], check=True)
    assert file.read_bytes() == NEW.data


@pytest.mark.skipif(ROOT_USER, reason="root may write everywhere")
def test_unwritable_folder(file: Path) -> None:
    file.parent.chmod(0o555)
    try:
        replace(file)
    finally:
        file.parent.chmod(0o755)
    assert file.read_bytes() == NEW.data


@pytest.fixture(params=["exchange", "link"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system that can exchange two files, and one that cannot."""
    if request.param == "link":
        monkeypatch.setattr(replacing, "exchange", lambda *_: False)
    return str(request.param)


def save(path: Path, how: str) -> None:
    if how == "in place":
        path.write_bytes(b"theirs\n")
    else:
        path.with_name("theirs").write_bytes(b"theirs\n")
        path.with_name("theirs").replace(path)


@pytest.mark.parametrize("how", ["in place", "atomic"])
def test_saved_before(file: Path, system: str, how: str) -> None:
    save(file, how)
    with pytest.raises(Moved) as caught:
        replace(file)
    assert caught.value.current == {"file": Content(b"theirs\n")}
    assert file.read_bytes() == b"theirs\n" and only(file.parent) == ["file"]


@pytest.mark.parametrize("how", ["in place", "atomic"])
def test_saved_in_the_last_moment(file: Path, system: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if (system, how) == ("link", "atomic"):
        pytest.skip("the moment between link and rename: only an exchange closes it")
    metadata: Callable[..., None] = copy_metadata

    def late(*arguments: object) -> None:
        metadata(*arguments)
        save(file, how)

    monkeypatch.setattr(replacing, "copy_metadata", late)
    with pytest.raises(Moved) as caught:
        replace(file)
    assert caught.value.current == {"file": Content(b"theirs\n")}
    assert file.read_bytes() == b"theirs\n" and only(file.parent) == ["file"]


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
        with pytest.raises(Moved):
            replace(file, new=new)
        timer.join()
    assert file.read_bytes() == b"saved"
    assert only(file.parent) == ["file", "other"][:links]


def test_saved_twice_in_the_last_moment(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The later save is in the file, and the earlier one is reported."""
    swap, saves = replacing.exchange, iter([b"one\n", b"two\n"])

    def saving(*given: Any) -> bool:
        for save in saves:
            file.write_bytes(save)
            break
        return swap(*given)

    monkeypatch.setattr(replacing, "exchange", saving)
    with pytest.raises(Moved):
        replace(file)
    assert file.read_bytes() == b"two\n"
    temporary = capsys.readouterr().err.strip().rpartition(" ")[2]
    assert (file.parent / temporary).read_bytes() == b"one\n"


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

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, "no links")

        monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(Moved):
        replace(file, None, NEW)
    assert file.read_bytes() == OLD.data and only(file.parent) == ["file"]
    file.unlink()
    replace(file, None, NEW)
    assert file.read_bytes() == NEW.data and only(file.parent) == ["file"]


def test_deletion_removes_empty_folders(tmp_path: Path) -> None:
    write_file(tmp_path, "a/b/c", None, NEW, ".temporary")
    (tmp_path / "a/keep").touch()
    write_file(tmp_path, "a/b/c", NEW, None, ".temporary")
    assert only(tmp_path / "a") == ["keep"]


def test_deletion_keeps_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path, "a/b/c", None, NEW, ".temporary")
    monkeypatch.chdir(tmp_path / "a/b")
    write_file(tmp_path, "a/b/c", NEW, None, ".temporary")
    assert (tmp_path / "a/b").is_dir()


def test_deletion_of_a_file_with_a_concurrent_save(file: Path) -> None:
    file.write_bytes(b"theirs\n")
    with pytest.raises(Moved):
        replace(file, OLD, None)
    assert file.read_bytes() == b"theirs\n" and only(file.parent) == ["file"]


def test_links_and_files_take_each_others_place(file: Path) -> None:
    link = Content(b"somewhere", "120000")
    replace(file, OLD, link)
    assert file.readlink() == Path("somewhere")
    replace(file, link, NEW)
    assert not file.is_symlink() and file.read_bytes() == NEW.data and only(file.parent) == ["file"]


def test_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(OLD.data)
    (tmp_path / "top").mkdir()
    (tmp_path / "top/folder").symlink_to(tmp_path / "outside")
    assert look(tmp_path / "top", "folder/file") is None
    with pytest.raises(Refused):
        write_file(tmp_path / "top", "folder/file", OLD, NEW, ".temporary")
    with pytest.raises(Refused):
        write_file(tmp_path / "top", "folder/new", None, NEW, ".temporary")
    assert only(tmp_path / "outside") == ["file"] and (tmp_path / "outside/file").read_bytes() == OLD.data


def test_a_full_disk_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="No space left"):
        replace(file)
    monkeypatch.undo()
    assert file.read_bytes() == OLD.data and only(file.parent) == ["file"]


def test_a_special_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(Refused, match="not a regular file"):
            look(tmp_path, name)


def test_missing_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    steps = [Step(path, None, NEW, ".temporary") for path in ("a/b/c/d", "a/b/e", "f")]
    assert new_folders(tmp_path, steps) == ("a/b/c", "a/b")


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 40))
def test_torn_is_seen(old: bytes, new: bytes, cut: int) -> None:
    """Each state that writing front to back, then truncating, can leave."""
    half = new[:cut] + old[len(new[:cut]) :]
    assert torn(Content(half), Content(old), Content(new))


def test_torn_is_not_everything() -> None:
    assert not torn(Content(b"abXd"), Content(b"abcd"), Content(b"ABCD"))
    assert not torn(None, OLD, NEW) and not torn(OLD, None, NEW)


def test_link_that_cannot_be_replaced(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content cannot be written to a symbolic link: that is reported, and nothing is changed."""

    def refuse(*_: object) -> bool:
        raise OSError(errno.EPERM, "immutable")

    file.unlink()
    file.symlink_to("here")
    monkeypatch.setattr(replacing, "exchange", refuse)
    with pytest.raises(Refused, match="cannot write file: immutable"):
        replace(file, Content(b"here", "120000"), Content(b"there", "120000"))
    assert str(file.readlink()) == "here" and only(file.parent) == ["file"]


@pytest.mark.parametrize("left", [OLD.data, NEW.data[:3]])
@pytest.mark.parametrize("suffix", ["", ".old"])
def test_the_temporary_file_of_a_kill(file: Path, left: bytes, suffix: str) -> None:
    """Including the second name of the old file if two files cannot be exchanged."""
    file.with_name(f".temporary{suffix}").write_bytes(left)
    file.write_bytes(NEW.data)
    assert revert_step(file.parent, Step("file", OLD, NEW, ".temporary"))
    assert file.read_bytes() == OLD.data and only(file.parent) == ["file"]


@pytest.mark.parametrize("suffix", ["", ".old"])
@pytest.mark.parametrize("now", [NEW.data, b"saved once more"])
def test_a_save_in_the_temporary_file_of_a_kill(file: Path, now: bytes, suffix: str) -> None:
    """A save during our write is not lost: it is in place of ours, or where it was written."""
    temporary = file.with_name(f".temporary{suffix}")
    temporary.write_bytes(b"saved")
    file.write_bytes(now)
    assert not revert_step(file.parent, Step("file", OLD, NEW, ".temporary"))
    if now == NEW.data:
        assert file.read_bytes() == b"saved" and only(file.parent) == ["file"]
    else:
        assert file.read_bytes() == now and temporary.read_bytes() == b"saved"


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
                found = look(tmp_path, "name")
                seen.add(found and found.data)
    finally:
        stop.set()
        swapping.join()
    assert seen <= {None, b"one", b"target"}
