"""Run `git commit` through a temporary index, as if the user ran it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from repoagent import trace
from repoagent.repo.options import Options
from repoagent.repo.run import git, git_output, uninterrupted
from repoagent.repo.transaction.message import comment_sign
from repoagent.repo.worktree import WorkTree

Listen = Callable[[bytes], None]


def run_commit(
    worktree: WorkTree,
    index: Path,
    message: Path,
    options: Options,
    *,
    listen: Listen | None = None,
    inherit: int | None = None,
) -> tuple[int, bytes]:
    """`git commit` of the index file `index` with the message in `message`: its exit code and all it printed.

    It runs as if the user ran it: same environment, hooks, signing, identity. `listen` is given the output as
    it comes. The descriptor `inherit` is left open for it. On ^C git is waited for; HEAD says what it did.
    """
    command = ["git", *_settings(worktree, message, options), "commit", *_arguments(message, options)]
    began = trace.begin()
    process = subprocess.Popen(
        command,
        cwd=worktree.top,
        env=dict(os.environ, GIT_INDEX_FILE=str(index)),
        stdin=None if options.edit_message else subprocess.DEVNULL,
        stdout=None if options.edit_message else subprocess.PIPE,
        stderr=None if options.edit_message else subprocess.STDOUT,
        pass_fds=() if inherit is None else (inherit,),
    )
    try:
        output = _listen(process, listen)
        return process.wait(), output
    except BaseException:
        with uninterrupted():
            _end(process)
        raise
    finally:
        trace.command(began, command, process.poll())
        if process.stdout is not None:
            process.stdout.close()


def tidy(worktree: WorkTree) -> None:
    """What `git commit` does at its end, with the user's own index in place: collect garbage if it is time to, unless
    `maintenance.auto` is off. It is not needed, so it may fail or be interrupted.

    Where nothing is configured `git maintenance` would only run `git gc`, under a lock that it leaves when it is
    killed, and no maintenance runs again.
    """
    listed = git_output(worktree.top, "config", "-z", "--get-regexp", r"^maintenance\.", ok=range(256)).stdout
    if listed:
        asked = ("config", "--type=bool", "--default=true", "--get", "maintenance.auto")
        if git_output(worktree.top, *asked, ok=range(256)).stdout != b"true\n":
            return
    command = ["git", *(("maintenance", "run") if listed else ("gc",)), "--auto", "--quiet"]
    nothing = subprocess.DEVNULL
    process = None
    with suppress(KeyboardInterrupt):
        try:
            with uninterrupted():  # a ^C right after the start must find the process to end
                process = subprocess.Popen(
                    command, cwd=worktree.top, stdin=nothing, stdout=nothing, stderr=nothing
                )
            process.wait()
        finally:
            if process is not None:
                with uninterrupted():
                    _end(process)


def _settings(worktree: WorkTree, message: Path, options: Options) -> tuple[str, ...]:
    """As few as can be, for hooks see them.

    A collection of garbage would look at our index in the place of the user's, and could drop what is only
    staged there: `tidy` does it afterwards. Git, and what hooks stage, writes our index: where the user's is a
    split one, its shared part must not expire with that. A program in `core.fsmonitor` is not run.
    """
    settings = ["gc.auto=0", "maintenance.auto=false"]
    if any(worktree.git_dir.glob("sharedindex.*")):
        settings.append("splitIndex.sharedIndexExpire=never")
    watching = git(worktree.top, "config", "-z", "--get-all", "core.fsmonitor").count(b"\0")
    if watching > 1:  # one is our own
        settings.append("core.fsmonitor=false")
    sign = comment_sign(message.read_bytes()) if options.edit_message else None
    if sign is not None:
        settings.append(f"core.commentChar={sign}")
    return tuple(argument for setting in settings for argument in ("-c", setting))


def _arguments(message: Path, options: Options) -> list[str]:
    found = ["--quiet", "-F", str(message)]
    # with commit.verbose git would cut at scissors without an editor too
    found += (
        ["--edit", "--cleanup=scissors"] if options.edit_message else ["--cleanup=whitespace", "--no-verbose"]
    )
    found += ["--signoff"] if options.signoff else []
    found += ["--no-verify"] if options.no_verify else []
    found += [f"--gpg-sign{options.sign and '='}{options.sign}"] if options.sign is not None else []
    return found


def _listen(process: subprocess.Popen[bytes], listen: Listen | None) -> bytes:
    """All output to its end, or to that of the process: what a hook left running may hold the pipe."""
    if process.stdout is None:
        return b""
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(0.1):
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return bytes(output)
                output += data
                if listen is not None:
                    listen(data)
            elif process.poll() is not None:
                return bytes(output)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for git to end; it has had the ^C of the terminal, and gets ours where there is none."""
    for number, seconds in ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if process.poll() is None:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
