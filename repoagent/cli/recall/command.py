"""`repoagent recall`: search what was noted, asked, said and summarized."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.memory.recall import Answer, Kind

VERSION = 1
KINDS: dict[str, Kind] = {
    "notes": "note",
    "edits": "edit",
    "conversations": "conversation",
    "commits": "commit",
    "summaries": "summary",
}
_SLOW = 25  # files: fewer are read before anybody could read a line about it

EXAMPLES = """\b
Examples:
  repoagent recall why is the cache shared
  repoagent recall read_config --kind edits   also finds readConfig
  repoagent recall '"order of results"'       these words, in this order
  repoagent recall timeout --file src/net     about files in a folder

\b
Each find has three lines: the file it is about, with kind and date; what was
said; and the plain file and line where that stands, to be read and changed.
The exit code is 1 when nothing was found.

Any of the words counts, rare ones more; a name of code is found by its parts
and, before anything else, by itself. Nothing but quotation marks is syntax."""


@click.command(epilog=EXAMPLES)
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option(
    "-n", "--limit", type=int, metavar="N", default=10, show_default=True, help="Show at most N results."
)
@click.option(
    "--file", "files", metavar="PATH", multiple=True,
    help="Only what is about this file, or files in this folder; may be repeated.",
)  # fmt: skip
@click.option(
    "--kind", "kinds", type=click.Choice(list(KINDS)), multiple=True,
    help="Only what is of this kind; may be repeated.",
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

    They are searched as they are now, what you have changed by hand too. No model is asked.
    """
    query = " ".join(words)
    if not query.strip():
        raise UsageError("the query is empty: say what to search for")
    if limit < 1:
        raise UsageError(f"--limit {limit} leaves nothing to show: say 1 or more")
    from repoagent.memory.recall.ask import Search, answer
    from repoagent.memory.recall.query import parse
    from repoagent.repo.worktree import layout, open_worktree, relative

    if not parse(query).words:
        raise UsageError(f"there is no word in the query {query!r}: say at least one to search for")
    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    paths = [relative(worktree, file, cwd) for file in files]
    terminal = session.terminal()
    from repoagent.cli.recall.hits import snippet_width

    how = Search(
        limit=limit,
        kinds=[KINDS[kind] for kind in kinds],
        files=[] if "." in paths else paths,
        width=snippet_width(terminal),
        patient=False,
    )
    with nullcontext() if terminal.shows and not terminal.tells else _Progress(terminal) as progress:
        found = answer(layout(worktree), query, how, warn=terminal.warn, progress=progress)
    if as_json:
        terminal.result(_json(found, query, worktree.top))
    elif found.hits:
        from repoagent.cli.recall.hits import show

        show(found, worktree.top, terminal)
    elif not found.searched:
        raise NothingDone(
            "nothing is remembered in this repository yet: the first edit makes the first memory"
        )
    else:
        narrow = " (of this kind, about these files)" if kinds or files else ""
        terminal.note(f"nothing that is remembered{narrow} fits {query!r}")
    from repoagent.memory.recall import catch_up

    sys.stdout.flush()
    if catch_up(layout(worktree), terminal.warn):
        terminal.note("files were changed in place since: ask again to have that searched too", "dim")
    return Exit.DONE if found.hits else Exit.NOTHING


class _Progress:
    """Says that the index is being made, once that takes long enough to be noticed."""

    def __init__(self, terminal: Terminal) -> None:
        self._working = terminal.working("reading what is remembered")
        self._shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *about: object) -> None:
        if self._shown:
            self._working.quiet()

    def __call__(self, done: int, total: int) -> None:
        if done == _SLOW and not self._shown:
            self._working.label(f"reading what is remembered, {total:,} files")
            self._shown = True
        if self._shown and done % 50 == 0:
            self._working.progress(f"reading what is remembered, {done:,} of {total:,} files", done / total)


def _json(found: Answer, query: str, top: Path) -> str:
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
