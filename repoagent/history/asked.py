"""What a path that somebody asks about stands for: a file, a folder's files, a file that is gone, or a name alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.history.cochange.view import View

LARGEST_FOLDER = 2000  # files of a folder that are looked up
FILES_OF_FOLDER = 60  # of these, the ones that stand for it: changed last


class Asked(NamedTuple):
    """One asked path: how it is called (a folder with a slash at its end), the files and paths that stand for it, and
    what is odd about it ("" for nothing)."""

    name: bytes
    files: tuple[int, ...]
    paths: tuple[bytes, ...]
    note: str = ""


def understand(
    path: bytes,
    revision: str,
    view: View,
    *,
    top: Path,
    listed: Callable[[bytes], list[bytes]],
    cut: bool = False,
) -> Asked:
    """What `path`, relative to `top`, stands for at `revision`; `listed` gives the files below a folder there, `cut`
    says that the history was not read to its end.

    Raises UsageError for the whole work tree, a folder without a file of git's, and a path that neither git nor the
    disk knows; Refused for what is in a git directory.
    """
    if path == b".":
        raise UsageError("that is the whole work tree: name files or a folder in it")
    file = view.file(path)
    if file is not None and view.paths([file]).get(file) == path:
        return _alive(view, file, path)
    from repoagent.repo.missing import no_such_file
    from repoagent.repo.paths import check_path

    name = os.fsdecode(path)
    check_path(name)
    inside = listed(path)
    if inside and inside != [path]:
        return _folder(view, path, inside)
    kind = _kind(top / name)
    if kind == "folder" and not inside:
        raise UsageError(f"{name} holds no file that git knows: name a folder or a file with a history")
    if file is not None:
        return _gone(view, file, path)
    if kind == "none" and not inside:
        raise no_such_file(name, top, reason="and git has no commit of it")
    if inside:
        why = "has no commit that could be found at once" if cut else "has no commit yet, merges apart"
    else:
        why = "is not in git yet" if revision == "HEAD" else f"is not in {revision}"
    return Asked(path, (), (path,), f"{name} {why}: only names and folders say what may belong to it")


def _alive(view: View, file: int, path: bytes) -> Asked:
    one = len(view.commits(file, 2)) == 1
    note = f"{os.fsdecode(path)} has one commit, which says little" if one else ""
    return Asked(path, (file,), (path,), note)


def _gone(view: View, file: int, path: bytes) -> Asked:
    """A file that was deleted, or has another name by now."""
    present = view.paths([file]).get(file)
    name = os.fsdecode(path)
    if present is not None:
        return Asked(present, (file,), (present,), f"{name} is {os.fsdecode(present)} now")
    last = view.commits(file, 1)
    when = f" on {_day(last[0].time)}" if last else ""
    return Asked(path, (file,), (path,), f"{name} was deleted{when}; this is what changed with it until then")


def _folder(view: View, path: bytes, inside: Sequence[bytes]) -> Asked:
    """The files that changed last stand for their folder."""
    found = {name: view.file(name) for name in inside[:LARGEST_FOLDER]}
    known = [file for file in found.values() if file is not None]
    last = {file: commits[0].number for file, commits in view.many(known, 1).items() if commits}
    files = sorted(last, key=lambda file: -last[file])
    kept = files[:FILES_OF_FOLDER]
    note = ""
    if len(files) > len(kept):
        name = os.fsdecode(path)
        note = f"of the {len(inside)} files in {name} the {len(kept)} that changed last were looked at"
    return Asked(path + b"/", tuple(kept), tuple(inside), note)


def _kind(path: Path) -> Literal["file", "folder", "none"]:
    try:
        return "folder" if stat.S_ISDIR(path.lstat().st_mode) else "file"
    except OSError:
        return "none"


def _day(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):  # a date that only git can hold
        return "an unknown day"
