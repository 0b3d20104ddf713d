"""Whether what an index of changes says can be a change of the work tree at all: its file may be anybody's."""

from __future__ import annotations

from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo.change import EXECUTABLE, REGULAR, SYMLINK
from repoagent.repo.paths import check_path

_MODES = {None, "", REGULAR, EXECUTABLE, SYMLINK}


def check(one: object, folder: Path) -> None:
    """Raise Refused unless `one`, which was read in `folder`, has paths that name files of the work tree, and modes
    that git has for files."""
    values = one if isinstance(one, dict) else {}
    paths = [values.get(name) for name in ("old_path", "path")]
    modes = [values.get(name) for name in ("old_mode", "mode")]
    if not any(paths) or not all(value is None or isinstance(value, str) for value in [*paths, *modes]):
        raise Refused(_NOT_OURS.format(folder=folder))
    if not _MODES.issuperset(modes):
        raise Refused(_NOT_OURS.format(folder=folder))
    for path in filter(None, paths):
        check_path(path)


_NOT_OURS = "{folder} holds what no run has written: commit what it has changed by hand, or begin a new run"
