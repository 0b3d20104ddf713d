"""All that is known about a file, as a person reads it; whole, and fitted to the terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from repoagent.cli.memory.common import amount, count, name
from repoagent.cli.screen.clean import clean, columns, one_line, paint
from repoagent.cli.screen.glance import ago
from repoagent.cli.screen.reply import Fold
from repoagent.cli.screen.terminal import has_utf8
from repoagent.memory.identity.record import came_along

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.memory.common import Here
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.memory.overview.known import Known, ToldNote
    from repoagent.memory.records import EditRecord

_LEAST, _MOST = 40, 120
_KEPT = ("notes.md", "conversation.md", "edits.jsonl", "identity.json")
_STATES = {"committed": "green", "written": "green", "redone": "green", "failed": "red", "refused": "red"}


def page(told: Known, here: Here) -> str:
    """The whole page, painted as the terminal says."""
    lines = [*_Page(told, here).lines()]
    text = "".join(f"{line}\n" for line in lines)
    return text if has_utf8(os.environ) else text.replace("…", "...").replace("→", "->")


def conversation_text(told: Known, terminal: Terminal) -> str:
    """What was said, turn by turn: clean for a terminal, and in a pipe too, for it is not the file itself."""
    parts = []
    for turn in told.turns:
        about = " · ".join(
            f"{key} {turn.meta[key]}" for key in ("time", "model", "kind", "state") if key in turn.meta
        )
        head = f"{turn.role}  {one_line(about)}".rstrip()
        parts.append(f"{paint(head, 'bold') if terminal.color else head}\n{clean(turn.text)}\n")
    return "\n".join(parts)


class _Page:
    def __init__(self, told: Known, here: Here) -> None:
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
            state = f"moved: its content is at {name(standing.at)} now; the next edit or note there takes it along"
        elif standing.at:
            state = f"live, in another work tree: {name(standing.at)}"
        else:
            state = "live" if standing.state == "live" else "orphaned: the file is gone, its memory is kept"
        used = ago(max(0.0, time.time() - told.measure.used))
        yield from self._wrapped(f"{state}; {amount(told.measure.size)}, last used {used}")
        if came_along(told.memory.folder):
            yield from self._wrapped(
                "git tracks it: it came with the repository, and others may have written it"
            )

    def _section(self, title: str, number: int, items: Iterable[Iterable[str]]) -> Iterator[str]:
        if number:
            yield ""
            yield self._paint(f"{title} ({number:,})", "bold")
            for item in items:
                yield from item

    def _note(self, one: ToldNote) -> Iterator[str]:
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
            said = f"{count(told.exchanges, 'exchange')} of {count(len(told.turns), 'turn')}: --conversation prints it"
            yield from self._wrapped(
                "can't be read: `repoagent memory edit --conversation` opens it" if told.broken else said
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
                f"can be taken back to {name(told.undo.before)}: repoagent memory relink --undo {_word(told)}"
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
                f"`repoagent memory clear --undo {_word(told)}` brings the last one back"
            )

    def _file(self, file: Path) -> str | None:
        try:
            size = file.lstat().st_size
        except OSError:
            return None
        return f"  {amount(size):>7}  {name(self._here.shown(file))}"

    def _wrapped(self, text: str, indent: str = "  ", *styles: str) -> list[str]:
        if self._wide is None or columns(text) + len(indent) <= self._wide:
            return [indent + self._paint(text, *styles)]
        fold = Fold(self._wide - len(indent) - 2)  # a path that is longer stays whole
        lines = (fold.feed(text) + fold.rest()).split("\n")
        first, *rest = [self._paint(line, *styles) for line in lines]
        return [indent + first, *(f"{indent}  {line}" for line in rest)]

    def _paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self._color else text


def _word(told: Known) -> str:
    """What the person can call this memory in a command."""
    import shlex

    path = told.standing.path
    return (
        shlex.quote(path) if told.standing.state == "live" and path.isprintable() else told.memory.folder.name
    )
