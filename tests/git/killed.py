"""Run one transaction repeatedly in a copy of a repository, killed at each step in turn, and recover.

Used by test_recover in a separate process, where it can fork. Prints a line of JSON for each step: the next action, and
what is wrong after recovery.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from repoagent.errors import RepoagentError
from repoagent.git.files import FileChange
from repoagent.git.transaction.finish import recover
from repoagent.git.transaction.results import Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import undo
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.git.snapshot import changed, visible

# Everything that changes something outside of the process.
EVENTS = {
    "os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.chmod", "os.truncate",
    "subprocess.Popen", "fcntl.flock",
}  # fmt: skip


def the_edit(repo: GitRepo) -> None:
    now = repo.read("a.txt")
    changes = [
        FileChange("a.txt", "a.txt", now, now.replace(b"line 2", b"LINE 2"), "100644", "100644"),
        FileChange(None, "n/new.txt", None, b"new\n", None, "100644"),
        FileChange("src/app.py", None, repo.read("src/app.py"), None, "100644", None),
    ]
    with Transaction(open_worktree(repo.top), changes, Options(branch="topic")) as transaction:
        transaction.write()
        transaction.commit("edit\n")


def the_undo(repo: GitRepo) -> None:
    undo(open_worktree(repo.top))


def killed_at(step: int, repo: GitRepo, act: Callable[[GitRepo], None]) -> tuple[str, bool]:
    """Do it in a child that kills itself before its event number `step`: the event, and whether it occurred."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT:
                event = "open to write"
            elif event not in EVENTS:
                return
            if seen == step:
                os.write(writer, f"{event} {arguments!r}".encode(errors="replace")[:300])
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

        sys.addaudithook(count)
        act(repo)
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    event = os.read(reader, 1000).decode()
    os.close(reader)
    return event, os.WIFSIGNALED(status)


def main(folder: Path, action: str, stride: int) -> None:
    act = {"edit": the_edit, "undo": the_undo}[action]
    template = GitRepo(folder / "template")
    before = visible(template)
    shutil.copytree(template.top, folder / "done", symlinks=True)
    act(GitRepo(folder / "done"))
    after = visible(GitRepo(folder / "done"))
    step, alive = 0, False
    while not alive:
        repo = GitRepo(folder / "repo")
        shutil.copytree(template.top, repo.top, symlinks=True)
        event, killed = killed_at(step, repo, act)
        alive = not killed
        try:
            said = recover(open_worktree(repo.top))
            again = recover(open_worktree(repo.top))
        except RepoagentError as error:
            said, again = [f"ERROR {error}"], ["ERROR"]
        now = visible(repo)
        # the commit, which differs each time; an undo without a commit changes files only
        kind = (
            "ref " if changed(before, after) & {key for key in after if key.startswith("ref ")} else "file "
        )
        made = any(key.startswith(kind) for key in changed(before, now))
        expected = after if made else before
        different = {key for key in changed(expected, now) if not key.startswith("ref ")}
        wrong = {key: str((expected.get(key), now.get(key))) for key in different}
        if again:
            wrong["again"] = (str(said), str(again))
        print(
            json.dumps({"step": step, "event": event, "made": made, "said": said, "wrong": wrong}), flush=True
        )
        shutil.rmtree(repo.top)
        step += stride


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
