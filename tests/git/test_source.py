"""Reading a source: the files that must not be read first."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.files import blob_hash, check_path, is_ignored, is_tracked, read_source
from repoagent.git.worktree import WorkTree, open_worktree
from tests.conftest import GitRepo


@pytest.fixture
def worktree(repo: GitRepo) -> WorkTree:
    return open_worktree(repo.top)


NEVER = [
    "", "/etc/passwd", "../x", "src/../../x", "src/..", "./a.txt", "src//app.py", "src/", "a\0b", "\udfff",
    ".git/config", ".GIT/config", "src/.Git/hooks/x", ".git", "git~1/config", "GIT~1",
    ".git /x", ".git./x", ".git::$INDEX_ALLOCATION/x", ".g\u200cit/config", "x\\.git\\config",
]  # fmt: skip


def test_paths_that_are_never_a_source_and_names_that_only_look_like_it() -> None:
    for path in NEVER:
        with pytest.raises(Refused):
            check_path(path)
    for path in (".gitignore", ".github/x", "a.git", "..x", "git~2", "x:y", "src/.gitkeep", " .git"):
        check_path(path)


REFUSED = {
    "app": r"app is a symbolic link: name the file itself, src/app\.py",
    "lib/app.py": r"leads through lib, a symbolic link: name the file itself, src/app\.py",
    "passwd": "passwd is a symbolic link that points outside the work tree",
    "out/secret": "leads through out, a symbolic link that points outside the work tree",
    "out/missing/new.txt": "outside the work tree",
    "fifo": "special file", "socket": "special file", "src": "is a folder", "a.txt/x": "not a folder",
    "big": "314,572,800 bytes", "src/../a.txt": "not a normalized path", "src/.git/x": "never reads or writes",
    **dict.fromkeys(("sub", "sub/x", "sub/deep/new"), "submodule or repository sub: run repoagent inside"),
}  # fmt: skip


def test_what_is_no_regular_file_of_this_repository(
    repo: GitRepo, worktree: WorkTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    make_repo: Callable[[str], GitRepo],
) -> None:  # fmt: skip
    for name, target in {"app": "src/app.py", "lib": "src", "passwd": "/etc/passwd", "out": tmp_path}.items():
        (repo.top / name).symlink_to(target)
    (tmp_path / "secret").write_text("x")
    os.mkfifo(repo.top / "fifo")
    with (repo.top / "big").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    other = make_repo("other")
    other.commit("one", x="1")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.top), "sub")
    monkeypatch.chdir(repo.top)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for path, why in REFUSED.items():
            with pytest.raises(Refused, match=why):
                read_source(worktree, path)
    repo.git("submodule", "deinit", "-q", "-f", "--all")
    with pytest.raises(Refused, match="run repoagent inside sub on new"):
        read_source(worktree, "sub/new")
    (repo.top / "empty").mkdir()
    for path in ("empty/new", "new.txt", "src/new.py", "new/folder/x"):
        source = read_source(worktree, path)
        assert (source.path, source.data, source.mode, source.blob) == (path, None, None, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_an_unreadable_file(repo: GitRepo, worktree: WorkTree) -> None:
    (repo.top / "a.txt").chmod(0)
    with pytest.raises(Refused, match=r"cannot read a\.txt: Permission denied"):
        read_source(worktree, "a.txt")


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_the_blob_is_gits_own(tmp_path: Path, object_format: str) -> None:
    repo = GitRepo(tmp_path)
    repo.git("init", "-q", f"--object-format={object_format}")
    repo.git("config", "core.autocrlf", "true")
    worktree = open_worktree(repo.top)
    name = os.fsdecode(b"na\xffme \xc3\xa9.txt")
    for content in (b"", b"one\r\ntwo\r\n", b"\0" * 10_000, "größe\n".encode("utf-16")):
        repo.write(name, content)
        source = read_source(worktree, name)
        assert source.data == content
        assert source.blob == repo.git("hash-object", "--no-filters", "--stdin", stdin=content).strip()
        assert source.blob == blob_hash(content, object_format)


@pytest.mark.parametrize("how", ["bits", "config", "environment", "absent and global"])
def test_the_mode_is_of_the_disk_unless_it_has_none(
    repo: GitRepo, worktree: WorkTree, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.git("update-index", "--chmod=+x", "a.txt")
    if how == "config":
        repo.git("config", "core.fileMode", "no")
    elif how == "environment":
        monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.filemode=false'")
    elif how != "bits":
        repo.git("config", "--unset", "core.fileMode")
        repo.git("config", "--global", "core.fileMode", "false")
    (repo.top / "README.md").chmod(0o755)
    (repo.top / "a.txt").chmod(0o744 if how == "bits" else 0o644)
    assert read_source(worktree, "a.txt").mode == "100755"
    assert read_source(worktree, "README.md").mode == ("100755" if how == "bits" else "100644")


def test_binary(repo: GitRepo, worktree: WorkTree) -> None:
    for content, binary in (
        (b"text", False),
        (b"\x89PNG\0", True),
        (b"x" * 8000 + b"\0", False),
        ("text".encode("utf-16"), False),
        ("text".encode("utf-16-be"), True),
        (b"", False),
    ):
        repo.write("f", content)
        assert read_source(worktree, "f").binary is binary


def test_ignored(repo: GitRepo, worktree: WorkTree) -> None:
    repo.write(".gitignore", "*.log\nbuild/\n!keep.log\n")
    repo.write("kept.log", "x")
    repo.git("add", "-f", "kept.log")
    odd = [":(top)x.log", "b*/y.log", "new\nline.log", os.fsdecode(b"\xff.log")]
    paths = ["a.txt", "x.log", "keep.log", "kept.log", "build/deep/x", "-x.log", *odd]
    assert is_ignored(worktree, paths) == {"x.log", "build/deep/x", "-x.log", *odd}
    assert is_ignored(worktree, []) == set() == is_ignored(worktree, ["a.txt"])


def test_tracked(repo: GitRepo, worktree: WorkTree) -> None:
    repo.write("a[b].txt", "x")
    repo.write("untracked", "x")
    repo.git("add", "a[b].txt")
    assert is_tracked(worktree, ["a.txt", "src", "src/app.py", "untracked", "none", "a[b].txt", "*"]) == {
        "a.txt",
        "src/app.py",
        "a[b].txt",
    }
    assert is_tracked(worktree, []) == set()
    assert is_tracked(worktree, [*(f"none{n}" for n in range(1200)), "a.txt"]) == {"a.txt"}
