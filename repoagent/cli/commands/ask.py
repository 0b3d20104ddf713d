"""`repoagent ask`: send a prompt and files to a model and print its reply.

A terminal shows the reply as it arrives. A pipe gets it at the end, since an interrupted reply is discarded.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import options as shared
from repoagent.cli.commands import model_calls
from repoagent.cli.session import Session, find_worktree, json_option, pass_session, write_json
from repoagent.errors import RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.model import Reply, Request
    from repoagent.tasks.ask import AttachedFile

SETTINGS = ("model", "max_tokens", "max_cost", "effort")
EPILOG = """\b
Examples:
  git diff | repoagent ask "what does this do?"
  repoagent ask "what is wrong in this picture?" screen.png
  repoagent ask "answer as a table" notes.md paper.pdf -o table.md
"""


@click.command(epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="[PROMPT] [FILE]...")
@shared.model_option
@click.option(
    "-F", "--file", "prompt_file", type=shared.file_path, metavar="FILE", help="Read the prompt from FILE."
)
@click.option("--system", metavar="TEXT", help="The system prompt; @FILE reads it from FILE.")
@click.option(
    "-o", "--output", type=shared.file_path, metavar="FILE",
    help="Write the reply to FILE instead of standard output.",
)  # fmt: skip
@shared.max_tokens_option
@shared.max_cost_option
@shared.effort_option
@shared.record_option
@shared.reply_option
@shared.show_prompt_option
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Send PROMPT and FILEs to a model, and print its reply.

    FILE may be text, an image (PNG, JPEG, GIF, WebP) or a PDF. Standard input is sent as another file, or as the prompt
    if PROMPT is `-` or there are no arguments. ask changes nothing and needs no repository.
    """
    from repoagent.git.worktree import layout_of
    from repoagent.llm.open_model import preload_model

    options = SimpleNamespace(**values)
    output = None if str(options.output) == "-" else options.output
    preload_model(options.model or os.environ.get("REPOAGENT_MODEL"))  # a slow import
    worktree = find_worktree(refused_ok=True)  # a question needs no repository
    dirs = None if worktree is None else layout_of(worktree)
    settings, terminal = session.open(dirs, {key: getattr(options, key) for key in SETTINGS})
    if output is not None:  # refuse it before the reply is paid for
        if not output.parent.is_dir():
            raise UsageError(f"no such folder: {output.parent}; create it first")
        if not os.access(output if output.exists() and not output.is_file() else output.parent, os.W_OK):
            raise UsageError(f"cannot write {output}: use another file for -o")
    words, files, system = _question(options, worktree, terminal)
    for file in files:
        if file.note:
            terminal.warn(file.note)
    from repoagent.llm.model import display_name
    from repoagent.tasks.ask import build_request

    if options.show_prompt:
        from repoagent.cli.commands.context import show_request
        from repoagent.llm.complete import mask_request

        request = mask_request(build_request(words, files, system, max_output_tokens=0))
        show_request(request, settings, terminal, as_json=options.as_json)
        return
    ready = model_calls.ready_for(settings, terminal, record=options.record, reply=options.reply)
    top = Path.cwd() if worktree is None else worktree.top
    model_calls.charge(ready, "ask", top, tuple(file.name for file in files))
    request = build_request(words, files, system, max_output_tokens=ready.max_output_tokens)
    live = terminal.output_tty and not (options.as_json or output)
    started = time.monotonic()
    reply = _complete(request, ready, terminal, live=live)
    seconds = time.monotonic() - started
    sent = ""
    if dirs is not None:
        from repoagent.edit.model_setup import forget_sent, keep_sent
        from repoagent.storage.layout import ensure_root

        try:
            ensure_root(dirs)
            sent = keep_sent(dirs, request)
            forget_sent(dirs, settings.whole("sent.keep_days"))
        except (RepoagentError, OSError) as error:  # the reply is already paid for
            terminal.warn(f"could not save the prompt: {error}")
    _deliver(reply.text, output, terminal, as_json=options.as_json)
    if options.as_json:
        rows = []
        for file in files:
            media = file.media
            row: dict[str, object] = {
                "name": file.name,
                "type": media.type if media else "text",
                "bytes": file.size,
            }
            if media is not None:
                names = ("width", "height") if media.is_image else ("pages",)
                row |= {name: getattr(media, name) or None for name in names}
            rows.append(row)
        content = {
            **(model_calls.spent_object(ready) or {}),
            "text": reply.text,
            "model": display_name(reply.model or ready.model.spec),
            "stop": reply.stop,
            "seconds": round(seconds, 3),
            "files": rows,
            "saved_request": sent or None,
        }
        write_json(terminal, content)
    model_calls.report(terminal, ready)


