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
from repoagent.cli.options import GroupedCommand, number_option
from repoagent.cli.session import Session, json_option, pass_session, select_fields, write_json
from repoagent.cli.ui.table import Page
from repoagent.display_text import list_some, paint, plural, sanitize
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.syntax.outline import Outline

KINDS = (
    "function", "method", "class", "struct", "union", "enum", "interface", "type", "namespace", "macro", "impl",
    "object", "declaration", "constant", "variable", "heading", "key", "entry", "selector", "rule", "element",
)  # fmt: skip

EXAMPLES = """\b
Examples:
  repoagent outline src/parser.c           its functions, types and macros
  repoagent outline src --kind class       all classes in a folder
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


@click.command(cls=GroupedCommand, epilog=EXAMPLES, option_groups=_OPTION_GROUPS)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@number_option("--depth", type=click.IntRange(1), metavar="N", help="Show only the N outermost levels.")
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), metavar="KIND", multiple=True,
    help="Show only definitions of this kind. Repeatable.",
)  # fmt: skip
@click.option("--language", metavar="NAME", help="The language of FILE, if its name does not imply it.")
@click.option("--summary", is_flag=True, help="Summarize the purpose of each FILE with a model.")
@number_option(
    "--words", type=click.IntRange(20, 2_000), metavar="N",
    help="The approximate length of a summary in words, 20 to 2000.  [default: 150]",
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
        from repoagent.cli.commands.outline_summary import show_summaries

        show_summaries(session._replace(no_pager=True), options)
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
                selected = select_fields(outline, "path", "lines", "symbols", errors="flaws")
                files.append({"language": outline.language, **selected})
            elif symbols:
                if len(paths) > 1:
                    name = page.paint(page.shorten(sanitize(outline.path), page.width), "bold")
                    page.write(["", name] if found_any else [name], terminal)
                page.write(_lines(outline, page), terminal)
            found_any = found_any or bool(symbols)
    if options.as_json:  # a flat list of symbols for each file, in order; `depth` has the nesting
        rows = [select_fields(each, "path", reason="kind") for each in skipped]
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
    from repoagent.syntax.outline import MOST_BYTES, Outline, outline_of, pick_symbol, with_members

    for path in paths:
        if path == "-" and language is None:
            raise UsageError("standard input needs --language")
        try:
            data = sys.stdin.buffer.read() if path == "-" else bytes_of(path, MOST_BYTES + 1)
        except UsageError:
            if len(paths) == 1:
                raise
            yield Outline(path, "", 0, (), 0, "unreadable", "cannot be read")
            continue
        outline = outline_of(path, data, language)
        if path in definitions and not outline.kind:
            symbol = pick_symbol(path, outline.symbols, definitions[path])
            outline = outline._replace(symbols=with_members(outline.symbols, symbol))
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
        text, name = page.cut(sanitize(symbol.signature), room), sanitize(symbol.name)
        if page.color and name and (match := re.search(rf"(?<!\w){re.escape(name)}", text)):
            text = text[: match.start()] + paint(name, "bold", "blue") + text[match.end() :]
        yield f"{page.paint(lines.rjust(width), 'dim')}  {' ' * indent}{text}"


def bytes_of(name: str, limit: int = -1) -> bytes:
    """Read the first `limit` bytes of a file outside a repository; -1 reads the whole file. Raises UsageError if the
    file cannot be read."""
    from repoagent.git.files import no_such_file

    try:
        with Path(name).open("rb") as file:
            return file.read(limit)
    except FileNotFoundError:
        raise no_such_file(name, Path.cwd()) from None
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
