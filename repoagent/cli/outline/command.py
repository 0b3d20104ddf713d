"""`repoagent outline`: what files define and where, as a tree or as data."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.landing.options import is_given
from repoagent.cli.program.command import Command
from repoagent.cli.program.model_options import max_cost_option, model_option, record_option, reply_option
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.split.symbols.files import Outline

KINDS = (
    "function", "method", "class", "struct", "union", "enum", "interface", "type", "namespace", "macro", "impl",
    "object", "declaration", "constant", "variable", "heading", "key", "entry", "selector", "rule", "element",
)  # fmt: skip

EXAMPLES = """\b
Examples:
  repoagent outline src/parser.c           its functions, types and macros
  repoagent outline src --depth 1 --kind class  all classes below a folder
  repoagent outline app.py::Server.run     a definition, and what is in it
  git show v1.0:app.py | repoagent outline - --language python
  repoagent outline README.md --json | jq '.files[].symbols[].name'
  repoagent outline --summary src/app.py   what it is for, in a model's words

Each line shows the lines of a definition, with its comments and decorators,
and its head; what it contains is indented below it. Markdown and text files
have headings; JSON, YAML and XML their first two levels, and more where these
are large.

Of a folder, the files that git tracks are shown; those without a grammar are
counted in one line. The exit code is 1 when nothing was found."""
LEAST_WORDS, MOST_WORDS = 20, 2_000  # of a summary
_OPTION_GROUPS = {
    "Options": ("depth", "kinds", "language", "summary"),
    "Options for --summary": ("words", "model", "refresh", "yes", "max_cost", "record", "reply"),
}


@click.command(cls=Command, epilog=EXAMPLES, option_groups=_OPTION_GROUPS)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--depth", type=int, metavar="N", help="Show only the N outermost levels.")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Show only this kind. Repeatable.")
@click.option("--language", metavar="NAME", help="The language of FILE, if its name does not tell.")
@click.option("--summary", is_flag=True, help="Have a model summarize what each FILE is for.")
@click.option(
    "--words", type=click.IntRange(LEAST_WORDS, MOST_WORDS), metavar="N",
    help="The length of a summary, roughly.  [default: 150]",
)  # fmt: skip
@model_option
@click.option("--refresh", is_flag=True, help="Ask again for what a model wrote; keep your corrections.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a summary that takes many calls.")
@max_cost_option
@record_option
@reply_option
@json_option
@pass_session
def command(session: Session, /, **options: Any) -> int:
    """Show what FILE defines: functions, classes, types, headings, keys, with their lines.

    FILE may be a folder, FILE::NAME for one definition, or - for standard input. With --summary, print what FILE is
    for, its main parts, and what to know before changing it; only what changed since the last time is paid for again.
    """
    given = SimpleNamespace(**options)
    _refuse_conflicts(given)
    if given.summary:
        from repoagent.cli.outline.summary import show_summary

        given.words = given.words or 150
        show_summary(session._replace(no_pager=True), given)
        return Exit.DONE
    return _outline(session, given.files, given.depth, given.kinds, given.language, as_json=given.as_json)


def _refuse_conflicts(given: SimpleNamespace) -> None:
    groups = list(_OPTION_GROUPS.values())
    wrong = [name for name in (groups[0][:-1] if given.summary else groups[1]) if is_given(given, name)]
    if wrong:
        option = next(param.opts[-1] for param in command.params if param.name == wrong[0])
        raise UsageError(f"{option} {'cannot be combined with' if given.summary else 'needs'} --summary")


def _outline(
    session: Session,
    files: tuple[str, ...],
    depth: int | None,
    kinds: tuple[str, ...],
    language: str | None,
    *,
    as_json: bool,
) -> int:
    from repoagent.cli.outline.table import show, show_left_out
    from repoagent.split.symbols.files import check_language

    if depth is not None and depth < 1:
        raise UsageError(f"--depth {depth} leaves nothing to show: say 1 or more")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"there is no kind {unknown[0]!r}; there are: {', '.join(KINDS)}")
    if language is not None:
        check_language(language)
    terminal = session.terminal()
    paths, named = _paths(files)
    outlines = (_narrowed(outline, depth, kinds) for outline in _outlines(paths, named, language))
    left_out: list[Outline] = []
    found: list[Outline] = []
    something = False
    with nullcontext() if terminal.shows else terminal.working("outlining") as working:
        for number, outline in enumerate(outlines):
            if outline.kind:
                if len(paths) == 1:
                    raise UsageError(f"{outline.path} {outline.reason}")
                left_out.append(outline)
                continue
            if outline.flaws:
                left_out.append(outline)
            if as_json:
                found.append(outline)
            elif outline.symbols:
                show(outline, terminal, head=len(paths) > 1, gap=something)
            something = something or bool(outline.symbols)
            if working is not None and number % 20 == 0:
                working.progress("outlining", number / len(paths))
    if as_json:
        from repoagent.cli.outline.as_json import render

        terminal.styled(render(found, [outline for outline in left_out if outline.kind]))
    show_left_out(left_out, terminal, something=something)
    return Exit.DONE if something else Exit.NOTHING


def _paths(files: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The paths of all files, those of folders too, and which definition is asked for by the path. Raises UsageError
    for what is not there."""
    from repoagent.repo.missing import no_such_file
    from repoagent.split.symbols.files import files_below

    paths: dict[str, None] = {}
    named: dict[str, str] = {}
    for file in files:
        path, separator, name = file.partition("::")
        if separator and not Path(file).exists():
            if not name:
                raise UsageError(f"say which definition after the :: of {file}")
            named[path] = name
        else:
            path = file
        if path == "-":
            paths[path] = None
        elif Path(path).is_dir():
            if path in named:
                raise UsageError(f"{path} is a folder: name a file before the ::")
            paths.update(dict.fromkeys(files_below(Path(path), path)))
        elif not os.path.lexists(path):
            raise no_such_file(path, Path.cwd())
        else:
            paths[path] = None
    return list(paths), named


def _outlines(paths: Sequence[str], named: Mapping[str, str], language: str | None) -> Iterator[Outline]:
    from repoagent.split.symbols.files import outline_of, read_file, unread, within

    for path in paths:
        if path == "-":
            if language is None:
                raise UsageError("say with --language what standard input is written in")
            data = sys.stdin.buffer.read()
        else:
            try:
                data = read_file(Path(path), path)
            except UsageError:
                if len(paths) == 1:
                    raise
                yield unread(path)
                continue
        outline = outline_of(path, data, language)
        if path in named and not outline.kind:
            from repoagent.split.symbols.find import pick_symbol

            outline = outline._replace(
                symbols=within(outline.symbols, pick_symbol(path, outline.symbols, named[path]))
            )
        yield outline


def _narrowed(outline: Outline, depth: int | None, kinds: Sequence[str]) -> Outline:
    """Only the outermost levels, and only these kinds. Depths count from what is asked for."""
    symbols = outline.symbols
    least = min((symbol.depth for symbol in symbols), default=0)
    if depth is not None:
        symbols = tuple(symbol for symbol in symbols if symbol.depth < least + depth)
    if kinds:
        symbols = tuple(symbol for symbol in symbols if symbol.kind in kinds)
    return outline._replace(symbols=symbols)
