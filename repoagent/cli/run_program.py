"""Run the program, and turn every outcome into one sentence and one exit code; report internal errors.

A command appends to `at_end` the functions to call after its error has been reported.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from repoagent.cli import Ended
from repoagent.errors import CheckFailed, Exit, RepoagentError, UsageError

at_end: list[Callable[[], None]] = []

BROKEN_PIPE = 141  # as a shell reports for git ended by SIGPIPE
# errors of the system, not bugs: a full or read-only disk, a quota, no permission, too many open files
SYSTEM = {
    errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.EMFILE,
    errno.ENFILE, errno.ENOLCK,
}  # fmt: skip
GONE = "the current folder was deleted; change to an existing one and try again"
COMPLETE = "_REPOAGENT_COMPLETE"  # the variable with the request of a shell
MOST_LINES = 12  # of the output of a check on a terminal


def run(cli: click.Command, program: str, arguments: Sequence[str]) -> int:
    """Run `cli` with `arguments` and return the exit code. `program` is the path by which it was called.

    An error is printed as a line on standard error or, with `--json` among the arguments, as a JSON object on standard
    output.
    """
    # open /dev/null for closed standard streams, as git does: otherwise another file gets their numbers
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for number, stream in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, stream) is None:
            setattr(sys, stream, os.fdopen(number, "w" if number else "r"))
    name = called_as(program)
    if "REPOAGENT_TRACE" not in os.environ:
        return _run(cli, name, arguments)
    from repoagent import tracing

    began = tracing.begin()
    tracing.line("start", tracing.quoted([name, *arguments]))
    code: int | None = None
    try:
        code = _run(cli, name, arguments)
        return code
    finally:
        tracing.end(began, "end", f"{name}: {'ended' if code is None else f'exit {code}'}")


def _run(cli: click.Command, name: str, arguments: Sequence[str]) -> int:
    try:
        if instruction := os.environ.get(COMPLETE):
            from repoagent.cli.completion import answer_shell

            return answer_shell(cli, name, instruction)
        try:
            with cli.make_context(name, [*arguments]) as ctx:
                code = cli.invoke(ctx)
        except click.exceptions.Exit as done:
            code = done.exit_code
        sys.stdout.flush()
        return int(Exit.DONE if code is None else code)
    except BaseException as error:
        if isinstance(error, (SystemExit, GeneratorExit, Ended)):
            raise
        if COMPLETE in os.environ:  # print no error into a command line; REPOAGENT_TRACE logs it
            from repoagent import tracing

            tracing.line("error", repr(error))
            return int(Exit.INTERNAL)
        return _settle(error, arguments)
    finally:
        while at_end:
            at_end.pop()()


def called_as(program: str) -> str:
    """The name of the program in messages: `git repoagent` if git runs it as a subcommand."""
    return "git repoagent" if program.rpartition("/")[2] == "git-repoagent" else "repoagent"


def _has_flag(arguments: Sequence[str], *flags: str) -> bool:
    """Whether a flag is among the options, without the parser: errors of the parser depend on the flag, too."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(flag in options for flag in flags)


def _settle(error: BaseException, arguments: Sequence[str]) -> int:
    """Print the message for `error` and return its exit code."""
    from repoagent.cli.ui.terminal import Terminal, discard_output
    from repoagent.display_text import paint, redact, sanitize, wrap_line

    if isinstance(error, BrokenPipeError) and _output_closed():
        return BROKEN_PIPE
    code, sentence = _meaning(error, arguments)
    verbose = _has_flag(arguments, "-v", "--verbose")
    line = f"repoagent: {sanitize(sentence)}\n"
    try:
        if _has_flag(arguments, "--json"):
            import json

            ours = error if isinstance(error, RepoagentError) else RepoagentError()
            details = {"kind": code.name.lower(), "exit": int(code), "message": sentence}
            content = {"version": 1, "error": {**details, **ours.details(), **ours.last_messages()}}
            sys.stdout.write(json.dumps(content, indent=2) + "\n")
        elif code == Exit.INTERRUPTED:
            sys.stderr.write("\n" if sys.stderr.isatty() else "")  # end the line on which ^C was echoed
        else:
            terminal = Terminal.open()
            if isinstance(error, CheckFailed) and error.printed.strip() and not error.shown:
                lines = sanitize(error.printed.strip("\n")).split("\n")
                if terminal.error_tty and not verbose:
                    lines = lines[-MOST_LINES:]
                text = "\n".join(lines)
                sys.stderr.write(f"{paint(text, 'dim') if terminal.color_err else text}\n")
            sys.stderr.write(wrap_line(line, terminal.width) if terminal.error_tty else line)
            if verbose:
                import traceback

                # the message of a server or a library may contain the key
                sys.stderr.write(sanitize(redact("".join(traceback.format_exception(error)), os.environ)))
        sys.stdout.flush()
    except BrokenPipeError:
        _output_closed()
    except OSError:  # a full disk: try the other stream
        discard_output(sys.stdout)
        try:
            sys.stderr.write(line)
            sys.stderr.flush()
        except OSError:
            discard_output(sys.stderr)
    return int(code)


