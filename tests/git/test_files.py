"""Reading a source: the files that must not be read first, and last the missing ones, for which near names are suggested."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.files import (
    EXECUTABLE,
    SYMLINK,
    Content,
    FileChange,
    Source,
    blob_hash,
    check_path,
    is_ignored,
    is_tracked,
    no_such_file,
    read_source,
    similar_paths,
)
from repoagent.git.worktree import WorkTree, open_worktree
from tests.conftest import GitRepo
from tests.git.edits import shell


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
        assert read_source(worktree, path) == Source(path, None, "")


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


def test_the_reverse_of_a_change_and_the_change_with_other_bytes() -> None:
    change = FileChange("a", "b", Content(b"1", EXECUTABLE), Content(b"2", SYMLINK))
    reverse = FileChange("b", "a", Content(b"2", SYMLINK), Content(b"1", EXECUTABLE))
    assert (change.reversed(), change.with_data(b"1", b"2")) == (reverse, change)


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
    assert read_source(worktree, "a.txt").content.mode == "100755"
    assert read_source(worktree, "README.md").content.mode == ("100755" if how == "bits" else "100644")


def test_binary(repo: GitRepo, worktree: WorkTree) -> None:
    texts = [b"text", b"x" * 8000 + b"\0", "text".encode("utf-16"), b""]
    for content in (*texts, b"\x89PNG\0", "text".encode("utf-16-be")):
        repo.write("f", content)
        assert read_source(worktree, "f").binary == (content not in texts)


def test_ignored_and_tracked(repo: GitRepo, worktree: WorkTree) -> None:
    repo.write(".gitignore", "*.log\nbuild/\n!keep.log\n")
    for name in ("kept.log", "a[b].txt", "untracked"):
        repo.write(name, "x")
    repo.git("add", "-f", "kept.log", "a[b].txt")
    odd = [":(top)x.log", "b*/y.log", "new\nline.log", os.fsdecode(b"\xff.log")]
    paths = ["a.txt", "x.log", "keep.log", "kept.log", "build/deep/x", "-x.log", *odd]
    assert is_ignored(worktree, paths) == {"x.log", "build/deep/x", "-x.log", *odd}
    assert is_ignored(worktree, []) == set() == is_ignored(worktree, ["a.txt"])
    tracked = {"a.txt", "src/app.py", "a[b].txt"}
    assert is_tracked(worktree, [*tracked, "src", "untracked", "none", "*"]) == tracked
    assert is_tracked(worktree, []) == set()
    assert is_tracked(worktree, [*(f"none{n}" for n in range(1200)), "a.txt"]) == {"a.txt"}


PATHS = [
    "README.md", "docs/api.rst", "docs/conf.py", "setup.py", "src/pkg/__init__.py", "src/pkg/adapters.py",
    "src/pkg/api.py", "src/pkg/sessions.py", "tests/__init__.py", "tests/test_api.py", "web/app.py",
]  # fmt: skip
NEAR = {
    "src/pkg/api.py": ["src/pkg/apy.py", "src/pkg/aip.py", "src/pgk/api.py", "api.py", "pkg/apy.py", "src/apy.py", "lib/v2/api.py", "ai.py"],
    "src/pkg/sessions.py": ["sesion.py"], "src/pkg/adapters.py": ["adaptor.py"], "README.md": ["readme.rst"],
    "setup.py": ["setup"], "docs/conf.py": ["docs/conf.p"], "tests/__init__.py src/pkg/__init__.py": ["__init__.py"],
    "": ["z.py", "aqq.py", "settings.py", "src/pkg/models.py"],
}  # fmt: skip


def test_only_near_names_are_suggested() -> None:
    for near, names in NEAR.items():
        assert {name: similar_paths(name, PATHS) for name in names} == dict.fromkeys(names, near.split())


def test_a_missing_file(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("src/pkg/api.py", "web/with space.py", "a/twin.py", "b/twin.py", "c/lost.py", "gone.py")
    repo.commit("more", **dict.fromkeys(names, "x\n"))
    shell(repo, "rm c/lost.py gone.py; touch src/new_module.py build.log; echo '*.log' > .gitignore")
    monkeypatch.chdir(repo.top)
    for name, rest in {
        "api.py": "; did you mean src/pkg/api.py?",
        "pkg/api.py": "; did you mean src/pkg/api.py?",
        "src/pkg/apy.py": "; did you mean src/pkg/api.py?",
        "web/with spaces.py": "; did you mean 'web/with space.py'?",
        "new_module.py": "; did you mean src/new_module.py?",
        "twin.py": "; did you mean a/twin.py or b/twin.py?",
        "biuld.log": "",
        "lost.py": "",
        "gone.py": ", which git still tracks; `git restore gone.py` restores it",
    }.items():
        assert str(no_such_file(name, repo.top)) == f"no such file: {name}{rest}"
    assert str(no_such_file("new.py", repo.top, remedy="use -x")) == "no such file: new.py; use -x"
    monkeypatch.chdir(repo.top / "web")
    from_top = no_such_file("src/pkg/api.py", Path.cwd())
    assert from_top.worded(os.path.relpath).endswith("did you mean ../src/pkg/api.py?")
    (tmp_path / "api.py").touch()
    monkeypatch.chdir(tmp_path)
    assert str(no_such_file("apy.py", tmp_path)) == "no such file: apy.py"


def test_fifty_thousand_files_are_compared_quickly() -> None:
    paths = [f"src/part{number % 97}/module_{number}.py" for number in range(50_000)]
    similar_paths("warm.py", ["up.py"])  # the import
    start = time.process_time()
    near = similar_paths("src/part3/modul_4853.py", paths)
    assert near[0] == "src/part3/module_4853.py"
    assert time.process_time() - start < 1.0  # 0.1 s on an idle machine; pairwise difflib takes 5 s
