"""Let a person edit a text in the editor that git would use."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal


def edit_text(terminal: Terminal, initial: str, suffix: str, *, cwd: Path | None = None) -> str | None:
    """Open `initial` in a file named *`suffix`; what it holds afterwards, byte for byte (as surrogates).

    None when the editor failed or only white space was left. What was saved before the editor failed, or while we were
    interrupted, stays in its file, and that is said. Raises UsageError when there is no editor.
    """
    editor = _editor(cwd or Path.cwd())
    descriptor, name = tempfile.mkstemp(suffix, "repoagent-")
    path = Path(name)
    before = initial.encode("utf-8", "surrogateescape")
    ended = False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(before)
        # git's own way to run it: a shell command that gets the file as its argument
        command = ["sh", "-c", f'{editor} "$@"', editor, name]
        screen = sys.stderr if terminal.tells and not terminal.shows else None
        if subprocess.run(command, cwd=cwd, stdout=screen, check=False).returncode != 0:
            return None
        ended = True
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return text if text.strip() else None
    finally:
        if not ended and _holds_more(path, before):
            terminal.warn(f"the editor failed; what you had saved is in {name}")
        else:
            path.unlink(missing_ok=True)


def _holds_more(path: Path, before: bytes) -> bool:
    """Whether a person has written something into the file."""
    try:
        after = path.read_bytes()
    except OSError:  # the editor took it away
        return False
    return bool(after.strip()) and after != before


def _editor(cwd: Path) -> str:
    from repoagent.repo.run import GitError, git
    from repoagent.repo.worktree import settings_folder

    try:
        return os.fsdecode(git(settings_folder(cwd), "var", "GIT_EDITOR")).strip()
    except GitError as error:
        raise UsageError("there is no editor for this terminal; set EDITOR or git's core.editor") from error
