"""`repoagent outline --summary`: summaries of files by a model."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.cli.commands import summaries
from repoagent.cli.repository import find_worktree
from repoagent.cli.session import Session, select, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.terminal_text import one_line
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.file_summaries import FileSummary
    from repoagent.memory.file_summary_store import SourceFile, SummaryCache


def show_file_summaries(session: Session, options: SimpleNamespace) -> None:
    """Print a summary of each file. A large file is summarized by segments, which are then joined. Answers are cached
    by the hash of their text."""
    from repoagent.git.worktree import layout
    from repoagent.memory.file_summaries import cached_summary, plan
    from repoagent.memory.file_summary_store import SummaryCache

    worktree = find_worktree()
    place = None if worktree is None else layout(worktree)
    options.top = Path.cwd() if worktree is None else worktree.top
    settings, terminal = summaries.open_for_summaries(session, place, options)
    files = []
    for file in _files(worktree, options.files):
        if file.text(0, len(file.data)).strip():
            files.append(file)
        else:
            terminal.warn(f"{file.path or 'standard input'} is empty; skipped")
    if not files:
        raise NothingDone("nothing to summarize")
    cache = SummaryCache(place, options.refresh, terminal.warn)
    if plan(files, cache, words=options.words).calls == 0:
        _show([cached_summary(file, cache, words=options.words) for file in files], options, terminal, None)
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
    from repoagent.cli.ui.progress import ready_for, report
    from repoagent.memory.file_summaries import plan, summarize

    waiting = terminal.working("asking the model")
    ready = ready_for(settings, terminal, waiting, record=options.record, reply=options.reply)
    context = ready.context_tokens
    todo = plan(files, cache, words=options.words, context_tokens=context)
    what = f"{todo.asked} of {todo.parts} segments" if todo.parts > len(files) else plural(todo.asked, "file")
    what = what if todo.asked else "the cached segments"
    estimate = (todo.calls, todo.usage, todo.cost(ready.meter.price_of(ready.model.spec)))
    few = options.yes or todo.calls <= summaries.FEW
    summaries.confirm_calls(terminal, ready, what, estimate, few=few)
    done: list[FileSummary] = []
    try:
        with waiting as working:

            def show_part(path: str, part: int, of: int) -> None:
                label = f"joining the summaries of {path}" if 1 < part == of else f"summarizing {path}"
                working.label(f"{label}: {part} of {of} segments" if part < of else label)

            for file in files:
                summaries.charge(ready, "summary", options.top, (file.path or "-",))
                summary = summarize(
                    file, cache, ready.model, ready.meter,
                    words=options.words, context_tokens=context, output_tokens=ready.max_output_tokens,
                    on_part=show_part, on_wait=summaries.retrying(working),
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
    done: list[FileSummary], options: SimpleNamespace, terminal: Terminal, ready: ModelSetup | None
) -> None:
    """Print the summaries, with the paths if there are several."""
    if options.as_json:
        files = [_as_object(each) for each in done]
        write_json(terminal, {"files": files, "spent": summaries.spent_object(ready)})
        return
    page = Page.of(terminal, least=20, most=100)
    for number, each in enumerate(done):
        head = [page.paint(one_line(each.file.path), "bold"), ""] if len(done) > 1 else []
        lines = summaries.summary_lines(each.summary, page)
        page.write([*([""] if number else []), *head, *lines], terminal)
    if terminal.tells or terminal.verbose:
        for each in done:
            terminal.note(_origin(each), "dim")


def _origin(file: FileSummary) -> str:
    """What of a file's summary was new or cached, and which file to edit to correct it."""
    parts, summary = len(file.parts), file.summary
    state = "new" if file.asked else "cached"
    if parts > 1 and file.paid:
        state = f"{file.paid:,} of {parts:,} segments new, {parts - file.paid:,} cached"
    elif parts > 1:
        state = f"all {parts:,} segments cached" + (", joined again" if file.asked else "")
    if summary.edited:
        state += ", corrected by you"
    elif not (file.asked or file.paid) and summary.date:
        state += f" on {summary.date[:10]}"
    return f"{file.file.path or 'standard input'}: {state}{summaries.correction(summary, '; not saved')}"


def _as_object(file: FileSummary) -> dict[str, object]:
    names = ("start", "end", "first_line", "last_line", "scope", "sha256")
    parts = [
        {**select(each.part, *names), **summaries.summary_object(each.summary), "new": each.asked}
        for each in file.parts
    ]
    head = {**select(file.file, "path", "sha256"), "size": len(file.file.data), "words": file.words}
    return {**head, **summaries.summary_object(file.summary), "new": file.asked, "parts": parts}


def _files(worktree: WorkTree | None, names: tuple[str, ...]) -> list[SourceFile]:
    """The files to summarize, each once. Raises UsageError for a missing file, Refused for a binary one or one that
    must not be sent."""
    from repoagent.edit.guards.off_limits import holds_secrets
    from repoagent.memory.file_summary_store import SourceFile

    files: dict[str, SourceFile] = {}
    for name in names:
        if name == "-":
            file = SourceFile("", sys.stdin.buffer.read())
        else:
            file = _outside(Path(name)) if worktree is None else _inside(worktree, Path(name))
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
