"""`repoagent neighbors`: the files that change together with given files, as a table, JSON or a picture."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import rows_option
from repoagent.cli.session import Session, json_option, pass_session, select_fields
from repoagent.cli.ui.table import Cell, Column, Page, age_text, share_bar
from repoagent.display_text import one_line
from repoagent.errors import UsageError
from repoagent.history import render
from repoagent.history.render import CommitHeader, is_weak, together_rate

if TYPE_CHECKING:
    from repoagent.history.cochange import Neighbor
    from repoagent.history.neighbors import Neighborhood

EXAMPLES = """\b
Examples:
  repoagent neighbors src/parser.c            where to look when it changes
  repoagent neighbors src/net --explain       a folder, with the commits
  repoagent neighbors a.py b.py --at v2.0     both together, as of a tag
  repoagent neighbors a.py --format html      a page, opened in the browser
  repoagent neighbors --map -o map.html       the whole repository
  repoagent neighbors a.py --json | jq -r '.neighbors[].path'

"rate" is high if at least half of FILE's commits also change the neighbor, and
medium if at least a fifth do. Rows with little evidence are hidden unless you
use --weak; --json prints all rows. `repoagent help docs/neighbors.md` explains
the columns.

If the name of FILE starts with a dash, put it after "--". The exit code is 0
even without neighbors.

The history comes from an index in .repoagent/history.db, which is created and
updated when needed. Until it is complete, only the last commits that touch
FILE are used."""


@click.command(epilog=EXAMPLES)
@click.argument("files", metavar="[FILE]...", nargs=-1)
@rows_option()
@click.option(
    "--at",
    "revision",
    metavar="REV",
    default="HEAD",
    help="Show the neighbors as of a commit, tag or branch.",
)
@click.option(
    "--map", "whole", is_flag=True,
    help="Map the whole repository on a web page: clusters of files that change together.",
)  # fmt: skip
@click.option("--weak", is_flag=True, help="Also show rows with little evidence.")
@click.option("--explain", is_flag=True, help="Show the commits behind each row.")
@click.option(
    "--format", "form", type=click.Choice(["table", "svg", "html"]), default="table",
    help="Print a table, an image (svg) or a web page (html); on a terminal, html opens in the browser.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of standard output.")
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Show which files change together with FILE.

    A file ranks higher if it changed with FILE more often, more recently, and in commits with fewer other files. These
    files are worth a look, but may need no change. FILE may be a folder; several FILEs are combined.
    """
    options = SimpleNamespace(**values)
    flags = {"--json": options.as_json, "--explain": options.explain}
    as_other = [f"--format {options.form}"] if options.form != "table" else []
    if options.whole:
        others = [name for name, used in flags.items() if used] + ["FILE"] * bool(options.files)
        if others := others + (as_other if options.form != "html" else []):
            raise UsageError(f"--map cannot be combined with {others[0]}")
    elif not options.files:
        raise UsageError("no file: name one, or use --map for the whole repository")
    elif options.as_json and as_other:
        raise UsageError(f"--json cannot be combined with {as_other[0]}")
    from repoagent.cli.ui.terminal import deliver_document
    from repoagent.git.worktree import open_at_head, open_worktree, relative_path
    from repoagent.history.neighbors import neighborhood

    cwd, form, output = Path.cwd(), options.form, options.output
    terminal = session.terminal()
    if options.whole:
        from repoagent.history.graph_output import render_html
        from repoagent.history.repository_map import repository_map

        page = render_html(repository_map(open_worktree(cwd), options.revision))
        deliver_document(terminal, page, output, browser="map")
        return
    worktree, head = open_at_head(cwd)
    result = neighborhood(
        worktree,
        [relative_path(worktree, file, cwd) for file in options.files],
        options.revision,
        commit=head if options.revision == "HEAD" else None,
        limit=options.limit,
        picture=form != "table",
    )
    commits: Mapping[str, CommitHeader] = {}
    if options.explain or form in ("svg", "html"):
        commits = render.read_headers(worktree.top, result.ids.values())
    if options.as_json:
        deliver_document(terminal, _json(result, commits), output)
    elif form == "table":
        page_of = Page.of(terminal, least=1)
        text = table(result, commits, page_of, time.time(), weak=options.weak)
        if output in (None, "-"):
            terminal.styled(text)
        else:
            deliver_document(terminal, text, output)
    else:
        from repoagent.history import graph_output
        from repoagent.history.graph import neighbors_graph

        graph = neighbors_graph(result, commits)
        if form == "svg":
            deliver_document(terminal, graph_output.svg(graph), output)
        else:
            deliver_document(terminal, graph_output.render_html(graph), output, browser="neighbors")


