"""`repoagent recall`: search notes, edits, conversations and summaries."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import clean, paint
from repoagent.cli.ui.table import columns, shorten
from repoagent.cli.ui.terminal import has_utf8
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.memory.search.passages import Kind
    from repoagent.memory.search.search import Hit, SearchResult

VERSION = 1
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
    help="Search only what is about this file or folder. Repeatable.",
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
    how = Search(
        limit=limit,
        kinds=[KINDS[kind] for kind in kinds],
        files=[] if "." in paths else paths,
        width=snippet_width(terminal),
    )
    with nullcontext() if terminal.shows and not terminal.tells else _Progress(terminal) as progress:
        found = answer(layout(worktree), query, how, warn=terminal.warn, progress=progress)
    if as_json:
        terminal.result(_json(found, query, worktree.top))
    elif found.hits:
        show(found, worktree.top, terminal)
    elif not found.searched:
        raise NothingDone("nothing is remembered in this repository yet; the first edit creates a memory")
    else:
        narrow = " of this kind or about these files" if kinds or files else ""
        terminal.note(f"nothing found{narrow} for {query!r}")
    return Exit.DONE if found.hits else Exit.NOTHING


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


def _json(found: SearchResult, query: str, top: Path) -> str:
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
        for hit in found.hits
    ]
    content = {"version": VERSION, "query": query, "hits": hits}
    return json.dumps(content, indent=2) + "\n"


LEAST = 40  # columns
_INDENT = "    "
_LINES = 2  # of a snippet
_IN_A_PIPE = 200  # characters of a snippet
_STYLES = {"note": "yellow", "edit": "green", "conversation": "cyan", "commit": "blue", "summary": "blue"}


def snippet_width(terminal: Terminal) -> int:
    """The number of characters of a snippet."""
    if not terminal.shows:
        return _IN_A_PIPE
    return min(_LINES * (max(LEAST, terminal.width) - len(_INDENT)) - 8, 2 * _IN_A_PIPE)


def show(found: SearchResult, top: Path, terminal: Terminal) -> None:
    """Write the results."""
    wide = max(LEAST, terminal.width) if terminal.shows else None
    blocks = ["".join(f"{line}\n" for line in _block(hit, top, wide, terminal.color)) for hit in found.hits]
    text = "\n".join(blocks)
    terminal.styled(text if has_utf8(os.environ) else text.replace("…", "."))


def _block(hit: Hit, top: Path, wide: int | None, color: bool) -> Iterator[str]:
    about = [
        hit.kind if hit.kind not in hit.name else "",
        hit.date,
        "about an older text" if hit.stale else "",
    ]
    rest = "  ".join(part for part in about if part)
    where = _one_line(hit.file or hit.name)
    if hit.file and hit.name:
        rest = f"{_one_line(hit.name)}  {rest}".rstrip()
    if wide is not None:
        where = shorten(where, max(12, wide - columns(rest) - 2))
    yield f"{_painted(where, color, 'bold')}  {_painted(rest, color, _STYLES[hit.kind])}".rstrip()
    for line in _wrapped(hit, None if wide is None else wide - len(_INDENT)):
        yield _INDENT + "".join(_painted(text, color and marked, "bold", "red") for text, marked in line)
    place = _one_line(f"{os.path.relpath(hit.path, top)}:{hit.line}")
    if wide is not None:
        place = shorten(place, wide - len(_INDENT))
    yield _INDENT + _painted(place, color, "dim")


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


def _painted(text: str, color: bool, *styles: str) -> str:
    return paint(text, *styles) if color else text
