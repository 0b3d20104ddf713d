"""`repoagent outline`: what files define and where, as a tree or as JSON."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import options as shared
from repoagent.cli.click_commands import Command
from repoagent.cli.session import Session, json_option, pass_session, select, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.terminal_text import clean, paint
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.syntax.outline import Outline
    from repoagent.syntax.symbol import Symbol

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
  repoagent outline --summary src/app.py   its purpose, summarized by a model

Each line shows the line numbers of a definition, including its comments and
decorators, and its signature; its contents are indented below. The outline of
Markdown and text has headings, that of JSON, YAML and XML the first two levels
of keys, and more levels of large values.

In a folder, only files that git tracks are outlined; files without a grammar
are counted. The exit code is 1 if nothing was found."""
_OF_OUTLINE = ("depth", "kinds", "language")
_OF_SUMMARY = ("words", "model", "refresh", "yes", "max_cost", "record", "reply")
_OPTION_GROUPS = {"Options": (*_OF_OUTLINE, "summary"), "Options for --summary": _OF_SUMMARY}


@click.command(cls=Command, epilog=EXAMPLES, option_groups=_OPTION_GROUPS)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--depth", type=int, metavar="N", help="Show only the N outermost levels.")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Show only this kind. Repeatable.")
@click.option("--language", metavar="NAME", help="The language of FILE, if its name does not show it.")
@click.option("--summary", is_flag=True, help="Summarize the purpose of each FILE with a model.")
@click.option(
    "--words", type=click.IntRange(20, 2_000), metavar="N",
    help="The length of a summary, roughly.  [default: 150]",
)  # fmt: skip
@shared.model_option
@click.option("--refresh", is_flag=True, help="Replace summaries by a model; keep your corrections.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a summary that takes many calls.")
@shared.max_cost_option
@shared.record_option
@shared.reply_option
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> int:
    """Show what FILE defines: functions, classes, types, headings, keys, with their lines.

    FILE may be a folder, FILE::NAME for one definition, or - for standard input. --summary prints the purpose of FILE,
    its main parts and what to know before changing it; only parts that changed since the last summary cost again.
    """
    options = SimpleNamespace(**values)
    for name in _OF_OUTLINE if options.summary else _OF_SUMMARY:
        if shared.is_given(options, name):
            option = next(param.opts[-1] for param in command.params if param.name == name)
            raise UsageError(
                f"{option} {'cannot be combined with' if options.summary else 'needs'} --summary"
            )
    if options.summary:
        from repoagent.cli.commands.outline_summary import show_file_summaries

        options.words = options.words or 150
        show_file_summaries(session._replace(no_pager=True), options)
        return Exit.DONE
    return _outline(session, options)


def _outline(session: Session, options: SimpleNamespace) -> int:
    from repoagent.syntax.outline import check_language

    depth, kinds = options.depth, options.kinds
    if depth is not None and depth < 1:
        raise UsageError(f"--depth must be at least 1, not {depth}")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"unknown kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    if options.language is not None:
        check_language(options.language)
    terminal = session.terminal()
    page = Page.of(terminal)
    paths, definitions = _paths(options.files)
    outlines: list[Outline] = []
    left_out: list[Outline] = []
    any_symbols = False
    with nullcontext() if terminal.shows else terminal.working("outlining") as working:
        for number, outline in enumerate(_outlines(paths, definitions, options.language)):
            if outline.kind and len(paths) == 1:
                raise UsageError(f"{outline.path} {outline.reason}")
            if outline.kind or outline.flaws:
                left_out.append(outline)
            if outline.kind:
                continue
            least = min((symbol.depth for symbol in outline.symbols), default=0)
            symbols = tuple(
                symbol
                for symbol in outline.symbols
                if (depth is None or symbol.depth < least + depth) and (not kinds or symbol.kind in kinds)
            )
            outline = outline._replace(symbols=symbols)
            if options.as_json:
                outlines.append(outline)
            elif symbols:
                if len(paths) > 1:
                    name = page.paint(page.shorten(clean(outline.path), page.width), "bold")
                    page.write(["", name] if any_symbols else [name], terminal)
                page.write(_lines(outline, page), terminal)
            any_symbols = any_symbols or bool(symbols)
            if working is not None and number % 20 == 0:
                working.progress("outlining", number / len(paths))
    if options.as_json:  # a flat list of symbols for each file, in order; `depth` has the nesting
        files = [select(each, "path", "language", "lines", "symbols", errors="flaws") for each in outlines]
        skipped = [select(each, "path", reason="kind") for each in left_out if each.kind]
        write_json(terminal, {"files": files, "skipped": skipped})
    _show_left_out(left_out, terminal)
    if not any_symbols:
        terminal.note("nothing found")
    return Exit.DONE if any_symbols else Exit.NOTHING


