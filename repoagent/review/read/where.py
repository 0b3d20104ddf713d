"""The repository that is reviewed: a work tree, or a bare one, whose commits can be reviewed too."""

from __future__ import annotations

import os
from pathlib import Path

from repoagent.errors import UsageError
from repoagent.repo.run import git_output
from repoagent.repo.worktree import WorkTree, open_at_head


def open_repository(cwd: Path) -> tuple[WorkTree, str | None, bool]:
    """The work tree, the id of the commit of HEAD (None before the first one), and whether it is bare: its git
    directory then stands for the top, and GIT_DIR has to name it. Raises UsageError as `open_worktree`."""
    try:
        return (*open_at_head(cwd), False)
    except UsageError:
        found = _bare(cwd) if "GIT_DIR" in os.environ else None
        if found is None:
            raise
        return (*found, True)


def _bare(cwd: Path) -> tuple[WorkTree, str | None] | None:
    asked = ("--is-bare-repository", "--absolute-git-dir", "--show-object-format")
    done = git_output(cwd, "rev-parse", *asked, ok=(0, 128))
    lines = os.fsdecode(done.stdout).split("\n")[:-1]
    if done.returncode or len(lines) != len(asked) or lines[0] != "true":
        return None
    folder = Path(lines[1])
    os.environ["GIT_DIR"] = lines[1]  # it may be relative to this folder
    head = git_output(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128)).stdout
    return WorkTree(folder, folder, folder, True, None, lines[2]), head.decode().strip() or None
