"""The index of odd repositories, beside other processes, and when something is wrong with it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.errors import Busy, UsageError
from repoagent.git.worktree import open_worktree
from repoagent.history.index.index import LOCK, State, mine_in_background, open_index
from repoagent.history.index.schema import NoCommits, NoIndex, transaction
from repoagent.storage.locks import locked
from tests.conftest import GitRepo

MINE = "import sys; from pathlib import Path; from repoagent.git.worktree import open_worktree as w; from repoagent.history.index.index import open_index as o; i = o(w(Path(sys.argv[1]))); print(i.update(insist=False).commits)"


def update(top: Path, revision: str = "HEAD") -> tuple[State, list[str]]:
    said: list[str] = []
    with open_index(open_worktree(top), warn=said.append) as index:
        return index.update(revision), said


def commits(top: Path, path: str | bytes, revision: str = "HEAD") -> list[str]:
    """The ids of the commits that changed the file at `path`, newest first."""
    with open_index(open_worktree(top)) as index:
        view = index.view(revision)
        file = view.file(os.fsencode(path))
        if file is None:
            return []
        told = view.describe([commit.number for commit in view.commits(file, 100)])
        return [identity.decode() for identity, _, _ in told.values()][::1]


def many(repo: GitRepo, count: int, start: int = 0) -> None:
    """So many commits, each of two files, one of them in all."""
    stream = "".join(
        f"commit refs/heads/main\ncommitter A <a@b> {1_600_000_000 + n} +0000\ndata 0\n"
        + ("from refs/heads/main^0\n" if n == start else "")
        + f"M 100644 inline all\ndata {len(str(n))}\n{n}\nM 100644 inline f{n % 50}\ndata {len(str(n))}\n{n}\n"
        for n in range(start, start + count)
    )
    repo.git("fast-import", "--quiet", stdin=stream.encode())


def everything(top: Path) -> dict[bytes, tuple[bytes, list[bytes], list[bytes]]]:
    """Of each living path: the ids of its file's commits, and the files beside it."""
    found = {}
    with open_index(open_worktree(top)) as index:
        view = index.view()
        for path in os.fsencode(git(top, "ls-tree", "-r", "--name-only", "HEAD")).split():
            file = view.file(path)
            assert file is not None
            told = view.describe([commit.number for commit in view.commits(file, 10_000)])
            folder = path.rpartition(b"/")[0]
            beside = view.paths(view.folder(folder, 100))
            found[path] = (
                view.paths([file])[file],
                [each[0] for each in told.values()],
                sorted(beside.values()),
            )
    return found


def git(top: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=top, capture_output=True, text=True, check=True).stdout


def test_before_the_first_commit(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("unborn")
    with pytest.raises(NoCommits, match="no commits yet"):
        update(repo.top)
    with pytest.raises(UsageError, match="no such commit: v1"):
        update(repo.top, "v1")


def test_nothing_is_there_to_be_viewed_before_it_is_mined(repo: GitRepo) -> None:
    with open_index(open_worktree(repo.top)) as index:
        assert index.state() == State(0)
        with pytest.raises(NoIndex, match="repoagent mine"):
            index.view()
    assert not (repo.top / ".repoagent").exists()


def test_new_commits_are_added_and_an_amended_one_is_replaced(repo: GitRepo) -> None:
    first = repo.head()
    update(repo.top)
    second = repo.commit("second", **{"a.txt": "other\n"})
    assert update(repo.top)[0].commits == 2
    assert commits(repo.top, "a.txt") == [second, first]
    repo.git("commit", "-q", "--amend", "-m", "better")
    update(repo.top)
    assert commits(repo.top, "a.txt") == [repo.head(), first]
    assert commits(repo.top, "a.txt", second) == [second, first]


@pytest.mark.soak
def test_a_long_history_is_the_same_whether_mined_at_once_or_bit_by_bit(repo: GitRepo) -> None:
    """One file has more commits than are kept in one piece, and there are new folders all the time."""
    for start in range(0, 800, 160):
        many(repo, 160, start)
        repo.git("checkout", "-q", "-f", "main")
        (repo.top / f"d{start}").mkdir()
        repo.git("mv", "-f", "f0", f"d{start}/moved")
        repo.git("commit", "-q", "-m", "moved")
        update(repo.top)
    found = everything(repo.top)
    assert len(found[b"all"][1]) == 800
    assert len(found[b"d0/moved"][1]) == 5
    shutil.rmtree(repo.top / ".repoagent")
    update(repo.top)
    assert everything(repo.top) == found


def test_who_has_committed_is_known_by_name_and_address(repo: GitRepo) -> None:
    ann = ("-c", "user.name=Änn", "-c", "user.email=ann@example.org")
    (repo.top / "a.txt").write_text("by ann")
    repo.git(*ann, "commit", "-qam", "hers")
    update(repo.top)
    with open_index(open_worktree(repo.top)) as index:
        view = index.view()
        newest, oldest = view.latest(2)
        assert view.author("Änn <ann@example.org>".encode()) == newest.author != oldest.author
        assert view.author(b"Bob <bob@example.org>") is None


def test_rewritten_history_whose_old_commits_are_gone(repo: GitRepo) -> None:
    first = repo.head()
    repo.commit("second", **{"a.txt": "other\n"})
    update(repo.top)
    repo.git("commit", "-q", "--amend", "-m", "better")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    state, said = update(repo.top)
    assert state.complete and not said
    assert commits(repo.top, "a.txt") == [repo.head(), first]


def test_an_octopus_merge_and_unrelated_histories(repo: GitRepo) -> None:
    first = repo.head()
    for name in "xyz":
        repo.git("checkout", "-q", "-b", name, first)
        repo.commit(name, **{name: name})
    repo.git("merge", "-q", "-m", "octopus", "x", "y")
    repo.git("checkout", "-q", "--orphan", "lonely")
    lonely = repo.commit("lonely", z="again\n")
    repo.git("checkout", "-q", "z")
    repo.git("merge", "-q", "--allow-unrelated-histories", "-X", "ours", "-m", "all", "lonely")
    assert update(repo.top)[0].commits == 5
    assert len(repo.git("cat-file", "-p", "z~1").split("parent ")) == 4
    assert set(commits(repo.top, "z")) == {repo.git("rev-parse", "z~1^1").strip(), lonely}


def test_a_history_of_merges_alone(repo: GitRepo) -> None:
    first = repo.head()
    tree = repo.git("rev-parse", "HEAD^{tree}").strip()
    root = repo.git("commit-tree", tree, "-m", "root").strip()
    for _ in range(3):
        tip = repo.git("commit-tree", tree, "-p", "HEAD", "-p", root, "-m", "merge").strip()
        repo.git("reset", "-q", "--soft", tip)
        assert update(repo.top)[0].commits == 2
    assert set(commits(repo.top, "a.txt")) == {first, root}


def test_a_submodule_is_a_file_like_others(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> None:
    inner = make_repo("inner")
    inner.commit("inner", x="1")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), "sub")
    added = repo.commit("add the submodule")
    update(repo.top)
    assert commits(repo.top, "sub") == [added]
    with open_index(open_worktree(repo.top)) as index:
        view = index.view()
        file = view.file(b"sub")
        assert file is not None and view.paths([file]) == {file: b"sub"}


