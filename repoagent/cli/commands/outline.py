"""`repoagent outline`: what files define and where; with --summary, a model's summaries of the files."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import options as shared
from repoagent.cli.commands import model_calls
from repoagent.cli.options import Command
from repoagent.cli.session import Session, emit, find_worktree, json_option, pass_session, select, write_json
from repoagent.cli.ui.table import Page
from repoagent.cli.ui.terminal_text import clean, one_line, paint
from repoagent.display_text import list_some, plural
from repoagent.errors import Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.file_summaries import FileSummary
    from repoagent.memory.file_summary_store import SourceFile, Summary
    from repoagent.syntax.outline import Outline

KINDS = (
    "function", "method", "class", "struct", "union", "enum", "interface", "type", "namespace", "macro", "impl",
    "object", "declaration", "constant", "variable", "heading", "key", "entry", "selector", "rule", "element",
)  # fmt: skip

EXAMPLES = """\b
Examples:
  repoagent outline src/parser.c           its functions, types and macros
  repoagent outline src --depth 1 --kind class  all classes in a folder
  repoagent outline app.py::Server.run     one definition
  git show v1.0:app.py | repoagent outline - --language python
  repoagent outline README.md --json | jq '.files[].symbols[].name'
  repoagent outline --summary src/app.py   a summary by a model

Each line shows the line numbers of a definition, including its comments and
decorators, and its signature; its contents are indented below. For Markdown and
text, the headings are listed; for JSON, YAML and XML, the first two levels of
keys, and more levels of large values.

