"""What is still to be done when a command has ended and said why: those that need it put it here.

Run the program, and turn whatever happens into one sentence and one exit code.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from repoagent.cli import Ended
from repoagent.errors import CheckFailed, Exit, RepoagentError, UsageError

at_end: list[Callable[[], None]] = []

BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE has ended, as it ends git
# What is wrong with the system, not with us: a full or read-only disk, a quota, no permission, too many open files.
SYSTEM = {
    errno.EACCES,
    errno.EPERM,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EIO,
    errno.EFBIG,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOLCK,
}
GONE = "the current folder was removed: change to one that is there (cd), and run it again"
COMPLETE = "_REPOAGENT_COMPLETE"
MOST_LINES = 12  # of what a check printed, on a terminal


def run(cli: click.Command, program: str, arguments: Sequence[str]) -> int:
    """Run `cli`, called by the path `program`, with `arguments`; returns the exit code.

    A command returns None or an exit code, or raises. An error is a line on standard error or, with `--json`
    among the arguments, a JSON object on standard output.
    """
    name = called_as(program)
    _open_standard_streams()
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
    arguments = _git_s_way(arguments)
    try:
        if instruction := os.environ.get(COMPLETE):
            from repoagent.cli.completion import answer

            return answer(cli, name, instruction)
        code = _invoke(cli, name, list(arguments))
        sys.stdout.flush()
        return code
    except BaseException as error:
        if isinstance(error, (SystemExit, GeneratorExit, Ended)):
            raise
        if (
            COMPLETE in os.environ
        ):  # who types wants no report of it; REPOAGENT_TRACE says why there is no answer
            from repoagent import tracing

            tracing.line("error", repr(error))
            return int(Exit.INTERNAL)
        return _settle(error, arguments)
    finally:
        while at_end:
            at_end.pop()()


def called_as(program: str) -> str:
    """The name to speak of the program by: git's own way when git runs it as a sub-command."""
    return "git repoagent" if program.rpartition("/")[2] == "git-repoagent" else "repoagent"


def _git_s_way(arguments: Sequence[str]) -> list[str]:
    """The parser's `--` for git's `--end-of-options`: what begins with a dash after it is no option. A `--` further on,
    which sets paths apart from revisions, stays where nothing in between needs the other."""
    marks = [place for place, argument in enumerate(arguments) if argument in ("--", "--end-of-options")]
    if not marks or arguments[marks[0]] == "--":
        return [*arguments]
    before, after = [*arguments[: marks[0]]], [*arguments[marks[0] + 1 :]]
    if "--" not in after:
        return [*before, "--", *after]
    place = after.index("--")
    if any(argument.startswith("-") for argument in after[:place]):
        return [*before, "--", *after[:place], *after[place + 1 :]]
    return [*before, *after]


def has_flag(arguments: Sequence[str], *flags: str) -> bool:
    """Whether a flag is among the options. The parser can't be asked: its own errors have to obey it too."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(flag in options for flag in flags)


def _open_standard_streams() -> None:
    """Put /dev/null where the caller closed a standard stream, as git does: or a file gets its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def _invoke(cli: click.Command, name: str, arguments: list[str]) -> int:
    try:
        with cli.make_context(name, [*arguments]) as ctx:
            try:
                result = cli.invoke(ctx)
            except UsageError as error:
                from repoagent.cli.typos import corrected

                instead = corrected(error, ctx, name, arguments)
                if instead is None:
                    raise
                return _invoke(cli, name, instead)
    except click.exceptions.Exit as done:
        return done.exit_code
    return int(result) if isinstance(result, int) and not isinstance(result, bool) else int(Exit.DONE)


