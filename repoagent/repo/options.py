"""How a commit is made: the choices that the command line gives."""

from __future__ import annotations

from repoagent.dataclass import dataclass


@dataclass(frozen=True)
class Options:
    """The names are those of `git commit` where it has them.

    `sign` is a key, "" for the default one, None for what the configuration says. `fixup` is a commit.
    `branch` is a new branch that the commit lands on. `include_dirty` commits the files whole, with the
    user's other work in them. `no_commit` only writes the files.
    """

    no_commit: bool = False
    no_verify: bool = False
    include_dirty: bool = False
    branch: str | None = None
    signoff: bool = False
    fixup: str | None = None
    edit_message: bool = False
    sign: str | None = None
