"""The change of one file of the work tree: the noun that patch/, repo/ and edit/ share."""

from __future__ import annotations

from repoagent.dataclass import dataclass

REGULAR = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"
SUBMODULE = "160000"


@dataclass(frozen=True)
class FileChange:
    """One file before and after, as raw work-tree bytes (git's filters not applied).

    Paths are relative to the top of the work tree, `/`-separated, decoded with `os.fsdecode`
    (so any byte survives). `old_path` is None for a new file, `path` is None for a deleted one, and
    both are given and differ for a rename. Modes are git's: "100644", "100755", "120000"; a mode is
    None exactly where the bytes of its side are None.
    """

    old_path: str | None
    path: str | None
    before: bytes | None
    after: bytes | None
    old_mode: str | None = None
    mode: str | None = None

    @property
    def is_new(self) -> bool:
        return self.old_path is None

    @property
    def is_deletion(self) -> bool:
        return self.path is None

    @property
    def is_rename(self) -> bool:
        return self.old_path is not None and self.path is not None and self.old_path != self.path

    @property
    def name(self) -> str:
        """The path to speak of it by: the new one, or the deleted one."""
        return self.path or self.old_path or ""
