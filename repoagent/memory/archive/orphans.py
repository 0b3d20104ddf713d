"""Find memories whose file is gone from all work trees, branches and stashes, and old runs whose text can go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.git.files import blob_hash, read_source
from repoagent.git.process import OFFLINE, GitError, git, git_stream
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity import git_renames
from repoagent.memory.identity.hints import IdentityIndex
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.similarity import RENAME, is_sample, last_contents, likeness, worked_over
from repoagent.memory.listing import FileLocator
from repoagent.storage.folders import system_failed
from repoagent.storage.layout import Layout
from repoagent.storage.locks import held_by, locked

_TREES = 300  # pairs of commits that git compares for renames
_PAIRS = 20_000  # of a file that is new and a memory that are compared by content


@dataclass
class Orphans:
    """Looks whether something of a file is left anywhere. `index` is open as long as this is used."""

    layout: Layout
    worktree: WorkTree
    index: IdentityIndex

    def found(self) -> list[str]:
        """The folders of the memories that have no file in this work tree, by name."""
        census = FileLocator(self.layout, self.worktree, self.index)
        paths = sorted(self.index.paths())
        return [name for name, path in paths if census.standing(name, path).state == "orphaned"]

    def left(self, memories: Sequence[Memory]) -> dict[str, str]:
        """What is left of the files of `memories`, in a sentence by the name of the folder; orphans are not in it."""
        left: dict[str, str] = {}
        looks = (self._in_work_trees, self._by_content, self._by_blob, self._by_path, self._by_rename)
        for look in looks:
            rest = [memory for memory in memories if memory.folder.name not in left]
            if rest:
                left |= look(rest)
        return left

    def _paths(self, memory: Memory) -> set[str]:
        identity = memory.identity
        return {identity.path, *(seen.path for seen in identity.places.values())}

    def _in_work_trees(self, memories: Sequence[Memory]) -> dict[str, str]:
        left = {}
        for memory in memories:
            for top in self._tops:
                if not Path(top).is_dir():
                    if top in memory.identity.places:
                        left[memory.folder.name] = f"the work tree {top} does not exist"
                    continue
                for path in self._paths(memory):
                    if os.path.lexists(f"{top}/{path}"):
                        left[memory.folder.name] = f"{top} has a file {path}"
        return left

    def _by_content(self, memories: Sequence[Memory]) -> dict[str, str]:
        """Files that are new or changed in any work tree: git does not have them at a tip yet."""
        files = [(tree, path) for tree in self._trees for path in git_renames.changed_files(tree)]
        if len(files) * len(memories) > _PAIRS:
            return {
                memory.folder.name: f"too many new files to compare ({len(files):,})" for memory in memories
            }
        kept = {memory.folder.name: last_contents(memory.folder, self.worktree) for memory in memories}
        left = {}
        for tree, path in files:
            try:
                data = read_source(tree, path).data
            except (Refused, OSError, ValueError):
                continue
            if not data or not data.strip():
                continue
            blob = blob_hash(data, tree.object_format)
            for memory in memories:
                if blob in memory.identity.blobs or any(
                    _is_like(one, data) for one in kept[memory.folder.name]
                ):
                    left[memory.folder.name] = f"{path} in {tree.top} has similar content"
        return left

    def _by_blob(self, memories: Sequence[Memory]) -> dict[str, str]:
        empty = blob_hash(b"", self.worktree.object_format)
        wanted = {
            blob: memory.folder.name for memory in memories for blob in memory.identity.blobs if blob != empty
        }
        left: dict[str, str] = {}
        if not self._tips or not wanted:
            return left
        with git_stream(
            self.worktree.top, "rev-list", "--objects", "--no-walk", *self._tips, "--", env=OFFLINE
        ) as listed:
            for line in listed:
                blob, _, path = line.rstrip(b"\n").partition(b" ")
                name = wanted.get(blob.decode("ascii", "replace"))
                if name is not None:
                    left[name] = f"a branch has its content in {os.fsdecode(path)}"
        return left

    def _by_path(self, memories: Sequence[Memory]) -> dict[str, str]:
        left: dict[str, str] = {}
        asked: list[tuple[str, str]] = []
        for memory in memories:
            for path in self._paths(memory):
                if "\n" in path:
                    left[memory.folder.name] = "git cannot look up a path that contains a line break"
                else:
                    asked.append((memory.folder.name, path))
        names = [(name, path, f"{tip}:{path}") for name, path in asked for tip in self._tips]
        if names:
            stdin = b"".join(os.fsencode(spec) + b"\n" for _, _, spec in names)
            answers = git(
                self.worktree.top, "cat-file", "--batch-check", stdin=stdin, env=OFFLINE
            ).splitlines()
            for (name, path, _), answer in zip(names, answers, strict=True):
                if not answer.endswith(b" missing"):
                    left[name] = f"a branch has a file {path}"
        return left

    def _by_rename(self, memories: Sequence[Memory]) -> dict[str, str]:
        """What was renamed and changed on a branch since the file was last edited here."""
        by_commit: dict[str, list[Memory]] = {}
        for memory in memories:
            if memory.identity.commit:
                by_commit.setdefault(memory.identity.commit, []).append(memory)
        if len(by_commit) * len(self._tips) > _TREES:
            return {
                memory.folder.name: f"too many branches to search for renames ({len(self._tips)})"
                for some in by_commit.values()
                for memory in some
            }
        left = {}
        for commit, some in by_commit.items():
            for tip in self._tips:
                renames = self._renames(commit, tip)
                for memory in some:
                    if renames is None:
                        left[memory.folder.name] = f"git cannot compare {commit[:12]} with {tip[:12]}"
                    elif new := next(
                        (renames[path] for path in self._paths(memory) if path in renames), None
                    ):
                        left[memory.folder.name] = f"a branch renamed it to {new}"
        return left

    def _renames(self, commit: str, tip: str) -> dict[str, str] | None:
        """New names by old ones; {} where the commit is gone, None where git can't say."""
        try:
            git(self.worktree.top, "cat-file", "-e", f"{commit}^{{commit}}", env=OFFLINE)
        except GitError:
            return {}
        tree = ("diff-tree", "-r", "-M", "--diff-filter=R", "--name-status", "-z", commit, tip, "--")
        try:
            fields = [
                os.fsdecode(part) for part in git(self.worktree.top, *tree, env=OFFLINE).split(b"\0") if part
            ]
        except GitError:  # a partial clone without these files
            return None
        return dict(zip(fields[1::3], fields[2::3], strict=False))

    @cached_property
    def _tops(self) -> list[str]:
        """The tops of all work trees but those of a bare repository itself."""
        listed = git(self.worktree.top, "worktree", "list", "--porcelain")
        tops, bare = [], False
        for line in [*listed.split(b"\n"), b""]:
            if line.startswith(b"worktree "):
                tops.append(os.path.realpath(os.fsdecode(line[len(b"worktree ") :])))
            bare = bare or line == b"bare"
            if not line and bare:
                tops.pop()
                bare = False
        return list(dict.fromkeys([str(self.worktree.top), *tops]))

    @cached_property
    def _trees(self) -> list[WorkTree]:
        """The work trees that git can be asked about; with GIT_DIR in the environment only this one."""
        trees = [self.worktree]
        if "GIT_DIR" in os.environ:
            return trees
        for top in self._tops:
            if top != str(self.worktree.top) and Path(top).is_dir():
                found = git(top, "rev-parse", "--absolute-git-dir").rstrip(b"\n")
                trees.append(self.worktree._replace(top=Path(top), git_dir=Path(os.fsdecode(found))))
        return trees

    @cached_property
    def _tips(self) -> list[str]:
        """The commits of all branches, here and as last seen of others, of each work tree, and what is stashed."""
        listed = git(
            self.worktree.top,
            "for-each-ref",
            "--format=%(objectname) %(objecttype)",
            "refs/heads",
            "refs/remotes",
        )
        tips = [line.split(b" ")[0].decode() for line in listed.splitlines() if line.endswith(b" commit")]
        trees = git(self.worktree.top, "worktree", "list", "--porcelain")
        heads = (line[len(b"HEAD ") :].decode() for line in trees.split(b"\n") if line.startswith(b"HEAD "))
        tips += [head for head in heads if head.strip("0")]
        try:
            stashes = (
                git(self.worktree.top, "log", "-g", "--format=%H %P", "refs/stash", "--")
                .decode()
                .splitlines()
            )
        except GitError:  # nothing is stashed
            stashes = []
        tips += _stashed(stashes)
        return list(dict.fromkeys(tips))


