"""Names of revisions that a program gives: a command line can't hold all that a text can."""

from __future__ import annotations

from repoagent.errors import UsageError


def sayable(revision: str) -> str:
    """The name as it is. Raises UsageError for one that git can't even be asked for."""
    if "\0" in revision or any("\ud800" <= sign <= "\udfff" for sign in revision):
        raise UsageError(f"there is no commit {revision!r}: name a commit, a branch or a tag")
    return revision