In a folder, only files that git tracks are outlined; files without a grammar
are only counted. The exit code is 1 if nothing was found."""
_OF_OUTLINE = ("depth", "kinds", "language")
_OF_SUMMARY = ("words", "model", "refresh", "yes", "max_cost", "record", "reply")
_OPTION_GROUPS = {"Options": (*_OF_OUTLINE, "summary"), "Options for --summary": _OF_SUMMARY}


@click.command(cls=Command, epilog=EXAMPLES, option_groups=_OPTION_GROUPS)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Show only the N outermost levels.")
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), metavar="KIND", multiple=True,
    help="Show only definitions of this kind. Repeatable.",
)  # fmt: skip
@click.option("--language", metavar="NAME", help="The language of FILE, if its name does not imply it.")
@click.option("--summary", is_flag=True, help="Summarize the purpose of each FILE with a model.")
@click.option(
    "--words", type=click.IntRange(20, 2_000), metavar="N",
    help="The approximate length of a summary in words.  [default: 150]",
)  # fmt: skip
@shared.model_option
@click.option("--refresh", is_flag=True, help="Summarize again, but keep summaries that you corrected.")
@click.option("-y", "--yes", is_flag=True, help="Make many model calls without asking.")
@shared.max_cost_option
@shared.record_option
@shared.reply_option
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> int:
    """Show what FILE defines (functions, classes, types, headings and keys), with line numbers.

    FILE may be a folder, FILE::NAME for one definition, or - for standard input. --summary prints the purpose of FILE,
    its main parts and what to know before changing it; only parts that changed since the last summary cost anything.
    """
    options = SimpleNamespace(**values)
    for name in _OF_OUTLINE if options.summary else _OF_SUMMARY:
        if shared.is_given(options, name):
            option = next(param.opts[-1] for param in command.params if param.name == name)
            raise UsageError(
                f"{option} {'cannot be combined with' if options.summary else 'needs'} --summary"
            )
    if options.summary:
        options.words = options.words or 150
        _show_summaries(session._replace(no_pager=True), options)
        return Exit.DONE
    return _outline(session, options)


def _outline(session: Session, options: SimpleNamespace) -> int:
    from repoagent.syntax.outline import check_language

    depth, kinds = options.depth, options.kinds
    if options.language is not None:
        check_language(options.language)
    terminal = session.terminal()
    page = Page.of(terminal)
    paths, definitions = _paths(options.files)
    files: list[dict[str, object]] = []
    skipped: list[Outline] = []
    broken: list[str] = []
    found_any = False
    with nullcontext() if terminal.output_tty else terminal.working("outlining") as working:
        for number, outline in enumerate(_outlines(paths, definitions, options.language)):
            if working is not None and number % 20 == 0:
                working.progress("outlining", number / len(paths))
            if outline.kind:
                if len(paths) == 1:
                    raise UsageError(f"{outline.path} {outline.reason}")
                skipped.append(outline)
                continue
            broken += [f"{outline.path} ({outline.flaws})"] if outline.flaws else []
            deepest = min((each.depth for each in outline.symbols), default=0) + (depth or sys.maxsize)
            symbols = [s for s in outline.symbols if s.depth < deepest and (not kinds or s.kind in kinds)]
            outline = outline._replace(symbols=tuple(symbols))
            if options.as_json:
                selected = select(outline, "path", "lines", "symbols", errors="flaws")
                files.append({"language": outline.language, **selected})
            elif symbols:
                if len(paths) > 1:
                    name = page.paint(page.shorten(clean(outline.path), page.width), "bold")
                    page.write(["", name] if found_any else [name], terminal)
                page.write(_lines(outline, page), terminal)
            found_any = found_any or bool(symbols)
    if options.as_json:  # a flat list of symbols for each file, in order; `depth` has the nesting
        rows = [select(each, "path", reason="kind") for each in skipped]
        write_json(terminal, {"files": files, "skipped": rows})
    if broken:
        errors = f"syntax errors in {list_some(broken, _NAMED)}"
        terminal.note(f"{errors}; definitions near them may be missing", "yellow")
    if skipped:
        counts = Counter(outline.kind for outline in skipped).most_common()
        why = ", ".join(f"{count} {kind}" for kind, count in counts)
        terminal.note(f"skipped {plural(len(skipped), 'file')}: {why}", "dim")
    if not found_any:
        terminal.note("nothing found")
    return Exit.DONE if found_any else Exit.NOTHING


def _paths(files: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The paths of all files, with folders expanded, and the definition requested for each path."""
    from repoagent.git.files import no_such_file

    paths: dict[str, None] = {}
    definitions: dict[str, str] = {}
    for file in files:
        path, separator, name = file.partition("::")
        if not separator or Path(file).exists():
            path = file
        elif not name:
            raise UsageError(f"no name after the :: in {file}")
        else:
            definitions[path] = name
        if path != "-" and Path(path).is_dir():
            if path in definitions:
                raise UsageError(f"{path} is a folder; :: needs a file")
            paths.update(dict.fromkeys(_files_below(path)))
        elif path != "-" and not os.path.lexists(path):
            raise no_such_file(path, Path.cwd())
        else:
            paths[path] = None
    return list(paths), definitions


def _files_below(folder: str) -> list[str]:
    """The regular files in a folder: the tracked ones in a repository, else all except hidden ones."""
    from repoagent.git.process import git
    from repoagent.git.worktree import open_worktree

    try:
        open_worktree(Path(folder))
    except UsageError:
        below = (path.relative_to(folder) for path in sorted(Path(folder).rglob("*")))
        names = [str(path) for path in below if not any(part.startswith(".") for part in path.parts)]
        which = "file"
    else:
        listed = git(folder, "ls-files", "-z", "--cached", "--", ".").split(b"\0")[:-1]
        names, which = list(dict.fromkeys(map(os.fsdecode, listed))), "file tracked by git"
    prefix = "" if folder in (".", "./") else folder.rstrip("/") + "/"
    # neither links nor files that were deleted in the work tree
    paths = [path for name in names if Path(path := prefix + name).is_file() and not Path(path).is_symlink()]
    if not paths:
        raise UsageError(f"{folder} contains no {which}")
    return paths


