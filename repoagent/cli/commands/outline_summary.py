"""`repoagent outline --summary`: a model's summaries of files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.cli.commands import model_calls
from repoagent.cli.commands.outline import bytes_of
from repoagent.cli.session import Session, emit, find_worktree, select_fields
from repoagent.cli.ui.table import Page
from repoagent.display_text import one_line, plural, sanitize
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.file_summaries import FileSummary
    from repoagent.memory.file_summary_store import SourceFile, StoredSummary


def show_summaries(session: Session, options: SimpleNamespace) -> None:
    """Print a summary of each file; a model writes the summaries that are not cached.

    If the model fails or a limit is reached, the completed summaries are shown before the error is raised.
    """
    from repoagent.git.worktree import layout_of
    from repoagent.memory.file_summaries import plan_summary, summarize_file
    from repoagent.memory.file_summary_store import SummaryCache

    worktree = find_worktree()
    dirs = None if worktree is None else layout_of(worktree)
    settings, terminal = model_calls.open_for_summaries(session, dirs, options)
    files = []
    for file in _sources(worktree, options.files):
        if file.text(0, len(file.data)).strip():
            files.append(file)
        else:
            terminal.warn(f"{file.path or 'standard input'} is empty; skipped")
    if not files:
        raise NothingDone("nothing to summarize")
    cache, words = SummaryCache(dirs, options.refresh, terminal.warn), options.words
    if plan_summary(files, cache, words=words).calls == 0:
        _show_done([summarize_file(file, cache, words=words) for file in files], options, terminal, None)
        return
    ready = model_calls.ready_for(settings, terminal, record=options.record, reply=options.reply)
    context = ready.context_tokens
    todo = plan_summary(files, cache, words=words, context_tokens=context)
    segments = f"{todo.asked} of {todo.parts} segments"
    objects = segments if todo.parts > len(files) else plural(todo.asked, "file")
    estimate = (todo.calls, todo.usage, todo.cost(ready.meter.price_of(ready.model.spec)))
    few = options.yes or todo.calls <= model_calls.FEW
    model_calls.confirm_calls(terminal, ready, objects, estimate, few=few)
    done: list[FileSummary] = []
    try:
        with terminal.working("asking the model") as working:

            def show_part(path: str, part: int, of: int) -> None:
                label = f"joining the summaries of {path}" if 1 < part == of else f"summarizing {path}"
                working.label(f"{label}: {part} of {of} segments" if part < of else label)

            for file in files:
                top = Path.cwd() if worktree is None else worktree.top
                model_calls.charge(ready, "summary", top, (file.path or "-",))
                summary = summarize_file(
                    file, cache, ready.model, ready.meter,
                    words=words, context_tokens=context, output_tokens=ready.max_output_tokens,
                    on_part=show_part, on_wait=model_calls.retrying(working),
                )  # fmt: skip
                done.append(summary)
    except RepoagentError:
        if done and not options.as_json:
            _show_done(done, options, terminal, None)
        raise
    except KeyboardInterrupt:
        if cache.layout is not None and ready.meter.usage.total:
            terminal.note("interrupted; the summaries so far were saved. Run the command again to continue")
        raise
    _show_done(done, options, terminal, ready)
    model_calls.report(terminal, ready)


def _show_done(
    done: list[FileSummary], options: SimpleNamespace, terminal: Terminal, ready: ModelSetup | None
) -> None:
    page, files, notes = Page.of(terminal, least=20, most=100), [], []
    lines: list[str] = []
    for each in done:
        lines += [""] if lines else []
        lines += [page.paint(one_line(each.file.path), "bold"), ""] if len(done) > 1 else []
        for line in sanitize(each.summary.text).split("\n"):
            words = line.lstrip()
            hanging = "  " if words.startswith("- ") else ""
            lines += page.wrap(words, indent=line[: len(line) - len(words)], hang=hanging)
        names = ("start", "end", "first_line", "last_line", "scope", "sha256")
        parts = [
            {**select_fields(part.part, *names), **_summary_object(part.summary), "new": part.asked}
            for part in each.parts
        ]
        head = {
            **select_fields(each.file, "path", "sha256"),
            "size": len(each.file.data),
            "words": each.words,
        }
        content = {**head, **_summary_object(each.summary), "new": each.asked, "parts": parts}
        files.append(content)
        state = "new" if each.asked else "cached"
        if len(parts) > 1:
            state = f"{each.paid:,} of {len(parts):,} segments new, {len(parts) - each.paid:,} cached"
        state += ", corrected by you" if each.summary.edited else ""
        path = each.summary.path
        edit = "; not saved" if path is None else f"; to correct it, edit {os.path.relpath(path)}"
        notes.append(f"{each.file.path or 'standard input'}: {state}{edit}")
    notes = notes if terminal.error_tty or terminal.verbose else []
    content = {"files": files, "spent": model_calls.spent_object(ready)}
    emit(terminal, content, lines, as_json=options.as_json, notes=notes)


def _summary_object(summary: StoredSummary) -> dict[str, object]:
    """A summary as JSON data; `file` is the file to edit to correct it."""
    return {
        "summary": summary.text,
        "model": summary.model,
        "date": summary.date,
        "edited": summary.edited,
        "file": summary.path,
    }


def _sources(worktree: WorkTree | None, names: tuple[str, ...]) -> list[SourceFile]:
    """The files to summarize. Raises UsageError for a missing file, Refused for one that is binary or must not be
    sent."""
    from repoagent.edit.guards.off_limits import LFS_POINTER, holds_secrets, off_limits_gate
    from repoagent.git.files import no_such_file, read_source
    from repoagent.git.worktree import relative_path
    from repoagent.memory.file_summary_store import SourceFile

    files: dict[str, SourceFile] = {}
    for name in names:
        path, data = "" if name == "-" else name, None
        if name == "-":
            data = sys.stdin.buffer.read()
        elif worktree is None:
            data = bytes_of(name)
        else:
            path = relative_path(worktree, name, Path.cwd())
            if reason := off_limits_gate(worktree.top, [path])(path):
                raise Refused(reason)
            if (worktree.top / path).is_dir() and not (worktree.top / path).is_symlink():
                raise UsageError(f"{name} is a folder; name files in it")
            data = read_source(worktree, path).data
            if data is None:
                raise no_such_file(path, worktree.top)
            if data.startswith(LFS_POINTER):
                raise Refused(f"{path} is a Git LFS pointer; run `git lfs pull` first")
        if len(names) > 1 and holds_secrets(path):  # the name may come from a * in the shell
            raise Refused(f"{name} has a name that suggests secrets; to summarize it, name only this file")
        file = SourceFile(path, data)
        if not file.encoding:
            raise Refused(f"{path or 'standard input'} is binary; only text can be summarized")
        files.setdefault(path, file)
    return list(files.values())
