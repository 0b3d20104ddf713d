"""`repoagent neighbors`: the files that change together with some files, as a table, JSON or a picture."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.output_style import Page
from repoagent.cli.ui.table import Cell, Column, ago, bar
from repoagent.cli.ui.terminal_text import one_line
from repoagent.errors import UsageError
from repoagent.history.neighbors import Neighborhood
from repoagent.history.render import (
    CommitHeader,
    guidance,
    headline,
    hidden,
    is_weak,
    legend,
    rate,
    scale_of,
    why,
)

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.history.cochange.score import Neighbor

EXAMPLES = """\b
Examples:
  repoagent neighbors src/parser.c            where to look when it changes
  repoagent neighbors src/net --explain       a folder, with the commits
  repoagent neighbors a.py b.py --at v2.0     both together, as of a tag
  repoagent neighbors a.py --format html      a page, opened in the browser
  repoagent neighbors --map -o map.html       the whole repository
  repoagent neighbors a.py -z | xargs -0 wc -l

\b
Columns:
  score     how likely it changes with FILE, 0 to 1; the bar is relative to
            the best row
  together  how many of FILE's analyzed commits change it too
  rate      high: at least half of them; medium: at least a fifth; else low
  last      when one commit last changed both
  why       together: in the same commits; shared partners: both change with
            the same files; current work: in the newest commits of all; like
            name, same folder: by its name and location

Rows with little evidence are hidden unless --weak is used: at most one common
commit out of ten or more, and a score below 0.1. --json prints all rows.

Put a FILE whose name starts with a dash after "--". A deleted file has its
last neighbors; a file that is new to git has candidates by name and folder,
marked as such. No neighbors: exit code 0.

