"""Everything that git and the disk hold of a repository, flat, so that two moments can be compared key by key."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import GitRepo

# Side effects of any commit: objects, logs of refs, the last message; and the files of repoagent.
_PASSING = ("objects", "logs", "refs", "repoagent", "worktrees")
_PASSING_FILES = ("index", "HEAD", "packed-refs", "COMMIT_EDITMSG", "gitk.cache")
Snapshot = dict[str, Any]  # tuples


def snapshot(repo: GitRepo) -> Snapshot:
    """Keys are "file PATH", "folder PATH", "index PATH", "status PATH", "ref NAME", "git PATH" (all other
    files of the git directory, so operations, configuration, hooks, locks), "stash N" and "journal NAME".

    The last of what is kept of a file is its modification time, of an index entry git's stat cache.
    """
    here = git_dir_of(repo)
    return dict((*_files(repo), *_index(repo), *_status(repo), *_refs(repo, here), *_git_folder(here)))


def git_dir_of(repo: GitRepo) -> Path:
    here = repo.top / ".git"
    return here if here.is_dir() else Path(repo.git("rev-parse", "--absolute-git-dir").strip())


def changed(before: Snapshot, after: Snapshot) -> set[str]:
    """The keys that are new, missing or changed."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def untimed(seen: Snapshot) -> Snapshot:
    """Without the times of files: for comparing after something was written and undone."""
    return {key: value[:-1] if key.startswith(("file ", "index ")) else value for key, value in seen.items()}


def visible(repo: GitRepo, *but: str) -> Snapshot:
    """What the user sees, without times: everything except the inside of `.git`, where hooks of tests leave files; but
    locks, configuration and journals count. Of a status only the letters; without files and index entries of `but`."""
    skipped = {f"{kind} {path}" for path in but for kind in ("file", "index")}
    shown: Snapshot = {}
    for key, value in untimed(snapshot(repo)).items():
        kind = key.partition(" ")[0]
        if key in skipped or (kind == "git" and not key.endswith((".lock", "git config"))):
            continue
        if kind == "status":
            value = str(value[0])[:4]
        elif kind == "index":
            value = value[::2]  # without flags that depend on the index format; the tags have the others
        shown[key] = value
    return shown


def seen(repo: GitRepo, *but: str) -> Snapshot:
    """Everything visible that an edit of the files `but` must leave unchanged: not the branches."""
    return {key: value for key, value in visible(repo, *but).items() if not key.startswith("ref refs/heads/")}


def unchanged(repo: GitRepo, before: Snapshot, *but: str) -> None:
    """Check that everything is as `seen` before."""
    after = seen(repo, *but)
    different = {key: (before.get(key), after.get(key)) for key in changed(before, after)}
    assert not different, f"{different!s:.3000}"


def nothing_left(repo: GitRepo) -> None:
    """Check that there is no lock, no journal, and no broken object."""
    here = git_dir_of(repo)
    assert [str(path) for path in here.rglob("*.lock")] == []
    folder = here / "repoagent" / "journal"
    assert not folder.exists() or list(folder.iterdir()) == []
    assert repo.git("fsck", "--connectivity-only", "--no-dangling") == ""


def untouched(repo: GitRepo, before: Snapshot) -> None:
    """Check that nothing has been written since."""
    assert changed(before, snapshot(repo)) == set()


def as_before(repo: GitRepo, before: Snapshot) -> None:
    """Check that everything is the same again, except the times of files."""
    assert changed(untimed(before), untimed(snapshot(repo))) == set()


Items = Iterator[tuple[str, tuple[object, ...]]]


def _files(repo: GitRepo) -> Items:
    for folder, folders, names in os.walk(repo.top):
        here = Path(folder)
        if here == repo.top:
            folders[:] = [name for name in folders if name not in (".git", ".repoagent")]
        if here != repo.top:
            yield f"folder {here.relative_to(repo.top).as_posix()}", (stat.S_IMODE(here.lstat().st_mode),)
        links = [name for name in folders if (here / name).is_symlink()]
        for name in (*links, *names):
            path = here / name
            if path == repo.top / ".git":
                continue
            seen = path.lstat()
            data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            yield f"file {path.relative_to(repo.top).as_posix()}", (oct(seen.st_mode), data, seen.st_mtime_ns)


def _index(repo: GitRepo) -> Items:
    """Tag, mode, blob, stage and flags of each entry."""
    path = ""
    entries: dict[str, list[str]] = {}
    cached: dict[str, list[str]] = {}
    for line in repo.git("-c", "core.quotepath=false", "ls-files", "-s", "-v", "--debug").splitlines():
        if not line.startswith("  "):
            fields, _, path = line.partition("\t")
            if path.startswith('"'):  # as git quotes odd names
                path = re.sub(r"\\([0-7]{3}|.)", _unescaped, path[1:-1])
            entries.setdefault(path, []).append(fields)
            continue
        stat_cache, _, flags = line.partition("flags:")
        entries[path] += [flags.strip()] if flags else []
        cached.setdefault(path, []).append(stat_cache.strip())
    yield from ((f"index {path}", (*found, tuple(cached[path]))) for path, found in entries.items())


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if len(code) == 3 else {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)


def _status(repo: GitRepo) -> Items:
    options = ("--porcelain=v2", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames")
    out = repo.git("--no-optional-locks", "status", *options)
    for record in out.split("\0")[:-1]:
        if not record.startswith("#"):
            kind = record.split(" ", 1)[0]
            path = record.split(" ", {"1": 8, "u": 10}.get(kind, 1))[-1]
            if not path.startswith(".repoagent/"):
                yield f"status {path}", (record,)


def _refs(repo: GitRepo, here: Path) -> Items:
    head = (here / "HEAD").read_text()
    yield (
        "HEAD",
        (repo.git("rev-parse", "--symbolic-full-name", "HEAD") if "/.invalid" in head else head,),
    )  # reftable
    refs = repo.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)")
    for line in refs.splitlines():
        name, _, value = line.partition(" ")
        yield f"ref {name}", (value,)
    stashes = repo.git("stash", "list", "--format=%H") if "refs/stash" in refs else ""
    for number, line in enumerate(stashes.splitlines()):
        yield f"stash {number}", (line,)


def _git_folder(git_dir: Path) -> Items:
    for folder, folders, names in os.walk(git_dir):
        here = Path(folder)
        if here == git_dir:
            folders[:] = [name for name in folders if name not in _PASSING]
        for name in names:
            path = here / name
            if here == git_dir and name in _PASSING_FILES:
                continue
            yield f"git {path.relative_to(git_dir).as_posix()}", (path.read_bytes(),)
    for path in (git_dir / "repoagent" / "journal").glob("[!.]*"):
        yield f"journal {path.name}", ()
