"""What a file of the work tree defines, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.repo import Source, WorkTree
    from repoagent.split.symbols.files import Outline


def present(worktree: WorkTree, path: str) -> tuple[Source, bytes]:
    """The file and its bytes. Raises UsageError for one that is not there, Refused as `repo.read_source`."""
    from repoagent.repo import read_source
    from repoagent.repo.missing import no_such_file

    source = read_source(worktree, path)
    if source.data is None:
        raise no_such_file(path, worktree.top)
    return source, source.data


def outlined(worktree: WorkTree, path: str, *, language: str | None = None) -> tuple[Source, Outline]:
    """The file and its outline. Raises what `present` does, and UsageError for a file that has none: binary, too large
    or without a grammar."""
    from repoagent.split.symbols.files import check_language, outline_of

    if language is not None:
        check_language(language)
    source, data = present(worktree, path)
    found = outline_of(path, data, language)
    if found.kind:
        raise UsageError(f"{path} {found.reason}")
    return source, found
