"""The pager and the editor, chosen as git chooses them.

`start` redirects standard output into the pager, and standard error too if it is the terminal; `finish` restores them
and waits until the user leaves the pager.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from repoagent.cli.run_program import at_end
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal

_SHELL = re.compile(r"[|&;<>()$`\\\"' \t\n*?\[#~=%]")  # git runs a command with one of these in a shell
# git's defaults for less and lv: quit if the output fits on one screen, keep colors
DEFAULTS = {"LESS": "FRX", "LV": "-c"}


class _State:
    process: subprocess.Popen[bytes] | None = None
    saved: tuple[tuple[int, int], ...] = ()  # (descriptor, its duplicate)
    columns: str | None = None


def is_running() -> bool:
    return _State.process is not None


def start(width: int) -> None:
    """Send standard output to the pager. `width` is the width of the terminal, which cannot be determined later."""
    if is_running() or (program := choose()) is None:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    words: str | list[str] = program if _SHELL.search(program) else [program]
    env = {**DEFAULTS, **os.environ}
    try:
        process = subprocess.Popen(words, shell=isinstance(words, str), stdin=subprocess.PIPE, env=env)
    except OSError as error:
        sys.stderr.write(f"warning: cannot run the pager {program}: {error.strerror}\n")
        return
    redirected = (1, 2) if sys.stderr is not None and os.isatty(2) else (1,)
    saved = tuple((number, os.dup(number)) for number in redirected)
    with cast(IO[bytes], process.stdin) as pipe:
        for number in redirected:
            os.dup2(pipe.fileno(), number)
    _State.process, _State.saved = process, saved
    _State.columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    at_end.append(finish)


def finish() -> None:
    """Restore the streams, and wait until the user leaves the pager; ^C does not end the wait."""
    process = _State.process
    if process is None:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # the user left the pager early
            continue
    for number, before in _State.saved:
        os.dup2(before, number)
        os.close(before)
    if _State.columns is None:
        os.environ.pop("COLUMNS", None)
    else:
        os.environ["COLUMNS"] = _State.columns
    _State.process, _State.saved = None, ()
    before_int = signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C belongs to the pager
    try:
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before_int)


def choose() -> str | None:
    """The pager that git would use (`git var GIT_PAGER`); None if there is none, or if git fails."""
    from repoagent.git.worktree import settings_folder

    try:
        command = ["git", "var", "GIT_PAGER"]
        done = subprocess.run(command, cwd=settings_folder(Path.cwd()), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # the command reports it
        return None
    program = os.fsdecode(done.stdout).strip()
    return None if program in {"cat", ""} else program


def edit_text(terminal: Terminal, initial: str, suffix: str, *, cwd: Path | None = None) -> str | None:
    """Let the user edit `initial` in a file whose name ends in `suffix`, and return the text.

    Returns None if the editor failed or the text is blank. If the file was saved before the editor failed, it stays and
    a warning names it. Raises UsageError if there is no editor.
    """
    from repoagent.git.process import GitError, git
    from repoagent.git.worktree import settings_folder

    try:
        editor = os.fsdecode(git(settings_folder(cwd or Path.cwd()), "var", "GIT_EDITOR")).strip()
    except GitError as error:
        raise UsageError("no editor for this terminal; set EDITOR or git's core.editor") from error
    descriptor, name = tempfile.mkstemp(suffix, "repoagent-")
    path = Path(name)
    before = initial.encode("utf-8", "surrogateescape")
    ended = False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(before)
        # run by a shell with the file as an argument, as in git
        command = ["sh", "-c", f'{editor} "$@"', editor, name]
        screen = sys.stderr if terminal.error_tty and not terminal.output_tty else None
        if subprocess.run(command, cwd=cwd, stdout=screen, check=False).returncode != 0:
            return None
        ended = True
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return text if text.strip() else None
    finally:
        saved = path.read_bytes() if not ended and path.is_file() else b""
        if saved.strip() and saved != before:
            terminal.warn(f"the editor failed; your saved text is in {name}")
        else:
            path.unlink(missing_ok=True)
