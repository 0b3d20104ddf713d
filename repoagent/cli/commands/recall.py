"""`repoagent recall`: search notes, edits, conversations and summaries."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import click

from repoagent.cli.options import rows_option
from repoagent.cli.session import Repository, pass_repository, select_fields
from repoagent.cli.ui.table import Page
from repoagent.display_text import display_width, plural, sanitize
from repoagent.errors import Exit, NothingDone, UsageError

KINDS = {  # value of --kind: kind and color
    "notes": ("note", "yellow"),
    "edits": ("edit", "green"),
    "conversations": ("conversation", "cyan"),
    "commits": ("commit", "blue"),
    "summaries": ("summary", "blue"),
}
_STYLES = dict(KINDS.values())

EXAMPLES = """\b
Examples:
  repoagent recall why is the cache shared
  repoagent recall read_config --kind edits   also finds readConfig
  repoagent recall '"order of results"'       a phrase
  repoagent recall timeout --file src/net     about files in a folder

\b
A result has three lines: the file it is about, with kind and date; the text;
and the file and line where it is stored, which you may edit. The exit code is
1 if nothing was found.

Results match any of the words; rare words count more. An identifier is found
by its parts, exact matches first. The only special syntax is quotation marks
around a phrase."""


@click.command(epilog=EXAMPLES)
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@rows_option("results", 10)
@click.option(
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    help="Limit the search to this file or folder. Repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(list(KINDS)),
    multiple=True,
    help="Search only entries of this kind. Repeatable.",
)
@pass_repository
def command(repo: Repository, /, **values: Any) -> int:
    """Search notes, edits, conversations, and the summaries of commits and files.

    The search also covers entries that you edited by hand. It uses no model.
    """
    from repoagent.memory.search.search import SearchOptions, answer_query, parse_query

    options, terminal = SimpleNamespace(**values), repo.terminal
    query = " ".join(options.words)
    if not query.strip():
        raise UsageError("the query is empty")
    if not parse_query(query).words:
        raise UsageError(f"the query {query!r} has no words to search for")
    paths = [repo.relative(file) for file in options.files]
    page = Page.of(terminal)
    width = _IN_A_PIPE
    if page.width is not None:
        width = min(_LINES * (page.width - len(_INDENT)) - 8, 2 * _IN_A_PIPE)
    kinds: list[Any] = [KINDS[kind][0] for kind in options.kinds]
    search = SearchOptions(limit=options.limit, kinds=kinds, files=[] if "." in paths else paths, width=width)
    with terminal.working("searching") if terminal.moves else nullcontext() as working:

        def show_progress(done: int, total: int) -> None:
            if working is not None:
                working.progress("reading the memories", done / total)

        result = answer_query(repo.layout, query, search, warn=terminal.warn, progress=show_progress)
    hits = [
        {
            **select_fields(hit, "file", "name", "kind", "date", "snippet", "path", "line", "stale", "also"),
            "marks": [list(mark) for mark in hit.marks],
            "score": round(hit.score, 4),
        }
        for hit in result.hits
    ]
    if not (result.searched or repo.as_json):
        raise NothingDone("nothing is remembered in this repository yet; the first edit creates a memory")
    lines: list[str] = []
    for hit in result.hits:
        kind = hit.kind if hit.kind not in hit.name else ""
        older = "about an older version" if hit.stale else ""
        also = f"and {plural(len(hit.also), 'more file')}" if hit.also else ""
        rest = "  ".join(
            filter(None, [hit.file and _one_line(hit.name), kind, _one_line(hit.date), also, older])
        )
        where = _one_line(hit.file or hit.name)
        if page.width is not None:
            where = page.shorten(where, max(12, page.width - display_width(rest) - 2))
        head = f"{page.paint(where, 'bold')}  {page.paint(rest, _STYLES[hit.kind])}".rstrip()
        lines += [*([""] if lines else []), head]
        marked = {_one_line(hit.snippet[start:end]) for start, end in hit.marks}
        pattern = re.compile("|".join(map(re.escape, sorted(marked, key=len, reverse=True))) or r"(?!)")
        for line in page.wrap(_one_line(hit.snippet), indent=_INDENT):
            lines.append(pattern.sub(lambda match: page.paint(match[0], "bold", "red"), line))
        room = None if page.width is None else page.width - len(_INDENT)
        location = page.shorten(_one_line(f"{os.path.relpath(hit.path, repo.worktree.top)}:{hit.line}"), room)
        lines.append(_INDENT + page.paint(location, "dim"))
    narrow = " with this --kind or --file" if kinds or paths else ""
    notes = [] if hits else [f"nothing found for {query!r}{narrow}"]
    repo.emit({"query": query, "hits": hits}, lines, notes=notes)
    return Exit.DONE if result.hits else Exit.NOTHING


_INDENT = "    "
_LINES = 2  # of a snippet on a terminal
_IN_A_PIPE = 200  # characters of a snippet


def _one_line(text: str) -> str:
    return sanitize(text).replace("\n", "^J").replace("\t", " ")