def _settle(error: BaseException, arguments: Sequence[str]) -> int:
    """Say what `error` means to the person; the exit code for it."""
    from repoagent.cli.ui.sanitize import clean

    if isinstance(error, BrokenPipeError) and _nobody_reads():
        return BROKEN_PIPE
    code, sentence = _meaning(error, arguments)
    try:
        if has_flag(arguments, "--json"):
            ours = error if isinstance(error, RepoagentError) else RepoagentError()
            _print_json(code, sentence, {**ours.details(), **ours.told()})
        elif code == Exit.INTERRUPTED:
            sys.stderr.write("\n" if sys.stderr.isatty() else "")  # ends the line on which ^C was echoed
        else:
            if isinstance(error, CheckFailed) and error.printed.strip() and not error.shown:
                _print_end(error.printed, whole=has_flag(arguments, "-v", "--verbose"))
            sys.stderr.write(_folded(f"repoagent: {clean(sentence)}\n"))
            if has_flag(arguments, "-v", "--verbose"):
                _print_causes(error)
        sys.stdout.flush()
    except BrokenPipeError:
        _nobody_reads()
    except OSError:  # a full disk: the other stream may take the sentence
        _say_somewhere(f"repoagent: {clean(sentence)}\n")
    return int(code)


def _print_end(printed: str, *, whole: bool) -> None:
    """What a check printed; on a terminal its last lines, dimmed."""
    from repoagent.cli.ui.sanitize import clean, paint
    from repoagent.cli.ui.terminal import Terminal

    lines = clean(printed.strip("\n")).split("\n")
    terminal = Terminal.open()
    if terminal.tells and not whole:
        lines = lines[-MOST_LINES:]
    text = "\n".join(lines)
    sys.stderr.write(f"{paint(text, 'dim') if terminal.color_err else text}\n")


def _folded(text: str) -> str:
    """`text` in lines that fit a terminal."""
    if not sys.stderr.isatty():
        return text
    from repoagent.cli.ui.sanitize import fold
    from repoagent.cli.ui.terminal import Terminal

    return fold(text, Terminal.open().width)


def _say_somewhere(sentence: str) -> None:
    """Write on standard error what could not be written; what both streams still hold goes nowhere."""
    from repoagent.cli.ui.terminal import to_nowhere

    to_nowhere(sys.stdout)
    try:
        sys.stderr.write(sentence)
        sys.stderr.flush()
    except OSError:
        to_nowhere(sys.stderr)


def _meaning(error: BaseException, arguments: Sequence[str]) -> tuple[Exit, str]:
    if isinstance(error, UsageError):
        from repoagent.git.similar_paths import NoSuchFile

        return error.exit_code, error.worded(os.path.relpath) if isinstance(error, NoSuchFile) else str(error)
    if isinstance(error, RepoagentError):
        return error.exit_code, error.sentence
    if isinstance(error, click.ClickException):
        return Exit.USAGE, _in_one_line(error)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return Exit.INTERRUPTED, "interrupted"
    if isinstance(error, FileNotFoundError) and error.filename == "git":
        return Exit.USAGE, "git was not found on PATH; repoagent needs it"
    if isinstance(error, FileNotFoundError) and _has_no_folder():
        return Exit.USAGE, GONE
    if isinstance(error, OSError) and error.errno in SYSTEM:
        return Exit.REFUSED, f"{error.strerror}{_where(error)}: put that right and run it again"
    from repoagent.cli.error_report import write_report

    return Exit.INTERNAL, write_report(error, arguments)


def _has_no_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _where(error: OSError) -> str:
    return f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, (str, bytes)) else ""


def _in_one_line(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return message if ctx is None else f"{message} (see '{ctx.command_path} --help')"


def _print_json(code: Exit, sentence: str, details: Mapping[str, object]) -> None:
    import json

    error = {"kind": code.name.lower(), "exit": int(code), "message": sentence, **details}
    sys.stdout.write(json.dumps({"version": 1, "error": error}, indent=2) + "\n")


def _print_causes(error: BaseException) -> None:
    import traceback

    from repoagent.cli.ui.sanitize import clean
    from repoagent.display_text import redact

    # a server may have echoed the key, and a library's own error says it
    sys.stderr.write(clean(redact("".join(traceback.format_exception(error)), os.environ)))


def _nobody_reads() -> bool:
    """Whether an output pipe of ours is closed at its other end; what is still to come then goes nowhere.

    A BrokenPipeError may as well be about a pipe to a program that we started: that is no reason to be quiet.
    """
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, select.POLLOUT)
    broken = [descriptor for descriptor, event in poll.poll(0) if event & (select.POLLERR | select.POLLHUP)]
    for descriptor in broken:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    return bool(broken)
