"""Calls of git, held-back signals, and index files."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from repoagent.git import index
from repoagent.git.index import Entry, Staged
from repoagent.git.process import GitError, git, git_output, git_stream, uninterrupted
from tests.conftest import GitRepo
from tests.git.edits import worktree


def test_an_interrupt_is_raised_at_the_end_of_the_block(repo: GitRepo) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
        done.append(git(repo.top, "rev-parse", "HEAD").decode().strip())
    assert done == [repo.head()]
    handler = signal.getsignal(signal.SIGINT)
    with uninterrupted():
        assert signal.getsignal(signal.SIGINT) != handler
    assert signal.getsignal(signal.SIGINT) == handler


def test_other_signals_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: caught.append(number))
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            assert caught == []
        assert caught == [signal.SIGTERM]

        def in_a_thread() -> None:
            with uninterrupted():
                caught.append(0)

        thread = threading.Thread(target=in_a_thread)
        thread.start()
        thread.join()
        assert caught == [signal.SIGTERM, 0]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_exit_codes_streams_and_errors(repo: GitRepo) -> None:
    assert git_output(repo.top, "rev-parse", "--verify", "--quiet", "none", ok=(0, 1)).returncode == 1
    with pytest.raises(
        GitError, match="git rev-parse --verify none failed: fatal: Needed a single revision"
    ) as raised:
        git(repo.top, "rev-parse", "--verify", "none")
    assert (raised.value.returncode, raised.value.command[:2]) == (128, ("rev-parse", "--verify"))
    assert str(GitError(["log"], 1, b"")) == "git log failed: exit 1"
    assert "Killed" in str(GitError(["log"], -signal.SIGKILL, b""))
    with git_stream(repo.top, "ls-files", "-z") as output:
        assert output.read().split(b"\0")[:-1] == [b"README.md", b"a.txt", b"src/app.py"]
    with pytest.raises(GitError), git_stream(repo.top, "log", "none", "--") as output:
        output.read()
    with git_stream(repo.top, "cat-file", "--batch-all-objects", "--batch-check") as output:
        output.read(1)  # leaving early ends git


def test_a_stream_reads_more_messages_than_a_pipe_holds(repo: GitRepo) -> None:
    loud = "alias.loud=!yes | timeout 9 head -c 200000 >&2 && echo done"
    with git_stream(repo.top, "-c", loud, "loud") as output:
        assert output.read() == b"done\n"
    with pytest.raises(GitError) as raised, git_stream(repo.top, "-c", f"{loud} && false", "loud") as output:
        output.read()
    assert raised.value.stderr == ("y\n" * 100_000).strip()


def test_index_files(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, copy = worktree(repo), repo.top / ".git" / "copy"
    repo.git("update-index", "--skip-worktree", "a.txt")
    index.copy_index(tree, copy)
    assert copy.stat().st_mtime_ns == (repo.top / ".git/index").stat().st_mtime_ns
    oid = repo.git("rev-parse", "HEAD:README.md").strip()
    entries = index.read_entries(tree, ["a.txt", "README.md", "none"], copy)
    assert entries["a.txt"].skip_worktree and not entries["README.md"].skip_worktree and len(entries) == 2
    new = {"a.txt": Entry("100755", oid), "src/app.py": None, "src": Entry("100644", oid)}
    marked = Staged(Entry("100644", oid), assume_unchanged=True)
    marks = {"a.txt": entries["a.txt"], "src": marked, "src/app.py": entries["README.md"]}
    index.put_entries(tree, copy, new, marks)
    expected = {"README.md": entries["README.md"], "a.txt": Staged(Entry("100755", oid), True), "src": marked}
    assert index.read_entries(tree, [*new, "README.md"], copy) == expected
    assert [*index.staged_entries(tree, ["src/app.py"])] == ["src/app.py"]  # the user's index is as before
    assert index.paths_by_blob(tree)[oid] == ["README.md"]
    index.reset_to(tree, copy, repo.head())
    assert index.write_tree(tree, copy) == repo.git("rev-parse", "HEAD^{tree}").strip()
    index.reset_to(tree, copy, None)
    assert index.read_entries(tree, ["a.txt"], copy) == {}
    write = Path.write_bytes

    def fill_the_disk(path: Path, data: bytes) -> int:
        write(path, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:  # a copy is whole or absent: git refuses one that is cut short
        patch.setattr(Path, "write_bytes", fill_the_disk)
        with pytest.raises(OSError, match="No space left"):
            index.copy_index(tree, copy)
    assert not copy.exists()
    (repo.top / ".git/index").unlink()
    index.copy_index(tree, copy)
    assert not copy.exists()
