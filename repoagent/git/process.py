"""Run git: a subprocess, bytes in and bytes out, with settings that keep its output stable."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from repoagent import tracing
from repoagent.errors import RepoagentError

# Settings of the user that would change what we parse, or run a program that we do not need.
PINNED = (
    "-c", "core.quotepath=false",
    "-c", "core.fsmonitor=false",
    "-c", "i18n.logOutputEncoding=UTF-8",
    "-c", "log.showRoot=true",
    "-c", "log.follow=false",
    "-c", "log.showSignature=false",
    "-c", "diff.renames=true",
    "-c", "diff.orderFile=/dev/null",  # an empty value is taken for a file name
    "-c", "diff.ignoreSubmodules=none",
    "-c", "apply.whitespace=nowarn",
    # writing an index of ours would delete the shared part of the user's, which may expire at once
    "-c", "splitIndex.sharedIndexExpire=never",
)  # fmt: skip

# Not for what writes: the user's hooks would inherit it. Understood from git 2.38 on.
_NO_BARE = ("-c", "safe.bareRepository=explicit")

# Paths are what they are, whatever the user's environment says of pathspecs.
LITERAL = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_GLOB_PATHSPECS": "0",
    "GIT_NOGLOB_PATHSPECS": "0",
    "GIT_ICASE_PATHSPECS": "0",
}

# For reading history: a partial clone fetches nothing of what it lacks, whatever protocols the user's settings allow.
# The second is understood from git 2.45 on (and where it was carried back), the first by every git.
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


class _Interrupts:
    """Whether ^C is held back now: one for the process, as the signal is."""

    held_back: bool = False


_interrupts = _Interrupts()
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold ^C back to the end of the block, where KeyboardInterrupt is raised; git runs out of its reach. So are
    the other signals that end us, where something handles them (see `repoagent.cli`)."""
    if _interrupts.held_back or threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in before:
        signal.signal(number, lambda number, _frame: caught.append(number))
    _interrupts.held_back = True
    try:
        yield
    finally:
        _interrupts.held_back = False
        for number, handler in before.items():
            signal.signal(number, handler)
    for ending in caught:
        before[signal.Signals(ending)](ending, None)


class GitError(RepoagentError):
    """git failed. `returncode` and `stderr` are git's own."""

    def __init__(self, args: Sequence[str | bytes], returncode: int, stderr: bytes) -> None:
        self.command = tuple(os.fsdecode(a) for a in args)
        self.returncode = returncode
        self.stderr = stderr.decode(errors="replace").strip()
        why = f"exit {returncode}" if returncode >= 0 else signal.strsignal(-returncode)
        super().__init__(f"git {' '.join(self.command[:3])} failed: {self.stderr or why}")


class Output(NamedTuple):  # each run makes this class, and a dataclass would take 1 ms more
    """The result of one git call."""

    returncode: int
    stdout: bytes
    stderr: bytes


def environment(
    args: Sequence[str | bytes], *, read_only: bool, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment that `git ARGS` runs in: the inherited one (GIT_DIR and friends reach us only there) plus ours.
    A hook, which only a call that writes runs, inherits what the user set about pathspecs and patches."""
    env = dict(os.environ, LC_ALL="C", GIT_PAGER="cat", GIT_TERMINAL_PROMPT="0")
    env.pop("GIT_PAGER_IN_USE", None)  # of `git -p repoagent`: git would colour what we parse
    if read_only:
        env["GIT_OPTIONAL_LOCKS"] = "0"
        env.pop("GIT_DIFF_OPTS", None)  # it comes before -U
        env.pop("GIT_CONFIG", None)  # only `git config` obeys it: we would see other settings than git
        if args[0] == "check-ignore":  # its paths are literal anyway, and it dies of each of the settings
            env.update(dict.fromkeys(LITERAL, "0"))
        elif args[0] != "--no-literal-pathspecs":
            env.update(LITERAL)
    if extra:
        env.update(extra)
    return env


def _command(args: Sequence[str | bytes], *, read_only: bool) -> list[str | bytes]:
    return ["git", *PINNED, *(_NO_BARE if read_only else ()), "--no-pager", *args]


def git_output(
    cwd: str | Path,
    *args: str | bytes,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    read_only: bool = True,
    ok: Sequence[int] = (0,),
) -> Output:
    """Run `git ARGS` in `cwd` and return what it printed.

    Raises GitError when the exit code is not in `ok`. `read_only` keeps git from taking optional locks
    (an index refresh); pass False for a call that is meant to write.
    """
    command = _command(args, read_only=read_only)
    began = tracing.begin()
    done = subprocess.run(
        command,
        cwd=cwd,
        input=stdin if stdin is not None else b"",
        capture_output=True,
        env=environment(args, read_only=read_only, extra=env),
        start_new_session=_interrupts.held_back,
        check=False,
    )
    tracing.command(began, ["git", *args], done.returncode)
    if done.returncode not in ok:
        raise GitError(args, done.returncode, done.stderr)
    return Output(done.returncode, done.stdout, done.stderr)


def git(
    cwd: str | Path,
    *args: str | bytes,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    read_only: bool = True,
    ok: Sequence[int] = (0,),
) -> bytes:
    """Run `git ARGS` in `cwd`; its standard output. Raises GitError when its exit code is not in `ok`."""
    return git_output(cwd, *args, stdin=stdin, env=env, read_only=read_only, ok=ok).stdout


@contextmanager
def git_stream(
    cwd: str | Path, *args: str | bytes, env: Mapping[str, str] | None = None
) -> Iterator[IO[bytes]]:
    """Run a long `git ARGS` and yield its standard output to read from; memory stays flat.

    Leaving the block early ends git. Raises GitError on a failure seen at the end.
    """
    command = _command(args, read_only=True)
    began = tracing.begin()
    with subprocess.Popen(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(args, read_only=True, extra=env),
    ) as process:
        if process.stdout is None or process.stderr is None:  # for the type checker: both are PIPE
            raise AssertionError("no pipe")
        finished = False
        try:
            yield process.stdout
            finished = not process.stdout.read(1)
        finally:
            if not finished:
                process.kill()
        stderr = process.stderr.read()
        tracing.command(began, ["git", *args], process.wait() if finished else None)
        if finished and process.wait() != 0:
            raise GitError(args, process.returncode, stderr)
