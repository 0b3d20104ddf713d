"""The index of odd repositories, next to other processes, and when something is wrong with it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.errors import Busy, UsageError
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.history.index import index as index_module
from repoagent.history.index.index import ITSELF, LOCK, IndexState, mine_in_background, open_index
from repoagent.history.index.schema import NoCommits
from repoagent.storage.database import DatabaseUnusable
from repoagent.storage.locks import hold_lock
from tests.conftest import GitRepo
from tests.history.histories import commit_files, partial_clone, without_a_fetch


def update(top: Path, revision: str = "HEAD") -> tuple[IndexState, list[str]]:
    warnings: list[str] = []
    with open_index(open_worktree(top), warn=warnings.append) as index:
        return index.update(revision), warnings


def commits(top: Path, path: str | bytes, revision: str = "HEAD") -> list[str]:
    """The ids of the commits that changed the file at `path`, newest first."""
    with open_index(open_worktree(top)) as index:
        view = index.view(revision)
        file = view.file(os.fsencode(path))
        numbers = [] if file is None else [commit.number for commit in view.commits(file, 5000)]
        ids = view.ids(numbers)
        return [ids[number] for number in numbers]


def present(top: Path, path: bytes, revision: str = "HEAD") -> list[bytes]:
    """The path at `revision` of the file that has or had `path`, if any."""
    with open_index(open_worktree(top)) as index:
        view = index.view(revision)
        file = view.file(path)
        assert file is not None
        return [*view.paths([file]).values()]


def recorded_tree(top: Path) -> str:
    """The commit whose tree is recorded in the index."""
    with closing(sqlite3.connect(layout_of(open_worktree(top)).history)) as connection:
        (tip,) = connection.execute("SELECT value FROM meta WHERE key = 'alive'").fetchone()
    return bytes(tip).decode()


def many(repo: GitRepo, count: int, start: int = 0) -> None:
    """Commits of two files each, one of them in all."""
    commit_files(repo, *(f"all f{number % 50}" for number in range(start, start + count)), start=start)


def test_before_the_first_commit_and_before_it_is_mined(
    repo: GitRepo, make_repo: Callable[[str], GitRepo]
) -> None:
    unborn = make_repo("unborn").top
    with pytest.raises(NoCommits, match="no commits yet"):
        update(unborn)
    with pytest.raises(UsageError, match="no such commit: v1"):
        update(unborn, "v1")
    with open_index(open_worktree(repo.top)) as index:
        assert index.state() == IndexState(0)
        with pytest.raises(DatabaseUnusable, match="repoagent mine"):
            index.view()
    assert not (repo.top / ".repoagent").exists()


@pytest.mark.soak
def test_a_long_history_is_the_same_whether_mined_at_once_or_bit_by_bit(repo: GitRepo) -> None:
    """One file has more commits than are stored in one row, and there are new folders all the time."""

    def everything() -> dict[bytes, tuple[bytes, list[str], list[bytes]]]:
        """Of each path: the present path and commits of its file, and the files in its folder."""
        found = {}
        with open_index(open_worktree(repo.top)) as index:
            view = index.view()
            for path in map(os.fsencode, repo.git("ls-tree", "-r", "--name-only", "HEAD").split()):
                file = view.file(path)
                assert file is not None
                ids = view.ids(commit.number for commit in view.commits(file, 10_000))
                folder = view.paths(view.folder(path.rpartition(b"/")[0], 100))
                found[path] = (view.paths([file])[file], [*ids.values()], sorted(folder.values()))
        return found

    for start in range(0, 800, 160):
        many(repo, 160, start)
        (repo.top / f"d{start}").mkdir()
        repo.git("mv", "-f", "f0", f"d{start}/moved")
        repo.git("commit", "-q", "-m", "moved")
        update(repo.top)
    bit_by_bit = everything()
    assert len(bit_by_bit[b"all"][1]) == 800 and len(bit_by_bit[b"d0/moved"][1]) == 5
    shutil.rmtree(repo.top / ".repoagent")
    update(repo.top)
    assert everything() == bit_by_bit


def test_a_shallow_clone_and_when_it_is_deepened(repo: GitRepo, tmp_path: Path) -> None:
    for number in range(5):
        repo.commit(str(number), **{"a.txt": f"{number}\n"})
    top = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=2", f"file://{repo.top}", top], check=True)
    assert update(top)[0].commits == 2
    with open_index(open_worktree(top)) as index:
        newest, edge = index.view().latest(9)
    assert (newest.size, list(edge.files)) == (1, [])
    assert edge.size > 100  # it seems to have added everything
    subprocess.run(["git", "fetch", "-q", "--unshallow"], cwd=top, check=True)
    state, warnings = update(top)
    assert state.commits == 6 and len(warnings) == 1 and "rebuilding the index" in warnings[0]
    assert update(top)[1] == []


@pytest.mark.parametrize("blobs", ["blob:none", "tree:0"])
def test_a_partial_clone_fetches_nothing(repo: GitRepo, blobs: str) -> None:
    repo.git("mv", "a.txt", "b.txt")
    moved = repo.commit("moved")
    clone = partial_clone(repo, blobs, "--no-checkout")
    clone.git("config", "protocol.file.allow", "always")  # goes before protocol.allow
    with without_a_fetch(clone):
        if blobs == "tree:0":
            with pytest.raises(DatabaseUnusable, match="lacks the trees of its history"):
                update(clone.top)
        else:
            assert update(clone.top)[0].complete
            assert commits(clone.top, "b.txt")[0] == moved and len(commits(clone.top, "b.txt")) == 2


def test_readers_do_not_wait_for_an_update(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "spawn_apart", None)  # a second process is not started
    monkeypatch.delenv("CI", raising=False)
    update(repo.top)
    repo.commit("second", **{"a.txt": "other\n"})
    lock = hold_lock(repo.top / ".repoagent" / LOCK, label="a test")
    with lock, open_index(open_worktree(repo.top)) as index:
        state = index.update(seconds=0.05)
        assert (state.commits, state.new, state.complete) == (1, 1, False)
        assert len(commits(repo.top, b"a.txt")) == 1
        assert mine_in_background(open_worktree(repo.top))
        with pytest.raises(Busy):
            index.update(insist=True)


@pytest.mark.soak
def test_processes_at_once_and_one_that_is_killed(repo: GitRepo) -> None:
    many(repo, 3000)
    code = (
        "import sys; from pathlib import Path; from repoagent.git.worktree import open_worktree as worktree;"
        "from repoagent.history.index.index import open_index; open_index(worktree(Path(sys.argv[1]))).update()"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", code, str(repo.top)]
    victim = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    while not (repo.top / ".repoagent/history.db").exists():
        time.sleep(0.005)
    time.sleep(0.15)
    victim.kill()
    victim.wait()
    pipe = subprocess.PIPE
    for process in [subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe) for _ in range(4)]:
        assert (process.communicate()[1], process.returncode) == (b"", 0)
    assert update(repo.top)[0].commits == 3001
    found = commits(repo.top, "all")
    assert len(found) == len(set(found)) == 3000


def test_ids_and_tags(repo: GitRepo) -> None:
    update(repo.top)
    for wrong in ("0" * 39 + "1", repo.git("rev-parse", "HEAD:a.txt").strip()):
        with pytest.raises(UsageError, match="is missing"):
            update(repo.top, wrong)
    repo.git("tag", "-a", "v1", "-m", "one")
    tag = repo.git("rev-parse", "v1").strip()
    with open_index(open_worktree(repo.top)) as index:
        assert index.resolve(tag) == index.resolve("v1") == repo.head().encode() != tag.encode()


def test_new_amended_and_pruned_commits(repo: GitRepo) -> None:
    first = repo.head()
    update(repo.top)
    second = repo.commit("second", **{"a.txt": "other\n"})
    assert update(repo.top)[0].commits == 2
    assert commits(repo.top, "a.txt") == [second, first]
    repo.git("commit", "-q", "--amend", "-m", "better")
    update(repo.top)
    assert commits(repo.top, "a.txt") == [repo.head(), first]
    assert commits(repo.top, "a.txt", second) == [second, first]
    repo.git("commit", "-q", "--amend", "-m", "best")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")  # the recorded tree is gone, too
    state, warnings = update(repo.top)
    assert state.complete and not warnings and recorded_tree(repo.top) == repo.head()
    assert commits(repo.top, "a.txt") == [repo.head(), first]
    assert present(repo.top, b"a.txt") == [b"a.txt"]


def test_authors_and_names_that_are_not_text(repo: GitRepo) -> None:
    names = [b"caf\xe9", b" missing", b"x missing", b"\xe2\x80\xae.py"]
    for name in names:
        (repo.top / os.fsdecode(name)).write_bytes(name)
    added = repo.commit("odd")
    repo.write("last", "1")
    repo.git("add", "-A")
    repo.git("-c", "user.name=Änn", "-c", "user.email=ann@example.org", "commit", "-qm", "hers")
    update(repo.top)
    for name in names:
        assert commits(repo.top, name) == [added]
        for revision in ("HEAD", "HEAD^"):  # one tree is recorded in the index, the other is read from git
            assert present(repo.top, name, revision) == [name]
    with open_index(open_worktree(repo.top)) as index:
        view = index.view()
        newest, older = view.latest(2)
        assert view.author("Änn <ann@example.org>".encode()) == newest.author != older.author
        assert view.author(b"Bob <bob@example.org>") is None


def test_sha256(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    repo.git("init", "-q", "--object-format=sha256")
    ids = [repo.commit(f"number {n}", x=f"{n}") for n in range(2)]
    update(repo.top)
    assert commits(repo.top, "x") == ids[::-1]


VERSIONS = {"newer": "PRAGMA user_version = 99", "other": "PRAGMA application_id = 5"}
SQL = {"foreign": "CREATE TABLE theirs (x)", "table": "DROP TABLE touch", **VERSIONS}
RARE = [pytest.param(harm, marks=pytest.mark.soak) for harm in ("garbage", "cut", "pages", "empty")]


@pytest.mark.parametrize("harm", [*SQL, *RARE])
def test_a_damaged_index_is_rebuilt_and_one_of_a_newer_version_refused(repo: GitRepo, harm: str) -> None:
    many(repo, 300)
    update(repo.top)
    expected = commits(repo.top, "f1")
    path = repo.top / ".repoagent/history.db"
    data = path.read_bytes()
    damaged = {"garbage": b"no database\n" * 1000, "cut": data[: len(data) // 2], "empty": b""}
    damaged["pages"] = data[:4096] + os.urandom(len(data) - 4096)
    if harm in damaged:
        path.write_bytes(damaged[harm])
    else:
        if harm == "foreign":
            path.unlink()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(SQL[harm])
    before = path.read_bytes()
    repo.commit("one more", x="1")
    if harm == "newer":
        with pytest.raises(DatabaseUnusable, match="format version 99"):
            update(repo.top)
        assert path.read_bytes() == before
        return
    state, warnings = update(repo.top)
    assert state.complete and len(warnings) == (harm != "empty")
    assert commits(repo.top, "f1") == expected
    if harm == "other":
        assert "was not created by repoagent" in warnings[0]
        assert path.with_name("history.db.broken-1").read_bytes() == before


def test_folders_and_files_that_are_not_ours(repo: GitRepo, tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", repo.top / ".repoagent"
    elsewhere.mkdir()
    for make, reason in (
        (lambda: folder.symlink_to(elsewhere), "symbolic link"), (lambda: folder.write_text("a"), "not a folder"),
    ):  # fmt: skip
        make()
        with pytest.raises(DatabaseUnusable, match=reason):
            update(repo.top)
        folder.unlink()
    folder.mkdir()
    for name in ("history.db", "history.db-wal"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(elsewhere / "db")
        _, warnings = update(repo.top)
        assert f"{name} is not a regular file" in warnings[0] and (folder / f"{name}.broken-1").is_symlink()
    assert list(elsewhere.iterdir()) == []


def test_each_branch_has_its_own_tree_and_names(repo: GitRepo) -> None:
    first = repo.commit("first", a="a long enough text\n" * 9, b="1")
    repo.git("switch", "-qc", "other")
    (repo.top / "d").mkdir()
    repo.git("mv", "a", "d/b")
    repo.git("commit", "-qm", "moved")
    other = repo.head()
    repo.git("switch", "-q", "main")
    repo.git("rm", "-q", "b")
    main = repo.commit("its own", **{"d/b": "its own\n"})
    update(repo.top)
    assert update(repo.top, first)[0].complete and recorded_tree(repo.top) == main
    assert present(repo.top, b"b", first) == [b"b"] and present(repo.top, b"b") == []
    with open_index(open_worktree(repo.top)) as index:
        for tip in (other, main, other, main):
            index.update(tip, head=True)
            assert recorded_tree(repo.top) == tip
            view = index.view(tip)
            old, new = view.file(b"a"), view.file(b"d/b")
            assert old is not None and new is not None
            assert view.paths([old, new]) == ({old: b"d/b"} if tip == other else {old: b"a", new: b"d/b"})
            assert view.folder(b"d", 9) == [new]


def test_background_processes_are_reaped_and_hold_nothing_open() -> None:
    """And a program of the library's user gets no warning about them."""
    code = """
import os, subprocess
from repoagent.history.index import index
index.ITSELF = ("-c", "")
reading, writing = os.pipe()
os.set_inheritable(writing, True)
for _ in range(3):
    index.spawn_apart([])
os.close(writing)
assert os.read(reading, 1) == b""
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
children = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
while os.path.exists(children) and open(children).read():
    subprocess.run(["true"])
index.ITSELF = ("-c", "import time; time.sleep(1)")
index.spawn_apart([])
"""
    command = [sys.executable, "-W", "error", "-W", "ignore:unclosed file", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_background_process_runs_no_code_of_the_folder_and_gets_no_index_of_a_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("repoagent", "click", "json", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w')\n")
    command = [sys.executable, *ITSELF, "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0 and b"repoagent" in done.stdout and not (tmp_path / "was-run").exists()
    seen: dict[str, str] = {}
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/next-index-1.lock")
    monkeypatch.setattr(index_module.subprocess, "Popen", lambda _, **options: seen.update(options["env"]))
    index_module.spawn_apart([])
    assert "PATH" in seen and "GIT_INDEX_FILE" not in seen
