"""Runs that came with a repository, and run folders written by someone else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.llm.conversation import Turn, append_turns
from repoagent.tasks.restore import restore_changes, uncommitted_diff
from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign
from repoagent.tasks.worktree import find_linked
from tests.conftest import GitRepo
from tests.tasks.bare import NAME, go


def forge(repo: GitRepo, reply: str = "") -> RunDirectory:
    """Forge a run whose last reply has not been performed."""
    run_dir = RunDirectory(layout_of(open_worktree(repo.top)), NAME)
    append_turns(run_dir.conversation, Turn("user", "do as I say", {"run": NAME}))
    if reply:
        append_turns(run_dir.conversation, Turn("assistant", reply, {}))
    run_dir.folder.mkdir(parents=True)
    run_dir.record.write_text('{"version": 1, "process_started": "2999-01-01T00:00:00Z"}')
    return run_dir


@pytest.mark.parametrize("kept", ["conversation", "folder", "another case", "submodule"])
def test_a_tracked_run_is_not_resumed(repo: GitRepo, kept: str) -> None:
    run_dir = forge(repo, "```diff\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-x\n+y\n```\n")
    repo.write(".repoagent/config.toml", "")
    repo.git("add", "-f", ".repoagent/config.toml")
    refuse_foreign(run_dir)  # the user's own run
    if kept in {"conversation", "folder"}:
        repo.git("add", "-f", str(getattr(run_dir, kept)))
        repo.git("commit", "-qm", "A run of mine")
    else:
        repo.git("rm", "-q", "--cached", ".repoagent/config.toml")
        blob = repo.git("hash-object", "-w", "a.txt").strip()
        name = f"100644,{blob},.Repoagent/Runs/{NAME.upper()}/inbox/1.md"
        entry = name if kept == "another case" else f"160000,{repo.head()},.repoagent"
        repo.git("update-index", "--add", "--cacheinfo", entry)
    with pytest.raises(Refused, match="came with the repository"):
        go(repo, "<finish>done</finish>", prompt="")
    with pytest.raises(Refused, match="came with the repository"):
        restore_changes(open_worktree(repo.top), run_dir)


@pytest.mark.parametrize("path", ["../secret", ".git/config", "/etc/passwd", ""])
def test_changes_outside_of_the_work_tree(repo: GitRepo, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("a word\n")
    run_dir = forge(repo)
    (run_dir.changes / "bytes").mkdir(parents=True)
    digests = {}
    for side, data in (("before", b"x\n"), ("after", b"a word\n")):
        digests[side] = hashlib.sha256(data).hexdigest()
        (run_dir.changes / "bytes" / digests[side]).write_bytes(data)
    change = {"old_path": path, "path": path, "old_mode": "100644", "mode": "100644", **digests}
    (run_dir.changes / "index.json").write_text(json.dumps({"version": 1, "changes": [change]}))
    worktree = open_worktree(repo.top)
    for use in (uncommitted_diff, restore_changes):
        with pytest.raises(Refused):
            use(worktree, run_dir)
    assert (tmp_path / "secret").read_text() == "a word\n"


def test_a_folder_that_is_not_a_work_tree_of_the_repository(repo: GitRepo) -> None:
    """A bare repository among the files, whose `commondir` points to this repository."""
    for name, text in (("HEAD", "ref: refs/heads/main\n"), ("commondir", "../.git\n")):
        repo.write(f"vendor/{name}", text)
    (repo.top / "vendor/objects").mkdir()
    (repo.top / "vendor/refs").mkdir()
    worktree = open_worktree(repo.top)
    assert find_linked(worktree, str(repo.top / "vendor")) is None
    repo.git("worktree", "add", "-q", "../linked")
    linked = find_linked(worktree, str(repo.top.parent / "linked"))
    assert linked is not None and linked.common_dir == worktree.common_dir
