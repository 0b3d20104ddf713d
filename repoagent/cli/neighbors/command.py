"""`repoagent neighbors`: which files change with some files, as a table, as data or as a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.screen.terminal import Terminal
    from repoagent.history.evidence import Told
    from repoagent.history.neighbors import Neighborhood

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
  score     how surely it changes with FILE, 0 to 1; the bar is a share of
            the best one
  together  in how many of FILE's commits that were looked at it changed too
  rate      high from half of them on, medium from a fifth on, else low
  last      when both last changed in one commit
  why       together: in the same commits; shared partners: both change with
            the same files; current work: in the newest commits of all; like
            name, same folder: by what it is called and where it is

Pairs with little evidence are hidden unless --weak is used: at most one common
commit, of ten or more, and a score below 0.1. --json has them all.

A FILE whose name starts with a dash comes after "--". A deleted file has its
last neighbors; one that git does not know yet has candidates by name and
folder, marked as such. No neighbor at all is an answer too, exit code 0.

The history is read from an index in .repoagent/history.db, which is made and
kept up to date on use. While it is being made, the last commits of FILE itself
answer at once."""


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
    help="Map the whole repository as a web page: clusters of files that change together, and bridges.",
)  # fmt: skip
@click.option("--weak", is_flag=True, help="Show pairs with little evidence, too.")
@click.option("--explain", is_flag=True, help="Show the commits behind each row.")
@click.option(
    "--format", "form", type=click.Choice(["table", "dot", "svg", "html"]), default="table",
    help="Show a table, or draw a picture: graphviz, image or web page. On a terminal a page opens in the browser.",
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

    A file is in the table because it was changed in the same commits: the more often, the more recently and the fewer
    other files were in them, the surer. It is a place to look, not something that must change. FILE may be a folder;
    several are looked at together.
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
        raise UsageError("no file given: name one, or use --map for the whole repository")
    _check(limit, min_score, form, as_json=as_json, nul=nul)
    from pathlib import Path

    from repoagent.history.neighbors import neighborhood
    from repoagent.repo.worktree import open_at_head, relative

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
    told: Mapping[str, Told] = {}
    if explain or form in ("svg", "html"):
        from repoagent.history.evidence import tell

        told = tell(worktree.top, found.ids.values())
    terminal = session.terminal()
    if form == "html" and output is None and terminal.shows:
        from repoagent.cli.screen.output import show_page

        show_page(terminal, _text(found, told, form, terminal, weak=weak, as_json=as_json), "neighbors")
        return
    if not nul:
        _deliver(terminal, _text(found, told, form, terminal, weak=weak, as_json=as_json), output, cwd)
        return
    from repoagent.history.wording import is_weak

    names = "".join(f"{os.fsdecode(row.path)}\0" for row in found.rows if weak or not is_weak(row))
    if output in (None, "-"):
        terminal.result(names)
    else:
        _deliver(terminal, names, output, cwd)


def _map(terminal: Terminal, revision: str, output: str | None) -> None:
    from pathlib import Path

    from repoagent.history.picture.map import map_page
    from repoagent.history.repository_map import repository_map
    from repoagent.repo.worktree import open_worktree

    cwd = Path.cwd()
    text = map_page(repository_map(open_worktree(cwd), revision))
    if output is None and terminal.shows:
        from repoagent.cli.screen.output import show_page

        show_page(terminal, text, "map")
        return
    _deliver(terminal, text, output, cwd)


def _check(limit: int, min_score: float, form: str, *, as_json: bool, nul: bool) -> None:
    if limit < 1:
        raise UsageError(f"--limit {limit} leaves nothing to show: say 1 or more")
    if not 0 <= min_score <= 1:
        raise UsageError(f"--min-score {min_score:g} is no score: say a number from 0 to 1")
    if as_json and form != "table":
        raise UsageError(f"--json and --format {form} are two forms of the answer: take one of them")
    if nul and (as_json or form != "table"):
        raise UsageError("-z and --json or --format are two forms of the answer: take one of them")


def _text(
    found: Neighborhood,
    told: Mapping[str, Told],
    form: str,
    terminal: Terminal,
    *,
    weak: bool,
    as_json: bool,
) -> str:
    if as_json:
        from repoagent.cli.neighbors import as_json as neighbors_json

        return neighbors_json.render(found, told)
    if form == "table":
        from repoagent.cli.neighbors.table import render

        return render(found, told, terminal, weak=weak)
    from repoagent.history.picture import draw

    return draw(form, found, told)


def _deliver(terminal: Terminal, text: str, output: str | None, cwd: Path) -> None:
    if output is None or output == "-":
        terminal.styled(text)
        return
    from repoagent.cli.screen.output import write_to

    write_to(cwd / output, text.encode("utf-8", "surrogateescape"), "-o")
    terminal.note(f"written to {output}")
