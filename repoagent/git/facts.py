"""HEAD, remotes, languages and the operation in progress. `gather_facts` gets them all with three calls of git."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from repoagent.git.process import GitError, git, git_output
from repoagent.git.worktree import WorkTree

_SUBJECTS = 8
_LANGUAGES = 8
_NAMES = {
    "bash": "shell", "c": "C", "cc": "C++", "cpp": "C++", "cs": "C#", "css": "CSS", "cxx": "C++",
    "dart": "Dart", "ex": "Elixir", "exs": "Elixir", "go": "Go", "h": "C", "hpp": "C++", "hs": "Haskell",
    "htm": "HTML", "html": "HTML", "java": "Java", "jl": "Julia", "js": "JavaScript", "json": "JSON",
    "jsx": "JavaScript", "kt": "Kotlin", "lua": "Lua", "m": "Objective-C", "md": "Markdown",
    "mjs": "JavaScript", "ml": "OCaml", "php": "PHP", "pl": "Perl", "pm": "Perl", "py": "Python",
    "pyi": "Python", "r": "R", "rb": "Ruby", "rs": "Rust", "rst": "reStructuredText", "scala": "Scala",
    "sh": "shell", "sql": "SQL", "svelte": "Svelte", "swift": "Swift", "toml": "TOML", "ts": "TypeScript",
    "tsx": "TypeScript", "vue": "Vue", "xml": "XML", "yaml": "YAML", "yml": "YAML", "zig": "Zig",
}  # fmt: skip


class Head(NamedTuple):
    """Where HEAD is: a commit (None when unborn) and the short name of a branch (None when detached)."""

    commit: str | None
    branch: str | None

    @property
    def unborn(self) -> bool:
        return self.commit is None

    @property
    def detached(self) -> bool:
        return self.branch is None


class Facts(NamedTuple):
    """`remotes` are (name, URL without credentials); `subjects` the last ones, newest first, no merges;
    `languages` (name, number of files), most first; `operation` as `operation()` says; `unmerged` paths."""

    head: Head
    remotes: tuple[tuple[str, str], ...]
    subjects: tuple[str, ...]
    languages: tuple[tuple[str, int], ...]
    operation: str | None
    unmerged: tuple[str, ...]


def gather_facts(worktree: WorkTree) -> Facts:
    """All of it. Raises GitError when git can't read the repository."""
    newest, subjects = _log(worktree, _SUBJECTS)
    listing = _listing(worktree)
    return Facts(
        Head(newest, current_branch(worktree)),
        remotes(worktree),
        subjects,
        _languages(listing),
        operation(worktree),
        _unmerged(listing),
    )


def head(worktree: WorkTree) -> Head:
    """Where HEAD is (one call of git)."""
    return Head(_log(worktree, 0)[0], current_branch(worktree))


def last_subjects(worktree: WorkTree, count: int = _SUBJECTS) -> tuple[str, ...]:
    """The subjects of the last `count` commits that are no merges, newest first; fewer among many merges."""
    return _log(worktree, count)[1]


def head_blobs(worktree: WorkTree, paths: Collection[str]) -> dict[str, str]:
    """The blob id that HEAD has for each of `paths`; those that it does not have, and all when it is unborn,
    are left out."""
    if not paths:
        return {}
    done = git_output(worktree.top, "ls-tree", "-z", "--full-tree", "HEAD", "--", *paths, ok=(0, 128))
    entries = (os.fsdecode(entry).partition("\t") for entry in done.stdout.split(b"\0") if entry)
    return {path: fields.split(" ")[2] for fields, _, path in entries}


def languages(worktree: WorkTree) -> tuple[tuple[str, int], ...]:
    """The languages of the tracked files with the most files, by file extension: (name, number of files)."""
    return _languages(_listing(worktree))


def unmerged(worktree: WorkTree) -> tuple[str, ...]:
    """The paths that a merge left with conflicts in the index, sorted."""
    return _unmerged(_listing(worktree))


def remotes(worktree: WorkTree) -> tuple[tuple[str, str], ...]:
    """The remotes as (name, URL), without user names, passwords and tokens."""
    found = git_output(worktree.top, "config", "-z", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1)).stdout
    entries = (os.fsdecode(entry).partition("\n") for entry in found.split(b"\0") if entry)
    return tuple((key[len("remote.") : -len(".url")], without_credentials(url)) for key, _, url in entries)


