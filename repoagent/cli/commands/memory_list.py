"""`repoagent memory show` (what is remembered about a file) and `repoagent memory list` (all memories)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.memory import (
    file_argument,
    find_memory,
    find_target_named,
    quoted_name,
    size_text,
)
from repoagent.cli.options import number_option
from repoagent.cli.session import Repository, pass_repository, select_fields
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import one_line, plural
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.memory.listing import MemoryRow
    from repoagent.memory.lookup import FileMemory

SHOW_EXAMPLES = """\b
Examples:
  repoagent memory show src/app.py
  repoagent memory show app-py-1f2e3d4c         the memory of a deleted file
  repoagent memory show src/app.py --json | jq -r '.notes[].text'

Notes about code that the file no longer contains are marked. "files" lists the
plain files that store all of this; you may edit them."""


@click.command("show", epilog=SHOW_EXAMPLES)
@file_argument
@pass_repository
def show_command(repo: Repository, /, *, file: str) -> None:
    """Show what is remembered about FILE: notes, edits, how the file was recognized, and where all of this is stored.

    This changes nothing: the memory of a moved file is not attached to its new path.
    """
    from repoagent.memory.identity.record import came_along
    from repoagent.memory.listing import MemoryRow
    from repoagent.memory.lookup import load_file_memory

    target = find_target_named(repo, file)
    memory = find_memory(repo, target)
    file_memory = load_file_memory(repo.layout, repo.worktree, memory, target.data, warn=repo.terminal.warn)
    if file_memory.broken and not repo.as_json:
        repo.terminal.warn(file_memory.broken)
    page = Page.of(repo.terminal, most=120)
    identity = memory.identity
    conversation = {
        "file": memory.conversation,
        "turns": len(file_memory.turns),
        **select_fields(file_memory, "exchanges", "broken"),
    }
    content = {
        **_row_object(MemoryRow(memory.folder.name, file_memory.measure, file_memory.location), repo),
        "notes": [
            {**vars(status.note), **select_fields(status, missing_names="gone", about_older_text="older")}
            for status in file_memory.notes
        ],
        "edits": [edit.to_dict() for edit in file_memory.edits],
        "keys": dict(identity.keys),
        "worktrees": dict(identity.places),
        **select_fields(identity, "earlier_paths", "rekeyings", excluded_paths="strangers"),
        "came_with_repository": came_along(memory.folder),
        "conversation": conversation,
        "cleared": [{"folder": entry.folder, "parts": list(entry.parts)} for entry in file_memory.cleared],
        "archived": file_memory.archived,
    }
    repo.emit(content, _lines(file_memory, repo, page))


_FILES = ("notes.md", "conversation.md", "edits.jsonl", "identity.json")
_EDIT_STYLES = {
    **dict.fromkeys(("committed", "written", "redone"), "green"),
    **dict.fromkeys(("failed", "refused"), "red"),
}


def _lines(file_memory: FileMemory, repo: Repository, page: Page) -> Iterator[str]:
    """The page of a file: a heading and sections."""
    from repoagent.memory.identity.record import came_along

    memory, location = file_memory.memory, file_memory.location
    name = quoted_name(memory, location.path if location.state == "live" else "\n")

    def section(title: str) -> list[str]:
        return ["", page.paint(title, "bold")]

    def item(text: str, *styles: str) -> list[str]:
        return page.wrap(one_line(text), *styles, indent="  ", hang="  ")

    state = "orphaned: the file was not found"
    if location.state == "moved":
        next_use = "the next edit of that file, or note about it, moves the memory"
        state = f"moved: its content is now at {location.at}; {next_use}"
    elif location.at:
        state = f"live, in another work tree: {location.at}"
    elif location.state == "live":
        state = "live"
    used = Page(None).ago(file_memory.measure.used)
    lines = [page.paint(one_line(location.path), "bold")]
    lines += item(f"{state}; {size_text(file_memory.measure.size)}, last used {used}")
    if came_along(memory.folder):
        lines += item("tracked by git: someone else may have written it")
    lines += section(f"notes ({len(file_memory.notes):,})") if file_memory.notes else []
    for status in file_memory.notes:
        note = status.note
        stamp = f"{note.day}{f' by {note.source}' if note.source else ''}: " if note.day else ""
        stale = f" [gone: {', '.join(status.gone)}]" if status.gone else ""
        stale += " [about an older version]" if status.older else ""
        lines += item(f"- {stamp}{note.text}{stale}", *(["dim"] if stale else []))
    lines += section(f"edits ({len(file_memory.edits):,})") if file_memory.edits else []
    for edit in file_memory.edits:
        outcome = f"{edit.state}{f' {edit.commit[:12]}' if edit.commit else ''}"
        model = f" ({edit.model})" if edit.model else ""
        first, *rest = item(f"{edit.time[:10]} {outcome}: {' '.join(edit.request.split())}{model}")
        style = _EDIT_STYLES.get(edit.state)
        lines += [first.replace(outcome, page.paint(outcome, style), 1) if style else first, *rest]
    if file_memory.broken:
        lines += [*section("conversation"), *item(f"unreadable: repair {repo.shown(memory.conversation)}")]
    elif file_memory.turns:
        conversation = shlex.quote(f"file:{location.path}")
        size = f"{plural(file_memory.exchanges, 'exchange')} with {plural(len(file_memory.turns), 'turn')}"
        lines += [
            *section("conversation"),
            *item(f"{size}; print it with: repoagent conversation show {conversation}"),
        ]
    lines += section("how the file was recognized")
    for step in memory.identity.rekeyings:
        if step.reason != "another inode" or repo.terminal.verbose:  # an editor may create one with each save
            lines += item(f"{step.time[:10]} {step.reason}: {step.path}")
    if memory.identity.strangers:
        lines += item(f"detached from: {', '.join(memory.identity.strangers)}")
    lines += section("files")
    for file in (*(memory.folder / each for each in _FILES), *file_memory.archived):
        if file.is_symlink() or file.exists():
            lines.append(f"  {size_text(file.lstat().st_size):>7}  {one_line(repo.shown(file))}")
    for entry in file_memory.cleared:
        lines.append(f"  {'':>7}  {one_line(repo.shown(entry.folder))}  cleared: {', '.join(entry.parts)}")
    if file_memory.cleared:
        lines += item(f"restore the last cleared entries with: repoagent memory clear --undo {name}")
    yield from lines


ON_A_TERMINAL = 2_000  # rows; listing more takes long
_STYLES = {"live": "green", "moved": "yellow", "orphaned": "red"}
_COLUMNS = (
    Column("size", right=True),
    Column("edits", right=True),
    Column("notes", right=True, dropped=1),
    Column("last use"),
    Column("state"),
    Column("path", cut="middle", least=26),
)
LIST_EXAMPLES = """\b
Examples:
  repoagent memory list
  repoagent memory list src --sort used -n 10
  repoagent memory list --state orphaned --state moved
  repoagent memory list -z | xargs -0 -n1 repoagent memory show