def _meaning(error: BaseException, arguments: Sequence[str]) -> tuple[Exit, str]:
    if isinstance(error, UsageError):
        from repoagent.git.files import NoSuchFile

        return error.exit_code, error.worded(os.path.relpath) if isinstance(error, NoSuchFile) else str(error)
    if isinstance(error, RepoagentError):
        return error.exit_code, error.sentence
    if isinstance(error, click.ClickException):
        sentence = " ".join(error.format_message().split()).rstrip(".")
        # click: ". (Did you mean one of: '--a', '--b'?)"
        before, asks, options = sentence.partition("Did you mean")
        if asks:
            options = options.removeprefix(" one of:").strip(" )")
            sentence = f"{before.rstrip('. (')}; did you mean {options}"
        sentence = sentence[:1].lower() + sentence[1:]
        ctx = error.ctx if isinstance(error, click.UsageError) else None
        return Exit.USAGE, sentence if ctx is None else f"{sentence} (see '{ctx.command_path} --help')"
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return Exit.INTERRUPTED, "interrupted"
    if isinstance(error, FileNotFoundError) and error.filename == "git":
        return Exit.USAGE, "git is not on PATH; install git"
    if isinstance(error, FileNotFoundError):
        try:
            Path.cwd()
        except FileNotFoundError:
            return Exit.USAGE, GONE
    if isinstance(error, OSError) and error.errno in SYSTEM:
        name = error.filename
        where = f" ({os.fsdecode(name)})" if isinstance(name, (str, bytes)) else ""
        return Exit.REFUSED, f"{error.strerror}{where}; fix this and run the command again"
    return Exit.INTERNAL, _write_report(error, arguments)


def _output_closed() -> bool:
    """Whether the reader of our output has closed its pipe; if so, discard later output. Otherwise a BrokenPipeError
    comes from a child process."""
    from repoagent.cli.ui.terminal import discard_output

    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, select.POLLOUT)
    broken = {descriptor for descriptor, event in poll.poll(0) if event & (select.POLLERR | select.POLLHUP)}
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        if descriptor in broken:
            discard_output(stream)
    return bool(broken)


def _write_report(error: BaseException, arguments: Sequence[str]) -> str:
    """Write a report without secrets to a new private file; return a sentence with its path, or the report if that
    fails."""
    import platform
    import tempfile
    import time
    import traceback
    from importlib.metadata import version

    from repoagent import __version__
    from repoagent.display_text import redact
    from repoagent.git.process import git

    try:
        git_version = os.fsdecode(git(Path.cwd(), "--version")).strip()
    except (RepoagentError, OSError):
        git_version = "git not found"
    lines = [
        f"repoagent {__version__}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        f"Python {platform.python_version()} ({sys.executable}), {platform.platform()}, {git_version}",
        ", ".join(f"{name} {version(name)}" for name in ("click", "rich", "tree-sitter", "unidiff")),
        f"command line: {' '.join(map(repr, arguments))}",
        "",
        "".join(traceback.format_exception(error)),
    ]
    text = redact("\n".join(lines), os.environ)
    first = redact("".join(traceback.format_exception_only(error)).strip(), os.environ).split("\n")[0]
    try:
        descriptor, path = tempfile.mkstemp(".txt", "repoagent-report-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError:  # a full or read-only disk
        return f"internal error; could not write a report:\n{text}"
    return f"internal error ({first}); see the report in {path}"
