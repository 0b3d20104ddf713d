"""`repoagent ask`: a prompt and files in, text out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.program.model_options import (
    effort_option,
    file_path,
    max_cost_option,
    max_tokens_option,
    model_option,
    record_option,
    reply_option,
    show_prompt_option,
)
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.repo import WorkTree
    from repoagent.work.asks import Answer, Given, Question

VERSION = 1
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
def command(session: Session, /, **options: Any) -> None:
    """Send PROMPT and FILEs to a model, and print its reply.

    FILE may be text, an image (PNG, JPEG, GIF, WebP) or a PDF. Standard input is one more file; with `-` as
    PROMPT, or without arguments, it is the prompt. Nothing is changed, and no repository is needed.
    """
    from repoagent.cli.ask.input import question_of
    from repoagent.llm import preload
    from repoagent.repo.worktree import layout

    given = SimpleNamespace(**options)
    if str(given.output) == "-":
        given.output = None
    preload(given.model or os.environ.get("REPOAGENT_MODEL"))  # its import takes long
    worktree = _worktree()
    place = None if worktree is None else layout(worktree)
    settings, terminal = session.open(place, {key: getattr(given, key) for key in SETTINGS})
    if given.output is not None:
        _refuse_unwritable(given.output)
    question = question_of(given, worktree, terminal)
    for file in question.files:
        if file.note:
            terminal.warn(file.note)
    if given.show_prompt:
        _show_prompt(question, settings, terminal, as_json=given.as_json)
        return
    _ask(question, given, settings, terminal, worktree)


def _ask(
    question: Question,
    given: SimpleNamespace,
    settings: Settings,
    terminal: Terminal,
    worktree: WorkTree | None,
) -> None:
    from repoagent.cli.ask.stream import Stream
    from repoagent.cli.screen.paying import ready_for, report
    from repoagent.repo.worktree import layout
    from repoagent.work.asks import Hearing, ask, request_of

    waiting = terminal.working("asking the model")
    ready = ready_for(settings, terminal, waiting, record=given.record, reply=given.reply)
    if ready.meter.book is not None:
        where = str(Path.cwd() if worktree is None else worktree.top)
        names = tuple(file.name for file in question.files)
        ready.meter.book = ready.meter.book.about("ask", where, names)
    request = request_of(question, max_output_tokens=ready.max_output_tokens)
    with waiting as working:
        stream = Stream(terminal, working, live=terminal.shows and not (given.as_json or given.output))
        hearing = Hearing(stream.text, stream.void, stream.waiting, stream.warn)
        answer = ask(request, ready, None if worktree is None else layout(worktree), hearing)
        stream.end(answer.reply.text)
    _deliver(answer, given, terminal)
    if given.as_json:
        terminal.result(json.dumps(_as_object(answer, question, ready), indent=2) + "\n")
    report(terminal, ready)


def _deliver(answer: Answer, given: SimpleNamespace, terminal: Terminal) -> None:
    """Put the reply where it was asked for. It is paid for: where it can't be written it is printed."""
    from repoagent.cli.screen.output import write_to
    from repoagent.llm.rendering import wire_text

    text = answer.reply.text
    if given.output is None:
        if not (terminal.shows or given.as_json):
            terminal.result(text)
        return
    try:
        write_to(given.output, wire_text(text).encode(), "-o")
    except (RepoagentError, OSError):
        if not given.as_json:
            terminal.result(text)
        raise
    if terminal.tells:
        terminal.note(f"written to {given.output}", "dim")


def _as_object(answer: Answer, question: Question, ready: Means) -> dict[str, object]:
    from repoagent.cli.screen.paying import as_object
    from repoagent.llm.naming import shown

    reply = answer.reply
    return {
        "version": VERSION,
        "text": reply.text,
        "model": shown(reply.model or ready.model.spec),
        "stop": reply.stop,
        **as_object(ready),
        "seconds": round(answer.seconds, 3),
        "files": [_file_object(file) for file in question.files],
        "sent": answer.sent or None,
    }


def _file_object(file: Given) -> dict[str, object]:
    media = file.media
    row: dict[str, object] = {"name": file.name, "type": media.type if media else "text", "bytes": file.size}
    if media is not None and media.is_image:
        row |= {"width": media.width, "height": media.height}
    elif media is not None:
        row["pages"] = media.pages or None
    return row


def _show_prompt(question: Question, settings: Settings, terminal: Terminal, *, as_json: bool) -> None:
    from repoagent.cli.context.prompt import Shown, blocks_of, show_texts
    from repoagent.edit.means import asked_for
    from repoagent.llm import DEFAULT_MODEL, chosen
    from repoagent.llm.call import masked
    from repoagent.llm.naming import shown
    from repoagent.work.asks import request_of

    try:
        spec = chosen(settings).spec
    except RepoagentError:  # nothing is sent, so it needs no key
        spec = DEFAULT_MODEL
    request = masked(request_of(question, max_output_tokens=0))
    found = Shown(shown(spec), asked_for(settings, spec).window, blocks_of(request))
    show_texts(found, terminal, as_json=as_json, count=False)


def _refuse_unwritable(output: Path) -> None:
    """Raise UsageError where the reply could not be written: that should be known before it is paid for."""
    if output.is_dir():
        raise UsageError(f"{output} is a folder: give -o the name of a file")
    if not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent}: make it, or give -o another name")
    if not os.access(output if output.exists() and not output.is_file() else output.parent, os.W_OK):
        raise UsageError(f"{output} can't be written: give -o another name")


def _worktree() -> WorkTree | None:
    """The work tree we are in; None outside of one, where nothing is kept."""
    from repoagent.repo.worktree import open_worktree

    try:
        return open_worktree(Path.cwd())
    except UsageError:
        return None
