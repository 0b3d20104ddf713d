"""A run that came with the repository: what it says was said and done is somebody else's word.

A run of one's own is never tracked: the folder that it stands in ignores itself.
"""

from __future__ import annotations

import os
import unicodedata

from repoagent.errors import Refused
from repoagent.repo.run import GitError, git
from repoagent.store import Layout
from repoagent.work.home.place import Home


def refuse_foreign(home: Home) -> None:
    """Raise Refused where git tracks the conversation of the run, or anything in its folder. One call of git, where
    there is such a run at all."""
    if not any(os.path.lexists(path) for path in (home.folder, home.conversation)):
        return
    root = home.layout.root
    places = [_plain(str(path.relative_to(root.parent))) for path in (home.folder, home.conversation)]
    for path in _tracked(home.layout):
        if any(_covers(path, place) or _covers(place, path) for place in places):
            raise Refused(
                f"the run {home.name} came with the repository ({path} is tracked by git), so nobody knows who said "
                "what is in it: begin one of your own; if it is your own, take its files out of git first "
                "(`git rm -r --cached`)"
            )


def _tracked(layout: Layout) -> list[str]:
    """What git tracks of `.repoagent`, as a file system would read it that knows no case."""
    try:
        listed = git(layout.root.parent, "ls-files", "-z", "--cached")
    except GitError:  # beside a bare repository there is nothing that is tracked
        return []
    name = _plain(layout.root.name)
    paths = (_plain(os.fsdecode(path)) for path in listed.split(b"\0") if path[:1] == b".")
    return [path for path in paths if _covers(name, path)]


def _covers(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _plain(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