The history comes from an index in .repoagent/history.db, which is created and
updated on use. Until it is complete, the last commits of FILE are used."""


@click.command(epilog=EXAMPLES)
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option(
    "-n", "--limit", type=int, metavar="N", default=20, show_default=True, help="Show at most N rows."
)
@click.option(
    "--min-score",
    type=float,
    metavar="X",
    default=0.0,
    help="Show only rows with a score of at least X, 0 to 1.",
)
@click.option(
    "--at",
    "revision",
    metavar="REV",
    default="HEAD",
    help="Show the neighbors as of a commit, tag or branch.",
)
@click.option(
    "--map", "whole", is_flag=True,
    help="Map the whole repository on a web page: clusters of files that change together, and bridges.",
)  # fmt: skip
@click.option("--weak", is_flag=True, help="Also show rows with little evidence.")
@click.option("--explain", is_flag=True, help="Show the commits behind each row.")
@click.option(
    "--format", "form", type=click.Choice(["table", "dot", "svg", "html"]), default="table",
    help="Print a table, a graph (dot, svg) or a web page (html), which a terminal opens in the browser.",
)  # fmt: skip
@click.option("-z", "nul", is_flag=True, help="Print paths only, each with a NUL byte after it.")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of standard output.")
@json_option
@pass_session
def command(
    session: Session,
    /,
    *,
    files: tuple[str, ...],
    limit: int,
    min_score: float,
    revision: str,
    whole: bool,
    weak: bool,
    explain: bool,
    form: str,
    nul: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """Show which files change together with FILE.

    Files rank higher if they changed in the same commits more often, more recently and with fewer other files. They
    are places to look, not files that must change. FILE may be a folder; several FILEs are combined.
    """
    if whole:
        other = next(
            (name for name, used in (("--json", as_json), ("-z", nul), ("--explain", explain)) if used), ""
        )
        if files or other or form not in ("table", "html"):
            other = other or ("FILE" if files else f"--format {form}")
            raise UsageError(f"--map cannot be combined with {other}")
        _map(session.terminal(), revision, output)
        return
    if not files:
        raise UsageError("no file: name one, or use --map for the whole repository")
    _check(limit, min_score, form, as_json=as_json, nul=nul)
    from pathlib import Path

    from repoagent.git.worktree import open_at_head, relative
    from repoagent.history.neighbors import neighborhood

    cwd = Path.cwd()
    worktree, head = open_at_head(cwd)
    found = neighborhood(
        worktree,
        [relative(worktree, file, cwd) for file in files],
        revision,
        commit=head if revision == "HEAD" else None,
        limit=limit,
        min_score=min_score,
        picture=form != "table",
    )
    commits: Mapping[str, CommitHeader] = {}
    if explain or form in ("svg", "html"):
        from repoagent.history.render import read_headers

        commits = read_headers(worktree.top, found.ids.values())
    terminal = session.terminal()
    if form == "html" and output is None and terminal.shows:
        from repoagent.cli.ui.terminal import show_page

        show_page(terminal, _text(found, commits, form, terminal, weak=weak, as_json=as_json), "neighbors")
        return
    if not nul:
        _deliver(terminal, _text(found, commits, form, terminal, weak=weak, as_json=as_json), output, cwd)
        return
    names = "".join(f"{os.fsdecode(row.path)}\0" for row in found.rows if weak or not is_weak(row))
    if output in (None, "-"):
        terminal.result(names)
    else:
        _deliver(terminal, names, output, cwd)


def _map(terminal: Terminal, revision: str, output: str | None) -> None:
    from pathlib import Path

    from repoagent.git.worktree import open_worktree
    from repoagent.history.map_html import map_page
    from repoagent.history.repository_map import repository_map

    cwd = Path.cwd()
    text = map_page(repository_map(open_worktree(cwd), revision))
    if output is None and terminal.shows:
        from repoagent.cli.ui.terminal import show_page

        show_page(terminal, text, "map")
        return
    _deliver(terminal, text, output, cwd)


def _check(limit: int, min_score: float, form: str, *, as_json: bool, nul: bool) -> None:
    if limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    if not 0 <= min_score <= 1:
        raise UsageError(f"--min-score must be between 0 and 1, not {min_score:g}")
    if as_json and form != "table":
        raise UsageError(f"--json cannot be combined with --format {form}")
    if nul and (as_json or form != "table"):
        raise UsageError("-z cannot be combined with --json or --format")


def _text(
    found: Neighborhood,
    commits: Mapping[str, CommitHeader],
    form: str,
    terminal: Terminal,
    *,
    weak: bool,
    as_json: bool,
) -> str:
    if as_json:
        return render_json(found, commits)
    if form == "table":
        return table(found, commits, Page.of(terminal, least=1), time.time(), weak=weak)
    from repoagent.history.graph_output import draw

    return draw(form, found, commits)


def _deliver(terminal: Terminal, text: str, output: str | None, cwd: Path) -> None:
    if output is None or output == "-":
        terminal.styled(text)
        return
    from repoagent.cli.ui.terminal import write_to

    write_to(cwd / output, text.encode("utf-8", "surrogateescape"), "-o")
    terminal.note(f"written to {output}")


VERSION = 1


def render_json(found: Neighborhood, commits: Mapping[str, CommitHeader]) -> str:
    """Bytes of paths that are not UTF-8 are surrogate escapes; commits are full ids, or objects from `commits`."""
    rows = [
        {
            "path": os.fsdecode(row.path),
            "score": round(row.score, 4),
            "together": row.together,
            "commits": row.commits,
            "rate": rate(row.together, row.commits),
            "last": None if row.last is None else _date(row.last),
            "reasons": list(row.reasons),
            "weak": is_weak(row),
            "evidence": [_commit(found.ids[number], commits) for number in row.evidence],
        }
        for row in found.rows
    ]
    content = {
        "version": VERSION,
        "paths": [os.fsdecode(path) for path in found.paths],
        "revision": found.revision,
        "commit": found.commit or None,
        "state": found.state,
        "note": found.note or None,
        "commits": found.looked_at,
        "neighbors": rows,
    }
    import json

    return json.dumps(content, indent=2) + "\n"


def _commit(commit: str, headers: Mapping[str, CommitHeader]) -> object:
    header = headers.get(commit)
    if header is None:
        return {"commit": commit} if headers else commit
    return {
        "commit": commit,
        "short": header.short,
        "date": header.date,
        "author": header.author,
        "subject": header.subject,
    }


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


COLUMNS = (
    Column("file", cut="middle", least=28),
    Column("score"),
    Column("together", right=True),
    Column("rate"),
    Column("last", dropped=1),
    Column("why", dropped=2),
)
_RATE_STYLE = {"high": "green", "medium": "yellow", "low": "dim"}
EXPLAINED = 10  # commits behind a row
_WIDE, _MEDIUM = 110, 76  # columns from which numbers and two reasons are shown, and how long ago in words


def table(
    found: Neighborhood, commits: Mapping[str, CommitHeader], page: Page, now: float, *, weak: bool = True
) -> str:
    """The heading, a line per row with the commits behind it if `commits` has them, and a legend; `now` is a Unix time.
    Without `weak`, weak rows are only counted."""
    left_out = 0 if weak else sum(map(is_weak, found.rows))
    shown = found._replace(rows=tuple(row for row in found.rows if weak or not is_weak(row)))
    lines = [*_sentence(headline(shown), page, "bold")]
    if found.note:
        lines += _sentence(found.note, page, "yellow")
    if shown.rows:
        rows = list(_rows(shown, commits, page, now))
        lines += ["", *rows, ""]
        reasons = shown.rows if "why" in rows[0] else ()  # a narrow terminal drops that column
        for sentence in (guidance(shown), legend(reasons)):
            lines += _sentence(sentence, page, "dim")
    if left_out:
        lines += _sentence(hidden(left_out), page, "dim")
    return "".join(f"{line}\n" for line in lines)


def _rows(found: Neighborhood, commits: Mapping[str, CommitHeader], page: Page, now: float) -> Iterator[str]:
    scale = scale_of(found.rows)
    rows = [_cells(row, scale(row.score), page, now) for row in found.rows]
    below = {}
    if commits:
        below = {number: list(_behind(row, found, commits, page)) for number, row in enumerate(found.rows)}
    return page.table(COLUMNS, rows, below)


def _cells(row: Neighbor, share: float, page: Page, now: float) -> tuple[Cell, ...]:
    none = "-" if page.ascii else "–"
    wide = page.width is None or page.width >= _WIDE
    medium = wide or (page.width or 0) >= _MEDIUM
    score = bar(share, 10 if wide else 8 if medium else 6, ascii_only=page.ascii)
    often = rate(row.together, row.commits)
    percent = f"{round(100 * row.together / row.commits):>3}% " if often and wide else ""
    return (
        (one_line(os.fsdecode(row.path)), "path"),
        (score + (f" {row.score:.2f}" if wide else ""), "cyan"),
        (f"{row.together} of {row.commits}" if row.together else none,),
        (percent + often if often else none, _RATE_STYLE[often or "low"]),
        (none if row.last is None else ago(now - row.last, short=not medium),),
        (why(row.reasons[: 2 if wide else 1], short=not wide), "dim"),
    )


def _behind(
    row: Neighbor, found: Neighborhood, commits: Mapping[str, CommitHeader], page: Page
) -> Iterator[str]:
    """The newest commits behind a row, each cut where the terminal ends."""
    for number in row.evidence[:EXPLAINED]:
        commit = commits.get(found.ids[number])
        if commit is None:
            yield f"    {found.ids[number][:12]} is missing"
            continue
        date, short = one_line(commit.date[:10]), one_line(commit.short)
        subject = one_line(commit.subject) or "(no subject)"
        line = page.cut(f"    {date} {short} {one_line(commit.author)}: {subject}")
        head = len(date) + 5
        yield page.paint(line[:head], "dim") + page.paint(short, "yellow") + line[head + len(short) :]
    if row.together > EXPLAINED:
        yield f"    and {row.together - EXPLAINED} more"


def _sentence(text: str, page: Page, *styles: str) -> Iterator[str]:
    return page.sentence(one_line(text), *styles)