\b
Columns:
  size      of all entries, including the archive
  edits     number of requested edits, including refused ones
  notes     number of notes in notes.md
  last use  when an entry was last added
  state     live: the file exists; moved: its content is at another path,
            which is shown; orphaned: the file was not found"""


@click.command("list", epilog=LIST_EXAMPLES)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--state", "states", type=click.Choice(list(_STYLES)), multiple=True,
    help="List only memories in this state. Repeatable.",
)  # fmt: skip
@click.option(
    "--sort", type=click.Choice(["path", "used", "size", "edits"]), default="path", show_default=True,
    help="Sort by path, or put the most recently used, largest or most edited first.",
)  # fmt: skip
@number_option(
    "-n", "--limit", type=click.IntRange(min=0), metavar="N",
    help=f"List at most N memories; 0 for all.  [default: {ON_A_TERMINAL:,} on a terminal]",
)  # fmt: skip
@click.option("-z", "nul", is_flag=True, help="Print only paths, each followed by a NUL byte.")
@pass_repository
def list_command(repo: Repository, /, **values: Any) -> int:
    """List what is remembered about each file; with PATHs, only about those files and folders."""
    from repoagent.memory.listing import memory_rows

    options, terminal = SimpleNamespace(**values), repo.terminal
    if options.nul and repo.as_json:
        raise UsageError("-z cannot be combined with --json")
    limit = ON_A_TERMINAL if terminal.output_tty and not repo.as_json else None
    limit = limit if options.limit is None else options.limit or None
    paths = [repo.relative(path) for path in options.paths]
    most = None if limit is None else limit + 1
    found = memory_rows(
        repo.layout, repo.worktree, terminal.warn,
        paths=paths, states=options.states, order=options.sort, limit=most,
    )  # fmt: skip
    matches = list(found)
    listed = matches[:limit]
    if not listed and not repo.as_json and not paths and not options.states:
        raise NothingDone(
            "nothing is remembered in this repository yet; the first edit or note creates a memory"
        )
    if options.nul:
        terminal.result("".join(f"{row.location.path}\0" for row in listed))
        return Exit.DONE if listed else Exit.NOTHING
    page, notes = Page.of(terminal), []
    if not listed:
        notes.append("no memories match")
    elif len(matches) > len(listed):
        notes.append(f"showing the first {len(listed):,}; see more with -n N, or name a folder")
    lines: list[list[Cell]] = []
    for row in listed:
        measure, location = row.measure, row.location
        path: Cell = (one_line(location.path), "path")
        if location.at:
            half = None if page.width is None else max(12, (page.width - 46) // 2)
            path = f"{page.shorten(path[0], half)} → {page.shorten(one_line(location.at), half)}"
        numbers = (
            size_text(measure.size),
            f"{measure.edits:,}",
            f"{measure.notes:,}",
            page.ago(measure.used),
        )
        lines.append([*numbers, (location.state, _STYLES[location.state]), path])
    table = page.table(_COLUMNS, lines) if lines else ()
    repo.emit({"memories": [_row_object(row, repo) for row in listed]}, table, notes=notes)
    return Exit.DONE if listed else Exit.NOTHING


def _row_object(row: MemoryRow, repo: Repository) -> dict[str, object]:
    used = datetime.fromtimestamp(row.measure.used, timezone.utc)
    return {
        "path": row.location.path,
        "memory": row.name,
        "folder": repo.layout.memory / row.name,
        **select_fields(row.measure, "size", "edits", "notes"),
        "last_used": used.isoformat(timespec="seconds"),
        **select_fields(row.location, "state", current_path="at"),
    }
