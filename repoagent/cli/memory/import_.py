"""`repoagent memory import`: take the memories of an archive in."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.memory.common import VERSION, count, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import columns, shorten
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.memory.archive import Archive, Arrival, Mode

EXAMPLES = """\b
Examples:
  repoagent memory import team.tar.gz --dry-run
  repoagent memory import team.tar.gz
  ssh host cat notes.tar.gz | repoagent memory import -

A memory goes to the file at its path, if the memory or git knows that file.
Otherwise it is kept without a file: `repoagent memory relink` ties it by hand.
Where there is a memory already, what is new is added, nothing twice. What
arrives is marked as imported; keys and tokens in it are masked.

1 when all of it is here already."""

_MEANING = {
    "new": "new",
    "orphaned": "no file",
    "merged": "united",
    "same": "known",
    "kept": "ours kept",
    "replaced": "replaced",
}
_STYLES = {"new": "green", "merged": "green", "orphaned": "yellow", "replaced": "yellow"}


@click.command("import", epilog=EXAMPLES)
@click.argument("file", metavar="FILE|-", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Show what would be imported; do nothing.")
@click.option(
    "--merge", "mode", flag_value="merge", default=True, help="Merge theirs into ours (the default)."
)
@click.option("--ours", "mode", flag_value="ours", help="Skip files that have a memory here.")
@click.option("--theirs", "mode", flag_value="theirs", help="Archive ours where theirs is imported.")
@json_option
@pass_session
def command(session: Session, /, *, file: str, dry_run: bool, mode: Mode, as_json: bool) -> int:
    """Take the memories of an archive in, each to the file here that it is about."""
    from repoagent.memory.archive import Import, bring
    from repoagent.memory.archive.unite import called

    here = opened(session)
    archive, own = _read(here, file)
    if archive.object_format != here.worktree.object_format:
        here.terminal.warn(
            f"the archive is of a repository with {archive.object_format}, so its memories come in without a file"
        )
    source = "" if own else called("" if file == "-" else Path(file).name)
    how = Import(source, mode, dry_run)
    arrivals = bring(here.layout, here.worktree, archive, how, warn=here.terminal.warn)
    if as_json:
        here.terminal.result(_json(arrivals, dry_run=dry_run))
    else:
        _show(here, arrivals, dry_run=dry_run)
    changed = any(one.outcome not in ("same", "kept") for one in arrivals)
    return Exit.DONE if changed else Exit.NOTHING


def _read(here: Here, file: str) -> tuple[Archive, bool]:
    """The archive, and whether it was put away here."""
    from repoagent.memory.archive import read_archive
    from repoagent.memory.archive.gc import archive_folder

    if file == "-":
        if here.terminal.reads:
            raise UsageError("there is no archive on standard input: pipe one in, or name a file")
        return read_archive(sys.stdin.buffer, "standard input"), False
    path = here.cwd / file
    own = os.path.realpath(path.parent) == os.path.realpath(archive_folder(here.layout))
    try:
        with path.open("rb") as stream:
            if not path.is_file():
                raise UsageError(f"{file} is not a file")
            return read_archive(stream, file, own=own), own
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no such file: {file}") from error
    except IsADirectoryError as error:
        raise UsageError(f"{file} is a folder: name an archive") from error


def _show(here: Here, arrivals: list[Arrival], *, dry_run: bool) -> None:
    terminal = here.terminal
    wide = max(40, terminal.width) if terminal.shows else None
    paths = [one_line(one.at or one.path) for one in arrivals]
    column = min(max(map(columns, paths), default=0), 40 if wide is None else max(16, wide // 2 - 8))
    for one, path in zip(arrivals, paths, strict=True):
        where = path if wide is None else shorten(path, column)
        meaning = _MEANING[one.outcome].ljust(9)
        style = _STYLES.get(one.outcome)
        shown = paint(meaning, style) if terminal.color and style else meaning
        rest = one_line(_rest(one))
        if wide is not None:
            rest = shorten(rest, max(8, wide - column - 13))
        terminal.styled(f"{where}{' ' * (column - columns(where))}  {shown}  {rest}".rstrip() + "\n")
    counts: Counter[str] = Counter(one.outcome for one in arrivals)
    said = ", ".join(
        f"{counts[outcome]} {meaning}" for outcome, meaning in _MEANING.items() if counts[outcome]
    )
    would = "would come in: " if dry_run else ""
    terminal.note(f"{would}{count(len(arrivals), 'memory')}: {said}" if arrivals else "the archive is empty")
    if counts["orphaned"] and not dry_run:
        terminal.note(
            "those without a file: `repoagent memory relink FILE --from NAME` ties one by hand", "dim"
        )


def _rest(one: Arrival) -> str:
    """What is new, and why it has no file here."""
    numbers = [(one.counts.notes, "note"), (one.counts.edits, "edit"), (one.counts.exchanges, "exchange")]
    new = ", ".join(count(number, thing) for number, thing in numbers if number)
    moved = one.why or (f"there {one.path}" if one.at and one.at != one.path else "")
    named = f"as {one.folder}" if one.outcome == "orphaned" else ""
    return "; ".join(filter(None, [new, moved, named]))


def _json(arrivals: list[Arrival], *, dry_run: bool) -> str:
    memories = [
        {
            "path": one.path,
            "at": one.at,
            "memory": one.folder,
            "outcome": one.outcome,
            "why": one.why or None,
            "notes": one.counts.notes,
            "edits": one.counts.edits,
            "exchanges": one.counts.exchanges,
        }
        for one in arrivals
    ]
    return json.dumps({"version": VERSION, "dry_run": dry_run, "memories": memories}, indent=2) + "\n"
