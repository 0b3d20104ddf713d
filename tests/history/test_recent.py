from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.git.process import GitError
from repoagent.history.file_log import FileHistory, file_log, read_log
from repoagent.history.log import FileCommit
from tests.conftest import GitRepo


def recent_commits(top: Path, path: str, limit: int = 8, *, seconds: float) -> list[FileCommit]:
    return list(file_log(top, path, limit, seconds=seconds)[0].commits)


def whole(top: Path, path: str) -> FileHistory:
    return file_log(top, path, 8, seconds=20)[0]


def subjects(repo: GitRepo, path: str, limit: int = 8) -> list[str]:
    return [commit.subject for commit in recent_commits(repo.top, path, limit, seconds=20)]


def grow(repo: GitRepo, path: str, times: int) -> None:
    for n in range(times):
        repo.write(path, "".join(f"some {line}\n" for line in range(10 + n)))
        repo.commit(f"grow {n}")


def test_a_commit(repo: GitRepo) -> None:
    repo.write("a.txt", repo.read("a.txt").replace(b"line 3\n", b"") + b"x\ny\n")
    head = repo.commit("second: change\n\nbody")
    repo.commit("other file", **{"b.txt": "b\n"})
    found = recent_commits(repo.top, "a.txt", seconds=20)
    assert [(c.subject, c.added, c.removed, c.author, c.path, c.status) for c in found] == [
        ("second: change", 2, 1, "Ada Tester", "a.txt", "M"),
        ("first commit", 10, 0, "Ada Tester", "a.txt", "A"),
    ]
    assert found[0].commit == head
    assert head.startswith(found[0].short)
    assert len(found[0].short) < 40
    assert found[0].date[:4].isdigit()


def test_limit_and_order(repo: GitRepo) -> None:
    grow(repo, "g.txt", 5)
    assert subjects(repo, "g.txt", 3) == ["grow 4", "grow 3", "grow 2"]


