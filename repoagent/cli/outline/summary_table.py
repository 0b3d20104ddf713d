"""Summaries of files as a person and as a program reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import clean, one_line, paint
from repoagent.cli.screen.reply import Fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repoagent.cli.screen.terminal import Terminal
    from repoagent.memory.summaries import FileSummary
    from repoagent.memory.summaries.store import Summary
    from repoagent.memory.summaries.walk import PartSummary

VERSION = 1
WIDEST = 100  # columns of a line of prose
_LEAST = 20


def show(found: Sequence[FileSummary], terminal: Terminal) -> None:
    """Print them: folded for a person, as they are kept into a pipe; with their paths, where there are several."""
    width = max(_LEAST, min(WIDEST, terminal.width))
    blocks = []
    for one in found:
        text = clean(one.summary.text)
        lines = text.split("\n")
        body = "\n".join(folded(line, width) for line in lines) if terminal.shows else text
        name = one_line(one.file.path)
        head = f"{paint(name, 'bold') if terminal.color else name}\n\n" if len(found) > 1 else ""
        blocks.append(f"{head}{body}\n")
    terminal.styled("\n".join(blocks))


def folded(line: str, width: int) -> str:
    """One line of a text as several of at most `width` columns; what goes on with a list's item stands under it."""
    words = line.lstrip()
    mark = line[: len(line) - len(words)] + ("- " if words.startswith("- ") else "")
    fold = Fold(max(_LEAST // 2, width - len(mark)))
    rest = fold.feed(words.removeprefix("- ") if mark.endswith("- ") else words) + fold.rest()
    return mark + rest.replace("\n", "\n" + " " * len(mark))


def sentence(one: FileSummary) -> str:
    """Of a file: what was asked, what was known, and where the summary can be corrected."""
    parts = len(one.parts)
    if parts > 1:
        known = parts - one.paid
        told = f"{one.paid:,} of {parts:,} segments asked, {known:,} known"
        if not one.paid:
            told = f"all {parts:,} segments known" + (", joined anew" if one.asked else "")
    else:
        told = "asked" if one.asked else "known"
    if one.summary.edited:
        told += ", corrected by a person"
    elif not (one.asked or one.paid) and one.summary.date:
        told += f" since {one.summary.date[:10]}"
    place = one.summary.place
    kept = f"; to correct it, edit {os.path.relpath(place)}" if place is not None else "; kept nowhere"
    return f"{one.file.path or 'standard input'}: {told}{kept}"


def to_dict(one: FileSummary) -> dict[str, object]:
    """A file's summary as JSON data."""
    return {
        "path": one.file.path or None,
        "sha256": one.file.sha256,
        "size": len(one.file.data),
        "words": one.words,
        **_said(one.summary),
        "asked": one.asked,
        "parts": [_part(part) for part in one.parts],
    }


def _part(one: PartSummary) -> dict[str, object]:
    part = one.part
    return {
        "start": part.start,
        "end": part.end,
        "first_line": part.first_line,
        "last_line": part.last_line,
        "scope": [*part.scope],
        "sha256": part.sha256,
        **_said(one.summary),
        "asked": one.asked,
    }


def _said(summary: Summary) -> dict[str, object]:
    return {
        "summary": summary.text,
        "model": summary.model,
        "date": summary.date,
        "edited": summary.edited,
        "kept": None if summary.place is None else str(summary.place),
    }