def _complete(request: Request, ready: ModelSetup, terminal: Terminal, *, live: bool) -> Reply:
    """The reply, which a terminal shows as it arrives if `live`. Raises what `complete` raises, and UsageError if the
    prompt does not fit the model, or if the model does not accept an image or PDF."""
    from repoagent.cli.ui.progress import ProgressDisplay
    from repoagent.edit.prompt.blocks import check_fits
    from repoagent.llm.complete import complete
    from repoagent.llm.open_model import check_attachments

    if doubt := check_attachments(ready.settings, ready.model.spec, request.media):
        terminal.warn(doubt)
    check_fits(request, ready.context_tokens)
    streamed = False
    with ProgressDisplay(terminal, "asking the model", aside=False) as working:

        def show(piece: str) -> None:
            nonlocal streamed
            if live:
                working.words(piece)
                streamed = True

        def discard(text: str) -> None:
            nonlocal streamed
            if streamed:
                working.note("The reply was cut off and discarded.", "yellow")
                streamed = False

        wait = model_calls.retrying(working)
        reply = complete(ready.model, request, ready.meter, on_text=show, on_void=discard, on_wait=wait)
        if not streamed:
            show(reply.text)
    return reply


def _deliver(text: str, output: Path | None, terminal: Terminal, *, as_json: bool) -> None:
    """Write the reply to its destination; print it if it cannot be written, because it is paid for."""
    from repoagent.cli.ui.terminal import write_to
    from repoagent.llm.model import wire_text

    if output is None:
        if not (terminal.output_tty or as_json):
            terminal.result(text)
        return
    try:
        write_to(output, wire_text(text).encode())
    except (RepoagentError, OSError):
        if not as_json:
            terminal.result(text)
        raise
    if terminal.error_tty:
        terminal.note(f"written to {output}", "dim")


USE = 'repoagent ask "PROMPT" [FILE]...'


def _question(
    options: SimpleNamespace, worktree: WorkTree | None, terminal: Terminal
) -> tuple[str, list[AttachedFile], str]:
    """The prompt, the files and the system prompt. Standard input is read at most once: as the prompt, the file `-`,
    the reply or another file. Raises UsageError without a prompt, and what reading a file raises."""
    from repoagent.tasks.ask import read_files, read_stream

    names = list(options.arguments)
    source = options.prompt_file
    prompt = ""
    if source is None and not names and not _is_piped():
        raise UsageError(f"no prompt: use {USE}")
    if source is None and (not names or names[0] == "-"):
        source, names = Path("-"), names[1:]
    elif source is None:
        prompt, *names = names
        with suppress(OSError, ValueError):  # too long for a file name, or in an unreadable folder
            if ("." in prompt or "/" in prompt) and " " not in prompt and Path(prompt).is_file():
                use = f"use {USE}, or - to read the prompt from standard input"
                raise UsageError(f"put the prompt before the file {prompt}: {use}")
    uses_of_input = (str(source) == "-") + names.count("-") + (str(options.reply) == "-")
    if uses_of_input > 1:
        raise UsageError("standard input can be the prompt, one file or the reply; use - only once")
    if source is not None:
        prompt = shared.read_words(source, "prompt")
    if not prompt.strip():
        raise UsageError(f"the prompt is empty: use {USE}")
    files = read_files([Path(name) for name in names if name != "-"], worktree, Path.cwd())
    if "-" in names or (not uses_of_input and _is_piped()):
        stream = read_stream(sys.stdin.buffer)
        if stream is not None:
            files.insert(names.index("-") if "-" in names else len(files), stream)
        elif "-" in names:
            terminal.warn("standard input is empty")
    system = options.system or ""
    if system.startswith("@"):
        system = system[1:] if system.startswith("@@") else shared.read_words(Path(system[1:]), "prompt")
    return prompt.strip("\n"), files, system


def _is_piped() -> bool:
    """Whether standard input is a pipe, a socket or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)
