"""The repository: its work tree and git directory, `.repoagent/`, the hooks."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from repoagent.doctor.check import Check, error, give, ok, warning
from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store import Layout, document, read_regular
from repoagent.store.locks import held_by

SHARED = {"config.toml", "context.md", ".gitignore", "skills", "agents"}  # in .repoagent, for a team
_OLD_LOCK = 600.0  # seconds: no git command holds the index as long as that, but a forgotten editor may


def check_worktree(worktree: WorkTree) -> Iterator[Check]:
    """The work tree, and whether git can write."""
    kind = "linked work tree" if worktree.is_linked else "work tree"
    yield ok("repository", f"{kind} {worktree.top}")
    for folder in dict.fromkeys((worktree.git_dir, worktree.common_dir)):
        if not os.access(folder, os.W_OK | os.X_OK):
            yield error("git directory", f"{folder} can't be written", give(folder))
        elif folder.stat().st_mode & stat.S_IWOTH:
            yield warning("git directory", f"{folder} can be written by everybody", f"chmod o-w {folder}")
        else:
            yield ok("git directory", str(folder))
    if not os.access(worktree.top, os.W_OK | os.X_OK):
        yield error("work tree", f"{worktree.top} can't be written", give(worktree.top))
    lock = worktree.git_dir / "index.lock"
    if lock.exists() and (age := time.time() - lock.stat().st_mtime) > _OLD_LOCK:
        yield warning(
            "index.lock",
            f"{lock} is {age / 60:.0f} minutes old",
            "if no git is running here, remove it; one of ours is settled by the next command",
        )
    if (worktree.common_dir / "shallow").exists():
        yield warning(
            "history",
            "the clone is shallow, so its history is cut off",
            "git fetch --unshallow gets the rest",
        )


def check_folder(worktree: WorkTree) -> Iterator[Check]:
    """`.repoagent/`: whose it is, who may write it, what git sees of it."""
    root = layout(worktree).root
    try:
        status = root.lstat()
    except FileNotFoundError:
        yield ok(".repoagent", "not there yet; the first edit makes it")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield error(".repoagent", f"{root} is no folder", "remove it or move it away")
        return
    if status.st_uid != os.geteuid() and not os.access(root, os.W_OK):
        yield error(".repoagent", f"{root} belongs to another user", give(root))
        return
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        yield error(".repoagent", f"{root} can't be read and written", give(root))
        return
    wrong = list(_wrong_modes(root))
    yield from wrong
    tracked = set(os.fsdecode(git(worktree.top, "ls-files", "-z", "--", str(root))).split("\0")[:-1])
    inside = len(root.relative_to(worktree.top).parts) if root.is_relative_to(worktree.top) else 0
    private = sorted(path for path in tracked if path.split("/")[inside] not in SHARED)
    if private:
        more = f" and {len(private) - 1} more" if len(private) > 1 else ""
        yield warning(
            ".repoagent",
            f"{private[0]}{more}: tracked by git, and holds what was said to a model",
            f"git rm --cached -r {root.name} && repoagent config init",
        )
        return
    # check-ignore is asked about a name that need not be there
    seen = git_output(worktree.top, "check-ignore", "-q", f"{root.name}/memory/x", ok=(0, 1, 128)).returncode
    if seen == 1 and root.parent == worktree.top:
        yield warning(
            ".repoagent",
            f"{root} is not ignored by git",
            f"echo '*' > {root}/.gitignore, or run repoagent config init",
        )
    elif not wrong:
        shared = (
            f"; shared: {', '.join(sorted({path.split('/')[inside] for path in tracked}))}" if tracked else ""
        )
        yield ok(".repoagent", f"{root}, ignored by git{shared}")


def check_leftovers(worktree: WorkTree) -> Iterator[Check]:
    """What a killed run has left; the next command settles it."""
    from repoagent.store.layout import has_leftovers

    where = layout(worktree)
    if where.journal.is_dir() and any(where.journal.iterdir()):
        yield warning(
            "interrupted",
            "an edit is at work, or was interrupted",
            "the next repoagent undo or edit settles it",
        )
    elif where.pending.is_dir() and any(where.pending.iterdir()) and has_leftovers(where):
        yield warning(
            "interrupted", "something is still to be remembered", "the next repoagent edit settles it"
        )
    if killed := _killed_runs(where):
        more = f" and {len(killed) - 1} more" if len(killed) > 1 else ""
        yield warning(
            "interrupted",
            f"the run {killed[0]}{more} ended without a word: it was killed, or began on another machine",
            f"repoagent run --resume {killed[0]} goes on, repoagent runs delete {killed[0]} removes it",
        )
    reports = where.private / "reports"
    count = len(list(reports.iterdir())) if reports.is_dir() else 0
    if count:
        yield warning(
            "reports", f"{count} of errors in repoagent, in {reports}", "read them, send one in, delete them"
        )


def _killed_runs(where: Layout) -> list[str]:
    """The names of runs that have no end and that nobody is at, the newest first."""
    found = []
    for file in sorted(where.runs.glob("*/run.json"), reverse=True) if not where.runs.is_symlink() else []:
        said = document.parse(read_regular(file) or b"") or {}
        if not said.get("ended") and said.get("version") == 1 and held_by(file.with_name("lock")) is None:
            found.append(file.parent.name)
    return found


def check_hooks(worktree: WorkTree) -> Iterator[Check]:
    """Which hooks run at a commit, and whether repoagent is one of them."""
    place = os.fsdecode(git(worktree.top, "rev-parse", "--git-path", "hooks")).rstrip("\n")
    folder = Path(worktree.top, place)
    active, ours = [], []
    for name in ("pre-commit", "commit-msg", "pre-push", "prepare-commit-msg", "post-commit"):
        path = folder / name
        if not path.is_file():
            continue
        if not os.access(path, os.X_OK):
            yield warning("hooks", f"{path} is not executable, so git passes it over", f"chmod +x {path}")
            continue
        active.append(name)
        if b"repoagent" in path.read_bytes()[:65536]:
            ours.append(name)
    config = worktree.top / ".pre-commit-config.yaml"
    if config.is_file() and b"repoagent" in config.read_bytes():
        ours.append(".pre-commit-config.yaml")
    said = ", ".join(active) or "none"
    yield ok("hooks", f"{said}; repoagent in {', '.join(ours)}" if ours else f"{said}; none of repoagent")


def _wrong_modes(root: Path) -> Iterator[Check]:
    """Of the folder and what is directly in it."""
    for path in (root, *sorted(root.iterdir())):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield error(".repoagent", f"{path} is a symbolic link", "remove it or move it away")
        elif mode & stat.S_IWOTH:
            yield warning(".repoagent", f"{path} can be written by everybody", f"chmod o-w {path}")
        elif not os.access(path, os.R_OK | os.W_OK):
            yield error(".repoagent", f"{path} can't be read and written", give(path))
