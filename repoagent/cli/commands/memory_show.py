"""`repoagent memory show` and `repoagent memory list`: what is remembered about one file, and about which files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.memory import VERSION, amount, complete, count, name, opened
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.progress import Fold
from repoagent.cli.ui.sanitize import clean, display_width, one_line, paint
from repoagent.cli.ui.table import ago, columns, shorten
from repoagent.cli.ui.terminal import has_utf8
from repoagent.errors import Exit, NothingDone, UsageError
from repoagent.memory.identity.record import came_along

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.commands.memory import MemoryCommand
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.memory.edit_records import EditRecord
    from repoagent.memory.lookup import FileMemory, NoteStatus, Row

SHOW_EXAMPLES = """\b
Examples:
  repoagent memory show src/app.py
  repoagent memory show src/app.py --conversation | less
  repoagent memory show app-py-1f2e3d4c         a memory whose file is gone
  repoagent memory show src/app.py --json | jq -r '.notes[].text'

Notes about code that is gone from the file are marked. Under "files" are the
plain files that all of this comes from; you may edit them."""


@click.command("show", epilog=SHOW_EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.option("--conversation", is_flag=True, help="Print the conversation only, turn by turn.")
@json_option
@pass_session
def show_command(session: Session, /, file: str, conversation: bool, as_json: bool) -> None:
    """Show what is remembered about FILE: notes, edits, how it was recognized, and the files that hold it.

    This changes nothing: it does not attach the memory to a file that was moved.
    """
    from repoagent.memory.lookup import load_file_memory, require_memory

    here = opened(session)
    found = here.named(file)
    memory = require_memory(here.layout, here.worktree, found, warn=here.terminal.warn)
    told = load_file_memory(here.layout, here.worktree, memory, found.data, warn=here.terminal.warn)
    if as_json:
        here.terminal.result(json.dumps(_as_object(told, here, turns=conversation), indent=2) + "\n")
        return
    if told.broken:
        here.terminal.warn(told.broken)
    here.terminal.styled(conversation_text(told, here.terminal) if conversation else page(told, here))


def _as_object(told: FileMemory, here: MemoryCommand, *, turns: bool) -> dict[str, object]:
    from repoagent.memory.lookup import Row

    memory, identity = told.memory, told.memory.identity
    row = as_object(Row(memory.folder.name, told.measure, told.standing), here)
    notes = [{**vars(one.note), "gone": list(one.gone), "about_older_text": one.older} for one in told.notes]
    conversation: dict[str, object] = {
        "file": str(memory.conversation),
        "turns": len(told.turns),
        "exchanges": told.exchanges,
        "broken": told.broken or None,
    }
    if turns:
        conversation["content"] = [
            {"role": turn.role, "text": turn.text, "meta": dict(turn.meta)} for turn in told.turns
        ]
    return {
        "version": VERSION,
        **row,
        "notes": notes,
        "edits": [edit.to_dict() for edit in told.edits],
        "keys": dict(identity.keys),
        "places": {place: vars(seen) for place, seen in identity.places.items()},
        "earlier_paths": list(identity.earlier_paths),
        "strangers": list(identity.strangers),
        "rekeyings": [vars(one) for one in identity.rekeyings],
        "came_with_repository": came_along(memory.folder),
        "can_be_taken_back": None if told.undo is None else told.undo.before,
        "conversation": conversation,
        "cleared": [{"folder": str(put.folder), "parts": list(put.parts)} for put in told.cleared],
        "archived": [str(path) for path in told.archived],
    }


_LEAST, _MOST = 40, 120
_KEPT = ("notes.md", "conversation.md", "edits.jsonl", "identity.json")
_STATES = {"committed": "green", "written": "green", "redone": "green", "failed": "red", "refused": "red"}


def page(told: FileMemory, here: MemoryCommand) -> str:
    """The whole page, painted as the terminal says."""
    lines = [*_Page(told, here).lines()]
    text = "".join(f"{line}\n" for line in lines)
    return text if has_utf8(os.environ) else text.replace("…", "...").replace("→", "->")


def conversation_text(told: FileMemory, terminal: Terminal) -> str:
    """The conversation, turn by turn, without terminal control characters."""
    parts = []
    for turn in told.turns:
        about = " · ".join(
            f"{key} {turn.meta[key]}" for key in ("time", "model", "kind", "state") if key in turn.meta
        )
        head = f"{turn.role}  {one_line(about)}".rstrip()
        parts.append(f"{paint(head, 'bold') if terminal.color else head}\n{clean(turn.text)}\n")
    return "\n".join(parts)


class _Page:
    def __init__(self, told: FileMemory, here: MemoryCommand) -> None:
        self._told, self._here = told, here
        terminal = here.terminal
        self._wide = max(_LEAST, min(_MOST, terminal.width)) if terminal.shows else None
        self._color = terminal.color

    def lines(self) -> Iterator[str]:
        yield from self._head()
        yield from self._section("notes", len(self._told.notes), map(self._note, self._told.notes))
        yield from self._section("edits", len(self._told.edits), map(self._edit, self._told.edits))
        yield from self._conversation()
        yield from self._identity()
        yield from self._files()

    def _head(self) -> Iterator[str]:
        told, standing = self._told, self._told.standing
        yield self._paint(name(standing.path), "bold")
        if standing.state == "moved":
            state = f"moved: its content is now at {name(standing.at)}; the next edit or note there moves the memory"
        elif standing.at:
            state = f"live, in another work tree: {name(standing.at)}"
        else:
            state = "live" if standing.state == "live" else "orphaned: the file is gone, its memory remains"
        used = ago(max(0.0, time.time() - told.measure.used))
        yield from self._wrapped(f"{state}; {amount(told.measure.size)}, last used {used}")
        if came_along(told.memory.folder):
            yield from self._wrapped(
                "tracked by git: it came with the repository, and others may have written it"
            )

    def _section(self, title: str, number: int, items: Iterable[Iterable[str]]) -> Iterator[str]:
        if number:
            yield ""
            yield self._paint(f"{title} ({number:,})", "bold")
            for item in items:
                yield from item

    def _note(self, one: NoteStatus) -> Iterator[str]:
        note = one.note
        by = f" by {note.source}" if note.source else ""
        stamp = f"{note.day}{by}: " if note.day else ""
        stale = f" [gone: {', '.join(one.gone)}]" if one.gone else ""
        older = " [about an older text]" if one.older else ""
        styles = ("dim",) if stale or older else ()
        yield from self._wrapped(one_line(f"- {stamp}{note.text}{stale}{older}"), "  ", *styles)

    def _edit(self, edit: EditRecord) -> Iterator[str]:
        commit = f" {edit.commit[:12]}" if edit.commit else ""
        state = f"{edit.state}{commit}"
        model = f" ({edit.model})" if edit.model else ""
        request = " ".join(edit.request.split())
        line = one_line(f"{edit.time[:10]} {state}: {request}{model}")
        first, *rest = self._wrapped(line, "  ")
        style = _STATES.get(edit.state)
        yield first.replace(state, paint(state, style), 1) if self._color and style else first
        yield from rest

    def _conversation(self) -> Iterator[str]:
        told = self._told
        if told.turns or told.broken:
            yield ""
            yield self._paint("conversation", "bold")
            size = f"{count(told.exchanges, 'exchange')} of {count(len(told.turns), 'turn')}"
            yield from self._wrapped(
                "unreadable: repair it with `repoagent memory edit --conversation`"
                if told.broken
                else f"{size}; print it with --conversation"
            )

    def _identity(self) -> Iterator[str]:
        identity, told = self._told.memory.identity, self._told
        yield ""
        yield self._paint("how it was recognized", "bold")
        for (reason, path), found in groupby(identity.rekeyings, lambda one: (one.reason, one.path)):
            if reason == "another inode" and not self._here.terminal.verbose:
                continue  # each save of an editor, and each edit, may be one
            several = [*found]
            often = f", {len(several):,} times" if len(several) > 1 else ""
            yield from self._wrapped(f"{several[-1].time[:10]} {one_line(reason)}{often}: {name(path)}")
        for place, seen in identity.places.items():
            blob = f", blob {one_line(seen.blob[:12])}" if self._here.terminal.verbose else ""
            yield from self._wrapped(f"last seen as {name(place)}/{name(seen.path)}{blob}")
        for key, place in identity.keys.items() if self._here.terminal.verbose else ():
            yield from self._wrapped(f"device and inode {one_line(key)} in {name(place)}")
        if identity.strangers:
            yield from self._wrapped(f"not its file: {', '.join(map(name, identity.strangers))}")
        if told.undo is not None:
            yield from self._wrapped(
                f"undo back to {name(told.undo.before)} with: repoagent memory relink --undo {_word(told)}"
            )

    def _files(self) -> Iterator[str]:
        told, memory = self._told, self._told.memory
        yield ""
        yield self._paint("files", "bold")
        for file in (*(memory.folder / kept for kept in _KEPT), *told.archived):
            if (line := self._file(file)) is not None:
                yield line
        for put in told.cleared:
            yield f"  {'':>7}  {name(self._here.shown(put.folder))}  cleared: {', '.join(put.parts)}"
        if told.cleared:
            yield from self._wrapped(
                f"restore the last one with: repoagent memory clear --undo {_word(told)}"
            )

    def _file(self, file: Path) -> str | None:
        try:
            size = file.lstat().st_size
        except OSError:
            return None
        return f"  {amount(size):>7}  {name(self._here.shown(file))}"

    def _wrapped(self, text: str, indent: str = "  ", *styles: str) -> list[str]:
        if self._wide is None or display_width(text) + len(indent) <= self._wide:
            return [indent + self._paint(text, *styles)]
        fold = Fold(self._wide - len(indent) - 2)  # a path that is longer stays whole
        lines = (fold.feed(text) + fold.rest()).split("\n")
        first, *rest = [self._paint(line, *styles) for line in lines]
        return [indent + first, *(f"{indent}  {line}" for line in rest)]

    def _paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self._color else text


def _word(told: FileMemory) -> str:
    """The name of this memory for a command."""
    import shlex

    path = told.standing.path
    return (
        shlex.quote(path) if told.standing.state == "live" and path.isprintable() else told.memory.folder.name
    )


ON_A_TERMINAL = 2_000  # rows; more take long to list
_LEAST_WIDTH = 40  # columns
_NARROW = 76
_PATH = 12  # columns at least for a path
_STYLES = {"live": "green", "moved": "yellow", "orphaned": "red"}
LIST_EXAMPLES = """\b
Examples:
  repoagent memory list
  repoagent memory list src --sort used -n 10
  repoagent memory list --state orphaned,moved
  repoagent memory list -z | xargs -0 -n1 repoagent memory show