def test_names_that_are_no_text(repo: GitRepo) -> None:
    names = [b"caf\xe9", b" missing", b"x missing", b"\xe2\x80\xae.py"]
    for name in names:
        (repo.top / os.fsdecode(name)).write_bytes(name)
    added = repo.commit("odd")
    (repo.top / "last").write_bytes(b"1")
    repo.commit("other")
    update(repo.top)
    for revision in ("HEAD", "HEAD^"):  # one tree is noted in the index, of the other git is asked
        with open_index(open_worktree(repo.top)) as index:
            view = index.view(revision)
            files = {view.file(name): name for name in names}
            assert view.paths([file for file in files if file]) == files
    for name in names:
        assert commits(repo.top, name) == [added]


def test_a_shallow_clone_and_when_it_is_deepened(repo: GitRepo, tmp_path: Path) -> None:
    for number in range(5):
        repo.commit(str(number), **{"a.txt": f"{number}\n"})
    subprocess.run(
        ["git", "clone", "-q", "--depth=2", f"file://{repo.top}", tmp_path / "shallow"], check=True
    )
    top = tmp_path / "shallow"
    assert update(top)[0].commits == 2
    with open_index(open_worktree(top)) as index:
        view = index.view()
        newest, edge = view.latest(9)
        assert (newest.size, list(edge.files)) == (
            1,
            [],
        ) and edge.size > 100  # it seems to have added everything
    subprocess.run(["git", "fetch", "-q", "--unshallow"], cwd=top, check=True)
    state, said = update(top)
    assert state.commits == 6 and len(said) == 1 and "rebuilding the index" in said[0]
    assert update(top)[1] == []


@pytest.mark.parametrize("blobs", ["blob:none", "tree:0"])
def test_a_partial_clone_fetches_nothing(repo: GitRepo, tmp_path: Path, blobs: str) -> None:
    repo.git("mv", "a.txt", "b.txt")
    moved = repo.commit("moved")
    repo.git("config", "uploadpack.allowFilter", "true")
    top = tmp_path / "partial"
    subprocess.run(
        ["git", "clone", "-q", "--no-checkout", f"--filter={blobs}", f"file://{repo.top}", top], check=True
    )
    GitRepo(top).git("config", "protocol.file.allow", "always")  # goes before protocol.allow
    before = set((top / ".git/objects/pack").iterdir())
    if blobs == "tree:0":
        with pytest.raises(NoIndex, match="lacks the trees of its history"):
            update(top)
    else:
        assert update(top)[0].complete
        assert commits(top, "b.txt")[0] == moved and len(commits(top, "b.txt")) == 2
    assert set((top / ".git/objects/pack").iterdir()) == before


def test_linked_work_trees_share_it(repo: GitRepo, tmp_path: Path) -> None:
    first = repo.head()
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    side = linked.commit("side", **{"a.txt": "side\n"})
    main = repo.commit("main", **{"a.txt": "main\n"})
    for _ in range(2):
        update(repo.top)
        update(linked.top)
        assert commits(repo.top, "a.txt") == [main, first]
        assert commits(linked.top, "a.txt") == [side, first]
    assert not (linked.top / ".repoagent").exists()


