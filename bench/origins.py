"""Clones of public repositories at fixed commits, and clones named on the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """A repository at one commit."""

    name: str
    commit: str


# per line: commit, name, and whether bench/split takes files and bench/patch takes its corpus from it
_ROWS = [line.split() for line in Path(__file__).with_name("origins.txt").read_text().splitlines()]
SPLIT_ORIGINS = tuple(Origin(name, commit) for commit, name, files, _ in _ROWS if files == "split")
PATCH_ORIGINS = tuple(Origin(name, commit) for commit, name, _, corpus in _ROWS if corpus == "patch")


def git(top: Path, *args: str) -> bytes:
    command = ["git", "-C", str(top), "-c", "core.quotePath=false", *args]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def name_of(clone: Path) -> str:
    """Return the name of a clone: that of its folder, with OWNER+NAME turned into OWNER/NAME."""
    top = clone.resolve()
    own = top.parent.name if top.name in ("repo", "repo.git", ".git") else top.name
    return own.removesuffix(".git").replace("+", "/")


def commit_of(clone: Path, name: str = "HEAD") -> str:
    """Return the hash of the commit `name`, or "" if the clone lacks it."""
    command = ["git", "-C", str(clone), "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def head_of(clone: Path) -> str:
    if not (head := commit_of(clone)):
        raise SystemExit(f"not a git repository with commits: {clone}; give a clone to --repo")
    return head


def downloaded(origin: Origin, *, history: bool) -> Path:
    """Return a bare clone from GitHub, fetched once: the history of the default branch, or the one commit."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "repoagent-bench"
    kind = "history" if history else "commit"
    top = folder / f"{origin.name.replace('/', '+')}-{origin.commit[:8]}-{kind}.git"
    if not top.exists():
        part, url = top.with_suffix(".part"), f"https://github.com/{origin.name}"
        part.mkdir(parents=True, exist_ok=True)
        fetch = [url, "HEAD"] if history else ["--depth=1", url, origin.commit]
        git(part, "init", "--quiet", "--bare")
        git(part, "fetch", "--quiet", *fetch)
        git(part, "update-ref", "HEAD", origin.commit)
        part.rename(top)
    return top


def with_history(paths: Sequence[Path]) -> list[tuple[Origin, Path]]:
    """Return the clones at `paths`, by default downloads of PATCH_ORIGINS, sorted by name."""
    clones = [(_listed(path), path) for path in paths]
    clones = clones or [(origin, downloaded(origin, history=True)) for origin in PATCH_ORIGINS]
    return sorted(clones, key=lambda pair: pair[0].name)


def _listed(path: Path) -> Origin:
    """The origin of a clone: at its commit in PATCH_ORIGINS, or at HEAD if it is not listed or lacks that commit."""
    name = name_of(path)
    for origin in PATCH_ORIGINS:
        if origin.name in (name, name.replace("_", "/", 1)) or origin.name.endswith(f"/{name}"):
            if commit_of(path, origin.commit):
                return origin
            name = origin.name
    return Origin(name, head_of(path))


def with_files(paths: Sequence[Path], folder: Path | None) -> Iterator[tuple[Origin, Path]]:
    """Yield the clones at `paths`, at HEAD; by default those of SPLIT_ORIGINS, downloaded or, if `folder` is given, the
    ones found there as OWNER+NAME/repo, OWNER+NAME or OWNER+NAME.git."""
    for path in paths:
        yield Origin(name_of(path), head_of(path)), path
    for origin in SPLIT_ORIGINS if not paths else ():
        clone = _in_folder(origin, folder) if folder else downloaded(origin, history=False)
        if clone:
            yield origin, clone


def _in_folder(origin: Origin, folder: Path) -> Path | None:
    top = folder / origin.name.replace("/", "+")
    clones = (path for path in (top / "repo", top, top.with_suffix(".git")) if path.is_dir())
    return next((path for path in clones if commit_of(path, origin.commit)), None)
