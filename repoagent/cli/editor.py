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
    from repoagent.cli.terminal import Terminal


def edit_text(terminal: Terminal, initial: str, suffix: str, *, cwd: Path | None = None) -> str | None:
    """Open `initial` in a file named *`suffix`; what it holds afterwards, byte for byte (as surrogates).

    None when the editor failed or only white space was left. Raises UsageError when there is no editor.
    """
    editor = _editor(cwd or Path.cwd())
    descriptor, name = tempfile.mkstemp(suffix, "repoagent-")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(initial.encode("utf-8", "surrogateescape"))
        # git's own way to run it: a shell command that gets the file as its argument
        command = ["sh", "-c", f'{editor} "$@"', editor, name]
        screen = sys.stderr if terminal.tells and not terminal.shows else None
        if subprocess.run(command, cwd=cwd, stdout=screen, check=False).returncode != 0:
            return None
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return text if text.strip() else None
    finally:
        path.unlink(missing_ok=True)


def _editor(cwd: Path) -> str:
    from repoagent.repo.run import GitError, git

    try:
        return os.fsdecode(git(cwd, "var", "GIT_EDITOR")).strip()
    except GitError as error:
        raise UsageError("there is no editor for this terminal; set EDITOR or git's core.editor") from error
