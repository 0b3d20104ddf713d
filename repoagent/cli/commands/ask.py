"""`repoagent ask`: send a prompt and files to a model and print its reply.

A terminal shows the reply as it arrives. A pipe gets it whole at the end, since an attempt that breaks off is void.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import (
    effort_option,
    file_path,
    max_cost_option,
    max_tokens_option,
    model_option,
    record_option,
    reply_option,
    show_prompt_option,
)
from repoagent.cli.repository import find_worktree
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.markdown import Markdown
    from repoagent.cli.ui.progress import Plain, Working
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.tasks.ask import Answer, AttachedFile, Question

SETTINGS = ("model", "max_tokens", "max_cost", "effort")
EPILOG = """\b
Examples:
  git diff | repoagent ask "what does this do?"
  repoagent ask "what is wrong in this picture?" screen.png
  repoagent ask "answer as a table" notes.md paper.pdf -o table.md
"""


@click.command(epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="[PROMPT] [FILE]...")
@model_option
@click.option(
    "-F", "--file", "prompt_file", type=file_path, metavar="FILE", help="Read the prompt from FILE."
)
@click.option("--system", metavar="TEXT", help="The system prompt; @FILE reads it from FILE.")
@click.option(
    "-o",
    "--output",
    type=file_path,
    metavar="FILE",
    help="Write the reply to FILE instead of standard output.",
)
@max_tokens_option
@max_cost_option
@effort_option
@record_option
@reply_option
@show_prompt_option
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Send PROMPT and FILEs to a model, and print its reply.

    FILE may be text, an image (PNG, JPEG, GIF, WebP) or a PDF. Standard input is another file; with `-` as PROMPT, or
    without arguments, it is the prompt. ask changes nothing and needs no repository.
    """
    from repoagent.git.worktree import layout
    from repoagent.llm.open_model import preload

    options = SimpleNamespace(**values)
    if str(options.output) == "-":
        options.output = None
    preload(options.model or os.environ.get("REPOAGENT_MODEL"))  # its import takes long
    worktree = find_worktree(refused_ok=True)  # a question needs no repository
    place = None if worktree is None else layout(worktree)
    settings, terminal = session.open(place, {key: getattr(options, key) for key in SETTINGS})
    if options.output is not None:
        _refuse_unwritable(options.output)
    question = question_of(options, worktree, terminal)
    for file in question.files:
        if file.note:
            terminal.warn(file.note)
    if options.show_prompt:
        from repoagent.cli.commands.context import show_request
        from repoagent.llm.client import masked
        from repoagent.tasks.ask import build_request

        request = masked(build_request(question, max_output_tokens=0))
        show_request(request, settings, terminal, as_json=options.as_json)
        return
    _ask(question, options, settings, terminal, worktree)


def _ask(
    question: Question,
    options: SimpleNamespace,
    settings: Settings,
    terminal: Terminal,
    worktree: WorkTree | None,
) -> None:
    from repoagent.cli.ui.progress import ready_for, report
    from repoagent.git.worktree import layout
    from repoagent.tasks.ask import AnswerCallbacks, ask, build_request

    waiting = terminal.working("asking the model")
    ready = ready_for(settings, terminal, waiting, record=options.record, reply=options.reply)
    if ready.meter.book is not None:
        where = str(Path.cwd() if worktree is None else worktree.top)
        names = tuple(file.name for file in question.files)
        ready.meter.book = ready.meter.book.about("ask", where, names)
    request = build_request(question, max_output_tokens=ready.max_output_tokens)
    with waiting as working:
        stream = Stream(terminal, working, live=terminal.shows and not (options.as_json or options.output))
        hearing = AnswerCallbacks(stream.text, stream.void, stream.waiting, stream.warn)
        answer = ask(request, ready, None if worktree is None else layout(worktree), hearing)
        stream.end(answer.reply.text)
    _deliver(answer, options, terminal)
    if options.as_json:
        write_json(terminal, _as_object(answer, question, ready))
    report(terminal, ready)


def _deliver(answer: Answer, options: SimpleNamespace, terminal: Terminal) -> None:
    """Write the reply to its destination. It is paid for, so print it if it cannot be written."""
    from repoagent.cli.ui.terminal import write_to
    from repoagent.llm.model import wire_text

    text = answer.reply.text
    if options.output is None:
        if not (terminal.shows or options.as_json):
            terminal.result(text)
        return
    try:
        write_to(options.output, wire_text(text).encode(), "-o")
    except (RepoagentError, OSError):
        if not options.as_json:
            terminal.result(text)
        raise
    if terminal.tells:
        terminal.note(f"written to {options.output}", "dim")


def _as_object(answer: Answer, question: Question, ready: ModelSetup) -> dict[str, object]:
    from repoagent.cli.ui.progress import as_object
    from repoagent.llm.model import display_name

    reply = answer.reply
    return {
        "text": reply.text,
        "model": display_name(reply.model or ready.model.spec),
        "stop": reply.stop,
        **as_object(ready),
        "seconds": round(answer.seconds, 3),
        "files": [_file_object(file) for file in question.files],
        "saved_request": answer.sent or None,
    }


def _file_object(file: AttachedFile) -> dict[str, object]:
    media = file.media
    row: dict[str, object] = {"name": file.name, "type": media.type if media else "text", "bytes": file.size}
    if media is not None and media.is_image:
        row |= {"width": media.width, "height": media.height}
    elif media is not None:
        row["pages"] = media.pages or None
    return row