\b
Columns:
  size      of everything about the file, archive included
  edits     that were requested, refused ones included
  notes     in notes.md
  last use  when something was last added
  state     live: the file exists; moved: its content is at another path,
            which is shown; orphaned: the file is gone"""


@click.command("list", epilog=LIST_EXAMPLES)
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=complete)
@click.option(
    "--state", "states", metavar="STATE", multiple=True, help="List only live, moved or orphaned ones."
)
@click.option(
    "--sort", "order", type=click.Choice(["path", "used", "size", "edits"]), default="path", show_default=True,
    help="Sort by path, or the last used, largest or most edited first.",
)  # fmt: skip
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), metavar="N",
    help=f"List at most N; 0 for all. [default: {ON_A_TERMINAL:,} on a terminal]",
)  # fmt: skip
@click.option("-z", "nul", is_flag=True, help="Print paths only, each with a NUL byte after it.")
@json_option
@pass_session
def list_command(session: Session, /, paths: tuple[str, ...], **options: Any) -> int:
    """List what is remembered, file by file; with PATH, only for these files and folders."""
    from repoagent.git.worktree import relative
    from repoagent.memory.lookup import RowFilter, rows

    states = _states(options["states"])
    if options["nul"] and options["as_json"]:
        raise UsageError("-z cannot be combined with --json")
    here = opened(session)
    terminal = here.terminal
    limit = options["limit"] or (
        ON_A_TERMINAL if options["limit"] is None and terminal.shows and not options["as_json"] else None
    )
    wanted = RowFilter(
        [relative(here.worktree, path, here.cwd) for path in paths],
        states,
        options["order"],
        None if limit is None else limit + 1,
    )
    found = rows(here.layout, here.worktree, wanted, terminal.warn)
    if options["as_json"]:
        listed = list(islice(found, limit))
        content = {"version": VERSION, "memories": [as_object(row, here) for row in listed]}
        terminal.result(json.dumps(content, indent=2) + "\n")
        return Exit.DONE if listed else Exit.NOTHING
    shown = _names(found, terminal, limit) if options["nul"] else _table(found, terminal, limit)
    if shown:
        return Exit.DONE
    if paths or states:
        about = f" of {', '.join(paths)}" if paths else ""
        kind = f" as {' or '.join(states)}" if states else ""
        terminal.note(f"nothing is remembered{about}{kind}")
        return Exit.NOTHING
    raise NothingDone("nothing is remembered in this repository yet; the first edit or note creates a memory")


def as_object(row: Row, here: MemoryCommand) -> dict[str, object]:
    """A row as JSON data."""
    measure, standing = row.measure, row.standing
    return {
        "path": standing.path,
        "memory": row.name,
        "folder": str(here.layout.memory / row.name),
        "size": measure.size,
        "edits": measure.edits,
        "notes": measure.notes,
        "last_used": datetime.fromtimestamp(measure.used, timezone.utc).isoformat(timespec="seconds"),
        "state": standing.state,
        "at": standing.at or None,
    }


def _states(given: tuple[str, ...]) -> list[Any]:
    from repoagent.memory.file_state import STATES

    states = [state.strip() for each in given for state in each.split(",") if state.strip()]
    for state in states:
        if state not in STATES:
            raise UsageError(f"unknown state '{state}': use {', '.join(STATES[:-1])} or {STATES[-1]}")
    return states


def _names(found: Iterator[Row], terminal: Terminal, limit: int | None) -> int:
    shown = 0
    for row in islice(found, limit):
        terminal.result(row.standing.path + "\0")
        shown += 1
    return shown


def _table(found: Iterator[Row], terminal: Terminal, limit: int | None) -> int:
    """Write the rows as they come, and return their number."""
    wide = max(_LEAST_WIDTH, terminal.width) if terminal.shows else None
    form = _Form(wide, terminal.color, has_utf8(os.environ), time.time())
    shown, lines = 0, [form.head()]
    for row in found:
        if shown == limit:
            terminal.styled("".join(lines))
            terminal.note(
                f"showing the first {shown:,}; see more with -n N, or narrow the list with a folder or --state",
                "dim",
            )
            return shown
        lines.append(form.line(row))
        shown += 1
        if shown < 20 or shown % 100 == 0:  # the first ones at once
            terminal.styled("".join(lines))
            lines.clear()
    if shown:
        terminal.styled("".join(lines))
    return shown


class _Form:
    """A line for each row, in `wide` columns (None for as many as it takes); the path comes last, so that no line has
    to wait for the others."""

    def __init__(self, wide: int | None, color: bool, utf8: bool, now: float) -> None:
        self._wide, self._color, self._now = wide, color, now
        self._short = wide is not None and wide < _NARROW
        self._ellipsis, self._arrow = ("…", "→") if utf8 else ("...", "->")
        self._used = 4 if self._short else 14

    def head(self) -> str:
        used = "used" if self._short else "last use"
        line = self._front("size", "edits", "notes", used) + f"{'state':8}  path"
        return (paint(line, "dim") if self._color else line) + "\n"

    def line(self, row: Row) -> str:
        measure, standing = row.measure, row.standing
        used = ago(max(0.0, self._now - measure.used), short=self._short)
        front = self._front(amount(measure.size), f"{measure.edits:,}", f"{measure.notes:,}", used)
        path, state = name(standing.path), f"{standing.state:8}"
        at = f" {self._arrow} {name(standing.at)}" if standing.at else ""
        if self._wide is not None:
            room = self._wide - columns(front) - 10
            if columns(path + at) > room:
                half = max((room - 3) // 2, _PATH) if at else max(room, _PATH)
                path = shorten(path, half, self._ellipsis)
                at = f" {self._arrow} {shorten(name(standing.at), half, self._ellipsis)}" if at else ""
        if self._color:
            state = paint(state, _STYLES[standing.state])
            folder, slash, base = path.rpartition("/")
            path = paint(folder + slash, "dim") + base
        return f"{front}{state}  {path}{at}\n"

    def _front(self, size: str, edits: str, notes: str, used: str) -> str:
        more = "" if self._short else f"{notes:>5}  "
        return f"{size:>7}  {edits:>5}  {more}{used:{self._used}}  "
