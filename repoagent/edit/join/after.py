"""What a join leaves in the folder of the split: the diff, and segments that are those of the source as it is now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from repoagent.edit.join.gather import Gathered
from repoagent.errors import RepoagentError
from repoagent.split.artifact import refresh
from repoagent.split.artifact.shown import near, quoted
from repoagent.store import write_whole


def keep_diff(folder: Path, diff: str) -> Path:
    """Write the diff into the folder under a name of its own: join.diff, then join-2.diff and so on."""
    path, number = folder / "join.diff", 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"join-{number}.diff"
    write_whole(path, diff.encode("utf-8", "surrogateescape"), private=False)
    return path


def bring_up_to_date(gathered: Gathered, cwd: Path, say: Callable[[str], None]) -> bool:
    """Give the folder the segments of the present source; a file that was saved since it was joined is left alone.

    The join is done: what can't be brought up to date is said, and left to `--refresh`.
    """
    joined = {edit.file: edit.file_hash for edit in gathered.edits}
    folder = gathered.index.folder
    try:
        done = refresh(folder, cwd, joined=joined)
    except (RepoagentError, OSError) as error:
        again = f"`repoagent split --refresh {quoted(folder, cwd)}` tries it again"
        say(f"warning: {near(folder, cwd)} could not be brought up to date ({error}); {again}")
        return False
    if done.edited:
        say(f"note: saved since it was joined, and left so: {', '.join(done.edited)}")
    return True