def _refuse_unwritable(output: Path) -> None:
    """Raise UsageError if the reply could not be written, before it is paid for."""
    if output.is_dir():
        raise UsageError(f"-o {output} is a directory")
    if not output.parent.is_dir():
        raise UsageError(f"no such directory: {output.parent}; create it first")
    if not os.access(output if output.exists() and not output.is_file() else output.parent, os.W_OK):
        raise UsageError(f"cannot write {output}: use another file for -o")


USE = 'repoagent ask "PROMPT" [FILE]...'
PATIENCE = 2.0  # seconds without input before a note says what ask is waiting for


def question_of(options: SimpleNamespace, worktree: WorkTree | None, terminal: Terminal) -> Question:
    """The prompt and the files. Standard input is read at most once: as the prompt, the file `-`, the reply or, if it
    is not a terminal, another file. Raises UsageError for no prompt, and what reading a file raises."""
    from repoagent.tasks.ask import Question, read_files, read_stream

    words, names = _split(options)
    answer_format = (words is None) + names.count("-") + (str(options.reply) == "-")
    if answer_format > 1:
        raise UsageError("standard input can be the prompt, one file or the reply; use - only once")
    if words is None:
        words = _decoded(_standard_input(terminal), "standard input")
    if not words.strip():
        raise UsageError(f"the prompt is empty: use {USE}")
    files = read_files([Path(name) for name in names if name != "-"], worktree, Path.cwd())
    if "-" in names or (not answer_format and _is_piped()):
        _say_if_late(terminal)
        stream = read_stream(sys.stdin.buffer)
        if stream is not None:
            files.insert(names.index("-") if "-" in names else len(files), stream)
        elif "-" in names or _is_piped(stat.S_ISFIFO):
            terminal.warn("standard input is empty")
    return Question(words.strip("\n"), tuple(files), _system(options.system))


def _split(options: SimpleNamespace) -> tuple[str | None, list[str]]:
    """The prompt (None: on standard input) and the names of the files."""
    arguments = list(options.arguments)
    if options.prompt_file is not None:
        file = str(options.prompt_file)
        return (None if file == "-" else _decoded(_file(options.prompt_file), file)), arguments
    if not arguments:
        if not _is_piped():
            raise UsageError(f"no prompt: use {USE}")
        return None, []
    if arguments[0] == "-":
        return None, arguments[1:]
    if _looks_like_a_file(arguments[0]):
        raise UsageError(
            f"the prompt comes before the file {arguments[0]}: use {USE}, or - to read the prompt from standard input"
        )
    return arguments[0], arguments[1:]


def _looks_like_a_file(word: str) -> bool:
    try:
        return ("." in word or "/" in word) and not word.count(" ") and Path(word).is_file()
    except (OSError, ValueError):  # too long for a name
        return False


def _is_piped(*kinds: Callable[[int], bool]) -> bool:
    """Whether standard input is of one of these kinds, by default a pipe, a socket or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return any(is_one(mode) for is_one in kinds or (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISREG))


def _say_if_late(terminal: Terminal) -> None:
    """Say what ask waits for when a pipe stays silent."""
    if _is_piped() and not select.select([sys.stdin.fileno()], [], [], PATIENCE)[0]:
        terminal.note("waiting for standard input; use </dev/null if there is none", "dim")


def _system(text: str | None) -> str:
    if text is None or not text.startswith("@"):
        return text or ""
    return text[1:] if text.startswith("@@") else _decoded(_file(Path(text[1:])), text[1:])


def _standard_input(terminal: Terminal) -> bytes:
    _say_if_late(terminal)
    return sys.stdin.buffer.read()


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt in {name} is not UTF-8; save it as UTF-8") from error


@dataclass
class Stream:
    """Renders the pieces of a reply on standard output, if it is `live`."""

    terminal: Terminal
    working: Working
    live: bool
    _started: bool = False
    _inside_line: bool = False
    _markdown: Markdown | Plain = field(init=False, repr=False)

    def text(self, piece: str) -> None:
        """One piece."""
        if not self.live or not piece:
            return
        if not self._started:
            self.working.quiet()
            self._markdown = self.terminal.markdown()
            self._started = True
        self._show(self._markdown.feed(piece))

    def void(self, text: str) -> None:
        """The attempt so far broke off and does not count."""
        if self._started:
            self._break()
            self.terminal.note("The reply broke off and was discarded.", "yellow")
            self._started = False

    def waiting(self, seconds: float, why: str) -> None:
        self.warn_line(f"{why}; retrying in {seconds:.0f} s")

    def warn(self, sentence: str) -> None:
        self.working.quiet()
        self._break()
        self.terminal.warn(sentence)

    def warn_line(self, sentence: str) -> None:
        self.working.quiet()
        self._break()
        self.terminal.note(sentence)

    def end(self, whole: str) -> None:
        """Finish the reply; show all of it if it came at once."""
        if not self._started:
            self.text(whole)
        self._break()

    def _break(self) -> None:
        """Print buffered text and end the current line."""
        if self._started:
            self._show(self._markdown.rest())
        if self._inside_line:
            self._show("\n")

    def _show(self, text: str) -> None:
        if text:
            self.working.quiet()
            self.terminal.styled(text)
            self._inside_line = not text.endswith("\n")
