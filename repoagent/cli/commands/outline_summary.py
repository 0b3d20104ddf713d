"""`repoagent outline --summary`: the purpose of a file, its main parts, and what to know before changing it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.cli.session import Session
from repoagent.cli.ui.progress import Fold
from repoagent.cli.ui.sanitize import clean, one_line, paint
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.file_summaries import FileSummary, PartSummary
    from repoagent.memory.file_summary_store import SourceFile, Summary, SummaryCache

FEW = 5  # model calls that need no confirmation


def show_summary(session: Session, options: SimpleNamespace) -> None:
    """Print a summary of each file. A large file is summarized by segments, which are then joined. Answers are cached
    by the hash of their text."""
    from repoagent.git.worktree import layout
    from repoagent.memory.file_summaries import cached_summary, plan
    from repoagent.memory.file_summary_store import SummaryCache

    worktree = _worktree()
    place = None if worktree is None else layout(worktree)
    options.top = str(Path.cwd() if worktree is None else worktree.top)
    flags = {"model": options.model, "max_cost": options.max_cost}
    settings, terminal = session.open(place, flags)
    if not options.model and (model := settings.text_or_none("summary.model")):
        settings, terminal = session.open(place, {**flags, "model": model})
    files = [
        file for file in _files(worktree, tuple(map(Path, options.files))) if _says_something(file, terminal)
    ]
    if not files:
        raise NothingDone("nothing to summarize")
    shelf = SummaryCache(place, options.refresh, terminal.warn)
    if plan(files, shelf, words=options.words).calls == 0:
        _show([cached_summary(file, shelf, words=options.words) for file in files], options, terminal, None)
        return
    _ask(files, shelf, options, settings, terminal)


def _ask(
    files: list[SourceFile],
    shelf: SummaryCache,
    options: SimpleNamespace,
    settings: Settings,
    terminal: Terminal,
) -> None:
    """Summarize what is not cached. Raises what the model and the limits raise, after showing the files that are
    done."""
    from repoagent.cli.ui.progress import about, agree, as_object, ready_for, report
    from repoagent.llm.model import display_name
    from repoagent.memory.file_summaries import plan, summarize

    waiting = terminal.working("asking the model")
    ready = ready_for(settings, terminal, waiting, record=options.record, reply=options.reply)
    takes = ready.context_tokens
    todo = plan(files, shelf, words=options.words, context_tokens=takes)
    what = f"{todo.asked} of {todo.parts} segments" if todo.parts > len(files) else _counted(todo.asked)
    if not todo.asked:
        what = "the cached segments"
    sentence = f"{display_name(ready.model.spec)} would summarize {what} "
    sentence += about(todo.calls, todo.usage, todo.cost(ready.meter.price_of(ready.model.spec)))
    agree(terminal, sentence, few=options.yes or todo.calls <= FEW, less="name fewer files")
    done: list[FileSummary] = []
    book = ready.meter.book
    try:
        with waiting as working:
            for file in files:
                if book is not None:
                    ready.meter.book = book.about("summary", options.top, (file.path or "-",))
                done.append(
                    summarize(
                        file, shelf, ready.model, ready.meter,
                        words=options.words, context_tokens=takes, output_tokens=ready.max_output_tokens,
                        on_part=lambda path, part, of: working.label(_doing(path, part, of)),
                        on_wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
                    )
                )  # fmt: skip
    except RepoagentError:
        if done and not options.as_json:
            _show(done, options, terminal, None)
        raise
    except KeyboardInterrupt:
        if shelf.layout is not None and ready.meter.usage.total:
            terminal.note("interrupted; the answers so far are saved, run the command again to continue")
        raise
    _show(done, options, terminal, {"model": display_name(ready.model.spec), **as_object(ready)})
    report(terminal, ready)


def _show(
    found: list[FileSummary], options: SimpleNamespace, terminal: Terminal, paid: dict[str, object] | None
) -> None:
    if options.as_json:
        value = {"version": VERSION, "files": [to_dict(one) for one in found], "asked": paid}
        terminal.result(json.dumps(value, indent=2) + "\n")
        return
    show(found, terminal)
    if terminal.tells or terminal.verbose:
        for one in found:
            terminal.note(sentence(one), "dim")


def _doing(path: str, part: int, of: int) -> str:
    if of == 1:
        return f"summarizing {path}"
    if part == of:
        return f"joining the summaries of {path}"
    return f"summarizing {path}: {part} of {of} segments"


def _counted(files: int) -> str:
    return f"{files} file{'s' * (files > 1)}"


def _says_something(file: SourceFile, terminal: Terminal) -> bool:
    if file.text(0, len(file.data)).strip():
        return True
    terminal.warn(f"{file.path or 'standard input'} is empty; skipped")
    return False


def _worktree() -> WorkTree | None:
    """The current work tree, None outside one."""
    from repoagent.git.worktree import NoWorkTree, open_worktree

    try:
        return open_worktree(Path.cwd())
    except NoWorkTree:
        return None


def _files(worktree: WorkTree | None, names: tuple[Path, ...]) -> list[SourceFile]:
    """The files to summarize, each once. Raises UsageError for a missing file, Refused for a binary one or one that
    must not be sent."""
    from repoagent.edit.guards.scope import holds_secrets
    from repoagent.memory.file_summary_store import SourceFile

    found: dict[str, SourceFile] = {}
    for name in names:
        if str(name) == "-":
            file = SourceFile("", sys.stdin.buffer.read())
        else:
            file = _outside(name) if worktree is None else _inside(worktree, name)
            if len(names) > 1 and holds_secrets(file.path):  # a * of the shell may have named it
                raise Refused(f"{name} usually holds secrets; to summarize it, name no other file")
        if not file.encoding:
            raise Refused(f"{file.path or 'standard input'} is binary; only text can be summarized")
        found.setdefault(file.path, file)
    return list(found.values())


def _inside(worktree: WorkTree, name: Path) -> SourceFile:
    from repoagent.edit.guards.scope import LFS_POINTER, gate
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


VERSION = 1
WIDEST = 100  # columns of a line of prose
_LEAST = 20


def show(found: Sequence[FileSummary], terminal: Terminal) -> None:
    """Print the summaries, wrapped on a terminal, with the paths if there are several."""
    width = max(_LEAST, min(WIDEST, terminal.width))
    blocks = []
    for one in found:
        text = clean(one.summary.text)
        lines = text.split("\n")
        body = "\n".join(folded(line, width) for line in lines) if terminal.shows else text
        name = one_line(one.file.path)
        head = f"{paint(name, 'bold') if terminal.color else name}\n\n" if len(found) > 1 else ""
        blocks.append(f"{head}{body}\n")
    terminal.styled("\n".join(blocks))


def folded(line: str, width: int) -> str:
    """A line wrapped to `width` columns, with the hanging indent of a list item."""
    words = line.lstrip()
    mark = line[: len(line) - len(words)] + ("- " if words.startswith("- ") else "")
    fold = Fold(max(_LEAST // 2, width - len(mark)))
    rest = fold.feed(words.removeprefix("- ") if mark.endswith("- ") else words) + fold.rest()
    return mark + rest.replace("\n", "\n" + " " * len(mark))


def sentence(one: FileSummary) -> str:
    """What of a file's summary was new or cached, and which file to edit to correct it."""
    parts = len(one.parts)
    if parts > 1:
        known = parts - one.paid
        told = f"{one.paid:,} of {parts:,} segments new, {known:,} cached"
        if not one.paid:
            told = f"all {parts:,} segments cached" + (", joined again" if one.asked else "")
    else:
        told = "new" if one.asked else "cached"
    if one.summary.edited:
        told += ", corrected by you"
    elif not (one.asked or one.paid) and one.summary.date:
        told += f" on {one.summary.date[:10]}"
    place = one.summary.place
    kept = f"; to correct it, edit {os.path.relpath(place)}" if place is not None else "; not saved"
    return f"{one.file.path or 'standard input'}: {told}{kept}"


def to_dict(one: FileSummary) -> dict[str, object]:
    """A file's summary as JSON data."""
    return {
        "path": one.file.path or None,
        "sha256": one.file.sha256,
        "size": len(one.file.data),
        "words": one.words,
        **_said(one.summary),
        "asked": one.asked,
        "parts": [_part(part) for part in one.parts],
    }


def _part(one: PartSummary) -> dict[str, object]:
    part = one.part
    return {
        "start": part.start,
        "end": part.end,
        "first_line": part.first_line,
        "last_line": part.last_line,
        "scope": [*part.scope],
        "sha256": part.sha256,
        **_said(one.summary),
        "asked": one.asked,
    }


def _said(summary: Summary) -> dict[str, object]:
    return {
        "summary": summary.text,
        "model": summary.model,
        "date": summary.date,
        "edited": summary.edited,
        "kept": None if summary.place is None else str(summary.place),
    }
