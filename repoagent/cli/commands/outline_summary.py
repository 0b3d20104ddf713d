"""Summaries by a model: those of files, `repoagent outline --summary`, and what the commands that summarize share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.cli.repository import find_worktree
from repoagent.cli.session import Session, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.terminal_text import clean, one_line
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.file_summaries import FileSummary
    from repoagent.memory.file_summary_store import SourceFile, Summary, SummaryCache
    from repoagent.storage.layout import Layout

FEW = 5  # model calls that need no confirmation


def open_for_summaries(
    session: Session, layout: Layout | None, options: SimpleNamespace
) -> tuple[Settings, Terminal]:
    """The settings and the terminal, with the model of --model or else of summary.model."""
    flags = {"model": options.model, "max_cost": options.max_cost}
    settings, terminal = session.open(layout, flags)
    if not options.model and (model := settings.text_or_none("summary.model")):
        settings, terminal = session.open(layout, {**flags, "model": model})
    return settings, terminal


def spent_object(ready: ModelSetup | None) -> dict[str, object] | None:
    """What was paid for, as JSON data: the model, its calls, tokens and cost."""
    from repoagent.cli.ui.progress import as_object
    from repoagent.llm.model import display_name

    return None if ready is None else {"model": display_name(ready.model.spec), **as_object(ready)}


def summary_object(summary: Summary) -> dict[str, object]:
    """A summary as JSON data; `file` is the one to edit to correct it."""
    return {
        "summary": summary.text,
        "model": summary.model,
        "date": summary.date,
        "edited": summary.edited,
        "file": None if summary.place is None else str(summary.place),
    }


def summary_lines(summary: Summary, page: Page) -> Iterator[str]:
    """The text, wrapped with a hanging indent for the items of lists."""
    for line in clean(summary.text).split("\n"):
        words = line.lstrip()
        indent, hang = line[: len(line) - len(words)], "  " if words.startswith("- ") else ""
        yield from page.wrap(words, indent, hang)


def show_file_summaries(session: Session, options: SimpleNamespace) -> None:
    """Print a summary of each file. A large file is summarized by segments, which are then joined. Answers are cached
    by the hash of their text."""
    from repoagent.git.worktree import layout
    from repoagent.memory.file_summaries import cached_summary, plan
    from repoagent.memory.file_summary_store import SummaryCache

    worktree = find_worktree()
    place = None if worktree is None else layout(worktree)
    options.top = str(Path.cwd() if worktree is None else worktree.top)
    settings, terminal = open_for_summaries(session, place, options)
    files = []
    for file in _files(worktree, tuple(map(Path, options.files))):
        if file.text(0, len(file.data)).strip():
            files.append(file)
        else:
            terminal.warn(f"{file.path or 'standard input'} is empty; skipped")
    if not files:
        raise NothingDone("nothing to summarize")
    cache = SummaryCache(place, options.refresh, terminal.warn)
    if plan(files, cache, words=options.words).calls == 0:
        summaries = [cached_summary(file, cache, words=options.words) for file in files]
        _show(summaries, options, terminal, None)
    else:
        _summarize(files, cache, options, settings, terminal)


def _summarize(
    files: list[SourceFile],
    cache: SummaryCache,
    options: SimpleNamespace,
    settings: Settings,
    terminal: Terminal,
) -> None:
    """Summarize what is not cached. Raises what the model and the limits raise, after showing the files that are
    done."""
    from repoagent.cli.ui.progress import about, agree, ready_for, report
    from repoagent.llm.model import display_name
    from repoagent.memory.file_summaries import plan, summarize

    waiting = terminal.working("asking the model")
    ready = ready_for(settings, terminal, waiting, record=options.record, reply=options.reply)
    context_tokens = ready.context_tokens
    todo = plan(files, cache, words=options.words, context_tokens=context_tokens)
    what = f"{todo.asked} of {todo.parts} segments" if todo.parts > len(files) else plural(todo.asked, "file")
    if not todo.asked:
        what = "the cached segments"
    sentence = f"{display_name(ready.model.spec)} would summarize {what} "
    sentence += about(todo.calls, todo.usage, todo.cost(ready.meter.price_of(ready.model.spec)))
    agree(terminal, sentence, few=options.yes or todo.calls <= FEW, less="name fewer files")
    done: list[FileSummary] = []
    book = ready.meter.book
    try:
        with waiting as working:

            def show_part(path: str, part: int, of: int) -> None:
                label = f"joining the summaries of {path}" if 1 < part == of else f"summarizing {path}"
                working.label(f"{label}: {part} of {of} segments" if part < of else label)

            for file in files:
                if book is not None:
                    ready.meter.book = book.about("summary", options.top, (file.path or "-",))
                summary = summarize(
                    file, cache, ready.model, ready.meter,
                    words=options.words, context_tokens=context_tokens, output_tokens=ready.max_output_tokens,
                    on_part=show_part,
                    on_wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
                )  # fmt: skip
                done.append(summary)
    except RepoagentError:
        if done and not options.as_json:
            _show(done, options, terminal, None)
        raise
    except KeyboardInterrupt:
        if cache.layout is not None and ready.meter.usage.total:
            terminal.note("interrupted; the answers so far are saved, run the command again to continue")
        raise
    _show(done, options, terminal, ready)
    report(terminal, ready)


def _show(
    summaries: list[FileSummary], options: SimpleNamespace, terminal: Terminal, ready: ModelSetup | None
) -> None:
    """Print the summaries, with the paths if there are several."""
    if options.as_json:
        files = [_as_object(each) for each in summaries]
        write_json(terminal, {"files": files, "spent": spent_object(ready)})
        return
    page = Page.of(terminal, least=20, most=100)
    for number, each in enumerate(summaries):
        head = [page.paint(one_line(each.file.path), "bold"), ""] if len(summaries) > 1 else []
        page.write([*([""] if number else []), *head, *summary_lines(each.summary, page)], terminal)
    if terminal.tells or terminal.verbose:
        for each in summaries:
            terminal.note(_origin(each), "dim")


def _origin(file: FileSummary) -> str:
    """What of a file's summary was new or cached, and which file to edit to correct it."""
    parts = len(file.parts)
    if parts > 1 and file.paid:
        state = f"{file.paid:,} of {parts:,} segments new, {parts - file.paid:,} cached"
    elif parts > 1:
        state = f"all {parts:,} segments cached" + (", joined again" if file.asked else "")
    else:
        state = "new" if file.asked else "cached"
    if file.summary.edited:
        state += ", corrected by you"
    elif not (file.asked or file.paid) and file.summary.date:
        state += f" on {file.summary.date[:10]}"
    place = file.summary.place
    saved = f"; to correct it, edit {os.path.relpath(place)}" if place is not None else "; not saved"
    return f"{file.file.path or 'standard input'}: {state}{saved}"


