"""Reading a source: the files that must not be read first."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.files import blob_hash, check_path, is_ignored, is_tracked, read_source
from repoagent.git.worktree import WorkTree, open_worktree
from tests.conftest import GitRepo


@pytest.fixture
def worktree(repo: GitRepo) -> WorkTree:
    return open_worktree(repo.top)


@pytest.mark.soak
@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../x", "src/../../x", "src/..", "./a.txt", "src//app.py", "src/", "a\0b",
        ".git/config", ".GIT/config", "src/.Git/hooks/x", ".git", "git~1/config", "GIT~1",
        ".git /x", ".git./x", ".git::$INDEX_ALLOCATION/x", ".g\u200cit/config", "x\\.git\\config",
    ],
)  # fmt: skip
def test_paths_that_are_never_a_source(worktree: WorkTree, path: str) -> None:
    with pytest.raises(Refused):
        read_source(worktree, path)


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/x", "a.git", "..x", "git~2", "x:y", "src/.gitkeep", " .git"]
)
def test_names_that_only_look_like_it(path: str) -> None:
    check_path(path)


def test_a_link_names_the_file_to_edit(repo: GitRepo, worktree: WorkTree, tmp_path: Path) -> None:
    (repo.top / "app").symlink_to("src/app.py")
    (repo.top / "lib").symlink_to("src")
    (repo.top / "passwd").symlink_to("/etc/passwd")
    (repo.top / "out").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("x")
    with pytest.raises(Refused, match=r"app is a symbolic link: name the file itself, src/app\.py"):
        read_source(worktree, "app")
    with pytest.raises(
        Refused, match=r"leads through lib, a symbolic link: name the file itself, src/app\.py"
    ):
        read_source(worktree, "lib/app.py")
    with pytest.raises(Refused, match="passwd is a symbolic link out of the work tree"):
        read_source(worktree, "passwd")
    with pytest.raises(Refused, match="leads through out, a symbolic link out of the work tree"):
        read_source(worktree, "out/secret")
    with pytest.raises(Refused, match="out of the work tree"):
        read_source(worktree, "out/missing/new.txt")


def test_not_a_regular_file(repo: GitRepo, worktree: WorkTree, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(repo.top / "fifo")
    monkeypatch.chdir(repo.top)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for path, why in (
            ("fifo", "special file"),
            ("socket", "special file"),
            ("src", "is a folder"),
            ("a.txt/x", "not a folder"),
        ):
            with pytest.raises(Refused, match=why):
                read_source(worktree, path)


def test_other_repositories_inside(repo: GitRepo, worktree: WorkTree, tmp_path: Path) -> None:
    other = GitRepo(tmp_path / "other")
    other.top.mkdir()
    other.git("init", "-q")
    other.commit("one", x="1")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.top), "vendor/sub")
    repo.commit("submodule")
    for path in ("vendor/sub", "vendor/sub/x", "vendor/sub/deep/new"):
        with pytest.raises(Refused, match="submodule or repository vendor/sub: run repoagent inside"):
            read_source(worktree, path)
    repo.git("submodule", "deinit", "-q", "-f", "--all")
    with pytest.raises(Refused, match="run repoagent inside vendor/sub with new"):
        read_source(worktree, "vendor/sub/new")
    (repo.top / "empty").mkdir()
    assert read_source(worktree, "empty/new").data is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_an_unreadable_file(repo: GitRepo, worktree: WorkTree) -> None:
    (repo.top / "a.txt").chmod(0)
    with pytest.raises(Refused, match=r"cannot read a\.txt: Permission denied"):
        read_source(worktree, "a.txt")


def test_a_file_too_large(repo: GitRepo, worktree: WorkTree) -> None:
    with (repo.top / "big").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    with pytest.raises(Refused, match="314,572,800 bytes"):
        read_source(worktree, "big")


def test_a_missing_file_is_empty_handed(worktree: WorkTree) -> None:
    for path in ("new.txt", "src/new.py", "new/folder/x"):
        source = read_source(worktree, path)
        assert (source.path, source.data, source.mode, source.blob) == (path, None, None, "")


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


def test_modes(repo: GitRepo, worktree: WorkTree) -> None:
    (repo.top / "a.txt").chmod(0o744)
    assert read_source(worktree, "a.txt").mode == "100755"
    assert read_source(worktree, "README.md").mode == "100644"


@pytest.mark.parametrize("how", ["config", "environment", "absent and global"])
def test_the_index_knows_the_mode_where_the_disk_does_not(
    repo: GitRepo, worktree: WorkTree, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.git("update-index", "--chmod=+x", "a.txt")
    if how == "config":
        repo.git("config", "core.fileMode", "no")
    elif how == "environment":
        monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.filemode=false'")
    else:
        repo.git("config", "--unset", "core.fileMode")
        repo.git("config", "--global", "core.fileMode", "false")
    (repo.top / "README.md").chmod(0o755)
    assert read_source(worktree, "a.txt").mode == "100755"
    assert read_source(worktree, "README.md").mode == "100644"


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