def _json(result: Neighborhood, commits: Mapping[str, CommitHeader]) -> str:
    """The JSON text. Invalid UTF-8 in paths is surrogate-escaped; commits are full ids, or objects from `commits`."""
    import json

    from repoagent.api.results import neighbors_result

    def evidence(commit: str) -> object:
        if commit not in commits:
            return {"commit": commit} if commits else commit
        header = vars(commits[commit])
        return {name: header[name] for name in ("commit", "short", "date", "author", "subject")}

    answer = neighbors_result(result)
    names = ("path", "score", "together", "commits", "reasons", "rate", "last", "weak")
    rows = [
        {**select_fields(row, *names), "evidence": [evidence(commit) for commit in row.evidence]}
        for row in answer.neighbors
    ]
    of_answer = select_fields(answer, "paths", "revision", "commit", "state", "note", "commits")
    return json.dumps({"version": 1, **of_answer, "neighbors": rows}, indent=2) + "\n"


COLUMNS = (
    Column("file", cut="middle", least=28),
    Column("score"),
    Column("together", right=True),
    Column("rate"),
    Column("last", dropped=1),
    Column("why", dropped=2),
)
_RATE_STYLE = {"high": "green", "medium": "yellow", "low": "dim"}
EXPLAINED = 10  # commits shown for a row


def table(
    result: Neighborhood, commits: Mapping[str, CommitHeader], page: Page, now: float, *, weak: bool = True
) -> str:
    """The table as text: a heading, one line per row (with its commits if `commits` has them), and a legend; `now` is a
    Unix time. Without `weak`, weak rows are only counted."""

    def sentence(text: str, *styles: str) -> list[str]:
        return page.wrap(one_line(text), *styles)

    shown = result._replace(rows=tuple(row for row in result.rows if weak or not is_weak(row)))
    lines = [*sentence(render.headline(shown), "bold")]
    if result.note:
        lines += sentence(result.note, "yellow")
    if shown.rows:
        scale = render.scale_of(shown.rows)
        cells: list[tuple[Cell, ...]] = []
        for row in shown.rows:
            often = together_rate(row.together, row.commits)
            cells.append(
                (
                    (one_line(os.fsdecode(row.path)), "path"),
                    (f"{share_bar(scale(row.score), 8)} {row.score:.2f}", "cyan"),
                    (f"{row.together} of {row.commits}" if row.together else "–",),
                    (often or "–", _RATE_STYLE[often or "low"]),
                    ("–" if row.last is None else age_text(now - row.last),),
                    (render.reasons_text(row.reasons[:2], short=True), "dim"),
                )
            )
        below = {}
        if commits:
            below = {at: list(_behind(row, shown, commits, page)) for at, row in enumerate(shown.rows)}
        rows = list(page.table(COLUMNS, cells, below))
        reasons = shown.rows if "why" in rows[0] else ()  # a narrow terminal omits that column
        lines += ["", *rows, "", *sentence(render.guidance(shown), "dim")]
        lines += sentence(render.legend(reasons), "dim")
    if left_out := len(result.rows) - len(shown.rows):
        lines += sentence(render.hidden(left_out), "dim")
    return "".join(f"{line}\n" for line in lines)


def _behind(
    row: Neighbor, result: Neighborhood, commits: Mapping[str, CommitHeader], page: Page
) -> Iterator[str]:
    """The newest commits of a row, each cut to the width of the page."""
    for number in row.evidence[:EXPLAINED]:
        commit = commits.get(result.ids[number])
        if commit is None:
            yield f"    {result.ids[number][:12]} is missing"
            continue
        date, short = one_line(commit.date[:10]), one_line(commit.short)
        subject = one_line(commit.subject) or "(no subject)"
        line = page.cut(f"    {date} {short} {one_line(commit.author)}: {subject}")
        head = len(date) + 5
        yield page.paint(line[:head], "dim") + page.paint(short, "yellow") + line[head + len(short) :]
    if row.together > EXPLAINED:
        yield f"    and {row.together - EXPLAINED} more"
