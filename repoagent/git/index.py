"""Read and write index files, and read `git status`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.process import LITERAL, git
from repoagent.git.worktree import WorkTree


@dataclass(frozen=True)
class Entry:
    """An entry in a tree or an index: git's mode and the blob id."""

    mode: str
    oid: str


@dataclass(frozen=True)
class Staged:
    entry: Entry
    skip_worktree: bool = False
    assume_unchanged: bool = False


def index_path(worktree: WorkTree) -> Path:
    """The path of this work tree's index.

    Raises Refused if GIT_INDEX_FILE names another index, as in hooks of `git commit -a` or `git commit -- PATH`: a
    commit made there would be lost, or this index would seem to revert it.
    """
    path = worktree.git_dir / "index"
    other = os.environ.get("GIT_INDEX_FILE")
    if other and os.path.realpath(worktree.top / other) != os.path.realpath(path):
        raise Refused(
            f"GIT_INDEX_FILE points to {other}, which is not this work tree's index: "
            "unset it and run repoagent outside git hooks, or use --no-commit to only write the files"
        )
    return path


def parse_entry(mode: str, oid: str) -> Entry | None:
    """The entry for a mode and id as git prints them; None for mode 0."""
    return None if mode == "000000" else Entry(mode, oid)


def read_entries(worktree: WorkTree, paths: Collection[str], file: Path | None = None) -> dict[str, Staged]:
    """The entries of `paths` in the index, or in the index `file`, except unmerged ones."""
    env = None if file is None else _env(file)
    out = git(worktree.top, "ls-files", "-v", "--stage", "-z", "--", *paths, env=env)
    entries: dict[str, Staged] = {}
    for record in os.fsdecode(out).split("\0")[:-1]:
        fields, _, path = record.partition("\t")
        tag, mode, oid, stage = fields.split(" ")
        if stage == "0" and path in paths:
            entries[path] = Staged(Entry(mode, oid), tag in "Ss", tag.islower())
    return entries


def staged_entries(worktree: WorkTree, paths: Collection[str], file: Path | None = None) -> dict[str, Entry]:
    """Like `read_entries`, but without the index flags."""
    return {path: staged.entry for path, staged in read_entries(worktree, paths, file).items()}


def paths_by_blob(worktree: WorkTree) -> dict[str, list[str]]:
    """All paths in the index by full blob id. Reads the whole index."""
    paths: dict[str, list[str]] = {}
    for line in git(worktree.top, "ls-files", "-s", "-z").split(b"\0"):
        fields, _, path = line.partition(b"\t")
        if path:
            paths.setdefault(fields.split(b" ")[1].decode(), []).append(os.fsdecode(path))
    return paths


def copy_index(worktree: WorkTree, target: Path) -> None:
    """Copy the index to `target`, or remove `target` if there is no index.

    Keeps the modification time: git rereads each file that is not older than the index.
    """
    target.unlink(missing_ok=True)
    try:
        with index_path(worktree).open("rb") as index:
            data, status = index.read(), os.fstat(index.fileno())
    except FileNotFoundError:
        return
    new = target.with_name(target.name + ".new")
    new.write_bytes(data)
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    new.replace(target)  # git refuses an index that is cut short, and then nothing could be rolled back


def reset_to(worktree: WorkTree, file: Path, commit: str | None) -> None:
    """Reset the index `file` to `commit`, or empty it if `commit` is None, without touching the work tree."""
    arguments = ("-i", "--reset", "--end-of-options", commit) if commit else ("--empty",)
    git(worktree.top, "read-tree", *arguments, env=_env(file), read_only=False)