def _stashed(lines: Iterable[str]) -> list[str]:
    """A stash is a commit; its last parent of three holds the files that git did not know."""
    found = []
    for line in lines:
        commit, *parents = line.split()
        found += [commit, *parents[1:]]
    return found


def _is_like(kept: bytes, data: bytes) -> bool:
    return likeness(kept, data) >= RENAME or (not is_sample(kept) and worked_over(kept, data))


_WORDS = ("output", "inbox", "checkpoint.md", "plan.md")
_OURS = ("run-", "chat-")  # prefixes of generated names; conversations that a user named stay
_GONE = ".gone-"  # a folder that was being removed when a kill came


@dataclass(frozen=True)
class OldRun:
    """`paths` are what is to go: files, and folders with all that is in them. `lock` is that of the run, None where it
    has no home."""

    paths: tuple[Path, ...]
    bytes: int
    lock: Path | None = None


def old_runs(layout: Layout, cutoff: float) -> Iterator[OldRun]:
    """The past runs in which nothing has changed since `cutoff` (seconds since the epoch), and that have left words."""
    homes = {path.name: path for path in _inside(layout.runs) if path.is_dir() and not path.is_symlink()}
    for name, home in homes.items():
        if name.startswith(_GONE):
            yield OldRun((home,), _size(home))
            continue
        words = [home / each for each in _WORDS]
        if name.casefold().startswith(_OURS):
            words += _conversation(layout.conversations / f"{name}.md")
        found = _there(words)
        # the folder's own time changes with run.json, which is replaced at each step and at the end
        if found and _is_old([home, *found], cutoff) and held_by(home / "lock") is None:
            yield OldRun(tuple(found), sum(map(_size, found)), home / "lock")
    for path in _inside(layout.conversations):
        if path.suffix == ".md" and path.name.casefold().startswith(_OURS) and path.stem not in homes:
            found = _there(_conversation(path))
            if _is_old(found, cutoff):
                yield OldRun(tuple(found), sum(map(_size, found)))


def forget_run(run: OldRun) -> bool:
    """Remove what is to go of it; False when it is alive by now. Raises Refused."""
    try:
        if run.lock is None:
            _remove(run.paths)
        else:
            with locked(run.lock, timeout=0.0, what="the run"):
                _remove(run.paths)
    except Busy:
        return False
    return True


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _conversation(path: Path) -> list[Path]:
    return [path, path.with_name(f"{path.name}.lock")]


def _there(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if path.is_symlink() or path.exists()]


def _is_old(paths: Sequence[Path], cutoff: float) -> bool:
    return all(path.lstat().st_mtime < cutoff for path in paths)


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(map(_size, path.iterdir()))
    return path.lstat().st_size


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise system_failed("remove", path, error) from error
