"""One small edit of `a.txt` with a known id, which is undone in many ways."""

from __future__ import annotations

from repoagent.git.transaction.results import Options
from repoagent.git.transaction.transaction import Transaction
from tests.conftest import GitRepo
from tests.git.edits import change, worktree

ID = "0a1b2c3d4e5f"


def edit_line_2(repo: GitRepo, edit_id: str = ID, options: Options | None = None) -> None:
    the_change = change(repo, "a.txt", "line 2", "LINE 2")
    with Transaction(worktree(repo), [the_change], options, edit_id) as transaction:
        transaction.write()
        if options and options.no_commit:
            transaction.keep()
        else:
            transaction.commit(f"edit\n\nRepoagent-Edit: {edit_id}\n")


def replace(repo: GitRepo, old: str, new: str) -> None:
    assert old.encode() in repo.read("a.txt")
    repo.write("a.txt", repo.read("a.txt").replace(old.encode(), new.encode()))
