"""`repoagent memory gc`: put away memories that have lost their file."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

from repoagent.cli.memory.common import VERSION, amount, count, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import columns, shorten
from repoagent.errors import Exit

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.memory.archive.gc import Collected, Judged
    from repoagent.memory.archive.keep import Forgotten

EXAMPLES = """\b
Examples:
  repoagent memory gc                     says what would be put away
  repoagent memory gc --apply
  repoagent memory gc --older-than 0 --apply
  repoagent memory import .repoagent/archive/NAME.tar.gz    brings one back

A memory stays as long as its file, or one like it, is in any work tree, at the
tip of any branch or in a stash. Nothing is deleted: each memory that is put
away becomes an archive in .repoagent/archive/.

Where conversations.keep_days is set, what was said before that goes too, and
of it a line each stays among the notes. That can't be brought back."""


@click.command("gc", epilog=EXAMPLES)
@click.option(
    "--older-than", metavar="DAYS", type=click.IntRange(min=0), default=14, show_default=True,
    help="Take only those unchanged for so many days.",
)  # fmt: skip
@click.option(
    "--apply", "-y", "--yes", "apply", is_flag=True, help="Archive them; without it they are only listed."
)
@json_option
@pass_session
def command(session: Session, /, *, older_than: int, apply: bool, as_json: bool) -> int:
    """Put away memories whose file is gone everywhere. Without --apply it is only said which these are."""
    from repoagent.cli.program.settle import settle
    from repoagent.memory.archive import collect, forget_conversations
    from repoagent.memory.archive.keep import Forgotten

    here = opened(session)
    if apply:
        settle(here.worktree, here.terminal)
    found = collect(here.layout, here.worktree, days=older_than, apply=apply, warn=here.terminal.warn)
    days = here.settings.whole_or_none("conversations.keep_days")
    said = Forgotten()
    if days is not None:
        said = forget_conversations(here.layout, days, apply=apply, warn=here.terminal.warn)
    if as_json:
        here.terminal.result(_json(found, said, apply=apply))
    else:
        _show(here, found, apply=apply)
        _show_said(here, said, days, apply=apply)
    wanted = "put away" if apply else "orphan"
    return Exit.DONE if said or any(one.verdict == wanted for one in found.judged) else Exit.NOTHING


def _show(here: Here, found: Collected, *, apply: bool) -> None:
    terminal = here.terminal
    wide = max(40, terminal.width) if terminal.shows else None
    rows = [(one_line(one.memory.identity.path), amount(one.size), _day(one), one) for one in found.judged]
    column = min(
        max((columns(row[0]) for row in rows), default=0), 40 if wide is None else max(14, wide // 3)
    )
    for path, size, day, one in rows:
        where = path if wide is None else shorten(path, column)
        head = f"{where}{' ' * (column - columns(where))}  {size:>8}  {day}  "
        rest = one_line(_rest(here, one))
        if wide is not None:
            rest = shorten(rest, max(8, wide - columns(head)))
        style = None if one.verdict == "kept" else "yellow"
        terminal.styled(f"{head}{paint(rest, style) if terminal.color and style else rest}\n")
    chosen = [one for one in found.judged if one.verdict == ("put away" if apply else "orphan")]
    size = amount(sum(one.size for one in chosen))
    if chosen and apply:
        terminal.note(f"{count(len(chosen), 'memory')} ({size}) put away in .repoagent/archive/")
    elif chosen:
        terminal.note(
            f"{count(len(chosen), 'memory')} ({size}) to be put away: `repoagent memory gc --apply` does it"
        )
    else:
        kept = f"; {len(rows)} without a file here, kept" if rows else ""
        terminal.note(f"nothing to put away among {count(found.memories, 'memory')}{kept}")


def _show_said(here: Here, said: Forgotten, days: int | None, *, apply: bool) -> None:
    if not said:
        return
    inside = [
        (said.exchanges, "exchange"),
        (said.unfinished, "conversation of an unfinished edit"),
        (said.copies, "earlier copy"),
        (said.runs, "past run"),
    ]
    what = ", ".join(
        count(number, thing) if " " not in thing else _several(number, thing)
        for number, thing in inside
        if number
    )
    verb = "let go" if apply else "to be let go"
    here.terminal.note(f"older than {days} days, {verb}: {what}, {amount(said.bytes)}")


def _several(number: int, thing: str) -> str:
    if number == 1:
        return f"1 {thing}"
    plural = {
        "conversation of an unfinished edit": "conversations of unfinished edits",
        "earlier copy": "earlier copies",
        "past run": "past runs",
    }
    return f"{number:,} {plural[thing]}"


def _day(one: Judged) -> str:
    return datetime.fromtimestamp(one.used).date().isoformat() if one.used else "          "


def _rest(here: Here, one: Judged) -> str:
    if one.verdict == "kept":
        return f"kept: {one.why}"
    return "orphan" if one.archive is None else f"put away: {here.shown(one.archive)}"


def _json(found: Collected, said: Forgotten, *, apply: bool) -> str:
    memories = [
        {
            "path": one.memory.identity.path,
            "memory": one.memory.folder.name,
            "bytes": one.size,
            "changed": datetime.fromtimestamp(one.used).astimezone().isoformat(timespec="seconds"),
            "verdict": one.verdict,
            "why": one.why or None,
            "archive": None if one.archive is None else str(one.archive),
        }
        for one in found.judged
    ]
    content = {
        "version": VERSION,
        "applied": apply,
        "memories": memories,
        "conversations": {**vars(said)},
    }
    return json.dumps(content, indent=2) + "\n"