def test_sha256(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--object-format=sha256", tmp_path / "long"], check=True)
    repo = GitRepo(tmp_path / "long")
    first = repo.commit("first", x="1")
    second = repo.commit("second", x="2")
    update(repo.top)
    assert commits(repo.top, "x") == [second, first]


@pytest.mark.soak
@pytest.mark.parametrize("harm", ["garbage", "cut", "pages", "foreign", "empty", "table"])
def test_a_damaged_index_is_made_anew(repo: GitRepo, harm: str) -> None:
    many(repo, 300)
    repo.git("reset", "-q", "--hard", "main")
    update(repo.top)
    expected = commits(repo.top, "f1")
    path = repo.top / ".repoagent/history.db"
    data = path.read_bytes()
    if harm == "garbage":
        path.write_bytes(b"no database\n" * 1000)
    elif harm == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif harm == "pages":
        path.write_bytes(data[:4096] + os.urandom(len(data) - 4096))
    elif harm == "foreign":
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE theirs (x)")
        other.close()
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("DROP TABLE touch")
        other.close()
    repo.commit("one more", x="1")
    state, said = update(repo.top)
    assert state.complete
    assert len(said) == (harm != "empty")
    assert commits(repo.top, "f1") == expected


def test_versions(repo: GitRepo) -> None:
    update(repo.top)
    path = repo.top / ".repoagent/history.db"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    before = path.read_bytes()
    with pytest.raises(NoIndex, match="format version 99"):
        update(repo.top)
    assert path.read_bytes() == before


def test_where_nothing_may_be_written(repo: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repo.top / ".repoagent").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoIndex, match="symbolic link"):
        update(repo.top)
    (repo.top / ".repoagent").unlink()
    (repo.top / ".repoagent").write_text("a file")
    with pytest.raises(NoIndex, match="not a folder"):
        update(repo.top)
    (repo.top / ".repoagent").unlink()
    (repo.top / ".repoagent").mkdir()
    (repo.top / ".repoagent/history.db").symlink_to(tmp_path / "elsewhere/db")
    with pytest.raises(NoIndex, match="not a regular file"):
        update(repo.top)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_who_reads_is_not_held_up_by_who_mines(repo: GitRepo) -> None:
    update(repo.top)
    repo.commit("second", **{"a.txt": "other\n"})
    with locked(repo.top / ".repoagent" / LOCK, what="a test"), open_index(open_worktree(repo.top)) as index:
        state = index.update(seconds=0.05)
        assert (state.commits, state.new, state.complete) == (1, 1, False)
        view = index.view()
        file = view.file(b"a.txt")
        assert file is not None and len(view.commits(file, 9)) == 1
        assert not mine_in_background(open_worktree(repo.top))
        with pytest.raises(Busy):
            index.update(insist=True)


@pytest.mark.soak
def test_processes_at_once_and_one_that_is_killed(repo: GitRepo) -> None:
    many(repo, 3000)
    repo.git("reset", "-q", "--hard", "main")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", MINE, str(repo.top)]
    victim = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    while not (repo.top / ".repoagent/history.db").exists():
        time.sleep(0.005)
    time.sleep(0.15)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    several = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    for process in several:
        _, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
    assert update(repo.top)[0].commits == 3001
    assert len(commits(repo.top, "all")) == 100
    with open_index(open_worktree(repo.top)) as index:
        view = index.view()
        file = view.file(b"all")
        assert file is not None
        numbers = [commit.number for commit in view.commits(file, 5000)]
        assert len(numbers) == len(set(numbers)) == 3000


def test_it_can_be_deleted(repo: GitRepo) -> None:
    update(repo.top)
    shutil.rmtree(repo.top / ".repoagent")
    assert update(repo.top)[0].complete


def test_an_id_that_is_no_commit(repo: GitRepo) -> None:
    update(repo.top)
    for wrong in ("0" * 39 + "1", repo.git("rev-parse", "HEAD:a.txt").strip()):
        with pytest.raises(UsageError, match="is missing"):
            update(repo.top, wrong)


def test_an_error_that_has_ended_the_transaction_is_the_one_that_is_raised() -> None:
    """As on a full disk, where SQLite rolls back by itself."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE one (id PRIMARY KEY)")
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"), transaction(connection):
            for _ in range(2):
                connection.execute("INSERT OR ROLLBACK INTO one VALUES (1)")
        assert connection.execute("SELECT count(*) FROM one").fetchone() == (0,)


def test_the_id_of_an_annotated_tag_resolves_to_its_commit(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("repo")
    repo.commit(a="1\n")
    repo.git("tag", "-a", "v1", "-m", "one")
    tag, commit = (git(repo.top, "rev-parse", name).strip() for name in ("v1", "HEAD"))
    with open_index(open_worktree(repo.top)) as index:
        assert index.resolve(tag) == index.resolve("v1") == commit.encode() != tag.encode()
