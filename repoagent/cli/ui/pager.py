"""Long output in the pager that git would use, as git does it: only on a terminal, started with the first output.

Standard output, and standard error where it is the terminal too, then lead into the pager; `finish` brings them back
and waits for the person to leave it. git's own `git -p` and `git --no-pager` reach us in the environment.

Let a person edit a text in the editor that git would use.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.exit import at_end
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal

_SHELL = re.compile(
    r"[|&;<>()$`\\\"' \t\n*?\[#~=%]"
)  # what git, too, gives to a shell rather than start itself
_NONE = {"cat", ""}  # what stands for no pager
_ON, _OFF = {"true", "yes", "on", "1", ""}, {"false", "no", "off", "0"}
# What less and lv are told by git where the person tells them nothing: quit if it fits on one screen, keep colours.
DEFAULTS = {"LESS": "FRX", "LV": "-c"}


class _State:
    process: subprocess.Popen[bytes] | None = None
    saved: tuple[tuple[int, int], ...] = ()  # (1, a copy of what it was), (2, …)
    columns: str | None = None


def is_running() -> bool:
    """Whether output goes into a pager of ours."""
    return _State.process is not None


def is_git_s(env: Mapping[str, str]) -> bool:
    """Whether standard output leads into a pager that git has started for us (`git -p repoagent`)."""
    import stat

    if env.get("GIT_PAGER_IN_USE") not in {"true", "1"}:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:
        return False


def start(command: str, width: int, env: Mapping[str, str] | None = None) -> None:
    """Lead the output of `command` ("history", "memory show") into the pager, if there is to be one.

    `width` is that of the terminal, in columns, for what is asked later.
    """
    env = os.environ if env is None else env
    if is_running() or (program := choose(command, env)) is None:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    words: str | list[str] = program if _SHELL.search(program) else [program]
    try:
        process = subprocess.Popen(
            words, shell=isinstance(words, str), stdin=subprocess.PIPE, env={**DEFAULTS, **env}
        )
    except OSError as error:
        sys.stderr.write(f"warning: the pager {program} can't be run: {error.strerror}\n")
        return
    if process.stdin is None:  # for the type checker: it is PIPE
        raise AssertionError("no pipe")
    led = (1, 2) if sys.stderr is not None and os.isatty(2) else (1,)
    saved = tuple((number, os.dup(number)) for number in led)
    for number in led:
        os.dup2(process.stdin.fileno(), number)
    process.stdin.close()
    _State.process, _State.saved = process, saved
    _State.columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    at_end.append(finish)


def finish() -> None:
    """Bring the terminal back, and wait until the person has left the pager, whatever they press meanwhile."""
    process = _State.process
    if process is None:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # the pager was left early; there is nobody to tell
            continue
    for number, before in _State.saved:
        os.dup2(before, number)
        os.close(before)
    if _State.columns is None:
        os.environ.pop("COLUMNS", None)
    else:
        os.environ["COLUMNS"] = _State.columns
    _State.process, _State.saved = None, ()
    before_int = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a ^C is the pager's now
    try:
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before_int)


def choose(command: str, env: Mapping[str, str]) -> str | None:
    """The pager for `command`, or None for none: GIT_PAGER, core.pager, PAGER, git's default, and before all of them
    `pager.repoagent-COMMAND` and `pager.repoagent`, which are true, false or a program, as git's `pager.<cmd>` is."""
    from pathlib import Path
    from shutil import which

    from repoagent.errors import RepoagentError
    from repoagent.git.process import git_output
    from repoagent.git.worktree import settings_folder

    keys = (f"pager.repoagent-{command.replace(' ', '-')}", "pager.repoagent")
    try:
        wanted = ("config", "-z", "--get-regexp", r"^(pager\.repoagent.*|core\.pager)$")
        listed = git_output(settings_folder(Path.cwd()), *wanted, ok=(0, 1))
    except (RepoagentError, OSError):  # no git, or a broken configuration: the command itself will say so
        return None
    entries = [entry.partition("\n") for entry in os.fsdecode(listed.stdout).split("\0")[:-1]]
    values = {key: value for key, _, value in entries}
    own = next((values[key] for key in keys if key in values), "true")
    if own.lower() in _OFF:
        return None
    if own.lower() not in _ON:
        program = own
    elif (given := env.get("GIT_PAGER")) is not None:
        program = given
    else:
        program = values.get("core.pager", env.get("PAGER", "pager" if which("pager") else "less"))
    return None if program.strip() in _NONE else program


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
    from repoagent.git.process import GitError, git
    from repoagent.git.worktree import settings_folder

    try:
        return os.fsdecode(git(settings_folder(cwd), "var", "GIT_EDITOR")).strip()
    except GitError as error:
        raise UsageError("there is no editor for this terminal; set EDITOR or git's core.editor") from error