def test_nothing_to_tell(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> None:
    repo.write("new.txt", "n\n")
    history = whole(repo.top, "new.txt")
    assert history.commits == ()
    assert not history.partial
    unborn = make_repo("unborn")
    assert recent_commits(unborn.top, "a.txt", seconds=20) == []


def test_not_a_repository(tmp_path: Path) -> None:
    with pytest.raises(GitError):
        recent_commits(tmp_path, "a.txt", seconds=20)


def test_merges_do_not_count_and_both_sides_do(repo: GitRepo) -> None:
    repo.git("switch", "-qc", "side")
    repo.write("a.txt", b"top\n" + repo.read("a.txt"))
    repo.commit("on side")
    repo.git("switch", "-q", "main")
    repo.write("a.txt", repo.read("a.txt") + b"end\n")
    repo.commit("on main")
    repo.git("merge", "-q", "--no-ff", "-m", "the merge", "side")
    assert sorted(subjects(repo, "a.txt")) == ["first commit", "on main", "on side"]


def test_renames_are_followed(repo: GitRepo) -> None:
    grow(repo, "old.txt", 2)
    (repo.top / "dir").mkdir()
    repo.git("mv", "old.txt", "dir/mid.txt")
    repo.write("dir/mid.txt", repo.read("dir/mid.txt") + b"more\n")
    repo.commit("rename one")
    repo.git("mv", "dir/mid.txt", "new.txt")
    repo.commit("rename two")
    repo.write("new.txt", repo.read("new.txt") + b"last\n")
    repo.commit("last")
    history = whole(repo.top, "new.txt")
    assert [(c.subject, c.path, c.added, c.removed, c.status) for c in history.commits] == [
        ("last", "new.txt", 1, 0, "M"),
        ("rename two", "new.txt", 0, 0, "R"),
        ("rename one", "dir/mid.txt", 1, 0, "R"),
        ("grow 1", "old.txt", 1, 0, "M"),
        ("grow 0", "old.txt", 10, 0, "A"),
    ]
    assert not history.partial
    assert subjects(repo, "new.txt", 3) == ["last", "rename two", "rename one"]


def test_an_added_file_has_no_older_name(repo: GitRepo) -> None:
    repo.write("b.txt", "something else\n" * 5)
    repo.commit("add b")
    assert [(c.subject, c.status) for c in recent_commits(repo.top, "b.txt", seconds=20)] == [("add b", "A")]


def test_odd_names(repo: GitRepo) -> None:
    for path in ("a[b]*.py", "ab.py", ":top", "-x", "tab\there\nline", os.fsdecode(b"caf\xe9 \xff.txt")):
        repo.write(path, path.encode("utf-8", "surrogateescape"))
        repo.commit("made " + str(len(path)))
        assert subjects(repo, path) == ["made " + str(len(path))]


def test_odd_rename(repo: GitRepo) -> None:
    old = os.fsdecode(b"caf\xe9\tx.txt")
    grow(repo, old, 1)
    repo.git("mv", old, "plain.txt")
    repo.commit("renamed")
    assert [c.path for c in recent_commits(repo.top, "plain.txt", seconds=20)] == ["plain.txt", old]


def test_authors(repo: GitRepo) -> None:
    repo.git(
        "-c", "user.name=A. Tester", "-c", "user.email=ada@old", "commit", "-q", "--allow-empty", "-m", "x"
    )
    repo.write("a.txt", "one\n")
    repo.git("add", "-A")
    repo.git("-c", "user.name=A. Tester", "-c", "user.email=ada@old", "commit", "-qm", "by an old name")
    repo.write(".mailmap", "Ada Lovelace <ada@example.com> A. Tester <ada@old>\n")
    repo.commit("mailmap")
    assert recent_commits(repo.top, "a.txt", seconds=20)[0].author == "Ada Lovelace"
    # A commit whose header claims UTF-8 and holds Latin-1.
    raw = repo.git("cat-file", "commit", "HEAD").encode().replace(b"Ada Tester", b"Ad\xe9 T", 1)
    repo.write("a.txt", "two\n")
    repo.git("add", "-A")
    tree = repo.git("write-tree").strip().encode()
    raw = b"tree " + tree + b"\nparent " + repo.head().encode() + b"\n" + raw[raw.index(b"author") :]
    commit = repo.git(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.replace(b"mailmap", b"caf\xe9")
    ).strip()
    repo.git("update-ref", "HEAD", commit)
    newest = recent_commits(repo.top, "a.txt", seconds=20)[0]
    assert (newest.author, newest.subject) == ("Ad\ufffd T", "caf\ufffd")


def test_other_commit_encodings_are_decoded(repo: GitRepo) -> None:
    repo.write("a.txt", "x\n")
    repo.git("add", "-A")
    repo.git(
        "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-F", "-", stdin="Prüfung".encode("latin-1")
    )
    repo.git("config", "i18n.logOutputEncoding", "ISO-8859-1")
    assert subjects(repo, "a.txt")[0] == "Prüfung"


def test_binary_and_mode_changes(repo: GitRepo) -> None:
    repo.commit("binary", **{"b.bin": b"\0\1\2" * 100})
    path = repo.top / "b.bin"
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    repo.commit("mode")
    path.unlink()
    path.symlink_to("a.txt")
    repo.commit("link")
    found = recent_commits(repo.top, "b.bin", seconds=20)
    assert [(c.subject, c.status, c.added) for c in found][1:] == [("mode", "M", None), ("binary", "A", None)]
    assert (found[0].subject, found[0].status) == ("link", "T")


def test_settings_of_the_user_change_nothing(repo: GitRepo) -> None:
    grow(repo, "old.txt", 2)
    repo.git("mv", "old.txt", "new.txt")
    repo.commit("renamed")
    expected = recent_commits(repo.top, "new.txt", seconds=20)
    assert len(expected) == 3
    for key, value in {
        "log.follow": "true", "log.showSignature": "true", "color.ui": "always", "diff.renames": "copies",
        "diff.noprefix": "true", "log.date": "relative", "format.pretty": "fuller", "log.decorate": "full",
        "diff.orderFile": "missing-order-file", "diff.external": "false", "notes.displayRef": "refs/notes/*",
        "log.diffMerges": "on", "diff.statGraphWidth": "3", "core.quotePath": "true",
    }.items():  # fmt: skip
        repo.git("config", key, value)
    assert recent_commits(repo.top, "new.txt", seconds=20) == expected


def test_shallow_clone(repo: GitRepo, tmp_path: Path) -> None:
    grow(repo, "g.txt", 4)
    subprocess.run(["git", "clone", "-q", "--depth=2", repo.top.as_uri(), tmp_path / "shallow"], check=True)
    history = whole(tmp_path / "shallow", "g.txt")
    assert [(c.subject, c.added) for c in history.commits] == [("grow 3", 1), ("grow 2", None)]
    assert history.partial
    assert not read_log(tmp_path / "shallow", "g.txt", 1, seconds=20).partial


def test_partial_clone_fetches_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    grow(repo, "g.txt", 3)
    clone = tmp_path / "partial"
    subprocess.run(["git", "clone", "-q", "--filter=blob:none", repo.top.as_uri(), clone], check=True)

    def objects() -> str:
        done = subprocess.run(
            ["git", "count-objects", "-v"], cwd=clone, capture_output=True, text=True, check=True
        )
        return done.stdout

    before = objects()
    found = recent_commits(clone, "g.txt", seconds=20)
    assert [c.subject for c in found] == ["grow 2", "grow 1", "grow 0"]
    assert found[0].added is None
    assert objects() == before


def test_detached_and_linked_work_trees(repo: GitRepo, tmp_path: Path) -> None:
    grow(repo, "g.txt", 2)
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"), "HEAD^")
    assert [c.subject for c in recent_commits(tmp_path / "linked", "g.txt", seconds=20)] == ["grow 0"]


@pytest.fixture
def slow_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `git` first in PATH that prints what the real log does, then goes on searching for a minute."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "git"
    script.write_text(f'#!/bin/sh\n"{real}" "$@" || exit\ncase "$*" in *" log "*) exec sleep 60;; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return script


@pytest.mark.soak
def test_time_is_bounded_and_what_was_found_is_kept(repo: GitRepo, slow_git: Path) -> None:
    grow(repo, "g.txt", 2)
    started = time.monotonic()
    history = read_log(repo.top, "g.txt", 8, seconds=1.0)
    assert time.monotonic() - started < 5
    assert [c.subject for c in history.commits] == ["grow 1", "grow 0"]
    assert history.partial


def test_the_module_is_light() -> None:
    code = (
        "import sys, repoagent.history.recent_commits;"
        "print([m for m in ('git', 'tree_sitter', 'rich', 'click', 'json', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
