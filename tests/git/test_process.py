"""Calls of git, programs within limits, held-back signals, and index files."""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from repoagent.errors import Refused
from repoagent.git import index, process
from repoagent.git.index import Entry, Staged
from repoagent.git.process import GitError, Program, defer_signals, git, git_output, git_stream, start_program
from tests.conftest import GitRepo
from tests.git.edits import worktree
from tests.llm.helpers import gone, soon


def start(command: str, folder: Path, seconds: float = 20) -> AbstractContextManager[Program]:
    return start_program(
        command, Refused, cwd=folder, env=os.environ, stdin=b"x" * 100_000, stderr=PIPE, seconds=seconds, most=300_000
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("echo one; sleep 60 & echo $! > pid; exec >&- 2>&-; wait", "late"),
        ("setsid -f sh -c 'while sleep 0.01; do echo; done'; sleep 60 & echo $! > pid; wait", "late"),
        ("sleep 60 & echo $! > pid; yes", "large"),
        ("sleep 60 & echo $! > pid; yes >&2", "large"),
        ("sleep 60 & echo $! > pid; echo one; head -c 200000 /dev/zero >&2; cat | wc -c", ""),
    ],
)
def test_no_process_of_its_group_outlives_it(tmp_path: Path, command: str, ended: str) -> None:
    """Whether it ends, or reaches a limit; other processes neither hold it up nor lose its output."""
    began = time.monotonic()
    with start(command, tmp_path, 0.5 if ended == "late" else 20) as program:
        output = b"".join(program.output(silence=0.2))
        assert program.process.wait() == (0 if not ended else -9)
    assert program.ended == ended and time.monotonic() - began < 5
    assert max(len(output), len(program.errors)) <= 300_000
    assert ended or (output, len(program.errors)) == (b"one\n100000\n", 200_000)
    assert soon(lambda: gone(int((tmp_path / "pid").read_text())))


def test_background_processes_are_heard_until_they_are_silent(tmp_path: Path) -> None:
    with start("(for n in 1 2 3; do sleep 0.3; echo $n; done; sleep 60) &", tmp_path) as program:
        assert b"".join(program.output(silence=1)) == b"1\n2\n3\n"
    with start("sleep 1 && echo late & echo early", tmp_path) as program:
        assert b"".join(program.output(silence=0)) == b"early\n"


def test_a_program_that_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, folder, why in (("a\0b", ".", "null byte"), ("true", "none", "^No such file")):
        with pytest.raises(Refused, match=why), start(command, tmp_path / folder):
            pass

    @contextmanager
    def interrupted() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "defer_signals", interrupted)
    with pytest.raises(KeyboardInterrupt), start("sleep 60", tmp_path):
        pass
    gc.collect()  # an open pipe is a warning, which is an error in tests


def test_an_interrupt_is_raised_at_the_end_of_the_block(repo: GitRepo) -> None:
    done = []
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), defer_signals():
        os.kill(os.getpid(), signal.SIGINT)
        with defer_signals():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) != handler
        done.append(git(repo.top, "rev-parse", "HEAD").decode().strip())
    assert done == [repo.head()] and signal.getsignal(signal.SIGINT) == handler


def test_other_signals_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: caught.append(number))
    try:
        with defer_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            assert caught == []
        assert caught == [signal.SIGTERM]

        def in_a_thread() -> None:
            with defer_signals():
                caught.append(0)

        thread = threading.Thread(target=in_a_thread)
        thread.start()
        thread.join()
        assert caught == [signal.SIGTERM, 0]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_exit_codes_streams_and_errors(repo: GitRepo) -> None:
    assert git_output(repo.top, "rev-parse", "--verify", "--quiet", "none", ok=(0, 1)).returncode == 1
    message = "git rev-parse --verify none failed: fatal: Needed a single revision"
    with pytest.raises(GitError, match=message) as raised:
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
    # more messages than a pipe holds
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
