"""The files of the repository as they are in the version that is reviewed, whatever the work tree holds."""

from __future__ import annotations

from repoagent.errors import Refused
from repoagent.repo import Source, WorkTree, git, read_source
from repoagent.repo.paths import check_path
from repoagent.repo.source import blob_hash
from repoagent.review.change import Change

REGULAR = ("100644", "100755")


class Versions:
    """Reads a file once: those of the change as it leaves them, others from the commit, the index or the work tree."""

    def __init__(self, worktree: WorkTree, change: Change) -> None:
        self.worktree = worktree
        self.change = change
        self.files = {file.path: file for file in change.files}

    @property
    def at(self) -> str | None:
        """Where `git grep` looks: a commit, "" for the index, None for the work tree."""
        if self.change.head:
            return self.change.head
        return "" if self.change.kind == "staged" else None

    def read(self, path: str) -> Source:
        """The file `path`. Raises Refused for what is no regular file of this repository."""
        check_path(path)
        file = self.files.get(path)
        if file is not None and file.status != "deleted":
            data = self.change.read_new(file)
            if data is not None:
                mode = file.new_mode or REGULAR[0]
                return Source(path, data, mode, blob_hash(data, self.worktree.object_format))
        if self.at is None:
            return read_source(self.worktree, path)
        return self._read(path)

    def _read(self, path: str) -> Source:
        if self.at:
            listed = git(self.worktree.top, "ls-tree", "-z", self.at, "--", path)
        else:
            listed = git(self.worktree.top, "ls-files", "-s", "-z", "--", path)
        entries = [
            entry
            for entry in listed.split(b"\0")
            if entry.endswith(b"\t" + path.encode("utf-8", "surrogateescape"))
        ]
        if not entries:
            return Source(path, None, None, "")
        fields = entries[0].partition(b"\t")[0].decode().split()
        mode, blob = fields[0], fields[2] if self.at else fields[1]
        if mode not in REGULAR:
            raise Refused(f"{path} is no regular file there")
        return Source(path, git(self.worktree.top, "cat-file", "blob", blob), mode, blob)
