"""`repoagent activity`: what was done in this repository, and what it cost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.activity.cost import BY, first_day, show_cost
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.activity.events import Activity, Event
    from repoagent.activity.html import Around
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.repo.worktree import WorkTree

VERSION = 1
_LIMIT = 20  # lines
_AROUND = 6  # hot files whose neighborhood is looked up
_BESIDE = 4  # files of each

EXAMPLES = """\b
Examples:
  repoagent activity
  repoagent activity --since 7d --html week.html
  repoagent activity --since ever --json | jq '.days'
  repoagent activity --cost --by model --since 7d

The exit code is 1 when there is nothing to show."""


@click.command(epilog=EXAMPLES)
@click.option(
    "--since", metavar="DAY", default="30d", show_default=True, help="YYYY-MM-DD, today, Nd or ever."
)
@click.option("-n", "--limit", type=int, metavar="N", help="Show at most N lines.  [default: 20]")
@click.option(
    "--html", "html", metavar="FILE", help="Write a page with charts to FILE; - is standard output."
)
@click.option("--cost", is_flag=True, help="Show what calls of models cost, in all your repositories.")
@click.option(
    "--by",
    type=click.Choice(list(BY)),
    metavar="WHAT",
    help="With --cost: sum up by day (the default), model, repository, run, file or call.",
)
@click.option("--here", is_flag=True, help="With --cost: count only this repository and its work trees.")
@json_option
@pass_session
def command(
    session: Session,
    /,
    *,
    since: str,
    limit: int | None,
    html: str | None,
    cost: bool,
    by: str | None,
    here: bool,
    as_json: bool,
) -> int:
    """Show the edits, undos, reviews and runs of this repository, and what models cost.

    It reads the files in .repoagent/ and your own list of calls; nothing is sent. With --cost, calls that failed count
    too, and a call about several files counts for each with its share.
    """
    if (by or here) and not cost:
        raise UsageError("--by and --here need --cost")
    if cost:
        if html is not None or limit is not None:
            raise UsageError("--cost cannot be combined with --html or --limit")
        show_cost(session, by=by or "day", since=since, here=here, as_json=as_json)
        return Exit.DONE
    limit = _LIMIT if limit is None else limit
    if limit < 1:
        raise UsageError(f"--limit {limit} leaves nothing to show: say 1 or more")
    if html is not None and as_json:
        raise UsageError("--json and --html are two forms of the answer: take one of them")
    from repoagent.activity.events import gather
    from repoagent.repo.worktree import open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    terminal = session.terminal()
    activity = gather(worktree, since=first_day(since), warn=terminal.warn)
    words = (
        "from the beginning"
        if since == "ever"
        else f"since {since if since[-1:] != 'd' else first_day(since)}"
    )
    if html is not None:
        _write(terminal, _page(worktree, activity, words), html, cwd)
    elif as_json:
        terminal.result(_json(activity))
    elif activity.events or activity.spent:
        from repoagent.cli.activity.table import render

        terminal.styled(render(activity, limit, terminal))
    else:
        terminal.note(f"nothing was done here {words}: the first edit or review will be listed")
    return Exit.DONE if activity.events or activity.spent else Exit.NOTHING


def _page(worktree: WorkTree, activity: Activity, words: str) -> str:
    from repoagent.activity.html import page

    return page(activity, words, _around(worktree, activity))


def _around(worktree: WorkTree, activity: Activity) -> list[Around]:
    """The neighborhoods of the hottest files that are still there."""
    from repoagent.activity.html import Around
    from repoagent.activity.sums import by_file
    from repoagent.history.neighbors import neighborhood

    found = []
    hot = [one.name for one in by_file(activity) if one.applied + one.refused + one.undone]
    for path in [path for path in hot if _is_file(worktree.top / path)][:_AROUND]:
        rows = neighborhood(worktree, [path], limit=_BESIDE).rows
        near = tuple(
            (
                os.fsdecode(row.path),
                f"{row.together} of {row.commits}" if row.together else "",
            )
            for row in rows
        )
        found.append(Around(path, near))
    return found


def _is_file(path: Path) -> bool:
    """Whether it is there; a name that was written down may be one that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _write(terminal: Terminal, text: str, target: str, cwd: Path) -> None:
    if target == "-":
        terminal.result(text)
        return
    from repoagent.cli.screen.output import write_to

    write_to(cwd / target, text.encode("utf-8"), "--html", private=True)
    terminal.note(f"written to {target}")


def _json(activity: Activity) -> str:
    from dataclasses import asdict

    from repoagent.activity.sums import by_day, by_file, by_model, refusals

    content = {
        "version": VERSION,
        "events": [_event(event) for event in activity.events],
        "days": [asdict(one) for one in by_day(activity)],
        "models": [asdict(one) for one in by_model(activity)],
        "files": [asdict(one) for one in by_file(activity)],
        "refused": [{"reason": reason, "edits": count} for reason, count in refusals(activity)],
    }
    return json.dumps(content, indent=2) + "\n"


def _event(event: Event) -> dict[str, object]:
    from dataclasses import asdict

    return {**asdict(event), "time": event.time.isoformat(timespec="seconds")}
