"""What changes the history that git shows without changing a commit: a shallow boundary, grafts, replaced commits."""

from __future__ import annotations

import os
from pathlib import Path

from repoagent.repo.run import git
from repoagent.repo.worktree import WorkTree

_ENVIRONMENT = ("GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE")


def signature(worktree: WorkTree) -> str:
    """A text that differs when one of them does; no git process where nothing is replaced."""
    parts = [
        _read(shallow_file(worktree)),
        _read(_named("GIT_GRAFT_FILE", worktree.common_dir / "info/grafts")),
    ]
    if _may_replace(worktree.common_dir):
        parts.append(git(worktree.top, "for-each-ref", "--format=%(refname) %(objectname)", "refs/replace/"))
    parts += [os.fsencode(os.environ.get(name, "")) for name in _ENVIRONMENT]
    if not any(parts):
        return ""
    import hashlib  # a tenth of what the index takes to open, and few repositories have such a thing

    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def shallow_edge(worktree: WorkTree) -> frozenset[bytes]:
    """The commits whose parents a shallow clone left out, as hexadecimal ids."""
    return frozenset(_read(shallow_file(worktree)).split())


def lacks_blobs(worktree: WorkTree) -> bool:
    """Whether this is a partial clone: what it lacks would be fetched, object by object."""
    config = _read(worktree.common_dir / "config") + _read(worktree.git_dir / "config.worktree")
    return any(word in config.lower() for word in (b"promisor", b"partialclone"))


def shallow_file(worktree: WorkTree) -> Path:
    return _named("GIT_SHALLOW_FILE", worktree.common_dir / "shallow")


def _named(variable: str, usual: Path) -> Path:
    return Path(os.environ[variable]) if variable in os.environ else usual


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _may_replace(common_dir: Path) -> bool:
    loose = common_dir / "refs" / "replace"
    if (common_dir / "reftable").is_dir() or "GIT_REPLACE_REF_BASE" in os.environ:
        return True
    if loose.is_dir() and any(loose.iterdir()):
        return True
    return b" refs/replace/" in _read(common_dir / "packed-refs")
