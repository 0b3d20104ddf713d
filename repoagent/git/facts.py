"""HEAD, the last commit subjects, languages and the operation in progress."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from repoagent.git.process import GitError, git, git_output
from repoagent.git.worktree import WorkTree

_SUBJECTS = 8
_LANGUAGES = 8
_LANGUAGE_NAMES = {
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
    """The commit of HEAD (None if unborn) and the short name of its branch (None if detached)."""

    commit: str | None
    branch: str | None


class Facts(NamedTuple):
    """`subjects` of the last commits, newest first, without merges; `languages` as (name, number of files), most
    frequent first; `operation` as returned by `operation()`; `unmerged` paths."""

    head: Head
    subjects: tuple[str, ...]
    languages: tuple[tuple[str, int], ...]
    operation: str | None
    unmerged: tuple[str, ...]


def gather_facts(worktree: WorkTree) -> Facts:
    """Gather the facts with two calls of git. Raises GitError if git cannot read the repository."""
    commit, subjects = _log(worktree, _SUBJECTS)
    entries = _tagged_entries(worktree)
    languages: Counter[str] = Counter()
    for extension, files in Counter(re.findall(rb"[^/ ]\.([0-9A-Za-z]{1,10})\0", entries)).items():
        name = extension.decode().lower()
        languages[_LANGUAGE_NAMES.get(name, "." + name)] += files
    return Facts(
        Head(commit, current_branch(worktree)),
        subjects,
        tuple(languages.most_common(_LANGUAGES)),
        operation(worktree),
        _unmerged(entries),
    )


def head(worktree: WorkTree) -> Head:
    """The commit and branch of HEAD (one call of git)."""
    return Head(_log(worktree, 0)[0], current_branch(worktree))


def _log(worktree: WorkTree, count: int) -> tuple[str | None, tuple[str, ...]]:
    """HEAD's commit and the last `count` subjects without merges; (None, ()) on an unborn branch."""
    # read twice as many, in case every second commit is a merge
    try:
        out = git(worktree.top, "log", "-z", f"-n{2 * count + 1}", "--encoding=UTF-8", "--format=%H %P%n%s")
    except GitError as error:
        if "does not have any commits yet" in error.stderr:
            return None, ()
        raise
    commits = [entry.partition(b"\n") for entry in out.split(b"\0") if entry]
    subjects = [subject.decode(errors="replace") for ids, _, subject in commits if ids.count(b" ") < 2]
    return commits[0][0].partition(b" ")[0].decode(), tuple(subjects[:count])


def head_blobs(worktree: WorkTree, paths: Collection[str]) -> dict[str, str]:
    """The blob id in HEAD of each of `paths`; those missing there are left out."""
    if not paths:
        return {}
    listing = git_output(worktree.top, "ls-tree", "-z", "--full-tree", "HEAD", "--", *paths, ok=(0, 128))
    entries = (os.fsdecode(entry).partition("\t") for entry in listing.stdout.split(b"\0") if entry)
    return {path: fields.split(" ")[2] for fields, _, path in entries}


def unmerged(worktree: WorkTree) -> tuple[str, ...]:
    """The paths that a merge left with conflicts in the index, sorted."""
    return _unmerged(_tagged_entries(worktree))


def _tagged_entries(worktree: WorkTree) -> bytes:
    """`TAG PATH` for each entry of the index, NUL-terminated; the tag M is an unmerged entry."""
    return git(worktree.top, "ls-files", "-t", "-z", "--cached")


def _unmerged(entries: bytes) -> tuple[str, ...]:
    if not entries.startswith(b"M ") and b"\0M " not in entries:  # ten times faster than the search
        return ()
    return tuple(sorted({os.fsdecode(path) for path in re.findall(rb"(?:\A|\0)M ([^\0]+)", entries)}))


def operation(worktree: WorkTree) -> str | None:
    """The operation in progress in this work tree: "rebase", "am", "merge", "cherry-pick", "revert", "squash", "bisect"
    or None. Calls git only if refs are not files (reftable)."""
    folder = worktree.git_dir
    if (folder / "rebase-apply" / "applying").exists():
        return "am"
    if (folder / "rebase-apply").is_dir() or (folder / "rebase-merge").is_dir():
        return "rebase"
    if (folder / "MERGE_HEAD").exists():
        return "merge"
    for ref, name in (("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")):
        if (folder / ref).exists():
            return name
        if (folder / "reftable").exists():
            verified = git_output(worktree.top, "rev-parse", "--verify", "--quiet", ref, ok=(0, 1))
            if verified.returncode == 0:
                return name
    todo = folder / "sequencer" / "todo"  # between two picks of a series
    if todo.exists():
        return "revert" if todo.read_bytes().startswith(b"revert") else "cherry-pick"
    if (folder / "SQUASH_MSG").exists():
        return "squash"
    return "bisect" if (folder / "BISECT_LOG").exists() else None


def current_branch(worktree: WorkTree) -> str | None:
    """The short name of the branch of HEAD (None: detached)."""
    ref = head_ref(worktree)
    return None if ref is None else ref.removeprefix("refs/heads/")


def head_ref(worktree: WorkTree) -> str | None:
    """The reference that a commit moves (None: HEAD is detached). Read from the file HEAD if that is reliable,
    otherwise from git: with reftable, an old symbolic link, or a branch that is a symbolic reference."""
    file = worktree.git_dir / "HEAD"
    text = b"" if file.is_symlink() else file.read_bytes()
    ref = text.removeprefix(b"ref:").strip()
    if text.startswith(b"ref:") and ref != b"refs/heads/.invalid":
        try:
            is_link = (worktree.common_dir / os.fsdecode(ref)).read_bytes().startswith(b"ref:")
        except OSError:  # the reference is packed, or unborn
            is_link = False
        if not is_link:
            return os.fsdecode(ref)
    if re.fullmatch(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?", text.strip()):
        return None
    resolved = git_output(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
    return os.fsdecode(resolved.stdout.rstrip(b"\n")) if resolved.returncode == 0 else None