def _paths(files: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The paths of all files, folders expanded, and the definition requested for each path. Raises UsageError for a
    missing file."""
    from repoagent.git.similar_paths import no_such_file

    paths: dict[str, None] = {}
    definitions: dict[str, str] = {}
    for file in files:
        path, separator, name = file.partition("::")
        if not separator or Path(file).exists():
            path = file
        elif not name:
            raise UsageError(f"no definition after the :: of {file}")
        else:
            definitions[path] = name
        if path != "-" and Path(path).is_dir():
            if path in definitions:
                raise UsageError(f"{path} is a directory; :: needs a file")
            paths.update(dict.fromkeys(_files_below(path)))
        elif path != "-" and not os.path.lexists(path):
            raise no_such_file(path, Path.cwd())
        else:
            paths[path] = None
    return list(paths), definitions


def _files_below(folder: str) -> list[str]:
    """The regular files in a folder: the tracked ones in a repository, else all except hidden ones, sorted. Raises
    UsageError if there are none."""
    from repoagent.git.process import git
    from repoagent.git.worktree import open_worktree

    try:
        open_worktree(Path(folder))
    except UsageError:
        names, which = [], "file"
        for parent, folders, files in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            inside = Path(parent).relative_to(folder)
            names += [str(inside / name) for name in files if not name.startswith(".")]
        names.sort()
    else:
        listed = git(folder, "ls-files", "-z", "--cached", "--", ".").split(b"\0")[:-1]
        names, which = list(dict.fromkeys(map(os.fsdecode, listed))), "file that git knows"
    prefix = "" if folder in (".", "./") else folder.rstrip("/") + "/"
    paths = [path for name in names if _is_regular(path := prefix + name)]
    if not paths:
        raise UsageError(f"{folder} contains no {which}")
    return paths


def _is_regular(path: str) -> bool:
    """Whether it is a file, not a link and not deleted in the work tree."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _outlines(
    paths: Sequence[str], definitions: Mapping[str, str], language: str | None
) -> Iterator[Outline]:
    from repoagent.git.similar_paths import no_such_file
    from repoagent.syntax.outline import MOST_BYTES, Outline, outline_of, pick_symbol, within

    for path in paths:
        if path == "-" and language is None:
            raise UsageError("standard input needs --language")
        try:
            if path == "-":
                data = sys.stdin.buffer.read()
            else:
                with Path(path).open("rb") as file:
                    data = file.read(MOST_BYTES + 1)
        except OSError as error:
            if len(paths) > 1:
                yield Outline(path, "", 0, (), 0, "unreadable", "cannot be read")
                continue
            if isinstance(error, FileNotFoundError):
                raise no_such_file(path, Path.cwd()) from None
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        outline = outline_of(path, data, language)
        if path in definitions and not outline.kind:
            symbol = pick_symbol(path, outline.symbols, definitions[path])
            outline = outline._replace(symbols=within(outline.symbols, symbol))
        yield outline


_TYPES = ("class", "struct", "union", "enum", "interface", "type", "namespace", "impl", "object")
_STYLES = {
    **dict.fromkeys(_TYPES, "blue"),
    **dict.fromkeys(("function", "method", "macro"), "green"),
    **dict.fromkeys(("declaration", "constant", "variable", "entry", "key", "element"), "cyan"),
    **dict.fromkeys(("selector", "rule"), "yellow"),
}
_NAMED = 5  # files of a kind that are named


def _lines(outline: Outline, page: Page) -> Iterator[str]:
    symbols = outline.symbols
    ranges = [
        f"{symbol.first_line}-{symbol.last_line}"
        if symbol.last_line > symbol.first_line
        else f"{symbol.first_line}"
        for symbol in symbols
    ]
    width = max(map(len, ranges))
    least = min(symbol.depth for symbol in symbols)
    for lines, symbol in zip(ranges, symbols, strict=True):
        indent, room = 2 * (symbol.depth - least), None
        if page.width is not None:
            indent = min(indent, page.width // 3)
            room = page.width - width - 2 - indent
        text = page.cut(clean(symbol.signature), room)
        text = _painted(text, symbol) if page.color else text
        yield f"{page.paint(lines.rjust(width), 'dim')}  {' ' * indent}{text}"


def _painted(text: str, symbol: Symbol) -> str:
    """The signature with its name, as a whole word, in the color of its kind."""
    name = clean(symbol.name)
    style = _STYLES.get(symbol.kind)
    if style is None:
        return paint(text, "bold") if symbol.kind == "heading" else text
    start = text.find(name)
    while start > 0 and (text[start - 1] + name[:1]).replace("_", "a").isalnum():
        start = text.find(name, start + 1)
    if start < 0 or not name:
        return text
    return text[:start] + paint(name, "bold", style) + text[start + len(name) :]


def _show_left_out(left_out: Sequence[Outline], terminal: Terminal) -> None:
    """Report skipped files and syntax errors on standard error."""
    if broken := [outline for outline in left_out if not outline.kind]:
        count = sum(outline.flaws for outline in broken)
        where = ", ".join(f"{outline.path} ({outline.flaws})" for outline in broken[:_NAMED])
        more = f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
        near = f"definitions near {'them' if count > 1 else 'it'} may be missing"
        terminal.note(f"{plural(count, 'syntax error')}: {where}{more}; {near}", "yellow")
    if skipped := Counter(outline.kind for outline in left_out if outline.kind):
        why = ", ".join(f"{count} {kind}" for kind, count in skipped.most_common())
        terminal.note(f"skipped {plural(skipped.total(), 'file')}: {why}", "dim")
