"""Public repositories at fixed commits, clones of them, and clones that are named on the command line."""

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


# lines of commit, name, and whether the splitter's files and the applier's corpus come from it
_ROWS = [line.split() for line in Path(__file__).with_name("origins.txt").read_text().splitlines()]
SPLIT_ORIGINS = tuple(Origin(name, commit) for commit, name, files, _ in _ROWS if files == "split")
PATCH_ORIGINS = tuple(Origin(name, commit) for commit, name, _, corpus in _ROWS if corpus == "patch")


def git(top: Path, *args: str) -> bytes:
    command = ["git", "-C", str(top), "-c", "core.quotePath=false", *args]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def name_of(clone: Path) -> str:
    """A name for a clone: that of its folder, where OWNER+NAME is OWNER/NAME."""
    top = clone.resolve()
    own = top.parent.name if top.name in ("repo", "repo.git", ".git") else top.name
    return own.removesuffix(".git").replace("+", "/")


def commit_of(clone: Path, name: str = "HEAD") -> str:
    """The full name of a commit, "" where the clone lacks it."""
    command = ["git", "-C", str(clone), "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def head_of(clone: Path) -> str:
    if not (head := commit_of(clone)):
        raise SystemExit(f"not a git repository with a commit: {clone}; give a clone to --repo")
    return head


def downloaded(origin: Origin, *, history: bool) -> Path:
    """A bare clone from GitHub, made once: with the history of its branch, or of the one commit."""
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
    """The clones at `paths`, or those of PATCH_ORIGINS, downloaded where they are not there yet."""
    found = [(_listed(path), path) for path in paths]
    found = found or [(origin, downloaded(origin, history=True)) for origin in PATCH_ORIGINS]
    return sorted(found, key=lambda pair: pair[0].name)


def _listed(path: Path) -> Origin:
    """The origin of a clone: at the commit of the list, or at its HEAD where either lacks it."""
    name = name_of(path)
    for origin in PATCH_ORIGINS:
        if origin.name in (name, name.replace("_", "/", 1)) or origin.name.endswith(f"/{name}"):
            if commit_of(path, origin.commit):
                return origin
            name = origin.name
    return Origin(name, head_of(path))


def with_files(paths: Sequence[Path], folder: Path | None) -> Iterator[tuple[Origin, Path]]:
    """The clones at `paths` at their HEAD; or those of SPLIT_ORIGINS, found in `folder` (`OWNER+NAME`, with a `repo` in
    it or bare) or downloaded."""
    for path in paths:
        yield Origin(name_of(path), head_of(path)), path
    for origin in SPLIT_ORIGINS if not paths else ():
        found = _in_folder(origin, folder) if folder else downloaded(origin, history=False)
        if found:
            yield origin, found


def _in_folder(origin: Origin, folder: Path) -> Path | None:
    top = folder / origin.name.replace("/", "+")
    places = (path for path in (top / "repo", top, top.with_suffix(".git")) if path.is_dir())
    return next((path for path in places if commit_of(path, origin.commit)), None)
