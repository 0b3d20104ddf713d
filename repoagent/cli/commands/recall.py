"""`repoagent recall`: search notes, edits, conversations and summaries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page
from repoagent.cli.ui.table import columns
from repoagent.cli.ui.terminal_text import clean
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.memory.search.passages import Kind
    from repoagent.memory.search.search import Hit, SearchResult

KINDS: dict[str, Kind] = {
    "notes": "note",
    "edits": "edit",
    "conversations": "conversation",
    "commits": "commit",
    "summaries": "summary",
}
_SLOW = 25  # files; fewer need no progress

EXAMPLES = """\b
Examples:
  repoagent recall why is the cache shared
  repoagent recall read_config --kind edits   also finds readConfig
  repoagent recall '"order of results"'       a phrase
  repoagent recall timeout --file src/net     about files in a folder

\b
Each result has three lines: the file it is about, with kind and date; the
text; and the plain file and line that contain it, which you may edit. The
exit code is 1 if nothing was found.

Results match any of the words; rare words count more. An identifier is found
by its parts, exact matches first. The only syntax is quotation marks."""


@click.command(epilog=EXAMPLES)
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option(
    "-n", "--limit", type=int, metavar="N", default=10, show_default=True, help="Show at most N results."
)
@click.option(
    "--file", "files", metavar="PATH", multiple=True,
    help="Limit the search to this file or folder. Repeatable.",
)  # fmt: skip
@click.option(
    "--kind", "kinds", type=click.Choice(list(KINDS)), multiple=True,
    help="Search only this kind. Repeatable.",
)  # fmt: skip
@json_option
@pass_session
def command(
    session: Session,
    /,
    *,
    words: tuple[str, ...],
    limit: int,
    files: tuple[str, ...],
    kinds: tuple[str, ...],
    as_json: bool,
) -> int:
    """Search notes, edits, conversations, and the summaries of commits and files.

    The search includes your own edits of these files. It asks no model.
    """
    query = " ".join(words)
    if not query.strip():
        raise UsageError("the query is empty")
    if limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    from repoagent.git.worktree import layout, open_worktree, relative
    from repoagent.memory.search.ranking import parse
    from repoagent.memory.search.search import Search, answer

    if not parse(query).words:
        raise UsageError(f"no words in the query {query!r}")
    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    paths = [relative(worktree, file, cwd) for file in files]
    terminal = session.terminal()
    page = Page.of(terminal)
    how = Search(
        limit=limit,
        kinds=[KINDS[kind] for kind in kinds],
        files=[] if "." in paths else paths,
        width=_snippet_width(page),
    )
    with nullcontext() if terminal.shows and not terminal.tells else _Progress(terminal) as progress:
        result = answer(layout(worktree), query, how, warn=terminal.warn, progress=progress)
    if as_json:
        write_json(terminal, _as_object(result, query))
    elif result.hits:
        for number, hit in enumerate(result.hits):
            page.write([*([""] if number else []), *_block(hit, worktree.top, page)], terminal)
    elif not result.searched:
        raise NothingDone("nothing is remembered in this repository yet; the first edit creates a memory")
    else:
        narrow = " of this kind or about these files" if kinds or files else ""
        terminal.note(f"nothing found{narrow} for {query!r}")
    return Exit.DONE if result.hits else Exit.NOTHING


class _Progress:
    """The progress of indexing, shown only when it takes long."""

    def __init__(self, terminal: Terminal) -> None:
        self._working = terminal.working("reading the memories")
        self._shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *about: object) -> None:
        if self._shown:
            self._working.quiet()

    def __call__(self, done: int, total: int) -> None:
        if done == _SLOW and not self._shown:
            self._working.label(f"reading the memories, {total:,} files")
            self._shown = True
        if self._shown and done % 50 == 0:
            self._working.progress(f"reading the memories, {done:,} of {total:,} files", done / total)


def _as_object(result: SearchResult, query: str) -> dict[str, object]:
    hits = [
        {
            "file": hit.file or None,
            "name": hit.name or None,
            "kind": hit.kind,
            "date": hit.date or None,
            "snippet": hit.snippet,
            "marks": [list(mark) for mark in hit.marks],
            "score": round(hit.score, 4),
            "path": str(hit.path),
            "line": hit.line,
            "stale": hit.stale,
            "also": list(hit.also),
        }
        for hit in result.hits
    ]
    return {"query": query, "hits": hits}


_INDENT = "    "
_LINES = 2  # of a snippet
_IN_A_PIPE = 200  # characters of a snippet
_STYLES = {"note": "yellow", "edit": "green", "conversation": "cyan", "commit": "blue", "summary": "blue"}


def _snippet_width(page: Page) -> int:
    """The number of characters of a snippet."""
    if page.width is None:
        return _IN_A_PIPE
    return min(_LINES * (page.width - len(_INDENT)) - 8, 2 * _IN_A_PIPE)


def _block(hit: Hit, top: Path, page: Page) -> Iterator[str]:
    about = [
        hit.kind if hit.kind not in hit.name else "",
        hit.date,
        "about an older text" if hit.stale else "",
    ]
    rest = "  ".join(filter(None, about))
    where = _one_line(hit.file or hit.name)
    if hit.file and hit.name:
        rest = f"{_one_line(hit.name)}  {rest}".rstrip()
    if page.width is not None:
        where = page.shorten(where, max(12, page.width - columns(rest) - 2))
    yield f"{page.paint(where, 'bold')}  {page.paint(rest, _STYLES[hit.kind])}".rstrip()
    room = None if page.width is None else page.width - len(_INDENT)
    for line in _wrapped(hit, room):
        texts = (page.paint(text, "bold", "red") if marked else text for text, marked in line)
        yield _INDENT + "".join(texts)
    place = page.shorten(_one_line(f"{os.path.relpath(hit.path, top)}:{hit.line}"), room)
    yield _INDENT + page.paint(place, "dim")


def _wrapped(hit: Hit, room: int | None) -> list[list[tuple[str, bool]]]:
    """The snippet in lines of at most `room` columns, each in pieces: (clean text, whether it is a word that fits)."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for start, end in (*hit.marks, (len(hit.snippet), len(hit.snippet))):
        pieces += [(word, False) for word in _words(hit.snippet[at:start])]
        pieces.append((_one_line(hit.snippet[start:end]), True))
        at = end
    lines: list[list[tuple[str, bool]]] = [[]]
    used = 0
    for text, marked in pieces:
        wide = columns(text)
        if room is not None and used + wide > room and used and text.strip():
            lines[-1] = _stripped(lines[-1])
            lines.append([])
            used = 0
        while room is not None and columns(text) > room:
            cut = room
            while columns(text[:cut]) > room:
                cut -= 1
            lines[-1].append((text[:cut], marked))
            lines.append([])
            text = text[cut:]
        if text and (used or text.strip()):
            lines[-1].append((text, marked))
            used += columns(text)
    return [_stripped(line) for line in lines if any(text.strip() for text, _ in line)]


def _words(text: str) -> list[str]:
    """The words of `text` and the spaces between them; a word does not part from what stands at it."""
    found: list[str] = []
    for part in text.split(" "):
        found += [_one_line(part), " "]
    return [part for part in found[:-1] if part]


def _stripped(line: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    while line and line[-1][0] == " ":
        line = line[:-1]
    return line


def _one_line(text: str) -> str:
    return clean(text).replace("\n", "^J").replace("\t", " ")