def _as_object(file: FileSummary) -> dict[str, object]:
    parts = [
        {
            "start": each.part.start,
            "end": each.part.end,
            "first_line": each.part.first_line,
            "last_line": each.part.last_line,
            "scope": [*each.part.scope],
            "sha256": each.part.sha256,
            **summary_object(each.summary),
            "new": each.asked,
        }
        for each in file.parts
    ]
    return {
        "path": file.file.path or None,
        "sha256": file.file.sha256,
        "size": len(file.file.data),
        "words": file.words,
        **summary_object(file.summary),
        "new": file.asked,
        "parts": parts,
    }


def _files(worktree: WorkTree | None, names: tuple[Path, ...]) -> list[SourceFile]:
    """The files to summarize, each once. Raises UsageError for a missing file, Refused for a binary one or one that
    must not be sent."""
    from repoagent.edit.guards.off_limits import holds_secrets
    from repoagent.memory.file_summary_store import SourceFile

    files: dict[str, SourceFile] = {}
    for name in names:
        if str(name) == "-":
            file = SourceFile("", sys.stdin.buffer.read())
        else:
            file = _outside(name) if worktree is None else _inside(worktree, name)
            if len(names) > 1 and holds_secrets(file.path):  # a * of the shell may have named it
                raise Refused(f"{name} usually holds secrets; to summarize it, name no other file")
        if not file.encoding:
            raise Refused(f"{file.path or 'standard input'} is binary; only text can be summarized")
        files.setdefault(file.path, file)
    return list(files.values())


def _inside(worktree: WorkTree, name: Path) -> SourceFile:
    from repoagent.edit.guards.off_limits import LFS_POINTER, gate
    from repoagent.git.files import read_source
    from repoagent.git.similar_paths import no_such_file
    from repoagent.git.worktree import relative
    from repoagent.memory.file_summary_store import SourceFile

    path = relative(worktree, name, Path.cwd())
    if reason := gate(worktree.top, [path])(path):
        raise Refused(reason)
    if (worktree.top / path).is_dir() and not (worktree.top / path).is_symlink():
        raise UsageError(f"{name} is a directory; name files in it")
    source = read_source(worktree, path)
    if source.data is None:
        raise no_such_file(path, worktree.top)
    if source.data.startswith(LFS_POINTER):
        raise Refused(f"{path} is a Git LFS pointer; run `git lfs pull` first")
    if source.binary:
        raise Refused(f"{path} is binary; only text can be summarized")
    return SourceFile(path, source.data)


def _outside(name: Path) -> SourceFile:
    from repoagent.git.similar_paths import no_such_file
    from repoagent.memory.file_summary_store import SourceFile

    try:
        return SourceFile(str(name), name.read_bytes())
    except IsADirectoryError as error:
        raise UsageError(f"{name} is a directory; name files in it") from error
    except FileNotFoundError as error:
        raise no_such_file(name, Path.cwd()) from error
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