def put_entries(
    worktree: WorkTree,
    file: Path,
    entries: Mapping[str, Entry | None],
    bits: Mapping[str, Staged] | None = None,
) -> None:
    """Set `entries` in the index `file`; an entry that is None is removed.

    git clears the flags of the entries, so they are set again from `bits`.
    """
    if not entries:
        return

    def update(lines: list[bytes], *arguments: str) -> None:
        text = b"".join(line + b"\0" for line in lines)
        git(worktree.top, "update-index", "-z", *arguments, stdin=text, env=_env(file), read_only=False)

    removal = Entry("0", "0" * (64 if worktree.object_format == "sha256" else 40))
    # removals first: a file may replace a folder, or a folder a file
    ordered = sorted(entries.items(), key=lambda item: (item[1] is not None, item[0]))
    update(
        [
            f"{new.mode} {new.oid}\t".encode() + os.fsencode(path)
            for path, new in ((path, new or removal) for path, new in ordered)
        ],
        "--index-info",
    )
    marked = {path: staged for path, staged in (bits or {}).items() if entries.get(path)}
    skipped = [os.fsencode(path) for path, staged in marked.items() if staged.skip_worktree]
    assumed = [os.fsencode(path) for path, staged in marked.items() if staged.assume_unchanged]
    if skipped:
        update(skipped, "--skip-worktree", "--stdin")
    if assumed:
        update(assumed, "--assume-unchanged", "--stdin")


def refresh_index(worktree: WorkTree, file: Path, paths: Collection[str]) -> None:
    """Record the sizes and times of `paths` in the index `file`, so that `git status` need not read the files.

    Files that git cannot read are skipped.
    """
    if paths:
        git(
            worktree.top, "add", "--refresh", "--ignore-errors", "--", *paths,
            env={**_env(file), **LITERAL}, read_only=False, ok=(0, 1, 128),
        )  # fmt: skip


def write_tree(worktree: WorkTree, file: Path) -> str:
    """Store the index `file` as a tree; return the tree's id."""
    return git(worktree.top, "write-tree", env=_env(file), read_only=False).decode().strip()


def _env(file: Path) -> dict[str, str]:
    return {"GIT_INDEX_FILE": str(file)}


@dataclass(frozen=True)
class Changed:
    """A tracked path with uncommitted work.

    `head` and `staged` are its entries in HEAD and in the index, None if missing or only an intent to add. `unstaged`
    is true if the file differs from the index.
    """

    head: Entry | None
    staged: Entry | None
    unstaged: bool
    intent_to_add: bool = False
    submodule: bool = False


@dataclass(frozen=True)
class Status:
    """The result of `git status`: HEAD's commit (None: unborn), its branch (None: detached), and the changed paths."""

    head: str | None
    branch: str | None
    changed: Mapping[str, Changed]
    unmerged: tuple[str, ...]

    @property
    def has_staged(self) -> bool:
        return any(
            changed.head != changed.staged or changed.intent_to_add for changed in self.changed.values()
        )


def read_status(worktree: WorkTree) -> Status:
    """The status of all tracked files; git checks each of them for changes."""
    return _read(worktree, "no")[0]


def read_status_and_untracked(worktree: WorkTree) -> tuple[Status, list[str]]:
    """Return what `read_status` returns, and the files that are neither tracked nor ignored.

    A nested repository is listed as its folder, with a trailing slash.
    """
    return _read(worktree, "all")


def _read(worktree: WorkTree, untracked_files: str) -> tuple[Status, list[str]]:
    out = git(
        worktree.top, "status", "--porcelain=v2", "-z", "--branch", f"--untracked-files={untracked_files}",
        "--no-renames", "--no-ahead-behind", "--ignore-submodules=dirty",
    )  # fmt: skip
    headers: dict[str, str] = {}
    changed: dict[str, Changed] = {}
    unmerged: list[str] = []
    untracked: list[str] = []
    for record in os.fsdecode(out).split("\0"):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            key, _, value = rest.partition(" ")
            headers[key] = value
        elif kind == "1":
            letters, submodule, head_mode, staged_mode, _, head, staged, path = rest.split(" ", 7)
            old = parse_entry(head_mode, head)
            intended = old is None and letters[0] == "."
            new = None if intended else parse_entry(staged_mode, staged)
            changed[path] = Changed(old, new, letters[1] != ".", intended, submodule != "N...")
        elif kind == "u":
            unmerged.append(rest.split(" ", 9)[9])
        elif kind == "?":
            untracked.append(rest)
    commit, branch = headers["branch.oid"], headers["branch.head"]
    status = Status(
        None if commit == "(initial)" else commit,
        None if branch == "(detached)" else branch,
        changed,
        tuple(unmerged),
    )
    return status, untracked