def _outlines(
    paths: Sequence[str], definitions: Mapping[str, str], language: str | None
) -> Iterator[Outline]:
    from repoagent.syntax.outline import MOST_BYTES, Outline, outline_of, pick_symbol, within

    for path in paths:
        if path == "-" and language is None:
            raise UsageError("standard input needs --language")
        try:
            data = sys.stdin.buffer.read() if path == "-" else _bytes_of(path, MOST_BYTES + 1)
        except UsageError:
            if len(paths) == 1:
                raise
            yield Outline(path, "", 0, (), 0, "unreadable", "cannot be read")
            continue
        outline = outline_of(path, data, language)
        if path in definitions and not outline.kind:
            symbol = pick_symbol(path, outline.symbols, definitions[path])
            outline = outline._replace(symbols=within(outline.symbols, symbol))
        yield outline


_NAMED = 5  # files named for each reason


def _lines(outline: Outline, page: Page) -> Iterator[str]:
    spans = [f"{s.first_line}-{s.last_line}".removesuffix(f"-{s.first_line}") for s in outline.symbols]
    width = max(map(len, spans))
    least = min(symbol.depth for symbol in outline.symbols)
    for lines, symbol in zip(spans, outline.symbols, strict=True):
        indent, room = 2 * (symbol.depth - least), None
        if page.width is not None:
            indent = min(indent, page.width // 3)
            room = page.width - width - 2 - indent
        text, name = page.cut(clean(symbol.signature), room), clean(symbol.name)
        if page.color and name and (match := re.search(rf"(?<!\w){re.escape(name)}", text)):
            text = text[: match.start()] + paint(name, "bold", "blue") + text[match.end() :]
        yield f"{page.paint(lines.rjust(width), 'dim')}  {' ' * indent}{text}"


def _show_summaries(session: Session, options: SimpleNamespace) -> None:
    """Print a summary of each file; a model writes those that are not cached. An error of the model or a limit is
    raised after the completed summaries are shown."""
    from repoagent.git.worktree import layout
    from repoagent.memory.file_summaries import plan, summarize
    from repoagent.memory.file_summary_store import SummaryCache

    worktree = find_worktree()
    dirs = None if worktree is None else layout(worktree)
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
    if plan(files, cache, words=words).calls == 0:
        _show_done([summarize(file, cache, words=words) for file in files], options, terminal, None)
        return
    ready = model_calls.ready_for(settings, terminal, record=options.record, reply=options.reply)
    context = ready.context_tokens
    todo = plan(files, cache, words=words, context_tokens=context)
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
                summary = summarize(
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
        for line in clean(each.summary.text).split("\n"):
            words = line.lstrip()
            hanging = "  " if words.startswith("- ") else ""
            lines += page.wrap(words, line[: len(line) - len(words)], hanging)
        names = ("start", "end", "first_line", "last_line", "scope", "sha256")
        parts = [
            {**select(part.part, *names), **_summary_object(part.summary), "new": part.asked}
            for part in each.parts
        ]
        head = {**select(each.file, "path", "sha256"), "size": len(each.file.data), "words": each.words}
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


def _summary_object(summary: Summary) -> dict[str, object]:
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
    from repoagent.edit.guards.off_limits import LFS_POINTER, gate, holds_secrets
    from repoagent.git.files import no_such_file, read_source
    from repoagent.git.worktree import relative
    from repoagent.memory.file_summary_store import SourceFile

    files: dict[str, SourceFile] = {}
    for name in names:
        path, data = "" if name == "-" else name, None
        if name == "-":
            data = sys.stdin.buffer.read()
        elif worktree is None:
            data = _bytes_of(name)
        else:
            path = relative(worktree, name, Path.cwd())
            if reason := gate(worktree.top, [path])(path):
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


def _bytes_of(name: str, limit: int = -1) -> bytes:
    """The first `limit` bytes of a file outside a repository, -1 for all. Raises UsageError."""
    from repoagent.git.files import no_such_file

    try:
        with Path(name).open("rb") as file:
            return file.read(limit)
    except FileNotFoundError:
        raise no_such_file(name, Path.cwd()) from None
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
