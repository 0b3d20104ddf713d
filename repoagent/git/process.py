"""Run git as a subprocess, with bytes in and out, and settings that make its output stable."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple

from repoagent import tracing
from repoagent.errors import RepoagentError

# These override settings of the user that would change the output, or run a program that we do not need.
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
    # otherwise writing our index could delete the shared part of the user's split index
    "-c", "splitIndex.sharedIndexExpire=never",
)  # fmt: skip

# Only for reading: hooks would inherit it. Since git 2.38.
_NO_BARE = ("-c", "safe.bareRepository=explicit")

# Treat paths literally, whatever the environment sets for pathspecs.
LITERAL = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_GLOB_PATHSPECS": "0",
    "GIT_NOGLOB_PATHSPECS": "0",
    "GIT_ICASE_PATHSPECS": "0",
}

# For reading history: do not fetch missing objects in a partial clone. The second works since git 2.45 (and in
# backports), the first in every git.
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


class _Interrupts:
    """Whether ^C is held back now: signals are per process."""

    held_back: bool = False


_interrupts = _Interrupts()
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer ^C, and other terminating signals that have a handler, to the end of the block.

    git does not receive these signals.
    """
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
    """git failed with the exit code `returncode` and the standard error `stderr`."""

    def __init__(self, args: Sequence[str | bytes], returncode: int, stderr: bytes) -> None:
        self.command = tuple(os.fsdecode(a) for a in args)
        self.returncode = returncode
        self.stderr = stderr.decode(errors="replace").strip()
        why = f"exit {returncode}" if returncode >= 0 else signal.strsignal(-returncode)
        super().__init__(f"git {' '.join(self.command[:3])} failed: {self.stderr or why}")


class Output(NamedTuple):  # each run makes this class, and a dataclass would take 1 ms more
    returncode: int
    stdout: bytes
    stderr: bytes


def environment(
    args: Sequence[str | bytes], *, read_only: bool, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for `git ARGS`: the inherited one plus repoagent's settings.

    Hooks, which run only in calls that write, see the user's variables for pathspecs and patches.
    """
    env = dict(os.environ, LC_ALL="C", GIT_PAGER="cat", GIT_TERMINAL_PROMPT="0")
    env.pop("GIT_PAGER_IN_USE", None)  # set by `git -p repoagent`: git would color the output
    if read_only:
        env["GIT_OPTIONAL_LOCKS"] = "0"
        env.pop("GIT_DIFF_OPTS", None)  # it overrides -U
        env.pop("GIT_CONFIG", None)  # only `git config` uses it, so we would read other settings than git
        if args[0] == "check-ignore":  # its paths are always literal, and these variables make it fail
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
    """Run `git ARGS` in `cwd` and return its output. Raises GitError for an exit code not in `ok`.

    With `read_only`, git takes no optional locks; pass False for a call that writes.
    """
    command = _command(args, read_only=read_only)
    began = tracing.begin()
    own_session = _interrupts.held_back
    process = None
    try:
        with defer_signals():  # subprocess.run would leave git running after ^C during the start
            process = subprocess.Popen(
                command,
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(args, read_only=read_only, extra=env),
                start_new_session=own_session,
            )
        stdout, stderr = process.communicate(stdin)
    except BaseException:
        if process is not None:
            with process:
                process.kill()
        raise
    tracing.command(began, ["git", *args], process.returncode)
    if process.returncode not in ok:
        raise GitError(args, process.returncode, stderr)
    return Output(process.returncode, stdout, stderr)


def git(
    cwd: str | Path,
    *args: str | bytes,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    read_only: bool = True,
    ok: Sequence[int] = (0,),
) -> bytes:
    """Like `git_output`, but returns only standard output."""
    return git_output(cwd, *args, stdin=stdin, env=env, read_only=read_only, ok=ok).stdout


@contextmanager
def git_stream(
    cwd: str | Path, *args: str | bytes, env: Mapping[str, str] | None = None
) -> Iterator[IO[bytes]]:
    """Run `git ARGS` and yield its standard output as a stream.

    Leaving the block early kills git. Raises GitError if git fails.
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
        messages: list[bytes] = []
        # at the same time as the output: git waits when more messages are unread than a pipe holds
        reader = threading.Thread(target=messages.extend, args=(process.stderr,), daemon=True)
        reader.start()
        finished = False
        try:
            yield process.stdout
            finished = not process.stdout.read(1)
        finally:
            if not finished:
                process.kill()
            reader.join()
        tracing.command(began, ["git", *args], process.wait() if finished else None)
        if finished and process.wait() != 0:
            raise GitError(args, process.returncode, b"".join(messages))


_POLL = 0.1  # seconds between two looks whether a silent program has ended


class Program:
    """A running program that may print `most` bytes to each stream.

    `errors` is the standard error that `output` has read so far. `ended` names the limit that the program exceeded
    ("late" or "large"), "" if none.
    """

    ended: Literal["", "late", "large"] = ""

    def __init__(self, process: subprocess.Popen[bytes], most: float = math.inf) -> None:
        self.process, self.most, self.errors = process, most, bytearray()

    def output(self, silence: float) -> Iterator[bytes]:
        """Yield standard output as it arrives, until it ends.

        Because a background process may hold the pipe, also stops if the program has ended and nothing arrives for
        `silence` seconds.
        """
        sizes: Counter[int] = Counter()
        with selectors.DefaultSelector() as selector:
            for pipe in filter(None, (self.process.stdout, self.process.stderr)):
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                has_ended = self.process.poll() is not None  # if so, all that it printed is ready to be read
                ready = selector.select(silence if has_ended else _POLL)
                if has_ended and (self.ended or not ready):
                    return
                for key, _ in ready:
                    data = os.read(key.fd, 65_536)
                    sizes[key.fd] += len(data)
                    if sizes[key.fd] > self.most:
                        self.kill("large")
                        return
                    if not data:
                        selector.unregister(key.fd)
                    elif key.fileobj is self.process.stderr:
                        self.errors += data
                    else:
                        yield data

    def kill(self, limit: Literal["", "late", "large"] = "") -> None:
        """Kill the program and its background processes; `limit` is the limit that it exceeded, if any."""
        self.ended = limit or self.ended
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@contextlib.contextmanager
def start_program(
    command: str | Sequence[str],
    failure: Callable[[str], Exception],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    stdin: bytes,
    stderr: IO[bytes] | int,
    seconds: float,
    most: int,
) -> Iterator[Program]:
    """Run `command` (a string is run by the shell) for at most `seconds`, and kill all its processes after the block.

    `stderr` is as for `Popen`. If the program cannot start, raises the exception that `failure` returns for the reason.
    """
    with contextlib.ExitStack() as stack:
        with defer_signals():  # a ^C right after the start must not lose the process to kill
            try:
                process = subprocess.Popen(
                    command, shell=isinstance(command, str), cwd=cwd, env=env, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=stderr, start_new_session=True,
                )  # fmt: skip
            except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
                raise failure(getattr(error, "strerror", None) or str(error)) from error
            program = Program(process, most)
            alarm = threading.Timer(seconds, program.kill, ["late"])
            alarm.daemon = True
            stack.enter_context(process)  # closes its pipes
            stack.callback(process.wait)
            stack.callback(alarm.cancel)
            stack.callback(program.kill)
            alarm.start()
            threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True).start()
            process.stdin = None  # the thread closes it
        yield program


def _feed(stream: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write(data)