def without_credentials(url: str) -> str:
    """`url` without what could be a secret; the bare user of an ssh URL (`git@`) stays."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url  # a path, or HOST:PATH, which can hold no password
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, host = place.rpartition("@")
    kept = user.partition(":")[0] + at if scheme.endswith("ssh") else ""
    path = re.split(r"[?#]", rest[len(place) :], maxsplit=1)[0]
    return f"{scheme}://{kept}{host}{path}"


def operation(worktree: WorkTree) -> str | None:
    """What is in progress in this work tree: "rebase", "am", "merge", "cherry-pick", "revert", "squash",
    "bisect" or None. No call of git, except where refs are not files (reftable)."""
    here = worktree.git_dir
    if (here / "rebase-apply" / "applying").exists():
        return "am"
    if (here / "rebase-apply").is_dir() or (here / "rebase-merge").is_dir():
        return "rebase"
    if (here / "MERGE_HEAD").exists():
        return "merge"
    if _has_ref(worktree, "CHERRY_PICK_HEAD"):
        return "cherry-pick"
    if _has_ref(worktree, "REVERT_HEAD"):
        return "revert"
    if (here / "sequencer" / "todo").exists():  # between two picks of a series
        return _sequence(here / "sequencer" / "todo")
    if (here / "SQUASH_MSG").exists():
        return "squash"
    return "bisect" if (here / "BISECT_LOG").exists() else None


def _has_ref(worktree: WorkTree, name: str) -> bool:
    if (worktree.git_dir / name).exists():
        return True
    if not (worktree.git_dir / "reftable").exists():
        return False
    return git_output(worktree.top, "rev-parse", "--verify", "--quiet", name, ok=(0, 1)).returncode == 0


def _sequence(todo: Path) -> str:
    return "revert" if todo.read_bytes().startswith(b"revert") else "cherry-pick"


def current_branch(worktree: WorkTree) -> str | None:
    """The short name of the branch of HEAD (None: detached)."""
    ref = head_ref(worktree)
    return None if ref is None else ref.removeprefix("refs/heads/")


def head_ref(worktree: WorkTree) -> str | None:
    """The reference that a commit moves (None: HEAD is detached), from the file of HEAD where that is the truth, else
    from git (reftable, an old symbolic link, a branch that is a link to another)."""
    file = worktree.git_dir / "HEAD"
    text = b"" if file.is_symlink() else file.read_bytes()
    ref = text.removeprefix(b"ref:").strip()
    if text.startswith(b"ref:") and ref != b"refs/heads/.invalid" and not _is_link(worktree, ref):
        return os.fsdecode(ref)
    if re.fullmatch(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?", text.strip()):
        return None
    done = git_output(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
    return os.fsdecode(done.stdout.rstrip(b"\n")) if done.returncode == 0 else None


def _is_link(worktree: WorkTree, ref: bytes) -> bool:
    """Whether the reference leads to another one, of which only its file tells."""
    try:
        return (worktree.common_dir / os.fsdecode(ref)).read_bytes().startswith(b"ref:")
    except OSError:  # it is packed, or unborn
        return False


def _log(worktree: WorkTree, count: int) -> tuple[str | None, tuple[str, ...]]:
    """HEAD's commit and the last `count` subjects; (None, ()) on an unborn branch."""
    # twice as many, so that there are enough when every other commit is a merge
    try:
        out = git(worktree.top, "log", "-z", f"-n{2 * count + 1}", "--encoding=UTF-8", "--format=%H %P%n%s")
    except GitError as error:
        if "does not have any commits yet" in error.stderr:
            return None, ()
        raise
    commits = [entry.partition(b"\n") for entry in out.split(b"\0") if entry]
    plain = [subject for ids, _, subject in commits if ids.count(b" ") < 2]
    newest = commits[0][0].partition(b" ")[0].decode()
    return newest, tuple(subject.decode(errors="replace") for subject in plain[:count])


def _listing(worktree: WorkTree) -> bytes:
    """`TAG PATH` for each entry of the index, NUL-terminated; the tag M is an unmerged entry."""
    return git(worktree.top, "ls-files", "-t", "-z", "--cached")


def _languages(listing: bytes) -> tuple[tuple[str, int], ...]:
    extensions = Counter(re.findall(rb"[^/ ]\.([0-9A-Za-z]{1,10})\0", listing))
    names: Counter[str] = Counter()
    for extension, files in extensions.items():
        text = extension.decode().lower()
        names[_NAMES.get(text, "." + text)] += files
    return tuple(names.most_common(_LANGUAGES))


def _unmerged(listing: bytes) -> tuple[str, ...]:
    if not listing.startswith(b"M ") and b"\0M " not in listing:  # ten times as fast as the search
        return ()
    paths = re.findall(rb"(?:\A|\0)M ([^\0]+)", listing)
    return tuple(sorted({os.fsdecode(path) for path in paths}))
